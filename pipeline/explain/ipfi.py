"""iPFI: incremental permutation feature importance (paper 004).

The contribution of feature j to the explanation of row i is the rise of the loss when the feature's value is taken
from a background row r instead (equation 5 and Algorithm 1 of the paper),

    λ_ij = L(f(x_i with x_ij from r), y_i) - L(f(x_i), y_i),

the mean over the rows drawn when there are several. Smoothing belongs to the fold.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.explain.losses import losses
from pipeline.jit import kernel
from pipeline.models.predictor import Predictor

_CHUNK_VALUES = 1 << 20
"""Numbers in one batch of perturbed rows (8 MiB): a block of many wide rows is evaluated in pieces."""


def contributions(
    predictor: Predictor,
    loss: str,
    rows: NDArray[np.float64],
    targets: NDArray[np.float64],
    draws: NDArray[np.float64],
) -> NDArray[np.float64]:
    """The contributions λ of a block.

    Parameters
    ----------
    predictor
        The model.
    loss
        A name of `pipeline.explain.losses.LOSSES`.
    rows
        (count, d), NaN where a feature is absent.
    targets
        (count,) the true value, or the index of the true class among the predictor's classes (-1: not among them).
    draws
        (count, n, d) background values: at [i, k, j] that of feature j in the k-th row drawn for it.

    Returns
    -------
    (count, d). A feature whose background value is its own contributes exactly 0.
    """
    count, n, width = draws.shape
    out = np.zeros((count, width))
    if width == 0 or count == 0:
        return out
    step = max(1, _CHUNK_VALUES // (width * (1 + n * width)))
    for begin in range(0, count, step):
        part = slice(begin, min(begin + step, count))
        batch, owner = _perturb(rows[part], draws[part])
        prediction = predictor.evaluate(batch)
        cost = losses(loss, prediction.values, prediction.labels, targets[part][owner])
        _average(cost, rows[part], draws[part], out[part])
    return out


@kernel
def same(a, b):  # type: ignore[no-untyped-def]
    return a == b or (np.isnan(a) and np.isnan(b))


@kernel
def _perturb(rows, draws):  # type: ignore[no-untyped-def]
    """The rows to evaluate: every row as it is, then its variants that differ from it; and whose they are."""
    count, n, width = draws.shape
    total = count
    for i in range(count):
        for j in range(width):
            for k in range(n):
                if not same(draws[i, k, j], rows[i, j]):
                    total += 1
    batch = np.empty((total, width))
    owner = np.empty(total, np.int64)
    at = 0
    for i in range(count):
        batch[at] = rows[i]
        owner[at] = i
        at += 1
        for j in range(width):
            for k in range(n):
                if not same(draws[i, k, j], rows[i, j]):
                    batch[at] = rows[i]
                    batch[at, j] = draws[i, k, j]
                    owner[at] = i
                    at += 1
    return batch, owner


@kernel
def _average(cost, rows, draws, out):  # type: ignore[no-untyped-def]
    count, n, width = draws.shape
    at = 0
    for i in range(count):
        before = cost[at]
        at += 1
        for j in range(width):
            total = 0.0
            for k in range(n):
                if not same(draws[i, k, j], rows[i, j]):
                    total += cost[at] - before
                    at += 1
            out[i, j] = total / n
