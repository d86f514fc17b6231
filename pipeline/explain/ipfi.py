"""iPFI: incremental permutation feature importance (paper 004).

The contribution of feature j to the explanation of row i is the rise of the loss when the feature's value is taken
from a background row r instead (equation 5 and Algorithm 1 of the paper),

    λ_ij = L(f(x_i with x_ij from r), y_i) - L(f(x_i), y_i),

the mean over the rows drawn when there are several. Smoothing belongs to the fold.
"""

import numpy as np
from numpy.typing import NDArray

from pipeline.explain.losses import losses
from pipeline.explain.variants import replaced
from pipeline.jit import kernel
from pipeline.models.predictor import Predictor


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
    row, variants = replaced(predictor, rows, draws)
    before = losses(loss, row.values, row.labels, targets)
    cost = losses(loss, variants.values, variants.labels, np.repeat(targets, n * width))
    _average(cost.reshape(draws.shape), before, out)
    return out


@kernel
def _average(cost, before, out):  # type: ignore[no-untyped-def]
    count, n, width = cost.shape
    for i in range(count):
        for j in range(width):
            total = 0.0
            for k in range(n):
                total += cost[i, k, j] - before[i]
            out[i, j] = total / n
