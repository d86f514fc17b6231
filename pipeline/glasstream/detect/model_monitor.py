"""Incidents and drift alarms of a River model in a program, without the pipeline."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import ModelError, SettingsError
from glasstream.detect.drift.monitor import DriftMonitor, WatchedSignal
from glasstream.detect.drift.settings import DriftSettings
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.events.decode import time_of, wrong_beside_x
from glasstream.explain.estimators.incremental import Explained, IncrementalImportance
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import losses, with_classes
from glasstream_topics.incidents import Incident
from glasstream_topics.methods import LARGEST
from glasstream_topics.notebook import table
from glasstream_topics.watching import Watching

KEPT: Final = 1_000
"""Number of incidents, and of alarms, that a monitor keeps: the newest ones."""


class DriftAlarm(NamedTuple):
    """A change of the mean of a series."""

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
    """Number of events since the change, according to the detector."""


class ModelMonitor:
    """Incidents and drift alarms of a River model, by the same tests as in the pipeline.

    A monitor has an estimator of importance. It gets each event once, before the model learns the event, and passes it
    on to the estimator. Of each event that the estimator explains, it watches the values, the label, the loss, and the
    contributions to the importance of each feature. An event whose loss or contribution exceeds 1e125 is not watched.

    Parameters
    ----------
    explainer
        A new `IncrementalPFI` or `IncrementalSAGE` of a model. Call it only through this monitor.
    drift
        Settings of the pipeline's section `drift`; None for its defaults. ``budget`` bounds the expected number of
        false incidents in 100,000 events. ``importance`` and ``loss`` are the signals that can raise alarms here.
    learns
        Whether the model learns the events. The advice of an incident depends on it.
    seed, stream
        Random seed, and name of the stream in the records. The draws of the incident tests are a function of both and
        of the event's number.

    Raises
    ------
    SettingsError
        The explainer is of another class, has no model, explains sets of features, or has seen events before. Or the
        settings name a preset, which only commands apply.

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

    needs_unlearned: ClassVar = True
    """An event must be explained before the model learns it."""

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
        live = _live(explainer, settings)
        self.explainer, self.live = explainer, live
        self._signals = tuple(signal for signal in settings.signals if signal in ("importance", "loss"))
        self._watch: IncidentWatch | None = None
        if settings.finds_incidents:
            self._watch = IncidentWatch(stream, 0, seed, settings.budget, learns=learns)
        self._detectors = DriftMonitor(settings, seed, explainer.alpha)
        self._incidents: dict[int, Incident] = {}
        self._events = 0
        """Number of events that the explainer has got from this monitor."""
        self.alarms: deque[DriftAlarm] = deque(maxlen=KEPT)
        """The newest drift alarms, oldest first."""
        self.alarms_raised = 0
        """Number of all drift alarms."""
        self.watching: Watching | None = None
        """The newest record of how the events are watched, and of the changes that would be noticed; None at first."""

    @property
    def incidents(self) -> Sequence[Incident]:
        """The newest record of each of the newest incidents, oldest first."""
        return tuple(self._incidents.values())

    @property
    def importance(self) -> Mapping[str, float]:
        """The newest importance of each feature."""
        return self.explainer.importance

    def explain_one(self, x: Mapping[str, Any], y: Any, ts: int | None = None) -> dict[str, float]:
        """Explain one event with the model as it is now, and watch it.

        Parameters
        ----------
        x, y
            The event, as `IncrementalPFI.explain_one` takes it.
        ts
            Time of the event in milliseconds since 1970, for the onset of incidents; None if it is not known.

        Returns
        -------
        `importance` as of this event.

        Raises
        ------
        ModelError
            `ts` is not an integer of 64 bits, or the explainer was called by something else; then nothing was done. Or
            the explainer or the model raised the error; then the event is not watched.
        """
        ts = int(ts) if isinstance(ts, np.integer) else ts
        if (wrong := wrong_beside_x(None, ts, None)) is not None:
            raise ModelError(wrong[1])
        if self.explainer.rows != self._events:
            raise ModelError(
                f"expected an explainer that only this monitor calls, got one that has seen {self.explainer.rows:,} "
                f"events instead of {self._events:,}; give each monitor an explainer of its own"
            )
        try:
            importance = self.explainer.explain_one(x, y)
        finally:
            self._events = self.explainer.rows
        if self.explainer.explained is not None:
            self._watch_one(self.explainer.explained, time_of(ts))
        return importance

    def _watch_one(self, explained: Explained, ts: int | None) -> None:
        predictor, event = self.live.predictor, self._events - 1
        prediction, targets = predictor.evaluate(explained.row), np.array([explained.target])
        name = with_classes(self.explainer.loss, predictor.classes)
        loss = losses(name, prediction.values, prediction.labels, targets)
        if not max(np.abs(loss).max(), np.abs(explained.contributions).max(initial=0.0)) <= LARGEST:
            return  # the pipeline counts such a row as one that could not be explained
        self._look_for_drift(event, loss, explained)
        if self._watch is None:
            return
        rows = Rows(
            first_row=event,
            seqs=np.array([event]),
            times=[] if ts is None else [ts],
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
        for record in self._watch.update(rows):
            self._incidents[record.incident] = record
            if len(self._incidents) > KEPT:
                del self._incidents[min(self._incidents)]
        self.watching = next(reversed(self._watch.taken()), self.watching)

    def _look_for_drift(self, event: int, loss: NDArray[np.float64], explained: Explained) -> None:
        series = {"importance": explained.contributions, "loss": loss[:, np.newaxis]}
        watched = [WatchedSignal(signal, "", series[signal]) for signal in self._signals]
        for signal, _, alarm, _ in self._detectors.feed(watched):
            feature = str(self.live.names[alarm.series]) if signal == "importance" else None
            self.alarms.append(DriftAlarm(event, signal, feature, alarm.before, alarm.after, alarm.width))
            self.alarms_raised += 1

    def _repr_html_(self) -> str:
        """Show the incidents, the newest first."""
        rows = [(one.incident, one.status, one.onset.seq, one.summary) for one in reversed(self.incidents)]
        title = f"Incidents in {self._events:,} events, {self.alarms_raised:,} drift alarms"
        return table(title, ("incident", "status", "since event", "what happened"), rows)


def _live(explainer: Any, settings: DriftSettings) -> LiveModel:
    """Return the adapter through which an explainer calls its model.

    Raises
    ------
    SettingsError
        The monitor cannot use the explainer, or the settings.
    """
    if not isinstance(explainer, IncrementalImportance):
        kind = type(explainer).__name__
        raise SettingsError([f"monitor: expected an IncrementalPFI or IncrementalSAGE of the model, got {kind}"])
    findings = []
    if explainer.live is None:
        findings.append("monitor: expected an explainer of a model, got one without a model")
    if not explainer.of_features:
        findings.append("monitor: expected an explainer of single features, got one of sets of features")
    if explainer.rows:
        findings.append(f"monitor: expected a new explainer, got one that has seen {explainer.rows:,} events")
    if settings.preset is not None:
        findings.append(f"monitor: expected the values of the preset {settings.preset!r}, got its name")
    if findings or explainer.live is None:
        raise SettingsError(findings)
    return explainer.live
