"""iPFI for a River model that keeps learning (paper 004, Algorithm 1).

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import stream_key
from glasstream.base.errors import FrameError, ModelError, SettingsError, StateError
from glasstream.events.features import Kind
from glasstream.explain.estimators.incremental import IncrementalImportance, findings, held
from glasstream.explain.losses import Loss
from glasstream.explain.overlap import Overlap
from glasstream.explain.pfi import contributions, set_contributions
from glasstream.explain.sampling.reservoir import Reservoir, Wanted
from glasstream.explain.smoothing import Smoothing
from glasstream.models.predictors.predictor import Predictor

Floats = NDArray[np.float64]


class IncrementalPFI(IncrementalImportance):
    """Permutation feature importance for each event: the rise of the loss when a feature's value is replaced.

    Parameters
    ----------
    model
        A River classifier or regressor, or a `LiveModel` over one. None if only `explain_block` is used, which needs
        `loss`.
    loss
        Name of a loss in `glasstream.explain.losses.LOSSES` or a `CustomLoss`; None for the default of the task.
    alpha
        Smoothing factor α in (0, 1]. A window of N events corresponds to 2 / (N + 1).
    draws
        Number of background rows drawn for each feature of each event.
    reservoir, sampling
        Size of the reservoir and its sampling strategy, see `glasstream.explain.sampling.reservoir`.
    start
        First event that is explained, counted from 0 and at least 1. None for the event at which the reservoir is full.
    realisations
        Number R of independent reservoirs, whose contributions are averaged. The figures of 004 show R = 10. Unlike
        `draws`, this also averages over the content of the reservoirs.
    shared
        Whether all features of an event share one background row.
    sets
        Sets of features by name, to explain instead of single features. The features of a set are replaced jointly.
    seed, stream
        Random seed and name of the stream. Every draw is a function of both and of the event's number.

    Raises
    ------
    SettingsError
        The loss does not fit the task, or a number is out of range.
    ModelError
        `model` is not a River classifier or regressor.

    Examples
    --------
    >>> from river import linear_model
    >>> model = linear_model.LinearRegression()
    >>> pfi = IncrementalPFI(model, alpha=0.05, reservoir=20)
    >>> for t in range(200):
    ...     x, y = {"used": t % 5, "noise": t % 3}, 2.0 * (t % 5)
    ...     values = pfi.explain_one(x, y)
    ...     model.learn_one(x, y)
    >>> values["used"] > 10 > 1 > abs(values["noise"])
    True
    >>> low, high = pfi.interval()["used"]
    >>> low < values["used"] < high
    True
    """

    def __init__(
        self,
        model: Any = None,
        loss: Loss | None = None,
        *,
        alpha: float = 0.001,
        draws: int = 1,
        reservoir: int = 100,
        sampling: str = "geometric",
        start: int | None = None,
        realisations: int = 1,
        shared: bool = False,
        sets: Mapping[str, Sequence[str]] | None = None,
        seed: int = 0,
        stream: str = "",
    ) -> None:
        start = reservoir if start is None else start
        numbers = {"draws": draws, "reservoir": reservoir, "start": start, "realisations": realisations}
        wrong = findings("iPFI", alpha, sampling, numbers)
        if sets is not None and (not sets or shared or any(isinstance(names, str) for names in sets.values())):
            wrong.append(f"iPFI sets: expected lists of feature names by name of the set, and not shared, got {sets!r}")
        if wrong:
            raise SettingsError(wrong)
        super().__init__("iPFI", model, loss, start)
        self._shared = shared
        self._sets = None if sets is None else {name: frozenset(features) for name, features in sets.items()}
        groups = 1 if shared else len(self._sets) if self._sets is not None else 0
        self._wanted = Wanted(values=draws, sets=groups)
        names = [stream, *(f"{stream}\0realisation {r}" for r in range(1, realisations))]
        self._reservoirs = [Reservoir.empty(reservoir, sampling, stream_key(seed, name)) for name in names]
        self.smoothing = Smoothing.empty(alpha, Overlap.of(sampling, reservoir, draws * realisations))

    def _advance(self, predictor: Predictor | None, rows: Floats, targets: Floats, kinds: Sequence[Kind]) -> Floats:
        drawn = [one.serve(rows, self.rows, self.start, self._wanted) for one in self._reservoirs]
        self.rows += len(rows)
        explained = len(drawn[0].sets)
        if predictor is None or not explained:
            return np.empty((0, len(self.names)))
        x, y = rows[len(rows) - explained :], targets[len(rows) - explained :]
        if self._sets is not None:
            draws = np.concatenate([one.sets for one in drawn], axis=1)
            values = set_contributions(predictor, self.loss, x, y, draws, self._members(rows.shape[1]))
        else:
            parts = [one.sets[:, :, 0] if self._shared else one.values for one in drawn]
            values = contributions(predictor, self.loss, x, y, np.concatenate(parts, axis=1))
        if not np.isfinite(values).all():
            raise ModelError("expected finite contributions, got one that is not; scale the features")
        self.smoothing.update(values)
        return values

    def _members(self, width: int) -> NDArray[np.bool_]:
        """Return the (g, d) mask of the features in each set. Features that have not appeared yet are not included."""
        features = self._features[:width]
        sets = (self._sets or {}).values()
        members = np.zeros((len(sets), width), np.bool_)
        for one, names in enumerate(sets):
            members[one, : len(features)] = [name in names for name in features]
        return members

    @property
    def _smoothing(self) -> Smoothing:
        return self.smoothing

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: the features in the order of their first appearance, or the sets."""
        return self._features if self._sets is None else tuple(self._sets)

    @property
    def of_features(self) -> bool:
        """Whether each value is that of a single feature, and not of a set of features."""
        return self._sets is None

    @property
    def normalised(self) -> dict[str, float]:
        """Values divided by their sum, with negative values set to 0; all 0 if no value is above 0."""
        return self._named(normalised(self.smoothing.value))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return the state as JSON values and arrays.

        An estimator with the same settings continues bit-identically from it. The state contains neither the model nor
        a `CustomLoss`.
        """
        arrays = {name: array.copy() for name, array in self.smoothing.arrays().items()}
        arrays |= {f"reservoir {r}": one.rows.copy() for r, one in enumerate(self._reservoirs)}
        return {**self._meta(), "count": self.smoothing.count}, arrays

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """Restore a state that `state` returned.

        Raises
        ------
        StateError
            The state is incomplete or belongs to other settings.
        """
        try:
            saved = [held(one, arrays[f"reservoir {r}"]) for r, one in enumerate(self._reservoirs)]
            own = self.smoothing
            self.smoothing = Smoothing.restore(own.alpha, own.overlap, int(meta["count"]), arrays)
            self._restore_meta(meta)
        except (FrameError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"iPFI: the state is not one of an estimator with these settings ({error!r})") from error
        for one, rows in zip(self._reservoirs, saved, strict=True):
            one.rows = rows


def normalised(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (d,) importance as shares of a whole (004, Table 1).

    Negative values count as 0. All shares are 0 if no value is above 0.

    >>> normalised(np.array([3.0, -1.0, 1.0])).tolist(), normalised(np.array([-1.0, 0.0])).tolist()
    ([0.75, 0.0, 0.25], [0.0, 0.0])
    """
    largest = values.max(initial=0.0)
    if largest <= 0.0:
        return np.zeros(len(values))
    clipped = np.maximum(values, 0.0) / largest  # so that the sum is at least 1
    return np.asarray(clipped / clipped.sum())
