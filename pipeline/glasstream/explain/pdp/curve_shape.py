"""Summaries of effect curves: how much a curve varies, and how far two shapes are apart.

The *importance* of a curve is the standard deviation of its values for a numeric feature (divisor: number of points
minus one; 0 for a single point) and range / 4 for a categorical feature (Greenwell, Boehmke, McCarthy, 2018).
*Deviation* is the sum of squared deviations of the values from their mean. The authors of 001 applied their detector
to it. The *distance* of two curves is the root mean square of their centred difference over the points that both
have. It is 0 if the curves differ by a constant only.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import bare_kernel

Floats = NDArray[np.float64]


def importance_of(curve: Floats, *, categorical: bool) -> tuple[float, float]:
    """Return the importance and the deviation of a curve's values.

    >>> importance_of(np.array([1.0, 3.0]), categorical=True)
    (0.5, 2.0)
    """
    importance, deviation = spread_of(curve, curve, False, categorical)
    return float(importance), float(deviation)


@bare_kernel
def spread_of(marks, values, by_weight, categorical):  # type: ignore[no-untyped-def]
    """Return the importance and the deviation of the values whose mark is not NaN (`by_weight`: is above 0)."""
    count = 0
    first = total = 0.0
    low, high = np.inf, -np.inf
    for k in range(len(values)):
        if marks[k] > 0.0 if by_weight else not np.isnan(marks[k]):
            if count == 0:
                first = values[k]  # summing differences from `first` makes the sum for a constant exactly 0
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


@bare_kernel
def shape_distance(points, answers, grid, curve, weight, categorical):  # type: ignore[no-untyped-def]
    """Return the distance between a row's ICE curve and a smoothed curve; NaN if they have no point in common."""
    count = 0
    first = total = 0.0
    for k in range(len(points)):
        if _comparable(points[k], grid[k], weight[k], categorical):
            if count == 0:
                first = answers[k] - curve[k]  # makes the sum for a constant difference exactly 0
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


@bare_kernel
def _comparable(point, grid, weight, categorical):  # type: ignore[no-untyped-def]
    return weight > 0.0 and (grid == point if categorical else not np.isnan(point))
