"""Have two features changed places, or has each of them changed on its own?

The shares of a few values are soon like those of another feature by chance. Two explanations are therefore weighed by
how probable they make the rows since an alarm:

- The features have changed places. Each has the shares that the other had, and its values go with the labels that the
  values of the other went with.
- Each has changed on its own. It may have any shares, and its values go with the labels that they went with before.

With either explanation, the concept may also have moved, so that the values go with any labels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln  # type: ignore[import-untyped]

from glasstream.detect.incidents.betting import BINS
from glasstream.detect.incidents.histogram import Histogram

_UNKNOWN = 0.5  # weight of each value of a feature before any row is known (Jeffreys)

Floats = NDArray[np.float64]


class Labels(NamedTuple):
    """Labels of the rows since an alarm, and what is known of the labels of all rows before."""

    values: Floats
    """(w,)"""
    mean: float
    variance: float


def log_odds(befores: Sequence[Histogram], values: Sequence[Floats], labels: Labels) -> float:
    """Return the natural logarithm of how much more probable the rows are if two features have changed places.

    Of the shares, only those of one feature count, because those of the other may follow from them: the shares that
    speak less for an exchange. The labels count once, too: as the mean of what they say about either feature.

    Parameters
    ----------
    befores
        Values of the two features before the alarm.
    values
        (w,) values of each of them since.
    labels
        Labels of the same rows.
    """
    shares, answers = [], []
    block = max(before.block for before in befores)
    for own, other, now in zip(befores, befores[::-1], values, strict=True):
        shares.append(log_odds_of_shares(other._replace(block=block), now))
        unknown = _of_labels(own.bins(now), np.zeros(BINS), own.answer, labels, block)
        exchanged = _of_labels(other.bins(now), other.counts / block, other.answer, labels, block)
        alone = _of_labels(own.bins(now), own.counts / block, own.answer, labels, block)
        answers.append(max(exchanged, unknown) - max(alone, unknown))
    return min(shares) + sum(answers) / len(answers)


def log_odds_of_shares(before: Histogram, values: Floats) -> float:
    """Return the natural logarithm of how much more probable values are if they have the shares that others had before.

    The other explanation is that they may have any shares.
    """
    counts, known = np.bincount(before.bins(values), minlength=BINS) / before.block, before.counts / before.block
    some, nothing = (counts > 0.0) | (known > 0.0), np.zeros(BINS)
    return _of_shares(counts[some], known[some]) - _of_shares(counts[some], nothing[some])


def _of_shares(counts: Floats, before: Floats) -> float:
    """Return the log probability of values with these counts after values with those before (Dirichlet-multinomial)."""
    weights = before + _UNKNOWN
    known, more = weights.sum(), counts.sum()
    return float(gammaln(known) - gammaln(known + more) + (gammaln(weights + counts) - gammaln(weights)).sum())


def _of_labels(bins: NDArray[np.int64], before: Floats, answer: Floats, labels: Labels, block: int) -> float:
    """Return the log density of labels, up to a constant, after `before` rows with mean labels `answer` in each bin.

    The mean label of each bin has a normal prior: the mean of all labels, with the weight of one row.
    """
    count = np.bincount(bins, minlength=BINS)
    mean = np.bincount(bins, labels.values, minlength=BINS) / np.maximum(1, count)
    within = ((labels.values**2).sum() - (count * mean**2).sum()) / block
    rows, weights = count / block, before + 1.0
    gap = mean - (before * answer + labels.mean) / weights
    between = (rows * weights / (rows + weights) * gap**2).sum()
    return float(-0.5 * ((within + between) / labels.variance + np.log1p(rows / weights).sum()))
