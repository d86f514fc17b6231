"""Average the answers of several trees."""

from typing import Any, Final

import numpy as np

from glasstream.jit import kernel
from glasstream.models.contract.predictor import Floats

_MEDIAN: Final = 1

RULES: Final = {"mean": 0, "median": _MEDIAN}


@kernel
def _mean(values: Floats) -> Any:
    """Return the mean, added in numpy's order: eight running sums for 8 to 128 values."""
    n = values.size
    total = 0.0
    done = 0
    if 8 <= n <= 128:
        done = n - n % 8
        sums = np.zeros(8)
        for j in range(done):
            sums[j % 8] += values[j]
        total = ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]))
    for j in range(done, n):
        total += values[j]
    return total / n


@kernel
def _median(values: Floats) -> Any:
    """Return the median; NaN if a value is NaN. Sorts `values`."""
    n = values.size
    for j in range(n):
        if values[j] != values[j]:
            return np.nan
    for j in range(1, n):
        value = values[j]
        k = j - 1
        while k >= 0 and values[k] > value:
            values[k + 1] = values[k]
            k -= 1
        values[k + 1] = value
    if n % 2:
        return values[n // 2]
    return (values[n // 2 - 1] + values[n // 2]) / 2.0


@kernel
def average(answers: Floats, rule: int, values: Floats) -> None:
    """Fill `values` float64[n, 1], zero before, with the mean or median of each row of `answers` float64[n, T].

    Sorts `answers`. Without trees the result is 0.0, as in River.
    """
    if answers.shape[1] == 0:
        return
    for i in range(answers.shape[0]):
        values[i, 0] = _median(answers[i]) if rule == _MEDIAN else _mean(answers[i])
