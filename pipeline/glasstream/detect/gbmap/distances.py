"""Distances between rows as the map sees them (003, 3.3 and appendix B).

Both distances are those of the boosted part f - f_0, for which |f(x) - f(x')| <= d_path <= d_emb (003, equation 8). If
f_0 is not constant, the paper's inequality does not hold for f.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError
from glasstream.base.jit import kernel
from glasstream.detect.gbmap.map import BoostedMap
from glasstream.detect.gbmap.rows import Floats, as_matrix
from glasstream.detect.gbmap.settings import UNITS
from glasstream.detect.gbmap.units import RELU, SOFTPLUS, decay, sigmoid, value

ACCURACY: Final = 1e-9
"""Error bound of the path distance with softplus, times 1 + |f(x) - f(x')|, apart from rounding."""
_DEEPEST: Final = 48
"""Largest number of times that a segment is halved. The remaining error is then below rounding for any β |w·(x' - x)|
that float64 can resolve.
"""


def embedding_distances(map: BoostedMap, rows: npt.ArrayLike, others: npt.ArrayLike) -> Floats:
    """Return d_emb of each row and its partner in `others`, float64[n]: Σ_j |f_j(x) - f_j(x')| (003, equation 7).

    Raises
    ------
    InputError
        `rows` and `others` are not both float64[n, p] of finite numbers.
    """
    left, right = _pairs(map, rows, others)
    apart = np.abs(map.embed(left) - map.embed(right))
    total = np.zeros(len(apart))
    for j in range(apart.shape[1]):
        total += apart[:, j]
    return total


def path_distances(map: BoostedMap, rows: npt.ArrayLike, others: npt.ArrayLike) -> Floats:
    """Return d_path of each row and its partner in `others`, float64[n] (003, equations 6 and 15).

    The path distance is the total variation of f - f_0 along the segment between the two rows.

    With ReLU, f is linear between the points where the segment crosses a learner's hyperplane. The changes between
    these points are added up, which is exact.

    With softplus, the slope along the segment is the difference of two rising functions, the learners of either sign.
    Its values at the ends of a part therefore bound it within the part. A part within which the slope cannot change its
    sign adds its change, which is exact. Any other part is halved until replacing the slope by its Taylor polynomial of
    degree 2 is certain to cost less than the part's share of `ACCURACY`; it then adds the integral of that polynomial's
    absolute value. The allowed error can leave the sum outside the bounds of equation 8; it is then moved to the
    nearest bound.

    Raises
    ------
    InputError
        `rows` and `others` are not both float64[n, p] of finite numbers.
    """
    left, right = _pairs(map, rows, others)
    highest = embedding_distances(map, left, right)
    lowest = np.abs(map.boosted(right) - map.boosted(left))
    if map.unit == "linear":
        return lowest  # every f_j is linear along the segment, and so is their sum
    out = np.empty(len(left))
    _paths(left, right, map.weights, map.constants, map.signs, UNITS.index(map.unit), map.beta, lowest, out)
    return np.maximum(np.minimum(out, highest), lowest)


def _pairs(map: BoostedMap, rows: npt.ArrayLike, others: npt.ArrayLike) -> tuple[Floats, Floats]:
    left, right = as_matrix(rows, "rows", map.features), as_matrix(others, "other rows", map.features)
    if len(left) != len(right):
        raise InputError(f"gbmap: expected as many rows as other rows, got {len(left)} and {len(right)}")
    return left, right


@kernel
def _paths(rows, others, weights, constants, signs, unit, beta, lowest, out):  # type: ignore[no-untyped-def]
    m = constants.size
    at, along = np.empty(m), np.empty(m)  # w·x + v, and w·(x' - x)
    for i in range(rows.shape[0]):
        for j in range(m):
            z, s = constants[j], 0.0
            for k in range(rows.shape[1]):
                z += weights[j, k] * rows[i, k]
                s += weights[j, k] * (others[i, k] - rows[i, k])
            at[j], along[j] = z, s
        if unit == RELU:
            out[i] = _broken_path(at, along, signs)
        else:
            out[i] = _smooth_path(at, along, signs, beta, ACCURACY * (1.0 + lowest[i]))


@kernel
def _change(at, along, signs, unit, beta, start, end):  # type: ignore[no-untyped-def]
    """Return f at `end` minus f at `start`, both from 0 (x) to 1 (x')."""
    total = 0.0
    for j in range(at.size):
        total += signs[j] * (value(unit, beta, at[j] + end * along[j]) - value(unit, beta, at[j] + start * along[j]))
    return total


@kernel
def _broken_path(at, along, signs):  # type: ignore[no-untyped-def]
    ends = np.ones(at.size + 1)
    for j in range(at.size):
        crossing = -at[j] / along[j] if along[j] != 0.0 else 1.0
        ends[j] = crossing if 0.0 < crossing < 1.0 else 1.0
    ends.sort()
    start, total = 0.0, 0.0
    for end in ends:
        if end > start:
            total += abs(_change(at, along, signs, RELU, 1.0, start, end))
        start = end
    return total


@kernel
def _smooth_path(at, along, signs, beta, allowed):  # type: ignore[no-untyped-def]
    """Return the path distance with softplus; `allowed` is the largest error for the whole segment."""
    starts, ends = np.empty(_DEEPEST + 2), np.empty(_DEEPEST + 2)
    starts[0], ends[0] = 0.0, 1.0
    waiting, total = 1, 0.0
    while waiting:
        waiting -= 1
        start, end = starts[waiting], ends[waiting]
        low, high = _slope_bounds(at, along, signs, beta, start, end)
        if low >= 0.0 or high <= 0.0:
            total += abs(_change(at, along, signs, SOFTPLUS, beta, start, end))
            continue
        width = end - start
        error, integral = _quadratic_part(at, along, signs, beta, start, end)
        if error <= allowed * width or width <= 2.0**-_DEEPEST:
            total += integral
            continue
        middle = 0.5 * (start + end)
        starts[waiting], ends[waiting] = middle, end
        starts[waiting + 1], ends[waiting + 1] = start, middle
        waiting += 2
    return total


@kernel
def _slope_bounds(at, along, signs, beta, start, end):  # type: ignore[no-untyped-def]
    """Return bounds of the slope of f between `start` and `end`.

    s σ(β(z + t s)) rises with t, whatever the sign of s.
    """
    low, high = 0.0, 0.0
    for j in range(at.size):
        first = along[j] * sigmoid(beta * (at[j] + start * along[j]))
        last = along[j] * sigmoid(beta * (at[j] + end * along[j]))
        if signs[j] > 0.0:
            low, high = low + first, high + last
        else:
            low, high = low - last, high - first
    return low, high


@kernel
def _quadratic_part(at, along, signs, beta, start, end):  # type: ignore[no-untyped-def]
    """Return an error bound and the integral of the slope's absolute value for one part.

    The slope is replaced by its Taylor polynomial of degree 2 about the middle. Both the error bound and the absolute
    value of the polynomial are integrated over the part. The third derivative of σ is at most 1/8 everywhere, and at
    most exp(-|u|) at u.
    """
    middle, radius = 0.5 * (start + end), 0.5 * (end - start)
    c0, c1, c2, error = 0.0, 0.0, 0.0, 0.0
    for j in range(at.size):
        u = beta * (at[j] + middle * along[j])
        scale = beta * along[j]
        s = sigmoid(u)
        s1 = s * (1.0 - s)
        c0 += signs[j] * along[j] * s
        c1 += signs[j] * along[j] * scale * s1
        c2 += signs[j] * along[j] * scale * scale * s1 * (1.0 - 2.0 * s) * 0.5
        nearest = max(abs(u) - abs(scale) * radius, 0.0)
        error += abs(along[j]) * abs(scale) ** 3 * min(0.125, decay(-nearest))
    return error * radius**4 / 12.0, _absolute_integral(c0, c1, c2, radius)


@kernel
def _absolute_integral(c0, c1, c2, radius):  # type: ignore[no-untyped-def]
    """Return the integral of |c0 + c1 t + c2 t²| over -radius .. radius."""
    first, second = radius, radius  # the polynomial's zeros within the part, or its end
    inner = c1 * c1 - 4.0 * c2 * c0
    if inner >= 0.0:
        # Compute both zeros without cancellation: q/c2 and c0/q.
        q = -0.5 * (c1 + (inner**0.5 if c1 >= 0.0 else -(inner**0.5)))
        if c2 != 0.0 and abs(q) < abs(c2) * radius:
            first = q / c2
        if q != 0.0 and abs(c0) < abs(q) * radius:
            second = c0 / q
    first, second = min(first, second), max(first, second)
    total, start = 0.0, -radius
    for end in (first, second, radius):
        if end > start:
            a, b = end - start, 0.5 * (start + end)
            # exact for a polynomial of degree 2: its value at the middle and the spread about it
            total += abs(a * (c0 + b * (c1 + b * c2)) + c2 * a**3 / 12.0)
        start = max(start, end)
    return total
