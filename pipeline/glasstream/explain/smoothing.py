"""Exponential smoothing of contributions, with their variance and their dependence on earlier contributions.

With one value v_n per row, starting from 0:

    raw_n = (1-α) raw_{n-1} + α v_n
    W_n   = (1-α) W_{n-1} + α            smoothing of the constant 1, equal to 1 - (1-α)^n
    value = raw_n / W_n                  debiased value, which equals a constant input exactly from the first row on

The papers start the recursion with the first value (004, Algorithm 1) or with 0 (002, Algorithm 1). Both cause a
start-up bias, which the debiased form does not have. The variance of the contributions uses the same weights,
Σ_i w_i (v_i - value)² with w_i = α (1-α)^(n-i) / W_n, and the stable recursion of West (1979) for weighted sums.

The intervals need two more means of e_n = v_n - value_{n-1}: the mean of e_n² and the mean of e_n · echo_n, where
echo_n = Σ_k decay^k e_{n-k} over k >= 1. Their weights have a memory `MEMORY` times as long as that of the smoothing.
The state also contains the expectations of both means for contributions of variance 1: for independent contributions,
and for contributions with covariance decay^k.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, LARGEST_SQUARE, Field
from glasstream.base.jit import bare_kernel
from glasstream.explain.overlap import INDEPENDENT, Overlap

MEMORY = 20
"""Memory of the dependence estimate, relative to that of the smoothing. A shorter memory makes the estimate noisier.
In measurements with 50, the coverage of the intervals was within 2 % of that with 20, and the estimate reacted later to
changes of the dependence."""

# Rows of `Smoothing.dependence`.
ECHO, PRODUCT, SQUARE = 0, 1, 2
# Columns of `Smoothing.expected` that intervals read. Row 0 is for independent contributions, row 1 for decay^k.
MEAN_PRODUCT, MEAN_SQUARE = 4, 5

_OF: Final = "smoothed contributions"
_LARGEST_ECHO: Final = 1e140
_LARGEST_MOMENT: Final = 1e30  # of contributions of variance 1
_FORM: Final = {
    "weight": Field("f8", (1,), 0.0, 2.0),
    "raw": Field("f8", ("d",)),
    "spread": Field("f8", ("d",), 0.0, LARGEST_SQUARE),
    "dependence": Field("f8", (3, "d"), -LARGEST_SQUARE, LARGEST_SQUARE),
    "expected": Field("f8", (2, 6), -_LARGEST_MOMENT, _LARGEST_MOMENT),
}


@dataclass(slots=True)
class Smoothing:
    """Smoothed contributions of one method, one column per feature."""

    alpha: float
    count: int
    """Number n of rows that have entered."""
    weight: NDArray[np.float64]
    """(1,) weight W_n."""
    raw: NDArray[np.float64]
    """(d,) smoothed values raw_n."""
    spread: NDArray[np.float64]
    """(d,) products of W_n and the variance."""
    overlap: Overlap = INDEPENDENT
    """Dependence between contributions; not part of the state."""
    dependence: NDArray[np.float64] = field(default_factory=lambda: np.zeros((3, 0)))
    """(3, d) echo, mean of e · echo, and mean of e²."""
    expected: NDArray[np.float64] = field(default_factory=lambda: np.zeros((2, 6)))
    """(2, 6) expected moments, see `_expect`."""

    @classmethod
    def empty(cls, alpha: float, overlap: Overlap = INDEPENDENT) -> "Smoothing":
        """Return a smoothing without rows and features."""
        return cls(alpha, 0, np.zeros(1), np.zeros(0), np.zeros(0), overlap)

    def update(self, values: NDArray[np.float64]) -> None:
        """Add rows in order.

        Parameters
        ----------
        values
            (rows, d) contributions. A feature that appears later has contributed 0 before.
        """
        width = max(values.shape[1], len(self.raw))
        self.raw = _widened(self.raw, width)
        self.spread = _widened(self.spread, width)
        self.dependence = _widened(self.dependence, width)
        _smooth(self.alpha, self.overlap.decay, values, self.weight, self.raw, self.spread, self.dependence,
                self.expected, self.count)  # fmt: skip
        self.count += len(values)

    @property
    def value(self) -> NDArray[np.float64]:
        """(d,) debiased estimates; 0 before the first row."""
        return self.raw / self.weight[0] if self.count else self.raw.copy()

    @property
    def variance(self) -> NDArray[np.float64]:
        """(d,) variances of the contributions; 0 before the second row."""
        return self.spread / self.weight[0] if self.count else self.spread.copy()

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the state for `restore`. The arrays are not copies."""
        return {name: getattr(self, name) for name in ("weight", "raw", "spread", "dependence", "expected")}

    @classmethod
    def restore(
        cls, alpha: float, overlap: Overlap, count: int, arrays: Mapping[str, NDArray[np.float64]]
    ) -> "Smoothing":
        """Restore the smoothing from its `count` and `arrays`.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        found = form.read(_FORM, arrays, _OF)
        check_weight(alpha, count, found["weight"], _OF)
        weight, echo = found["weight"][0], np.abs(found["dependence"][ECHO])
        form.expect((np.abs(found["raw"]) <= LARGEST * weight).all(), "values of smoothed rows", found["raw"], _OF)
        form.expect((found["spread"] <= LARGEST**2 * weight).all(), "their variances", found["spread"], _OF)
        form.expect((echo <= _LARGEST_ECHO).all(), f"echoes within ±{_LARGEST_ECHO:g}", echo.max(initial=0.0), _OF)
        return cls(alpha, count, overlap=overlap, **found)


def check_weight(alpha: float, count: int, weight: NDArray[np.float64], of: str) -> None:
    """Raise FrameError unless W can be the weight after so many rows: at least α, which rounding changes little."""
    form.expect(0 <= count <= form.MOST, f"0 to {form.MOST} rows", count, of)
    fits = weight[0] >= 0.5 * alpha if count else weight[0] == 0.0
    form.expect(fits, f"the weight of {count} rows", weight[0], of)


def _widened(array: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    missing = width - array.shape[-1]
    if missing <= 0:
        return array
    return np.concatenate([array, np.zeros((*array.shape[:-1], missing))], axis=-1)


@bare_kernel
def _smooth(alpha, decay, values, weight, raw, spread, dependence, expected, seen):  # type: ignore[no-untyped-def]
    keep = 1.0 - alpha
    echo, product, square = dependence[ECHO], dependence[PRODUCT], dependence[SQUARE]
    for i in range(values.shape[0]):
        before = weight[0]
        weight[0] = keep * before + alpha
        _expect(alpha, decay, seen + i, before, expected)
        enter = max(alpha / MEMORY, 1.0 / max(seen + i, 1))
        grow = alpha * keep * before / weight[0]
        for j in range(raw.shape[0]):
            value = values[i, j] if j < values.shape[1] else 0.0
            if before > 0.0:
                distance = value - raw[j] / before
                spread[j] = keep * spread[j] + grow * distance * distance
                product[j] += enter * (distance * echo[j] - product[j])
                square[j] += enter * (distance * distance - square[j])
                echo[j] = decay * (echo[j] + distance)
            raw[j] = keep * raw[j] + alpha * value


@bare_kernel
def _expect(alpha, decay, seen, before, expected):  # type: ignore[no-untyped-def]
    """Advance by one row the expectations for contributions v of variance 1 with covariance rho^k at k rows apart.

    rho is 0 in row 0 of `expected` and `decay` in row 1. The columns are, for the newest v: E[v raw], E[v echo],
    E[raw²], E[raw echo], and the means of E[e · echo] and of E[e²] under the weights of the measured means.
    """
    keep = 1.0 - alpha
    enter = max(alpha / MEMORY, 1.0 / max(seen, 1))
    for kind in range(2):
        rho = decay * kind
        v_raw, v_echo = rho * expected[kind, 0], rho * expected[kind, 1]
        raw_raw, raw_echo = expected[kind, 2], expected[kind, 3]
        if seen > 0:
            v_e = 1.0 - v_raw / before
            raw_e = v_raw - raw_raw / before
            e_echo = v_echo - raw_echo / before
            e_e = v_e - raw_e / before
            expected[kind, MEAN_PRODUCT] += enter * (e_echo - expected[kind, MEAN_PRODUCT])
            expected[kind, MEAN_SQUARE] += enter * (e_e - expected[kind, MEAN_SQUARE])
            expected[kind, 1] = decay * (v_echo + v_e)
            expected[kind, 3] = decay * (keep * (raw_echo + raw_e) + alpha * (v_echo + v_e))
        expected[kind, 0] = keep * v_raw + alpha
        expected[kind, 2] = keep * keep * raw_raw + 2.0 * keep * alpha * v_raw + alpha * alpha
