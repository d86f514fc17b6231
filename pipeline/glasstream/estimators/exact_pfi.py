"""What permutation importance estimates, in full: every pair of rows is evaluated (paper 004).

The cost is N² evaluations a feature: for small data sets, to compare with.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from glasstream.background.sampling_distribution import sampling_distribution
from glasstream.errors import SettingsError
from glasstream.explain.ipfi import contributions
from glasstream.explain.losses import Loss
from glasstream.models.predictor import Predictor

Floats = NDArray[np.float64]

_PAIRS = 1 << 16
"""Pairs of rows that are evaluated at a time."""


def exact_pfi(predictor: Predictor, loss: Loss, rows: Floats, targets: Floats) -> Floats:
    """The expected PFI, e_switch - e_orig (004, Theorem 1; "model reliance" of Fisher, Rudin and Dominici 2019).

    e_switch is the mean loss over all ordered pairs of different rows, the feature's value of the one put into the
    other; e_orig the mean loss.

    Parameters
    ----------
    predictor, loss, rows, targets
        As for `batch_pfi`; N at least 2.

    Returns
    -------
    (d,)

    Raises
    ------
    SettingsError
        There are fewer than 2 rows.
    """
    count = len(rows)
    if count < 2:
        raise SettingsError([f"exact PFI: expected 2 rows or more, got {count}"])
    own = np.arange(count)
    total = np.zeros(rows.shape[1])
    for row, pairs in enumerate(_pairs(predictor, loss, rows, targets, lambda row: np.flatnonzero(own != row))):
        total += (pairs.mean(axis=0) - total) / (row + 1)
    return total


def expected_ipfi(
    predictor: Predictor,
    loss: Loss,
    rows: Floats,
    targets: Floats,
    *,
    alpha: float,
    sampling: str = "geometric",
    reservoir: int = 100,
    start: int | None = None,
) -> Floats:
    """The expectation over the sampling of what iPFI says after the last row, the rows being given (004).

    Parameters
    ----------
    predictor, loss, rows, targets
        As for `batch_pfi`; one model for all rows.
    alpha, sampling, reservoir, start
        As for `IncrementalPFI`.

    Returns
    -------
    (d,) of the debiased value; times 1 - (1-α)^n, n the explained rows, of the raw one.

    Raises
    ------
    SettingsError
        No row is explained.
    """
    count, begin = len(rows), reservoir if start is None else start
    if not 1 <= begin < count:
        raise SettingsError([f"expected iPFI: expected a start from 1 to below the {count} rows, got {begin}"])
    raw, weight = np.zeros(rows.shape[1]), 0.0
    # the first `begin` rows are only drawn from
    for row, pairs in enumerate(_pairs(predictor, loss, rows, targets, np.arange, begin), begin):
        distribution = sampling_distribution(sampling, reservoir, row)
        raw = (1 - alpha) * raw + alpha * (distribution[:, None] * pairs).sum(axis=0)
        weight = (1 - alpha) * weight + alpha
    return raw / weight


def _pairs(
    predictor: Predictor,
    loss: Loss,
    rows: Floats,
    targets: Floats,
    drawn: Callable[[int], NDArray[np.int64]],
    begin: int = 0,
) -> Iterator[Floats]:
    """For each row from `begin` on the contributions (n, d) with each of the n rows that `drawn` names."""
    for row in range(begin, len(rows)):
        others = drawn(row)
        yield np.concatenate(
            [
                contributions(
                    predictor,
                    loss,
                    np.repeat(rows[row : row + 1], len(part), axis=0),
                    np.repeat(targets[row : row + 1], len(part)),
                    rows[part][:, None, :],
                )
                for part in np.split(others, range(_PAIRS, len(others), _PAIRS))
            ]
        )
