"""iSAGE: incremental Shapley additive global importance (paper 002, Algorithm 1).

The features of a row replace those of m background rows one after the other, in a random order π. The marginalised
prediction of a step is the mean of the m predictions (of the probabilities, or of the number). The contribution of the
feature π(j) is the loss before it is added minus the loss after. The last loss "after" is that of the model itself,
L(f(x), y). The first loss "before" is that of the smoothed mean prediction. It depends on earlier rows, so the
aggregator (`glasstream.explain.sage.smoothing`) completes the first difference.

The zero-one loss needs the label of a mean prediction. The label is the first class with the largest probability, and
there is none if every probability is 0.

*Finite m.* The expected loss of the mean of m predictions exceeds the loss of their expectation. For the squared and
the Brier loss, the excess is exactly their variance over m. Neither the first loss "before" nor the last loss "after"
has this excess, so the feature added first is charged with all of it and the others are credited. The correction
subtracts an estimate of the excess from the m predictions. For squared and Brier loss, the sample variance makes the
corrected loss unbiased (a U-statistic), because the m rows are different events.

For cross-entropy, the excess is that of the delta method: the variance of the mean, divided by twice the square of the
mean probability of the true class. What remains is of the order 1/m² and is measured. The mean corrected loss of all
m - 1 of the m rows has the remainder c/(m-1)², so its difference to the corrected loss of all rows estimates the
remainder c/m². If all m probabilities are below the clip, the loss itself bounds the remainder. The intervals are wider
by the smoothed remainder. The zero-one, the absolute and a user's own loss have no correction.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel
from glasstream.explain.losses import CLIP, Loss, losses, with_classes
from glasstream.explain.variants import built_up
from glasstream.models.predictors.predictor import NO_LABEL, Predictor

CORRECTABLE = {"brier": 2, "squared": 2, "cross_entropy": 3}
"""Losses for which the bias of a finite m can be corrected, and the smallest m for which it can."""


class OpenContributions(NamedTuple):
    """iSAGE contributions of n rows with d features, before the aggregator completes the first differences."""

    contributions: NDArray[np.float64]
    """(n, d) loss before minus loss after; at `first` the loss before is omitted."""
    first: NDArray[np.int64]
    """(n,) index of the feature that was added first; 0 if there are no features."""
    model_losses: NDArray[np.float64]
    """(n,) losses L(f(x), y) of the model."""
    predictions: NDArray[np.float64]
    """(n, k) predictions f(x): the probability of each of the predictor's classes, or the number."""
    targets: NDArray[np.float64]
    """(n,) targets as passed in."""
    remainders: NDArray[np.float64]
    """(n, d) bias that a correction leaves in the contributions; (n, 0) if it leaves none."""

    def completed(self, before: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Complete the first differences.

        Parameters
        ----------
        before
            (n,) the loss of the mean prediction.

        Returns
        -------
        (n, d) the contributions, and (n,) the marginal losses. A row's contributions add up to its marginal loss minus
        its model loss. The marginal loss is `before`. A row without features has nothing to distribute, so its marginal
        loss is the model's own loss.
        """
        whole = self.contributions.copy()
        if whole.shape[1] == 0:
            return whole, self.model_losses
        whole[np.arange(len(whole)), self.first] += before
        return whole, before


def correctable(loss: Loss, inner: int) -> bool:
    """Return whether the bias of a finite m = `inner` can be corrected for a loss.

    >>> [correctable(loss, 5) for loss in ("squared", "cross_entropy", "zero_one")], correctable("squared", 1)
    ([True, True, False], False)
    """
    return isinstance(loss, str) and inner >= CORRECTABLE.get(loss, inner + 1)


def contributions(
    predictor: Predictor,
    loss: Loss,
    rows: NDArray[np.float64],
    targets: NDArray[np.float64],
    order: NDArray[np.int64],
    background: NDArray[np.float64],
    corrected: bool = False,
) -> OpenContributions:
    """Return the contributions of a block, without the first differences.

    Parameters
    ----------
    predictor
        The model.
    loss
        A name of `glasstream.explain.losses.LOSSES`, or a `CustomLoss`.
    rows
        (n, d), NaN if a feature is absent.
    targets
        (n,) the true value, or the index of the true class among the predictor's classes (-1: not among them).
    order
        (n, d) for each row the permutation in which its features are added.
    background
        (n, s, m, d) the m background rows of each row for all its steps (s = 1), or for each of d - 1 steps.
    corrected
        Whether to subtract the bias for a finite m, if it is `correctable`.

    Returns
    -------
    See `OpenContributions`. With one feature, only -L(f(x), y) is known here; the aggregator adds the rest.
    """
    corrected = corrected and correctable(loss, background.shape[2])
    loss = with_classes(loss, predictor.classes)
    count, width = rows.shape
    row = predictor.evaluate(rows)
    model_losses = losses(loss, row.values, row.labels, targets)
    after = np.empty((count, max(width, 1)))
    after[:, -1] = model_losses
    remaining = np.zeros(after.shape)
    if width > 1 and count:
        steps, inner = width - 1, background.shape[2]
        said = built_up(predictor, rows, order, background).values
        said, true = said.reshape(count * steps, inner, said.shape[1]), np.repeat(targets, steps)
        means, labels, excess = marginalised(said)
        cost = losses(loss, means, labels, true)
        if loss == "cross_entropy" and corrected:
            left = np.zeros(len(cost))
            _log_excess(said, true, cost, excess, left)
            remaining[:, :-1] = left.reshape(count, steps)
        after[:, :-1] = (cost - excess if corrected else cost).reshape(count, steps)
    out = _differences(after, order, np.zeros((count, width)))
    first = order[:, 0].copy() if width else np.zeros(count, np.int64)
    remainders = np.empty((count, 0))
    if loss == "cross_entropy" and corrected:
        remainders = _differences(remaining, order, np.zeros((count, width)))
    return OpenContributions(out, first, model_losses, row.values, targets, remainders)


def marginalised(
    said: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64]]:
    """Return the means of groups of predictions.

    Parameters
    ----------
    said
        (n, m, k) m predictions in each of n groups.

    Returns
    -------
    (n, k) the means, (n,) their labels, and (n,) the sample variance over m, summed over the k columns (0 if m = 1).
    """
    count, _, width = said.shape
    means, excess = np.empty((count, width)), np.empty(count)
    _marginalise(said, means, excess)
    return means, first_largest(means), excess


@kernel
def first_largest(values):  # type: ignore[no-untyped-def]
    """Return (n,) the index of the first largest value of each prediction (n, k); -1 if all values are 0."""
    labels = np.full(values.shape[0], NO_LABEL)
    for i in range(values.shape[0]):
        largest = 0.0
        for c in range(values.shape[1]):
            if values[i, c] > largest:
                largest = values[i, c]
                labels[i] = c
    return labels


@kernel
def _marginalise(said, means, excess):  # type: ignore[no-untyped-def]
    count, inner, width = said.shape
    for i in range(count):
        excess[i] = 0.0
        for c in range(width):
            total = 0.0
            for k in range(inner):
                total += said[i, k, c]
            mean = total / inner
            means[i, c] = mean
            squares = 0.0
            for k in range(inner):
                squares += (said[i, k, c] - mean) * (said[i, k, c] - mean)
            if inner > 1:
                excess[i] += squares / ((inner - 1) * inner)


@kernel
def _log_excess(said, targets, cost, excess, left):  # type: ignore[no-untyped-def]
    """Write the excess of the cross-entropy of n means by the delta method, and the bias that remains."""
    count, inner, _ = said.shape
    fewer = inner - 1
    ratio = fewer * fewer / (inner * inner - fewer * fewer)  # 1/m² relative to 1/(m-1)² - 1/m²
    for i in range(count):
        excess[i] = 0.0
        target = np.int64(targets[i])
        if target < 0:
            continue
        total, squares = 0.0, 0.0
        for k in range(inner):
            total += said[i, k, target]
        mean = total / inner
        if mean <= CLIP:
            left[i] = cost[i]
            continue
        for k in range(inner):
            squares += (said[i, k, target] - mean) * (said[i, k, target] - mean)
        excess[i] = squares / (fewer * inner) / (2.0 * mean * mean)
        without = 0.0
        for k in range(inner):
            distance = said[i, k, target] - mean
            part = mean - distance / fewer
            if part <= CLIP:
                without -= log(CLIP)
            else:
                others = max(squares - distance * distance * inner / fewer, 0.0)
                without -= log(min(part, 1.0)) + others / ((fewer - 1) * fewer) / (2.0 * part * part)
        left[i] = (without / inner - (cost[i] - excess[i])) * ratio


@kernel
def _differences(after, order, out):  # type: ignore[no-untyped-def]
    for i in range(order.shape[0]):
        before = 0.0
        for j in range(order.shape[1]):
            out[i, order[i, j]] = before - after[i, j]
            before = after[i, j]
    return out
