"""Error bound of an importance value that holds with probability 1-δ (002, Theorem 3.3).

The bound follows from Chebyshev's inequality for independent contributions of variance σ². The form printed in 002
is for the raw value and omits the factor |φ| of its bias, which is (1-α)^n |φ| by 004, Theorem 2. The debiased value
has no bias and slightly more variance. As in the paper, the bound ignores that contributions share background rows. The
intervals of `glasstream.explain.intervals` account for it.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

import numpy as np
from numpy.typing import NDArray

from glasstream.explain.smoothing import Smoothing


def bound(smoothing: Smoothing, delta: float) -> NDArray[np.float64]:
    """Return (d,) bounds on the error of `smoothing.value`: sqrt(σ²/δ · α/(2-α) · (1+q)/(1-q)), q = (1-α)^n.

    The function uses the estimate of σ². The bounds are infinite before the first row.
    """
    alpha, q = smoothing.alpha, (1 - smoothing.alpha) ** smoothing.count
    if smoothing.count == 0:
        return np.full(len(smoothing.raw), np.inf)
    return np.asarray(np.sqrt(smoothing.variance / delta * (alpha / (2 - alpha)) * ((1 + q) / (1 - q))))


def raw_bound(smoothing: Smoothing, delta: float, truth: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """Return (d,) bounds on the error of `smoothing.raw`: q|φ| + sqrt(σ²/δ · α/(2-α) · (1-q²)), q = (1-α)^n.

    The function uses the estimate of σ². The bounds are infinite before the first row.

    Parameters
    ----------
    smoothing
        Smoothed contributions.
    delta
        Probability δ with which an error may exceed its bound.
    truth
        (d,) true values φ. If None, the smoothed value estimates φ. The estimate may be too small by as much as
        `bound`, so the result is then q|value| + `bound`. With many rows the two forms agree.
    """
    alpha, q = smoothing.alpha, (1 - smoothing.alpha) ** smoothing.count
    if smoothing.count == 0:
        return np.full(len(smoothing.raw), np.inf)
    if truth is None:
        return q * np.abs(smoothing.value) + bound(smoothing, delta)
    return np.asarray(q * np.abs(truth) + np.sqrt(smoothing.variance / delta * (alpha / (2 - alpha)) * (1 - q * q)))
