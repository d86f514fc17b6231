"""The part of iSAGE that depends on the order of rows (paper 002, Algorithm 1).

`glasstream.explain.isage` leaves the first difference of each row open; here the row's prediction enters the smoothed
mean prediction, and the loss of that mean becomes the first loss "before". Contributions and both losses are smoothed
with the same weights, so that at every row

    sum of the values = marginal_loss - model_loss = total        (efficiency)

up to rounding, whatever the model does meanwhile and whenever features come.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator.mean_prediction import MeanPrediction
from glasstream.aggregator.overlap import INDEPENDENT, Overlap
from glasstream.aggregator.smoothing import Smoothing
from glasstream.errors import StateError
from glasstream.explain.isage import OpenContributions, first_largest
from glasstream.explain.losses import Loss, losses


@dataclass(slots=True)
class SageAggregator:
    """Completes and smooths the contributions of one stream; a function of its rows in order, however they are cut."""

    smoothing: Smoothing
    """Of the contributions, one column a feature."""
    losses: Smoothing
    """Of the loss of the mean prediction, and of that of the model."""
    mean: MeanPrediction

    @classmethod
    def empty(cls, alpha: float, overlap: Overlap = INDEPENDENT) -> "SageAggregator":
        """Nothing explained yet.

        Parameters
        ----------
        alpha
            α of the smoothing.
        overlap
            How contributions can depend on each other; intervals count it.
        """
        return cls(Smoothing.empty(alpha, overlap), Smoothing.empty(alpha), MeanPrediction.empty(alpha))

    def update(self, loss: Loss, block: OpenContributions) -> NDArray[np.float64]:
        """Let consecutive rows enter in order.

        Parameters
        ----------
        loss
            The loss that the contributions are differences of; a `CustomLoss` must know the classes (`with_classes`).
        block
            As `glasstream.explain.isage.contributions` gives it. Classes that are new come after those known.

        Returns
        -------
        (n, d) the contributions, completed.
        """
        means = self.mean.enter(block.predictions)
        before = losses(loss, means, first_largest(means), block.targets)
        contributions, marginal_losses = block.completed(before)
        self.smoothing.update(contributions)
        self.losses.update(np.column_stack([marginal_losses, block.model_losses]))
        return contributions

    @property
    def count(self) -> int:
        """n, the rows that have entered."""
        return self.smoothing.count

    @property
    def marginal_loss(self) -> float:
        """The smoothed loss of the mean prediction, which uses no feature; 0 before the first row."""
        return self._loss(0)

    @property
    def model_loss(self) -> float:
        """The smoothed loss of the model; 0 before the first row."""
        return self._loss(1)

    @property
    def total(self) -> float:
        """What the features are worth together: marginal loss minus model loss."""
        return self.marginal_loss - self.model_loss

    def _loss(self, column: int) -> float:
        return float(self.losses.value[column]) if self.count else 0.0

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[np.float64]]]:
        """What a successor needs: numbers, and arrays by name."""
        arrays = {
            f"{part}.{name}": array.copy()
            for part, smoothed in (("values", self.smoothing), ("losses", self.losses), ("mean", self.mean))
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
    ) -> "SageAggregator":
        """The aggregator as it was when `state` was taken; it goes on to the same bits.

        Raises
        ------
        StateError
            The state lacks something, or its arrays do not fit each other.
        """
        try:
            count = int(meta["count"])
            aggregator = cls(
                Smoothing.restore(alpha, overlap, count, _part("values.", arrays)),
                Smoothing.restore(alpha, INDEPENDENT, count, _part("losses.", arrays)),
                MeanPrediction.restore(alpha, _part("mean.", arrays)),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"iSAGE: the state is not one that this version wrote ({error!r}); start afresh, or use the version "
                "that wrote it"
            ) from error
        return aggregator


def _part(prefix: str, arrays: Mapping[str, NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
