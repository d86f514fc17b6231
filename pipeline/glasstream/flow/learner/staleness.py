"""How far the explanations of two versions of a model can be apart (paper 004, Theorem 4).

For a loss that is a norm, the importances of feature j under two models differ by at most

    Δ_j + Δ,   Δ = mean ‖f(x) - g(x)‖,   Δ_j = mean ‖f(x') - g(x')‖,  x' = x with feature j from another row,

their mean distance with and without the perturbation. Both are estimated on the rows in the reservoir. Each row is
perturbed with values of the row after it. The distance depends on the loss:

=========================  ======================================================================
zero_one                   1 where the labels differ, else 0: the theorem's bound
absolute                   absolute difference: the theorem's bound
cross_entropy, brier, own  half the sum over classes of the absolute differences of probabilities
squared                    absolute difference
=========================  ======================================================================

For the last two, the result is a distance and not a bound: their losses are not Lipschitz, so there is no bound that
does not depend on the targets.
"""

import numpy as np
from numpy.typing import NDArray

from glasstream.explain.variants import written_out_replaced
from glasstream.models.predictors.predictor import REGRESSION, Output, Predictor

MOST_ROWS = 50
"""Largest number of rows that are compared. Each costs d + 1 evaluations of both models."""


def staleness(new: Predictor, old: Predictor, loss: str, rows: NDArray[np.float64]) -> float | None:
    """Return the largest Δ_j + Δ over the features.

    Parameters
    ----------
    new, old
        Two versions of a model. The old one gives probability 0 to classes that it does not know.
    loss
        Name of the loss.
    rows
        (n, d) background rows, NaN if a feature is absent; the first `MOST_ROWS` are used.

    Returns
    -------
    The staleness in units of the loss; None if there are no rows, or if a model returns no number.
    """
    rows = np.ascontiguousarray(rows[:MOST_ROWS])
    count, width = rows.shape
    if count == 0 or width == 0:
        return None
    others = np.roll(rows, -1, axis=0)[:, np.newaxis, :]
    # Written out, because paths that variants share do not pay off for so few rows.
    new_row, new_variants = written_out_replaced(new, rows, others)
    old_row, old_variants = written_out_replaced(old, rows, others)
    plain = _distances(new, new_row, old, old_row, loss)
    perturbed = _distances(new, new_variants, old, old_variants, loss).reshape(count, width)
    # Sum in the order of the rows: the bits of numpy's own sums depend on the number of rows.
    total, of_feature = plain.cumsum()[-1], perturbed.cumsum(axis=0)[-1]
    worst = float(of_feature.max() + total) / count
    return worst if np.isfinite(worst) else None


def scale(predictor: Predictor, rows: NDArray[np.float64]) -> float:
    """Return the unit of staleness: 1 for classification, the spread of the predictions for regression.

    The spread is the mean absolute deviation from the median prediction on the rows.
    """
    rows = np.ascontiguousarray(rows[:MOST_ROWS])
    if predictor.task != REGRESSION or len(rows) == 0:
        return 1.0
    said = np.sort(predictor.evaluate(rows).values[:, 0])
    middle = said[len(said) // 2]
    total = 0.0
    for value in said:
        total += abs(value - middle)
    return float(total / len(said))


def _distances(new: Predictor, of_new: Output, old: Predictor, of_old: Output, loss: str) -> NDArray[np.float64]:
    if new.task == REGRESSION:
        return np.abs(of_new.values[:, 0] - of_old.values[:, 0])
    if loss == "zero_one":
        return np.where(of_new.labels == _renumbered(of_old.labels, old, new), 0.0, 1.0)
    total = np.zeros(len(of_new.values))
    place = {name: column for column, name in enumerate(old.classes)}
    for column, name in enumerate(new.classes):
        before = of_old.values[:, place[name]] if name in place else 0.0
        total += np.abs(of_new.values[:, column] - before)
    return total / 2.0


def _renumbered(labels: NDArray[np.int64], old: Predictor, new: Predictor) -> NDArray[np.int64]:
    """Return the old model's labels in the new model's numbering; a missing label stays missing."""
    place = {name: index for index, name in enumerate(new.classes)}
    numbers = np.array([*(place.get(name, len(place)) for name in old.classes), -1], np.int64)
    return np.asarray(numbers[labels])  # -1 selects the last
