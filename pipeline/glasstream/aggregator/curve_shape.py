"""What is told of one curve: how much it moves, and how far its shape is from another's.

*Importance* is the usual one of a curve's values: their standard deviation for a numeric feature (divisor: points less
one; 0 of a single point), range / 4 for a categorical one (Greenwell, Boehmke, McCarthy, 2018). *Deviation* is the sum
of squared deviations from their mean, on which the authors of 001 ran their detector. *Distance* of two curves is the
root mean square, over the points that both have, of their difference less its mean: of curves of which one is only
higher it is 0.
"""

import numpy as np
from numpy.typing import NDArray

from glasstream.jit import kernel

Floats = NDArray[np.float64]


def importance_of(curve: Floats, *, categorical: bool) -> tuple[float, float]:
    """Importance and deviation of a curve's values.

    >>> importance_of(np.array([1.0, 3.0]), categorical=True)
    (0.5, 2.0)
    """
    importance, deviation = spread_of(curve, curve, False, categorical)
    return float(importance), float(deviation)


@kernel
def spread_of(marks, values, by_weight, categorical):  # type: ignore[no-untyped-def]
    """Importance and deviation of the values whose mark is a number (`by_weight`: is above 0)."""
    count = 0
    first = total = 0.0
    low, high = np.inf, -np.inf
    for k in range(len(values)):
        if marks[k] > 0.0 if by_weight else not np.isnan(marks[k]):
            if count == 0:
                first = values[k]  # sums are of distances to it, so that those of a constant are exactly 0
            count += 1
            total += values[k] - first
            low, high = min(low, values[k]), max(high, values[k])
    mean = first + total / count
    squares = 0.0
    for k in range(len(values)):
        if marks[k] > 0.0 if by_weight else not np.isnan(marks[k]):
            squares += (values[k] - mean) * (values[k] - mean)
    if categorical:
        return (high - low) / 4.0, squares
    return (np.sqrt(squares / (count - 1)) if count > 1 else 0.0), squares


@kernel
def shape_distance(points, answers, grid, curve, weight, categorical):  # type: ignore[no-untyped-def]
    """Between a row's answers and a smoothed curve; NaN if they have no point in common."""
    count = 0
    first = total = 0.0
    for k in range(len(points)):
        if _comparable(points[k], grid[k], weight[k], categorical):
            if count == 0:
                first = answers[k] - curve[k]  # as above
            count += 1
            total += answers[k] - curve[k] - first
    if count == 0:
        return np.nan
    mean = first + total / count
    squares = 0.0
    for k in range(len(points)):
        if _comparable(points[k], grid[k], weight[k], categorical):
            distance = answers[k] - curve[k] - mean
            squares += distance * distance
    return np.sqrt(squares / count)


@kernel
def _comparable(point, grid, weight, categorical):  # type: ignore[no-untyped-def]
    return weight > 0.0 and (grid == point if categorical else not np.isnan(point))
