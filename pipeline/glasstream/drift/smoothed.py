"""Series smoothed number by number, for detectors that are to see what is published and not what rows say.

The form is that of `glasstream.aggregator.smoothing`, debiased; a row without a number leaves a series as it is.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glasstream.jit import kernel

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Smoothed:
    """The smoothing of s series."""

    sums: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    """(s, 2) the weight, and the smoothed number with the bias of its start at 0."""

    def update(self, values: Floats, alpha: float) -> Floats:
        """(rows, s) each series as smoothed after each row; NaN where the row has no number."""
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
