"""Count, mean and sum of squared deviations of numbers: River's `Var`, and the square of a float."""

import math
from typing import Any

from glasstream.base.jit import inlined
from glasstream.models.online import layout as L

Statistics = tuple[float, float, float]


@inlined
def square(x: float, two: float) -> float:
    """``x ** 2`` as CPython calculates it, that is by libm's pow.

    pow errs by less than 0.55 units in the last place. Where the exact square is within 0.45 units of the product, pow
    can therefore give nothing but the product; elsewhere it is called. The remainder is exact (Dekker, 1971).
    """
    product = x * x
    if 1e-280 < product < 1e280:
        ulp = (product + product * 1.1102232e-16) - product
        c = 134217729.0 * x
        high = c - (c - x)
        low = x - high
        remainder = ((high * high - product) + 2.0 * high * low) + low * low
        if abs(remainder) < 0.45 * ulp and product != ulp * 4503599627370496.0:
            return product
    elif x == 0.0:
        return 0.0
    return math.pow(x, two)


@inlined
def observe(F: Any, at: int, value: float, weight: float) -> None:
    """`Var.update`, of three words: count, mean and sum of squared deviations."""
    before = F[at + 1]
    F[at] += weight
    F[at + 1] += (weight / F[at]) * (value - before)
    F[at + 2] += weight * (value - before) * (value - F[at + 1])


@inlined
def added(p: L.Pool, a: Statistics, b: Statistics) -> Statistics:
    """`Var.__iadd__`."""
    count = a[0] + b[0]
    deviation = a[2] + b[2] + square(a[1] - b[1], p.number[L.TWO]) * a[0] * b[0] / count
    return count, (a[0] * a[1] + b[0] * b[1]) / count, deviation


@inlined
def subtracted(p: L.Pool, a: Statistics, b: Statistics) -> Statistics:
    """`Var.__isub__`."""
    count = a[0] - b[0]
    mean = 0.0
    if count > 0.0:
        mean = (a[0] * a[1] - b[0] * b[1]) / count
    else:
        count = 0.0
    deviation = a[2] - b[2] - square(mean - b[1], p.number[L.TWO]) * count * b[0] / (count + b[0])
    return count, mean, deviation


@inlined
def variance(a: Statistics) -> float:
    """`Var.get`."""
    if a[0] > 1.0:
        return a[2] / (a[0] - 1.0)
    return 0.0


@inlined
def statistics(F: Any, at: int) -> Statistics:
    """Return the three words at `at`."""
    return F[at], F[at + 1], F[at + 2]
