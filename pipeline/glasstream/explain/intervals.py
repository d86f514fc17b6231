"""Normal intervals for smoothed contributions that account for their dependence.

Let σ² be the variance of a contribution and c decay^k the covariance of two contributions k rows apart (`Overlap`),
with c = r σ² and r the share. The debiased value then has the variance

    σ² ((1 - r) S_0 + r S_decay),    S_rho = Σ_ij w_i w_j rho^|i-j|,

where w are the weights of the smoothing. `Smoothing` keeps the means of e² and of e · echo, from which r is estimated.
The expectation of each mean is a known combination of σ² - c and of c (`Smoothing.expected`), for every n, and it
accounts for the centring at an estimated mean. With N independent contributions, the standard error of this estimate is
sqrt(2 (1 - decay + α) / N). The prior knowledge is that r lies between 0 and `Overlap.most`. The best linear rule for r
uniform on that range weighs the estimate against this prior. Student's quantile with 1/S_0 - 1 degrees of freedom
replaces the normal quantile, so that the intervals of the first rows are wide enough.

The intervals assume that events are independent and follow one distribution under one model as far back as the
smoothing reaches, that the reservoir is full, and that the value is nearly normal. If similar events follow each other
(a time series), the intervals are too narrow. During drift they describe the smoothed past and not the future.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit  # type: ignore[import-untyped]

from glasstream.base.jit import bare_kernel
from glasstream.explain.smoothing import MEAN_PRODUCT, MEAN_SQUARE, MEMORY, PRODUCT, SQUARE, Smoothing

Floats = NDArray[np.float64]

FEWEST = 3.0
"""Smallest effective number of rows in the smoothing for which there is an interval."""


class Interval(NamedTuple):
    """(d,) lower and (d,) upper ends of an interval for each feature."""

    low: Floats
    high: Floats


def normal(smoothing: Smoothing, level: float = 0.95, remainder: Floats | float = 0.0) -> Interval | None:
    """Return the interval of `smoothing.value` at a level; None while there are too few rows.

    It is wider on both sides by the absolute value of `remainder`, a bias that the values are measured to have.

    Examples
    --------
    >>> smoothing = Smoothing.empty(0.01)
    >>> normal(smoothing) is None
    True
    >>> smoothing.update(np.arange(1000.0).reshape(-1, 1) % 2)
    >>> low, high = normal(smoothing)
    >>> f"{low[0]:.2f} {smoothing.value[0]:.2f} {high[0]:.2f}"
    '0.43 0.50 0.57'
    """
    if smoothing.count == 0:
        return None
    looks_back = 1 / _sum_of_products(smoothing, 0.0)
    if looks_back < FEWEST:
        return None
    half = stdtrit(looks_back - 1, 0.5 + level / 2) * np.sqrt(variance_of_value(smoothing)) + np.abs(remainder)
    return Interval(smoothing.value - half, smoothing.value + half)


def margin(variance: Floats, weight: Floats, alpha: float, level: float = 0.95) -> Floats:
    """Return half the width of the intervals of debiased means of independent values; NaN where there are too few rows.

    Parameters
    ----------
    variance
        Variances of the values.
    weight
        Weights W of the means, see `glasstream.explain.smoothing`; 0 where there is no mean.
    alpha
        Smoothing factor α.
    level
        Probability with which an interval contains the expectation.

    Examples
    --------
    >>> margin(np.full(3, 0.25), np.array([0.0, 0.01, 1.0]), 0.01).round(3)
    array([ nan,  nan, 0.07])
    """
    rows = np.divide((2 - alpha) * weight, alpha * (2 - weight))  # 1 / S_0 of n rows, with W = 1 - (1-α)^n
    enough = rows >= FEWEST
    rows = np.where(enough, rows, FEWEST)
    # The variance is measured around the estimated mean and so excludes the variance of that mean.
    half = stdtrit(rows - 1, 0.5 + level / 2) * np.sqrt(variance / (rows - 1))
    return np.where(enough, half, np.nan)


def variance_of_value(smoothing: Smoothing) -> Floats:
    """Return (d,) variances of `smoothing.value` that account for dependence; 0 before the second row."""
    if smoothing.count < 2:
        return np.zeros(len(smoothing.raw))
    return _shares_and_variances(smoothing)[1]


def share(smoothing: Smoothing) -> Floats:
    """Return (d,) r, the share of the variance of contributions that recurs in later ones."""
    return _shares_and_variances(smoothing)[0]


def _shares_and_variances(smoothing: Smoothing) -> tuple[Floats, Floats]:
    overlap, alpha = smoothing.overlap, smoothing.alpha
    rows = float(min(smoothing.count, 2 * MEMORY / alpha))
    # as informative as the range [0, most]
    rows_known = 24 * (1 - overlap.decay + alpha) / overlap.most**2 if overlap.most else 0.0
    independent = _sum_of_products(smoothing, 0.0)
    dependent = _sum_of_products(smoothing, overlap.decay) if overlap.most else independent
    shares, variances = np.empty(len(smoothing.raw)), np.empty(len(smoothing.raw))
    _estimate(smoothing.variance, smoothing.dependence, smoothing.expected, rows, rows_known, overlap.most,
              overlap.floor, independent, dependent, shares, variances)  # fmt: skip
    return shares, variances


@bare_kernel
def _estimate(variance, dependence, expected, rows, rows_known, most, floor, independent, dependent, shares, variances):  # type: ignore[no-untyped-def]
    """Write (d,) shares r and (d,) variances of the debiased values."""
    product_0, square_0 = expected[0, MEAN_PRODUCT], expected[0, MEAN_SQUARE]
    product_1, square_1 = expected[1, MEAN_PRODUCT], expected[1, MEAN_SQUARE]
    for j in range(len(variance)):
        r = 0.0
        if most > 0.0:
            product, square = dependence[PRODUCT, j], dependence[SQUARE, j]
            of_both = square_0 * product - product_0 * square
            of_one = of_both + product_1 * square - square_1 * product
            estimate = of_both / of_one if of_one > 0.0 else 0.0
            weighed = (rows * estimate + rows_known * most / 2) / (rows + rows_known)
            r = min(max(weighed, 0.0), most)
        shares[j] = r
        relative = (1 - r) * independent + r * dependent + floor * (1 - independent)
        # The variance is measured around the estimated value and so excludes the variance of that value.
        variances[j] = variance[j] * relative / (1 - min(relative, 1 - independent / 2))


def _sum_of_products(smoothing: Smoothing, rho: float) -> float:
    """Return S_rho of the debiased weights of n rows, in closed form."""
    n, alpha, keep = smoothing.count, smoothing.alpha, 1 - smoothing.alpha
    both = keep * rho
    q = keep**n
    squares = (1 - q * q) / (alpha * (2 - alpha))
    gap = keep * keep - both
    # part of the geometric series of pairs that would lie before the first row
    before = (q * q - both**n) / gap if abs(gap) > 1e-9 else n * keep ** (2 * (n - 1))
    return (squares * (1 + both) - 2 * both * before) / (1 - both) * (alpha / (1 - q)) ** 2
