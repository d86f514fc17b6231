"""Exponential smoothing of contributions, and their variance.

With a value v_n a row, from 0:

    raw_n = (1-α) raw_{n-1} + α v_n
    W_n   = (1-α) W_{n-1} + α            the smoothing of the constant 1, equal to 1 - (1-α)^n
    value = raw_n / W_n                  debiased: of a constant, exactly the constant from the first row on

The papers start the recursion with the first value (004, Algorithm 1) or with 0 (002, Algorithm 1); the debiased form
has the start-up bias of neither. The variance is that of the contributions under the same weights,
Σ_i w_i (v_i - value)² with w_i = α (1-α)^(n-i) / W_n, by the stable recursion of West (1979) for weighted sums.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.jit import kernel


@dataclass(slots=True)
class Smoothing:
    """The smoothed contributions of one method, one column a feature."""

    alpha: float
    count: int
    """n, the rows that have entered."""
    weight: NDArray[np.float64]
    """(1,) W_n."""
    raw: NDArray[np.float64]
    """(d,) raw_n."""
    spread: NDArray[np.float64]
    """(d,) W_n times the variance."""

    @classmethod
    def empty(cls, alpha: float) -> "Smoothing":
        """Nothing smoothed yet, no feature known."""
        return cls(alpha, 0, np.zeros(1), np.zeros(0), np.zeros(0))

    def update(self, values: NDArray[np.float64]) -> None:
        """Let rows enter in order.

        Parameters
        ----------
        values
            (rows, d). Features that come later than others have contributed 0 before.
        """
        width = values.shape[1]
        known = len(self.raw)
        if width > known:
            self.raw = np.concatenate([self.raw, np.zeros(width - known)])
            self.spread = np.concatenate([self.spread, np.zeros(width - known)])
        _smooth(self.alpha, values, self.weight, self.raw, self.spread)
        self.count += len(values)

    @property
    def value(self) -> NDArray[np.float64]:
        """(d,) the debiased estimate; 0 before the first row."""
        return self.raw / self.weight[0] if self.count else self.raw.copy()

    @property
    def variance(self) -> NDArray[np.float64]:
        """(d,) the variance of the contributions; 0 before the second row."""
        return self.spread / self.weight[0] if self.count else self.spread.copy()


@kernel
def _smooth(alpha, values, weight, raw, spread):  # type: ignore[no-untyped-def]
    keep = 1.0 - alpha
    for i in range(values.shape[0]):
        before = weight[0]
        weight[0] = keep * before + alpha
        for j in range(raw.shape[0]):
            value = values[i, j] if j < values.shape[1] else 0.0
            if before > 0.0:
                distance = value - raw[j] / before
                spread[j] = keep * spread[j] + alpha * keep * before / weight[0] * distance * distance
            raw[j] = keep * raw[j] + alpha * value
