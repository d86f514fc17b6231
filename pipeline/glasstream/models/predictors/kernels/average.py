"""Average the answers of several trees."""

from typing import Any, Final

import numpy as np

from glasstream.base.jit import inlined, kernel
from glasstream.models.predictors.predictor import Floats

_MEDIAN: Final = 1

RULES: Final = {"mean": 0, "median": _MEDIAN}


@inlined
def sum_of_row(values: Floats, i: int, n: int) -> Any:
    """Return the sum of the first `n` values of a row, added in numpy's order: eight running sums for 8 to 128."""
    total = 0.0
    done = 0
    if 8 <= n <= 128:
        done = n - n % 8
        a, b, c, d, e, f, g, h = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(0, done, 8):
            a, b, c, d = a + values[i, j], b + values[i, j + 1], c + values[i, j + 2], d + values[i, j + 3]
            e, f, g, h = e + values[i, j + 4], f + values[i, j + 5], g + values[i, j + 6], h + values[i, j + 7]
        total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(done, n):
        total += values[i, j]
    return total


@inlined
def mean_of_row(values: Floats, i: int, n: int) -> Any:
    """Return the mean of the first `n` values of a row."""
    return sum_of_row(values, i, n) / n


@inlined
def median_of_row(values: Floats, i: int, n: int) -> Any:
    """Return the median of the first `n` values of a row; NaN if one is NaN. Sorts them."""
    for j in range(n):
        if values[i, j] != values[i, j]:
            return np.nan
    for j in range(1, n):
        value = values[i, j]
        k = j - 1
        while k >= 0 and values[i, k] > value:
            values[i, k + 1] = values[i, k]
            k -= 1
        values[i, k + 1] = value
    if n % 2:
        return values[i, n // 2]
    return (values[i, n // 2 - 1] + values[i, n // 2]) / 2.0


@kernel
def average(answers: Floats, rule: int, values: Floats) -> None:
    """Fill `values` float64[n, 1], zero before, with the mean or median of each row of `answers` float64[n, T].

    Sorts `answers`. Without trees the result is 0.0, as in River.
    """
    if answers.shape[1] == 0:
        return
    n = answers.shape[1]
    for i in range(answers.shape[0]):
        values[i, 0] = median_of_row(answers, i, n) if rule == _MEDIAN else mean_of_row(answers, i, n)


def weights_of_losses(losses: list[float]) -> list[float]:
    """Return the weights of the trees of an ARFRegressor: the larger the mean loss, the smaller the weight."""
    total = sum(losses, 0.0)
    if total == 0:
        return [1.0] * len(losses)
    remaining = np.array([total - loss for loss in losses])
    return list(remaining / remaining.sum())  # numpy's order of adding, as in River
