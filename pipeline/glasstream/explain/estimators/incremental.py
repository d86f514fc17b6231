"""What the incremental estimators of importance share: events of a River model, smoothed values and their errors.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import ModelError, SettingsError
from glasstream.events.admission import Task
from glasstream.events.features import Kind
from glasstream.explain import bounds, intervals
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import Loss, loss_for
from glasstream.explain.sampling.reservoir import SAMPLINGS, Reservoir
from glasstream.explain.smoothing import Smoothing
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics.notebook import bar, table

Floats = NDArray[np.float64]


class Explained(NamedTuple):
    """One explained event."""

    row: Floats
    """(1, d) values of the features, NaN where one is absent."""
    target: float
    """Index of the true class, or the number."""
    contributions: Floats
    """(1, d) contributions of the features or sets."""


class IncrementalImportance(ABC):
    """Estimator of one value per feature, updated with each event."""

    def __init__(self, label: str, model: Any, loss: Loss | None, start: int) -> None:
        self._live = model if model is None or isinstance(model, LiveModel) else LiveModel(model)
        if self._live is not None:
            loss = loss_for(Task(self._live.task), loss)
        elif loss is None:
            raise SettingsError([f"{label}: expected a loss, since there is no model to choose a default for"])
        self.loss: Loss = loss
        self.start = start
        self._next = 0 if self._live is None else self._live.events
        """Number that the next event has for the model, which other estimators may share."""
        self.rows = 0
        """Number of events seen, explained or not."""
        self._features: tuple[str, ...] = ()
        self.explained: Explained | None = None
        """The event of the newest call of `explain_one`; None if that call has not explained it."""

    @property
    def live(self) -> LiveModel | None:
        """The adapter through which the model is called; None without a model."""
        return self._live

    def explain_one(self, x: Mapping[str, Any], y: Any) -> dict[str, float]:
        """Explain one event with the model as it is now.

        Call this method before the model learns the event, as the papers' algorithms and the pipeline do. Then it tells
        how the model judges events that it does not know. The published experiments of paper 004 explain each event
        after the model has learned it. The values then also show how well the model remembers single events.
        `ExplainedModel` calls both methods in either order.

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
        self.explained = None
        row, target = self._live.event(x, y, self._next)
        self._next += 1
        self._features = self._live.names
        predictor = self._live.predictor if self.rows >= self.start else None
        contributions = self._advance(predictor, row, np.array([target]), self._live.kinds)
        if len(contributions):
            self.explained = Explained(row, target, contributions)
        return self.importance

    def explain_block(
        self, predictor: Predictor, rows: Floats, targets: Floats, kinds: Sequence[Kind] | None = None
    ) -> Floats:
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
        kinds
            Kinds of the features, which conditional removal needs; None if all are numbers.

        Returns
        -------
        (explained, d) contributions of the rows from `start` on, one column per feature or set.

        Raises
        ------
        ModelError
            The model raised an error or returned no finite number. None of the rows counts as explained.
        """
        self._features = max(self._features, tuple(predictor.features), key=len)
        return self._advance(predictor, rows, targets, kinds or [Kind.NUMBER] * rows.shape[1])

    @abstractmethod
    def _advance(self, predictor: Predictor | None, rows: Floats, targets: Floats, kinds: Sequence[Kind]) -> Floats:
        """Let rows enter, explain those from `start` on, and return their contributions."""

    @property
    @abstractmethod
    def _smoothing(self) -> Smoothing:
        """Smoothed contributions."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns: the features in the order of their first appearance."""
        return self._features

    @property
    def of_features(self) -> bool:
        """Whether each value is that of a single feature, and not of a set of features."""
        return True

    @property
    def alpha(self) -> float:
        """Smoothing factor α."""
        return self._smoothing.alpha

    @property
    def importance(self) -> dict[str, float]:
        """Values by name, without start-up bias; empty before the first explained event."""
        return self._named(self._smoothing.value)

    @property
    def raw(self) -> dict[str, float]:
        """Values smoothed from 0, with start-up bias."""
        return self._named(self._smoothing.raw)

    @property
    def variance(self) -> dict[str, float]:
        """Variance of the contributions under the weights of the smoothing."""
        return self._named(self._smoothing.variance)

    def bound(self, delta: float = 0.1) -> dict[str, float]:
        """Return bounds that the errors exceed with probability δ at most, see `glasstream.explain.bounds`."""
        return self._named(bounds.bound(self._smoothing, delta))

    def interval(self, level: float = 0.95) -> dict[str, tuple[float, float]]:
        """Return low and high by name, see `glasstream.explain.intervals`.

        There are none while there are too few events, and for values of iSAGE that are biased.
        """
        interval = self._interval(level)
        if interval is None:
            return {}
        return dict(zip(self.names, zip(*map(np.ndarray.tolist, interval), strict=True), strict=False))

    def _repr_html_(self) -> str:
        """Show the values in a notebook, the largest first, with their intervals."""
        values, intervals_of = self.importance, self.interval()
        largest = max(map(abs, values.values()), default=0.0)
        names = sorted(values, key=lambda name: (-values[name], name))
        rows = [
            (name, values[name], *intervals_of.get(name, (None, None)), bar(values[name], largest)) for name in names
        ]
        loss = self.loss if isinstance(self.loss, str) else self.loss.name
        title = f"{type(self).__name__}: importance after {self.rows:,} events ({loss} loss)"
        return table(title, ("feature", "importance", "low", "high", ""), rows)

    def _interval(self, level: float) -> intervals.Interval | None:
        return intervals.normal(self._smoothing, level)

    def _named(self, values: Floats) -> dict[str, float]:
        return dict(zip(self.names, values.tolist(), strict=False))

    def _meta(self) -> dict[str, Any]:
        """Return the part of the state that every estimator has."""
        live = {} if self._live is None else {"live": self._live.state()}
        return {"rows": self.rows, "features": list(self._features), **live}

    def _restore_meta(self, meta: Mapping[str, Any]) -> None:
        self.rows, self._features = int(meta["rows"]), tuple(str(name) for name in meta["features"])
        self.explained = None
        if self._live is not None:
            self._live.restore(meta["live"])
            self._next = self._live.events


def held(reservoir: Reservoir, rows: Any) -> Floats:
    """Return the saved rows of a reservoir.

    Raises
    ------
    ValueError
        The rows are not those of such a reservoir.
    """
    saved = np.array(rows, np.float64)
    if saved.ndim != 2 or len(saved) != reservoir.size:
        raise ValueError(f"expected {reservoir.size} rows in a reservoir, got shape {saved.shape}")
    return saved


def findings(label: str, alpha: float, sampling: str, numbers: Mapping[str, int]) -> list[str]:
    """Return what is wrong with the parameters that every estimator has."""
    found = []
    if not 0.0 < alpha <= 1.0:
        found.append(f"{label} alpha: expected a number above 0 and at most 1, got {alpha}")
    found += [
        f"{label} {name}: expected a number from 1 on, got {value}" for name, value in numbers.items() if value < 1
    ]
    if sampling not in SAMPLINGS:
        found.append(f"{label} sampling: expected one of {', '.join(SAMPLINGS)}, got {sampling!r}")
    return found
