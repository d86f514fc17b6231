"""The δ-bound: how far the estimate is off at most, except with probability δ (002, Theorem 3.3).

Chebyshev's inequality for contributions of variance σ² that are independent of each other. The form printed in 002
belongs to the raw value and drops the |φ| of its bias, which is (1-α)^n |φ| by 004, Theorem 2; the debiased value has
no bias and a little more variance. That contributions share background rows is not counted here, as in the paper; what
counts it are the intervals (`glasstream.aggregator.intervals`).
"""

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator.smoothing import Smoothing


def bound(smoothing: Smoothing, delta: float) -> NDArray[np.float64]:
    """(d,) bound on the error of `smoothing.value`: sqrt(σ²/δ · α/(2-α) · (1+q)/(1-q)), q = (1-α)^n.

    σ² is taken as it is estimated. Infinite before the first row.
    """
    alpha, q = smoothing.alpha, (1 - smoothing.alpha) ** smoothing.count
    if smoothing.count == 0:
        return np.full(len(smoothing.raw), np.inf)
    return np.asarray(np.sqrt(smoothing.variance / delta * (alpha / (2 - alpha)) * ((1 + q) / (1 - q))))


def raw_bound(smoothing: Smoothing, delta: float, truth: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """(d,) bound on the error of `smoothing.raw`: q|φ| + sqrt(σ²/δ · α/(2-α) · (1-q²)), q = (1-α)^n.

    Parameters
    ----------
    smoothing, delta
        σ² is taken as it is estimated. Infinite before the first row.
    truth
        (d,) φ. None: the value estimates it, and since it may be too small by as much as `bound` says, the bound is
        then q|value| + `bound`; with many rows the two forms agree.
    """
    alpha, q = smoothing.alpha, (1 - smoothing.alpha) ** smoothing.count
    if smoothing.count == 0:
        return np.full(len(smoothing.raw), np.inf)
    if truth is None:
        return q * np.abs(smoothing.value) + bound(smoothing, delta)
    return np.asarray(q * np.abs(truth) + np.sqrt(smoothing.variance / delta * (alpha / (2 - alpha)) * (1 - q * q)))
