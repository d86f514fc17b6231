"""Normal intervals of smoothed contributions that count their dependence.

With σ² the variance of a contribution and c decay^k the covariance of two that are k rows apart (`Overlap`; c = r σ²,
r the share) the debiased value has the variance

    σ² ((1 - r) S_0 + r S_decay),    S_rho = Σ_ij w_i w_j rho^|i-j|,

w the weights of the smoothing. r follows from two means that `Smoothing` keeps, of e² and of e · echo: each is on
average a known combination of σ² - c and of c (`Smoothing.expected`), for every n and in spite of the centring at an
estimated mean. The noise of that estimate from N independent contributions is sqrt(2 (1 - decay + α) / N); it is
weighed against what is known beforehand, that r lies between 0 and `Overlap.most`, by the best linear rule for an r
that is uniform there. Student's quantile with 1/S_0 - 1 degrees of freedom stands for the normal one, so that the
intervals of the first rows are wide enough too.

Assumed: events are independent of each other and of one distribution under one model as far as the smoothing looks
back, the reservoir is full, and the value is nearly normal. Where events come in runs (a time series) the intervals
are too narrow; in a drift they are those of the smoothed past, not of what is to come.
"""

from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator.smoothing import MEAN_PRODUCT, MEAN_SQUARE, MEMORY, PRODUCT, SQUARE, Smoothing

FEWEST = 3.0
"""Rows that the smoothing must look back over, in effect, for an interval."""


class Interval(NamedTuple):
    """(d,) low and (d,) high."""

    low: NDArray[np.float64]
    high: NDArray[np.float64]


def normal(smoothing: Smoothing, level: float = 0.95) -> Interval | None:
    """The interval of `smoothing.value` at a level; None while there are too few rows to tell.

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
    half = _student(0.5 + level / 2, looks_back - 1) * np.sqrt(variance_of_value(smoothing))
    return Interval(smoothing.value - half, smoothing.value + half)


def variance_of_value(smoothing: Smoothing) -> NDArray[np.float64]:
    """(d,) the variance of `smoothing.value`, dependence counted; 0 before the second row."""
    if smoothing.count < 2:
        return np.zeros(len(smoothing.raw))
    overlap = smoothing.overlap
    independent = _sum_of_products(smoothing, 0.0)
    dependent = _sum_of_products(smoothing, overlap.decay)
    r = share(smoothing)
    relative = (1 - r) * independent + r * dependent + overlap.floor * (1 - independent)
    # the variance is measured around the value itself and so lacks the value's own
    return np.asarray(smoothing.variance * relative / (1 - np.minimum(relative, 1 - independent / 2)))


def share(smoothing: Smoothing) -> NDArray[np.float64]:
    """(d,) r, the share of the variance of contributions that recurs in later ones."""
    overlap, alpha = smoothing.overlap, smoothing.alpha
    if overlap.most == 0.0:
        return np.zeros(len(smoothing.raw))
    product, square = smoothing.dependence[PRODUCT], smoothing.dependence[SQUARE]
    (product_0, product_1), (square_0, square_1) = smoothing.expected.T[[MEAN_PRODUCT, MEAN_SQUARE]]
    covariance = square_0 * product - product_0 * square
    variance = covariance + product_1 * square - square_1 * product
    estimate = np.divide(covariance, variance, out=np.zeros_like(variance), where=variance > 0)
    rows = min(smoothing.count, 2 * MEMORY / alpha)
    rows_known = 24 * (1 - overlap.decay + alpha) / overlap.most**2  # as many rows tell as much as [0, most] does
    weighed = (rows * estimate + rows_known * overlap.most / 2) / (rows + rows_known)
    return np.asarray(np.clip(weighed, 0.0, overlap.most))


def _sum_of_products(smoothing: Smoothing, rho: float) -> float:
    """S_rho of the debiased weights of n rows, in closed form."""
    n, alpha, keep = smoothing.count, smoothing.alpha, 1 - smoothing.alpha
    both = keep * rho
    q = keep**n
    squares = (1 - q * q) / (alpha * (2 - alpha))
    gap = keep * keep - both
    # of the geometric series of pairs, the part that would lie before the first row
    before = (q * q - both**n) / gap if abs(gap) > 1e-9 else n * keep ** (2 * (n - 1))
    return (squares * (1 + both) - 2 * both * before) / (1 - both) * (alpha / (1 - q)) ** 2


def _student(level: float, freedom: float) -> float:
    """Quantile of Student's t with at least 2 degrees of freedom (Abramowitz and Stegun, 26.7.5), to 1 %."""
    z = NormalDist().inv_cdf(level)
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * freedom**4)
    )
