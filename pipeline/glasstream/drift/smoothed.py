"""Exponential smoothing of series, for detectors that watch published values instead of the values of single rows.

The smoothing is debiased, as in `glasstream.aggregator.smoothing`. A row without a number leaves a series unchanged.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glasstream.jit import kernel

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Smoothed:
    """Smoothing of s series."""

    sums: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """(s, 2) weight and biased smoothed number, which starts at 0."""

    def update(self, values: Floats, alpha: float) -> Floats:
        """Return (rows, s) smoothed series after each row; NaN where the row has no number."""
        new = values.shape[1] - len(self.sums)
        if new > 0:
            self.sums = np.concatenate([self.sums, np.zeros((new, 2))])
        out = np.full(values.shape, np.nan)
        _smooth(alpha, values, self.sums, out)
        return out


@kernel
def _smooth(alpha, values, sums, out):  # type: ignore[no-untyped-def]
    keep = 1.0 - alpha
    for i in range(values.shape[0]):
        for s in range(values.shape[1]):
            if not np.isnan(values[i, s]):
                sums[s, 0] = keep * sums[s, 0] + alpha
                sums[s, 1] = keep * sums[s, 1] + alpha * values[i, s]
                out[i, s] = sums[s, 1] / sums[s, 0]
