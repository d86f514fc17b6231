"""By what have the values of a feature been multiplied? An estimate from the values alone, with its interval."""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.detect.incidents.histogram import Histogram

SCALED: Final = 3.0
"""Smallest factor that counts as another unit. The whole interval lies beyond it, or below its inverse."""

_TELLING = 30  # fewest independent rows that tell a factor: fewer may also come from another season
_HUGE = 20.0  # factor that no season has
_FINE = 8  # fewest edges of a feature whose factor can be determined
_KNOWN = 30  # fewest values before and since
_REJECTED = 1.63  # Kolmogorov-Smirnov statistic: 1 % of unchanged samples exceed it
_FURTHEST, _HALVINGS = 2.0, 6  # times the best factor at which the search for an end begins, and how often it halves
_LARGEST = 1e100  # factor
_EQUAL = 1e-9  # relative difference of values that are equal but for rounding

Floats = NDArray[np.float64]


class Factor(NamedTuple):
    """A factor of the values: the one that fits best, and the ends of its interval (99 %)."""

    value: float
    low: float
    high: float


def factor_of(before: Histogram, values: Floats) -> Factor | None:
    """Return by what values are multiplied; None if no factor explains them, or if too few rows tell which one.

    The interval has all factors without which the values are like those before, by the Kolmogorov-Smirnov statistic. A
    positive factor also multiplies the spread: values that are like those before if a step is subtracted have none.

    Parameters
    ----------
    values
        Values since the change that are not missing.
    """
    known = before._replace(counts=np.concatenate([[0.0], before.counts[1:]]))
    if min(len(values), known.total) <= _KNOWN or len(known.edges) < _FINE:
        return None

    def distance(factor: float) -> float:
        return known.distance(_snapped(known.edges, values / factor))

    def is_step(step: float) -> bool:
        return known.distance(_snapped(known.edges, values - step)) <= _REJECTED

    with np.errstate(all="ignore"):
        if distance(1.0) <= _REJECTED:
            return None
        fits = [(distance(one), one) for one in _candidates(known, values)]
        if not fits or min(fits)[0] > _REJECTED:
            return None
        value = min(fits)[1]
        if value > 0.0 and any(map(is_step, _quantiles(values, _shares_below(known)) - known.edges)):
            return None
        ends = [_end(distance, value, furthest) for furthest in (1.0 / _FURTHEST, _FURTHEST)]
    if ends[0] is None or ends[1] is None:
        return None
    low, high = sorted((ends[0], ends[1]))
    most = SCALED if len(values) >= _TELLING * before.block else _HUGE
    other_unit = (high < 0.0 and most == SCALED) or low > most or 0.0 <= high < 1.0 / most
    return Factor(*(float(f"{one:.3g}") for one in (value, low, high))) if other_unit else None


def _candidates(known: Histogram, values: Floats) -> list[float]:
    """Return the ratios of quantiles of the values to the edges; none if most of them are those of the same unit."""
    below = _shares_below(known)
    found, other_unit = set[float](), False
    for shares in (below, 1.0 - below):
        ratios = _quantiles(values, shares) / known.edges
        wanted = (np.abs(ratios) > 1.0 / _LARGEST) & (np.abs(ratios) < _LARGEST)
        found |= set(ratios[wanted].tolist())
        middle = float(np.median(ratios[wanted])) if wanted.any() else 0.0
        other_unit |= middle < 1.0 / _FURTHEST or middle > _FURTHEST
    return sorted(found) if other_unit else []


def _shares_below(known: Histogram) -> Floats:
    """Return (m,) the share of the values below each edge, half of those that are equal to it included."""
    counts = known.counts[1:]
    return np.asarray((np.cumsum(counts) - 0.5 * counts)[1 : 2 * len(known.edges) : 2] / known.total)


def _quantiles(values: Floats, shares: Floats) -> Floats:
    return np.asarray(np.quantile(values, shares, method="nearest"))


def _end(distance: Callable[[float], float], value: float, furthest: float) -> float | None:
    """Return a rejected factor near one end of the interval; None if the interval goes further than the search."""
    inside, outside = 0.0, float(np.log(furthest))
    if distance(value * furthest) <= _REJECTED:
        return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (inside + outside)
        if distance(value * float(np.exp(middle))) <= _REJECTED:
            inside = middle
        else:
            outside = middle
    return value * float(np.exp(outside))


def _snapped(edges: Floats, values: Floats) -> Floats:
    """Return the values, and the edge in place of a value that differs from it only by rounding."""
    place = np.searchsorted(edges, values)
    for near in (edges[np.maximum(place - 1, 0)], edges[np.minimum(place, len(edges) - 1)]):
        values = np.where(np.abs(values - near) <= _EQUAL * np.abs(near), near, values)
    return values
