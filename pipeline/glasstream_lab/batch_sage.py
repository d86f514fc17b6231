"""SAGE of a fixed data set and a fixed model by sampled permutations (paper 002, Algorithm 5; Covert et al. 2020)."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, below, stream_key
from glasstream.base.jit import kernel
from glasstream.explain.losses import Loss, losses, with_classes
from glasstream.explain.sage.contributions import contributions, first_largest
from glasstream.explain.sampling.orders import orders
from glasstream.models.predictors.predictor import Predictor

Floats = NDArray[np.float64]
_ISAGE = int(Purpose.ISAGE)


@dataclass(frozen=True, slots=True, eq=False)
class BatchSAGE:
    """SAGE values, with the contributions and losses that they are means of.

    Attributes
    ----------
    contributions
        (n, d) contributions of each sampled row. A row's contributions add up to its marginal loss minus its model
        loss.
    marginal_losses
        (n,) losses of the mean prediction.
    model_losses
        (n,) losses of the model.
    """

    contributions: Floats
    marginal_losses: Floats
    model_losses: Floats

    @property
    def values(self) -> Floats:
        """(d,) SAGE values."""
        return np.asarray(self.contributions.mean(axis=0))

    @property
    def standard_errors(self) -> Floats:
        """(d,) standard errors of the values, assuming independent contributions."""
        return np.asarray(self.contributions.std(axis=0) / np.sqrt(len(self.contributions)))

    @property
    def marginal_loss(self) -> float:
        """Mean loss of the mean prediction."""
        return float(self.marginal_losses.mean())

    @property
    def model_loss(self) -> float:
        """Mean loss of the model."""
        return float(self.model_losses.mean())

    @property
    def total(self) -> float:
        """Value of all features together: the sum of the values."""
        return self.marginal_loss - self.model_loss


def batch_sage(
    predictor: Predictor,
    loss: Loss,
    rows: Floats,
    targets: Floats,
    *,
    inner: int = 5,
    passes: int = 1,
    fresh: bool = False,
    corrected: bool = False,
    seed: int = 0,
    first_draw: int = 0,
) -> BatchSAGE:
    """Return SAGE values of a model on a data set.

    Parameters
    ----------
    predictor, loss
        Model, and the name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`.
    rows, targets
        (N, d) and (N,), as for `glasstream.explain.sage.contributions.contributions`; N is at least 1.
    inner
        Number m of background rows, drawn uniformly from `rows` for each row.
    passes
        Number of times each row is explained, each with other draws.
    fresh, corrected
        Options of `glasstream.explain.sampling.reservoir.Wanted` and
        `glasstream.explain.sage.contributions.contributions`.
    seed
        Random seed of the draws.
    first_draw
        Number of the first of the N · passes draws. Calls with different numbers draw independently.

    Raises
    ------
    SettingsError
        There is no correction for this loss or this m.
    """
    loss = with_classes(loss, predictor.classes)
    key = stream_key(seed, "batch SAGE")
    count, width = rows.shape
    means = np.repeat(predictor.evaluate(rows).values.mean(axis=0, keepdims=True), count, axis=0)
    before = losses(loss, means, first_largest(means), targets)
    parts = []
    for first in range(first_draw, first_draw + passes * count, count):
        order = orders(key, first, count, width)
        background = np.empty((count, max(width - 1, 0) if fresh else 1, inner, width))
        _draw(rows, key, first, background)
        block = contributions(predictor, loss, rows, targets, order, background, corrected)
        parts.append((*block.completed(before), block.model_losses))
    return BatchSAGE(*(np.concatenate(part) for part in zip(*parts, strict=True)))


@kernel
def _draw(rows, key, first, background):  # type: ignore[no-untyped-def]
    count, steps, inner, _ = background.shape
    for i in range(count):
        for step in range(steps):
            for k in range(inner):
                background[i, step, k] = rows[below(rows.shape[0], key, first + i, _ISAGE, step * inner + k)]
