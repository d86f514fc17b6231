"""Order-dependent part of iSAGE (paper 002, Algorithm 1).

`glasstream.explain.sage.contributions` leaves the first difference of each row incomplete. This module adds the row's
prediction to the smoothed mean prediction, whose loss becomes the first loss "before". Contributions and both losses
are smoothed with the same weights, so that up to rounding every row satisfies

    sum of the values = marginal_loss - model_loss = total        (efficiency)

This holds when the model changes and when features appear later.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, Field
from glasstream.base.jit import bare_kernel
from glasstream.explain.intervals import Interval, normal
from glasstream.explain.losses import Loss, losses
from glasstream.explain.overlap import INDEPENDENT, Overlap
from glasstream.explain.sage.contributions import OpenContributions, first_largest
from glasstream.explain.smoothing import Smoothing, check_weight

_OF: Final = "mean prediction"
_FORM: Final = {"weight": Field("f8", (1,), 0.0, 2.0), "raw": Field("f8", ("k",))}


@dataclass(slots=True)
class MeanPrediction:
    """Smoothed mean prediction: the model's prediction for an event without any known feature (paper 002, Algorithm 1).

    It has one column per class, or a single column for regression. With the prediction f(x_n) for row n, as in
    `glasstream.explain.smoothing`:

        raw_n  = (1-α) raw_{n-1} + α f(x_n)
        W_n    = (1-α) W_{n-1} + α
        mean_n = raw_n / W_n

    The mean has no start-up bias: after the first row it equals that row's prediction. A row's prediction enters the
    mean before the mean is used for that row (lines 5 and 6). The target never enters.
    """

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
    def restore(
        cls, alpha: float, count: int, arrays: Mapping[str, NDArray[np.float64]], most: float = LARGEST
    ) -> "MeanPrediction":
        """Restore the mean of `count` rows from its arrays.

        Parameters
        ----------
        most
            Largest absolute value of a prediction.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        found = form.read(_FORM, arrays, _OF)
        weight, raw = found["weight"], found["raw"]
        check_weight(alpha, count, weight, _OF)
        form.expect((np.abs(raw) <= most * weight).all(), f"predictions within ±{most:g}", raw, _OF)
        return cls(alpha, weight, raw)


@bare_kernel
def _enter(alpha, predictions, weight, raw, means):  # type: ignore[no-untyped-def]
    keep = 1.0 - alpha
    for i in range(predictions.shape[0]):
        weight[0] = keep * weight[0] + alpha
        for c in range(raw.shape[0]):
            said = predictions[i, c] if c < predictions.shape[1] else 0.0
            raw[c] = keep * raw[c] + alpha * said
            means[i, c] = raw[c] / weight[0]


@dataclass(slots=True)
class SageAggregator:
    """Complete and smooth the contributions of one stream.

    The result depends on the rows and their order, but not on how they are cut into blocks.
    """

    smoothing: Smoothing
    """Smoothing of the contributions, one column per feature."""
    losses: Smoothing
    """Smoothing of two losses: that of the mean prediction and that of the model."""
    mean: MeanPrediction
    remainders: Smoothing
    """Smoothing of the bias that a correction leaves, one column per feature; no columns if it leaves none."""

    @classmethod
    def empty(cls, alpha: float, overlap: Overlap = INDEPENDENT) -> "SageAggregator":
        """Return an aggregator without rows.

        Parameters
        ----------
        alpha
            Smoothing factor α.
        overlap
            Dependence between contributions, which the intervals account for.
        """
        return cls(
            Smoothing.empty(alpha, overlap),
            Smoothing.empty(alpha),
            MeanPrediction.empty(alpha),
            Smoothing.empty(alpha),
        )

    def update(self, loss: Loss, block: OpenContributions) -> NDArray[np.float64]:
        """Add consecutive rows in order.

        Parameters
        ----------
        loss
            Loss whose differences the contributions are. A `CustomLoss` must know the classes (`with_classes`).
        block
            Result of `glasstream.explain.sage.contributions.contributions`. New classes come after known ones.

        Returns
        -------
        (n, d) the completed contributions.
        """
        means = self.mean.enter(block.predictions)
        before = losses(loss, means, first_largest(means), block.targets)
        contributions, marginal_losses = block.completed(before)
        self.smoothing.update(contributions)
        self.losses.update(np.column_stack([marginal_losses, block.model_losses]))
        self.remainders.update(block.remainders)
        return contributions

    def interval(self, level: float = 0.95) -> Interval | None:
        """Return the interval of the values, wider by the bias that a correction leaves."""
        remainders = self.remainders.value
        missing = len(self.smoothing.raw) - len(remainders)
        return normal(self.smoothing, level, np.pad(remainders, (0, missing)) if len(remainders) else 0.0)

    def _parts(self) -> Iterator[tuple[str, Smoothing | MeanPrediction]]:
        yield from zip(
            ("values", "losses", "mean", "remainders"),
            (self.smoothing, self.losses, self.mean, self.remainders),
            strict=True,
        )

    @property
    def count(self) -> int:
        """Number n of rows that have entered."""
        return self.smoothing.count

    @property
    def marginal_loss(self) -> float:
        """Smoothed loss of the mean prediction, which uses no feature; 0 before the first row."""
        return self._loss(0)

    @property
    def model_loss(self) -> float:
        """Smoothed loss of the model; 0 before the first row."""
        return self._loss(1)

    @property
    def total(self) -> float:
        """Value of all features together: marginal loss minus model loss."""
        return self.marginal_loss - self.model_loss

    def _loss(self, column: int) -> float:
        return float(self.losses.value[column]) if self.count else 0.0

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """Return the state as numbers and as arrays by name."""
        arrays = {
            f"{part}.{name}": array.copy()
            for part, smoothed in self._parts()
            for name, array in smoothed.arrays().items()
        }
        return {"count": self.count}, arrays

    @classmethod
    def restore(
        cls,
        alpha: float,
        meta: Mapping[str, Any],
        arrays: Mapping[str, NDArray[np.float64]],
        overlap: Overlap = INDEPENDENT,
        most: float = LARGEST,
    ) -> "SageAggregator":
        """Restore the aggregator from a saved state. It continues with bit-identical results.

        Parameters
        ----------
        most
            Largest absolute value of a prediction.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        count = form.values(meta.get("count"), form.Count, f"{_OF}, its count")
        values = Smoothing.restore(alpha, overlap, count, form.part("values.", arrays))
        both = Smoothing.restore(alpha, INDEPENDENT, count, form.part("losses.", arrays))
        mean = MeanPrediction.restore(alpha, count, form.part("mean.", arrays), most)
        remainders = Smoothing.restore(alpha, INDEPENDENT, count, form.part("remainders.", arrays))
        form.expect(not count or len(both.raw) == 2, "two losses", len(both.raw), "iSAGE")
        width, biased = len(values.raw), len(remainders.raw)
        form.expect(biased <= width, f"a bias of at most {width} features", biased, "iSAGE")
        return cls(values, both, mean, remainders)
