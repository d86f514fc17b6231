"""Smoothed mean prediction: the model's prediction for an event without any known feature (paper 002, Algorithm 1).

With the prediction f(x_n) for row n, as in `glasstream.aggregator.smoothing`:

    raw_n  = (1-α) raw_{n-1} + α f(x_n)
    W_n    = (1-α) W_{n-1} + α
    mean_n = raw_n / W_n

The mean has no start-up bias: after the first row it equals that row's prediction. A row's prediction enters the mean
before the mean is used for that row (lines 5 and 6). The target never enters.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.jit import kernel


@dataclass(slots=True)
class MeanPrediction:
    """Mean prediction, with one column per class, or a single column for regression."""

    alpha: float
    weight: NDArray[np.float64]
    """(1,) weight W_n."""
    raw: NDArray[np.float64]
    """(k,) smoothed predictions raw_n."""

    @classmethod
    def empty(cls, alpha: float) -> "MeanPrediction":
        """Return a mean without predictions and classes."""
        return cls(alpha, np.zeros(1), np.zeros(0))

    def enter(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Add predictions in order.

        Parameters
        ----------
        predictions
            (n, k) predictions for consecutive rows. A class that appears later had probability 0 before; a class that
            is missing has probability 0 now.

        Returns
        -------
        (n, k') the mean after each row; k' is the number of known classes.
        """
        known = len(self.raw)
        if predictions.shape[1] > known:
            self.raw = np.concatenate([self.raw, np.zeros(predictions.shape[1] - known)])
        means = np.empty((len(predictions), len(self.raw)))
        _enter(self.alpha, predictions, self.weight, self.raw, means)
        return means

    @property
    def value(self) -> NDArray[np.float64]:
        """(k,) current mean; 0 before the first row."""
        return self.raw / self.weight[0] if self.weight[0] > 0.0 else self.raw.copy()

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """Return the state for `restore`. The arrays are not copies."""
        return {"weight": self.weight, "raw": self.raw}

    @classmethod
    def restore(cls, alpha: float, arrays: Mapping[str, NDArray[np.float64]]) -> "MeanPrediction":
        """Restore the mean from its arrays.

        Raises
        ------
        KeyError
            An array is missing.
        ValueError
            An array has the wrong shape.
        """
        weight, raw = np.array(arrays["weight"], np.float64), np.array(arrays["raw"], np.float64)
        if weight.shape != (1,) or raw.ndim != 1:
            raise ValueError(f"expected a weight and k means, got arrays of shapes {weight.shape} and {raw.shape}")
        return cls(alpha, weight, raw)


@kernel
def _enter(alpha, predictions, weight, raw, means):  # type: ignore[no-untyped-def]
    keep = 1.0 - alpha
    for i in range(predictions.shape[0]):
        weight[0] = keep * weight[0] + alpha
        for c in range(raw.shape[0]):
            said = predictions[i, c] if c < predictions.shape[1] else 0.0
            raw[c] = keep * raw[c] + alpha * said
            means[i, c] = raw[c] / weight[0]
