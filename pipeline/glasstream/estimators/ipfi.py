"""iPFI for a River model that keeps learning (paper 004, Algorithm 1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator import bounds, intervals
from glasstream.aggregator.overlap import Overlap
from glasstream.aggregator.smoothing import Smoothing
from glasstream.background.reservoir import SAMPLINGS, Reservoir, Wanted
from glasstream.draws import stream_key
from glasstream.errors import ModelError, SettingsError, StateError
from glasstream.estimators.live_model import LiveModel
from glasstream.explain.ipfi import contributions, set_contributions
from glasstream.explain.losses import Loss, loss_for
from glasstream.ingest.admission import Task
from glasstream.models.contract.predictor import Predictor

Floats = NDArray[np.float64]


class IncrementalPFI:
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
        Size of the reservoir and its sampling strategy, see `glasstream.background.reservoir`.
    start
        First event that is explained, counted from 1. None for the event at which the reservoir is full.
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
        self._live = model if model is None or isinstance(model, LiveModel) else LiveModel(model)
        self.start = reservoir if start is None else start
        _check(alpha, draws, reservoir, sampling, self.start, realisations, shared, sets)
        if self._live is not None:
            loss = loss_for(Task(self._live.task), loss)
        elif loss is None:
            raise SettingsError(["iPFI: expected a loss, since there is no model to choose a default for"])
        self.loss: Loss = loss
        self._shared = shared
        self._sets = None if sets is None else {name: frozenset(features) for name, features in sets.items()}
        groups = 1 if shared else len(self._sets) if self._sets is not None else 0
        self._wanted = Wanted(values=draws, sets=groups)
        names = [stream, *(f"{stream}\0realisation {r}" for r in range(1, realisations))]
        self._reservoirs = [Reservoir.empty(reservoir, sampling, stream_key(seed, name)) for name in names]
        self.smoothing = Smoothing.empty(alpha, Overlap.of(sampling, reservoir, draws * realisations))
        self.rows = 0
        """Number of events seen, explained or not."""
        self._features: tuple[str, ...] = ()

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        """Explain one event. Call this method before the model learns the event.

        Parameters
        ----------
        x
            Numbers, booleans and texts by feature name. A feature that is None or missing is absent.
        y
            True class or number.

        Returns
        -------
        `importance` as of this event.

        Raises
        ------
        ModelError
            The event or its target is invalid and was ignored; or the model raised an error or returned no finite
            number, and the event counts as seen but not as explained. The estimator remains usable.
        """
        if self._live is None:
            raise ModelError("expected a River model to ask, got None; give one, or use explain_block")
        row, target = self._live.event(x, y)
        targets = np.array([target])
        self._features = self._live.names
        self._advance(self._live.predictor if self.rows >= self.start else None, row, targets)
        return self.importance

    def explain_block(self, predictor: Predictor, rows: Floats, targets: Floats) -> Floats:
        """Explain consecutive events with one state of a model.

        The places where events are cut into blocks change no number.

        Parameters
        ----------
        predictor
            Model to explain. New classes and features come after those of earlier predictors.
        rows
            (n, d), NaN where a feature is absent; d may have grown.
        targets
            (n,) true value, or index of the true class among the predictor's classes (-1 if it is not among them).

        Returns
        -------
        (explained, d) contributions of the rows from `start` on, one column per feature or set.

        Raises
        ------
        ModelError
            The model raised an error or returned no finite number. None of the rows counts as explained.
        """
        self._features = max(self._features, tuple(predictor.features), key=len)
        return self._advance(predictor, rows, targets)

    def _advance(self, predictor: Predictor | None, rows: Floats, targets: Floats) -> Floats:
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
    def names(self) -> tuple[str, ...]:
        """Names of the columns: the features in the order of their first appearance, or the sets."""
        return self._features if self._sets is None else tuple(self._sets)

    @property
    def importance(self) -> dict[str, float]:
        """Values by name, without start-up bias; empty before the first explained event."""
        return self._named(self.smoothing.value)

    @property
    def normalised(self) -> dict[str, float]:
        """Values divided by their sum, with negative values set to 0; all 0 if no value is above 0."""
        return self._named(normalised(self.smoothing.value))

    @property
    def raw(self) -> dict[str, float]:
        """Values smoothed from 0, with start-up bias."""
        return self._named(self.smoothing.raw)

    @property
    def variance(self) -> dict[str, float]:
        """Variance of the contributions under the weights of the smoothing."""
        return self._named(self.smoothing.variance)

    def bound(self, delta: float = 0.1) -> dict[str, float]:
        """Return the δ-bound of the values by name, see `glasstream.aggregator.bounds.bound`."""
        return self._named(bounds.bound(self.smoothing, delta))

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return low and high by name, see `glasstream.aggregator.intervals`; empty while there are too few events."""
        interval = intervals.normal(self.smoothing, level)
        if interval is None:
            return {}
        return dict(zip(self.names, zip(*map(np.ndarray.tolist, interval), strict=True), strict=False))

    def _named(self, values: Floats) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=False))

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return the state as JSON values and arrays.

        An estimator with the same settings continues bit-identically from it. The state contains neither the model nor
        a `CustomLoss`.
        """
        meta = {"rows": self.rows, "count": self.smoothing.count, "features": list(self._features)}
        arrays = {name: array.copy() for name, array in self.smoothing.arrays().items()}
        arrays |= {f"reservoir {r}": one.rows.copy() for r, one in enumerate(self._reservoirs)}
        live = {} if self._live is None else {"live": self._live.state()}
        return {**meta, **live}, arrays

    def restore(self, meta: Mapping[str, Any], arrays: Mapping[str, Floats]) -> None:
        """Restore a state that `state` returned.

        Raises
        ------
        StateError
            The state is incomplete or belongs to other settings.
        """
        try:
            held = [np.array(arrays[f"reservoir {r}"], np.float64) for r in range(len(self._reservoirs))]
            for one, rows in zip(self._reservoirs, held, strict=True):
                if rows.ndim != 2 or len(rows) != one.size:
                    raise ValueError(f"expected {one.size} rows in a reservoir, got shape {rows.shape}")
            own = self.smoothing
            self.smoothing = Smoothing.restore(own.alpha, own.overlap, int(meta["count"]), arrays)
            self.rows, self._features = int(meta["rows"]), tuple(str(name) for name in meta["features"])
            if self._live is not None:
                self._live.restore(meta["live"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"iPFI: the state is not one of an estimator with these settings ({error!r})") from error
        for one, rows in zip(self._reservoirs, held, strict=True):
            one.rows = rows


def _check(
    alpha: float,
    draws: int,
    reservoir: int,
    sampling: str,
    start: int,
    realisations: int,
    shared: bool,
    sets: Mapping[str, Sequence[str]] | None,
) -> None:
    findings = []
    if not 0.0 < alpha <= 1.0:
        findings.append(f"iPFI alpha: expected a number above 0 and at most 1, got {alpha}")
    numbers = {"draws": draws, "reservoir": reservoir, "start": start, "realisations": realisations}
    for name, number in numbers.items():
        if number < 1:
            findings.append(f"iPFI {name}: expected a number from 1 on, got {number}")
    if sampling not in SAMPLINGS:
        findings.append(f"iPFI sampling: expected one of {', '.join(SAMPLINGS)}, got {sampling!r}")
    if sets is not None and (not sets or shared or any(isinstance(names, str) for names in sets.values())):
        findings.append(f"iPFI sets: expected lists of feature names by name of the set, and not shared, got {sets!r}")
    if findings:
        raise SettingsError(findings)


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
