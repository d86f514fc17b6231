"""The smoothed mean prediction: what a model would say of an event that it is not shown (paper 002, Algorithm 1).

With the prediction f(x_n) of row n, as in `glasstream.aggregator.smoothing`:

    raw_n  = (1-α) raw_{n-1} + α f(x_n)
    W_n    = (1-α) W_{n-1} + α
    mean_n = raw_n / W_n

so that it has no start-up bias: after the first row it is that row's prediction. The prediction of a row enters before
the mean is used for the row (lines 5 and 6); its target never does.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.jit import kernel


@dataclass(slots=True)
class MeanPrediction:
    """The mean of predictions, one column a class, or one for the number of a regression."""

    alpha: float
    weight: NDArray[np.float64]
    """(1,) W_n."""
    raw: NDArray[np.float64]
    """(k,) raw_n."""

    @classmethod
    def empty(cls, alpha: float) -> "MeanPrediction":
        """Nothing predicted yet, no class known."""
        return cls(alpha, np.zeros(1), np.zeros(0))

    def enter(self, predictions: NDArray[np.float64]) -> NDArray[np.float64]:
        """Let predictions enter in order.

        Parameters
        ----------
        predictions
            (n, k) of consecutive rows. Classes that come later than others had probability 0 before; classes that
            are missing have it now.

        Returns
        -------
        (n, k') the mean after each; k' is the number of classes known.
        """
        known = len(self.raw)
        if predictions.shape[1] > known:
            self.raw = np.concatenate([self.raw, np.zeros(predictions.shape[1] - known)])
        means = np.empty((len(predictions), len(self.raw)))
        _enter(self.alpha, predictions, self.weight, self.raw, means)
        return means

    @property
    def value(self) -> NDArray[np.float64]:
        """(k,) the mean as it is; 0 before the first row."""
        return self.raw / self.weight[0] if self.weight[0] > 0.0 else self.raw.copy()

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        """The state, to go on from by `restore`; the arrays are those in use, not copies."""
        return {"weight": self.weight, "raw": self.raw}

    @classmethod
    def restore(cls, alpha: float, arrays: Mapping[str, NDArray[np.float64]]) -> "MeanPrediction":
        """The mean whose arrays were kept.

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
