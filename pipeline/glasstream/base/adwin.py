"""The window of ADWIN2 (Bifet, Gavaldà: "Learning from time-changing data with adaptive windowing", SDM 2007).

The results equal those of River 0.26 to the bit. A window of W numbers is stored as buckets of 1, 2, 4, ... numbers,
with at most `most` of each size, oldest first. Each bucket holds its sum and its sum of squared deviations, so memory
is O(log W). The kernels find the numbers of buckets of each size in an array of integers from `filled` on, and the sums
and squared deviations of the buckets in arrays of floats from `totals` and `squares` on, with room for `each` buckets
of each size, one more than `most` at least.

With n0 older and n1 newer numbers on the sides of a boundary between two buckets, σ² the variance of the window and
l = `shortest`, the means of the two sides may differ by ε:

    m = 1 / (n0 - l + 1) + 1 / (n1 - l + 1),   D = ln(2 ln W / δ),   ε = √(2 m σ² D) + 2/3 m D
"""

import math
from typing import Any

from glasstream.base.jit import inlined


@inlined
def _remove(totals: Any, at: int, squares: Any, to: int, count: int, many: int) -> None:
    """Remove the oldest `many` of `count` buckets of a size."""
    for k in range(many, count):
        totals[at + k - many] = totals[at + k]
        squares[to + k - many] = squares[to + k]
    for k in range(count - many, count):
        totals[at + k] = 0.0
        squares[to + k] = 0.0


@inlined
def enter(
    N: Any, filled: int, T: Any, totals: int, S: Any, squares: int, most: int, each: int, sizes: int, in_use: int,
    width: float, total: float, square: float, x: float,
) -> tuple[int, float, float, int]:  # fmt: skip
    """Add a number as a bucket of its own, and merge the two oldest buckets of each size that has too many.

    There is room for `sizes` sizes, of which `in_use` are used. `width`, `total` and `square` are the count, sum and
    sum of squared deviations of the window. Return the new sizes in use, sum and squared deviations, and how many
    buckets were made by merging.
    """
    T[totals + N[filled]] = x
    S[squares + N[filled]] = 0.0
    N[filled] += 1
    if width > 0.0:
        apart = x - total / width
        square += width * apart * apart / (width + 1.0)
    total += x
    size, number = 0, 1.0
    while size < sizes - 1 and N[filled + size] == most + 1:
        here, above = size * each, (size + 1) * each
        in_use = max(in_use, size + 2)
        one, two = totals + here, squares + here
        apart = T[one] / number - T[one + 1] / number
        to = N[filled + size + 1]
        T[totals + above + to] = T[one] + T[one + 1]
        S[squares + above + to] = S[two] + S[two + 1] + number * number * apart * apart / (number + number)
        N[filled + size + 1] = to + 1
        _remove(T, one, S, two, most + 1, 2)
        N[filled + size] = most - 1
        size += 1
        number *= 2.0
    return in_use, total, square, size


@inlined
def boundary(
    N: Any, filled: int, T: Any, totals: int, each: int, in_use: int, width: float, total: float, square: float,
    delta: float, shortest: float, strongest: bool,
) -> tuple[float, float, float]:  # fmt: skip
    """Return the newer numbers of the first boundary, from old to new, whose sides differ too much; 0 if none does.

    If `strongest` is true, choose the boundary at which the means differ most in relation to ε. The means of the older
    and of the newer side follow.
    """
    variance = square / width
    weight = math.log(2.0 * math.log(width) / delta)
    n0, n1 = 0.0, width
    u0, u1 = 0.0, total
    largest, found, older, newer = 0.0, 0.0, 0.0, 0.0
    for size in range(in_use - 1, -1, -1):
        number = float(1 << size)
        for k in range(N[filled + size]):
            n0 += number
            n1 -= number
            u = T[totals + size * each + k]
            u0 += u
            u1 -= u
            if size == 0 and k == N[filled] - 1:
                return found, older, newer
            if n1 < shortest or n0 < shortest:
                continue
            apart = abs(u0 / n0 - u1 / n1)
            m = 1.0 / (n0 - shortest + 1.0) + 1.0 / (n1 - shortest + 1.0)
            allowed = math.sqrt(2.0 * m * variance * weight) + 2.0 / 3.0 * weight * m
            if apart > allowed:
                if not strongest:
                    return n1, u0 / n0, u1 / n1
                if apart / allowed > largest:
                    largest, found, older, newer = apart / allowed, n1, u0 / n0, u1 / n1
    return found, older, newer


@inlined
def drop(
    N: Any, filled: int, T: Any, totals: int, S: Any, squares: int, each: int, in_use: int, width: float, total: float,
    square: float,
) -> tuple[int, float, float, float]:  # fmt: skip
    """Remove the oldest bucket; return the sizes in use, and the count, sum and squared deviations of the window."""
    size = in_use - 1
    number, one, two = float(1 << size), totals + size * each, squares + size * each
    width -= number
    total -= T[one]
    apart = T[one] / number - total / width
    square -= S[two] + number * width * apart * apart / (number + width)
    count = N[filled + size]
    _remove(T, one, S, two, count, 1)
    N[filled + size] = count - 1
    return in_use - (1 if count == 1 else 0), width, total, square
