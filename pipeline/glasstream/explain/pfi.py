"""iPFI: incremental permutation feature importance (paper 004).

The contribution of feature j to the explanation of row i is the rise of the loss when a background row r replaces the
feature's value (equation 5 and Algorithm 1 of the paper),

    λ_ij = L(f(x_i with x_ij from r), y_i) - L(f(x_i), y_i).

If several rows are drawn, it is their mean. A set of features is replaced jointly: all values come from the same r. The
aggregator smooths the contributions.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel
from glasstream.explain.importance import ImportanceAggregator
from glasstream.explain.losses import Loss, losses, with_classes
from glasstream.explain.method import Drawing, Method, Passing
from glasstream.explain.sampling.reservoir import Drawn, Wanted
from glasstream.explain.settings import MethodSettings
from glasstream.explain.variants import replaced, same
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics.requests import ExplainRequest

_CHUNK_VALUES = 1 << 20
"""Numbers in one batch of rows with a set replaced (8 MiB)."""


def contributions(
    predictor: Predictor,
    loss: Loss,
    rows: NDArray[np.float64],
    targets: NDArray[np.float64],
    draws: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the contributions λ of a block.

    Parameters
    ----------
    predictor
        The model.
    loss
        A name of `glasstream.explain.losses.LOSSES` or a `CustomLoss`.
    rows
        (count, d), NaN if a feature is absent.
    targets
        (count,) the true value, or the index of the true class among the predictor's classes (-1: not among them).
    draws
        (count, n, d) background values: at [i, k, j] the value of feature j in the k-th row drawn for row i.

    Returns
    -------
    (count, d). A feature whose background value equals its own contributes exactly 0.
    """
    count, n, width = draws.shape
    out = np.zeros((count, width))
    if width == 0 or count == 0:
        return out
    loss = with_classes(loss, predictor.classes)
    row, variants = replaced(predictor, rows, draws)
    before = losses(loss, row.values, row.labels, targets)
    cost = losses(loss, variants.values, variants.labels, np.repeat(targets, n * width))
    _average(cost.reshape(draws.shape), before, out)
    return out


def set_contributions(
    predictor: Predictor,
    loss: Loss,
    rows: NDArray[np.float64],
    targets: NDArray[np.float64],
    draws: NDArray[np.float64],
    members: NDArray[np.bool_],
) -> NDArray[np.float64]:
    """Return the contributions of sets of features, each replaced jointly.

    Parameters
    ----------
    predictor, loss, rows, targets
        As for `contributions`.
    draws
        (count, n, g, d) at [i, k, s] the k-th row drawn for set s of row i.
    members
        (g, d) which features belong to which set; sets may overlap.

    Returns
    -------
    (count, g).
    """
    count, n, sets, width = draws.shape
    out = np.zeros((count, sets))
    loss = with_classes(loss, predictor.classes)
    step = max(1, _CHUNK_VALUES // max(1, width * (1 + n * sets)))
    for begin in range(0, count, step):
        part = slice(begin, min(begin + step, count))
        own = len(rows[part])
        batch, place = _write_sets(rows[part], draws[part], members)
        said = predictor.evaluate(batch)
        cost = losses(loss, said.values[place], said.labels[place], np.repeat(targets[part], n * sets))
        before = losses(loss, said.values[:own], said.labels[:own], targets[part])
        _average(cost.reshape(own, n, sets), before, out[part])
    return out


@kernel
def _write_sets(rows, draws, members):  # type: ignore[no-untyped-def]
    """Return the rows and the variants that differ from them, and for each variant the index of its prediction."""
    count, n, sets, width = draws.shape
    batch = np.empty((count * (1 + n * sets), width))
    place = np.empty(count * n * sets, np.int64)
    batch[:count] = rows
    at = count
    variant = 0
    for i in range(count):
        for k in range(n):
            for s in range(sets):
                place[variant] = i
                for j in range(width):
                    batch[at, j] = draws[i, k, s, j] if members[s, j] else rows[i, j]
                    if not same(batch[at, j], rows[i, j]):
                        place[variant] = at
                if place[variant] == at:
                    at += 1
                variant += 1
    return batch[:at], place


@kernel
def _average(cost, before, out):  # type: ignore[no-untyped-def]
    count, n, width = cost.shape
    for i in range(count):
        for j in range(width):
            total = 0.0
            for k in range(n):
                total += cost[i, k, j] - before[i]
            out[i, j] = total / n


class _Drawing(Drawing):
    """Draw values for each feature of each row."""

    def __init__(self, draws: int) -> None:
        self.wanted = Wanted(values=draws)

    def draw(self, rows: Passing, drawn: Drawn) -> dict[str, NDArray[Any]]:
        return {"ipfi": drawn.values}

    def numbers(self, width: int) -> int:
        return width * self.wanted.values


class _Aggregator(ImportanceAggregator):
    name: ClassVar[str] = "ipfi"


class Ipfi(Method):
    """Permutation feature importance."""

    name = "ipfi"

    def drawing(self, settings: MethodSettings, key: NDArray[np.uint64]) -> _Drawing:
        return _Drawing(settings.explain.draws)

    def explainer(
        self, block: ExplainRequest, predictor: Predictor, targets: NDArray[np.float64]
    ) -> Callable[[slice], dict[str, NDArray[Any]]]:
        draws = block.draws["ipfi"]
        return lambda rows: {"ipfi": contributions(predictor, block.loss, block.x[rows], targets[rows], draws[rows])}

    def aggregator(self, settings: MethodSettings) -> _Aggregator:
        return _Aggregator(settings, settings.explain.draws)
