"""Incidents and drift alarms of a River model in a program, without the pipeline."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import SettingsError
from glasstream.base.form import LARGEST
from glasstream.detect.drift.monitor import DriftMonitor, WatchedSignal
from glasstream.detect.drift.settings import DriftSettings
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.explain.estimators.incremental import Explained, IncrementalImportance
from glasstream.explain.losses import losses, with_classes
from glasstream_topics.incidents import Incident
from glasstream_topics.notebook import table
from glasstream_topics.watching import Watching

KEPT: Final = 1_000
"""Number of incidents, and of alarms, that a monitor keeps: the newest ones."""


class DriftAlarm(NamedTuple):
    """One detector has found a change of the mean of its series."""

    event: int
    """Event with which the alarm was raised, counted from 0."""
    signal: str
    """``importance`` or ``loss``."""
    feature: str | None
    """Feature whose importance changed; None for the loss."""
    before: float
    """Mean before the change."""
    after: float
    """Mean since the change."""
    width: int
    """Number of events since the change, as the detector sees it."""


class ModelMonitor:
    """Watches a River model for incidents and drift alarms, as the pipeline does.

    A monitor follows an estimator of importance. It gets each event once, before the model learns it, and passes it to
    the estimator. It watches the events that the estimator has explained: their values, their labels, the loss, and
    the importance of each feature.

    Parameters
    ----------
    explainer
        An `IncrementalPFI` or `IncrementalSAGE` of a model, which nothing else calls.
    drift
        Settings of the section `drift` of the pipeline; None for its defaults. ``budget`` bounds the number of false
        incidents. Of the signals to watch, ``importance`` and ``loss`` raise alarms here.
    learns
        Whether the model learns the events. This changes the advice of an incident.
    seed, stream
        Random seed and name of the stream, as in the records.

    Raises
    ------
    SettingsError
        The explainer has no model, explains sets of features, or has seen events before.

    Examples
    --------
    >>> from glasstream import IncrementalPFI, ModelMonitor
    >>> from river import linear_model
    >>> model = linear_model.LogisticRegression()
    >>> monitor = ModelMonitor(IncrementalPFI(model))
    >>> for t in range(6_000):
    ...     a, b = t * 37 % 101 / 50 - 1, t * 53 % 97 / 48 - 1
    ...     broken = t >= 4_000  # from then on, the sensor of `a` sends one value
    ...     values = monitor.explain_one({"a": 0.25 if broken else a, "b": b}, a + b > 0)
    ...     model.learn_one({"a": 0.25 if broken else a, "b": b}, a + b > 0)
    >>> monitor.incidents[0].verdict
    'feature_broken'
    """

    def __init__(
        self,
        explainer: IncrementalImportance,
        drift: DriftSettings | None = None,
        *,
        learns: bool = True,
        seed: int = 0,
        stream: str = "",
    ) -> None:
        settings = drift or DriftSettings()
        live = explainer.live
        if live is None:
            raise SettingsError(["monitor: expected an explainer of a model, got one without a model"])
        if not explainer.of_features:
            raise SettingsError(["monitor: expected an explainer of single features, got one of sets of features"])
        if explainer.rows:
            raise SettingsError([f"monitor: expected a new explainer, got one that has seen {explainer.rows:,} events"])
        self.explainer, self.live = explainer, live
        self._signals = tuple(signal for signal in settings.signals if signal in ("importance", "loss"))
        self._watch: IncidentWatch | None = None
        if settings.finds_incidents:
            self._watch = IncidentWatch(stream, 0, seed, settings.budget, learns=learns)
        self._detectors = DriftMonitor(settings, seed, explainer.alpha)
        self._incidents: dict[int, Incident] = {}
        self._row = explainer.start
        """Number of the next row that is watched."""
        self.alarms: deque[DriftAlarm] = deque(maxlen=KEPT)
        """The newest drift alarms, oldest first."""
        self.watching: Watching | None = None
        """How the stream was watched when that was last noted: which changes would be noticed."""

    @property
    def incidents(self) -> Sequence[Incident]:
        """The newest record of each of the newest incidents, oldest first."""
        return tuple(self._incidents.values())

    @property
    def importance(self) -> Mapping[str, float]:
        """The importance of each feature, as the explainer has it."""
        return self.explainer.importance

    def explain_one(self, x: Mapping[str, Any], y: Any, time: int | None = None) -> dict[str, float]:
        """Explain one event with the model as it is now, and watch it.

        Parameters
        ----------
        x, y
            The event, as `IncrementalPFI.explain_one` takes it.
        time
            Time of the event in milliseconds since 1970, for the onset of incidents; None if it is not known.

        Returns
        -------
        `importance` as of this event.

        Raises
        ------
        ModelError
            As for the explainer. The event is then not watched.
        """
        importance = self.explainer.explain_one(x, y)
        explained = self.explainer.explained
        if explained is not None:
            self._watch_one(explained, time)
        return importance

    def _watch_one(self, explained: Explained, time: int | None) -> None:
        predictor, event = self.live.predictor, self.explainer.rows - 1
        found, targets = predictor.evaluate(explained.row), np.array([explained.target])
        loss = losses(with_classes(self.explainer.loss, predictor.classes), found.values, found.labels, targets)
        if not (np.abs(loss) <= LARGEST).all() or not (np.abs(explained.contributions) <= LARGEST).all():
            return  # the pipeline counts such a row as one that could not be explained
        self._look_for_drift(event, loss, explained)
        if self._watch is None:
            return
        rows = Rows(
            first_row=self._row,
            seqs=np.array([event]),
            times=[] if time is None else [time],
            names=list(map(str, self.live.names)),
            kinds=[int(kind) for kind in self.live.kinds],
            inputs=explained.row,
            target=targets,
            classes=self.live.classes,
            loss=loss,
            loss_name=str(self.explainer.loss),
            importance=explained.contributions,
            texts=self.live.table.named(explained.row),
        )
        self._row += 1
        for one in self._watch.update(rows):
            self._incidents[one.incident] = one
            if len(self._incidents) > KEPT:
                del self._incidents[min(self._incidents)]
        self.watching = next(reversed(self._watch.taken()), self.watching)

    def _look_for_drift(self, event: int, loss: NDArray[np.float64], explained: Explained) -> None:
        series = {"importance": explained.contributions, "loss": loss[:, np.newaxis]}
        watched = [WatchedSignal(signal, "", series[signal]) for signal in self._signals]
        for signal, _, alarm, _ in self._detectors.feed(watched):
            feature = self.live.names[alarm.series] if signal == "importance" else None
            self.alarms.append(DriftAlarm(event, signal, feature, alarm.before, alarm.after, alarm.width))

    def _repr_html_(self) -> str:
        """Show the incidents, the newest first."""
        rows = [(one.incident, one.status, one.onset.seq, one.summary) for one in reversed(self.incidents)]
        title = f"Incidents in {self.explainer.rows:,} events, {len(self.alarms):,} drift alarms"
        return table(title, ("incident", "status", "since event", "what happened"), rows)
