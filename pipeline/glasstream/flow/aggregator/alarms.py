"""The alarms of one stream: what its rows say goes through the detectors, and what they find becomes records.

An alarm carries two smoothed curves of its feature where iPDP is among the methods: the one at its own row, and one
from before the change. For that the curves are kept as they are after every `EVERY`-th row, the newest `KEPT` of them;
the one before the change is the newest that no number on the newer side of the change has entered, or the oldest kept.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, Before
from glasstream.detect.drift.monitor import Detection, DriftMonitor, Smoothed, WatchedSignal
from glasstream.explain.method import HasCurves, MethodAggregator, Moment, OutputRecord, Signals
from glasstream.flow.settings import Settings
from glasstream_topics import drift
from glasstream_topics.contributions import Contributions
from glasstream_topics.drift import CurveFields
from glasstream_topics.methods import BOTH, EFFECTS, LABELLED, METHODS

EVERY, KEPT = 1_000, 4
"""With α = 0.001, the default, a smoothed curve looks back on about 1,000 rows."""

_ATTRIBUTIONS: Final = "attributions"
_OF_CURVES = ("pd_importance", "curve_shape")
_OF: Final = "drift alarms"

Curves = Mapping[int, list[CurveFields]]


class _Kept(NamedTuple):
    row: int
    """The newest in the curves."""
    curves: Curves
    learned: int
    """The newest labelled row by then; the same row, unless effects need no label."""


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of `Alarms`."""

    detectors: dict[str, dict[str, Any]]
    kept: Annotated[
        list[tuple[Before, list[tuple[form.Count, list[CurveFields]]], Before]], msgspec.Meta(max_length=KEPT)
    ]


@dataclass(slots=True)
class Alarms:
    """Drift alarms of one stream. They are a function of its rows in order, however blocks are cut."""

    settings: Settings
    watch: DriftMonitor
    kept: list[_Kept] = field(default_factory=list)
    attributed: Smoothed = field(default_factory=Smoothed)
    """The summed absolute contributions of an event, smoothed."""

    @classmethod
    def empty(cls, settings: Settings) -> "Alarms | None":
        """Return the state before any row, or None if nothing is watched."""
        watch = DriftMonitor(settings.drift, settings.seed, settings.explain.alpha)
        return cls(settings, watch) if settings.drift.signals else None

    def update(
        self,
        block: Contributions,
        rows: slice,
        signals: Mapping[str, Signals],
        curves_at: Callable[[int], HasCurves] | None,
        moment: Callable[[int], Moment],
        part: int,
    ) -> Iterator[tuple[int, bool, OutputRecord]]:
        """Feed rows of a block to the detectors, and yield what they find.

        Each alarm comes as the index of its row, whether it is about the loss, and its record. Alarms of one row are
        published in this order: those about features first.

        Parameters
        ----------
        signals
            What the methods returned for these rows, by the name of the method.
        curves_at
            Function that returns the curves as of the i-th row; None if no method has any.
        moment
            Function that returns the moment of the i-th row, for its records.
        part
            Part of the explanation that all of these rows have: `LABELLED`, `EFFECTS`, or both.
        """
        watched = [
            self._watched(signal, method, said)
            for method, said in signals.items()
            for signal in self.settings.drift.signals
            if signal in said
        ]
        if "loss" in self.settings.drift.signals and part & LABELLED:
            watched.append(WatchedSignal("loss", "", block.values["loss"][rows, np.newaxis], smooth=True))
        attributed = None
        if "importance" in signals.get(_ATTRIBUTIONS, {}):
            sums = signals[_ATTRIBUTIONS]["importance"].sum(axis=1, keepdims=True)
            attributed = self.attributed.update(np.minimum(sums, LARGEST), self.settings.explain.alpha)
        series = None if part == BOTH else self._series(len(block.names))
        for found in self.watch.feed(watched, series):
            at, about_loss = found.alarm.row, found.signal == "loss"
            if found.method == _ATTRIBUTIONS and attributed is not None and not self._large(found, attributed[at, 0]):
                continue
            if curves_at is not None:
                curves = curves_at(at)
                if not self._tells(found, curves):
                    continue
                yield at, about_loss, self._record(found, moment(at), curves.named_curves(), part)
            else:
                yield at, about_loss, self._record(found, moment(at), {}, part)

    def _series(self, width: int) -> int:
        """Return how many series of a stream with `width` features are watched in all."""
        names = self.settings.explain.names
        columns = {"loss": 1, "importance": width * sum(METHODS[name].per_feature for name in names)}
        return sum(columns.get(signal, width) for signal in self.settings.drift.signals)

    def keep(self, methods: Sequence[MethodAggregator], row: int, learned: int) -> None:
        """Keep the curves as of a row, when `learned` is the newest labelled row."""
        now = [_Kept(row, method.named_curves(), learned) for method in methods if isinstance(method, HasCurves)]
        self.kept = [*self.kept, *now][-KEPT:]

    def _watched(self, signal: str, method: str, said: Mapping[str, NDArray[Any]]) -> WatchedSignal:
        curve_importance = signal == "pd_importance"  # what is smoothed there is the curve, not its importance
        return WatchedSignal(signal, method, said[signal], smooth=not curve_importance)

    def _tells(self, found: Detection, curves: HasCurves) -> bool:
        """Return whether a change of a curve is large compared with the importance of all curves together."""
        if found.signal not in _OF_CURVES or self.settings.drift.min_change == 0.0:
            return True
        squares = self.settings.drift.pd == "squares" and found.signal == "pd_importance"
        return self._large(found, curves.total_importance(squares=squares))

    def _large(self, found: Detection, whole: float) -> bool:
        """Return whether a change is large compared with the importance of all features together."""
        return abs(found.alarm.after - found.alarm.before) >= self.settings.drift.min_change * whole

    def _record(self, found: Detection, moment: Moment, now: Curves, part: int) -> OutputRecord:
        alarm = found.alarm
        change = moment.row - alarm.width + 1
        older = [kept for kept in self.kept if (kept.row if part & EFFECTS else kept.learned) < change] or self.kept[:1]
        is_loss = found.signal == "loss"
        before, after = (None, None) if is_loss else _pair(
            older[-1].curves.get(alarm.series, []) if older else [], now.get(alarm.series, [])
        )  # fmt: skip
        return OutputRecord(
            drift.TOPIC.name,
            drift.key(moment.stream),
            drift.encode(
                epoch=self.settings.epoch,
                stream=moment.stream,
                row=moment.row,
                seq=moment.seq,
                ts=moment.ts,
                signal=found.signal,
                feature=None if is_loss else moment.names[alarm.series],
                method=found.method or None,
                model_version=moment.version,
                coverage=moment.coverage,
                before=alarm.before,
                after=alarm.after,
                width=alarm.width,
                curve_before=before,
                curve_after=after,
                detector=self.settings.drift.detector,
                parameters=found.parameters,
            ),
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta, arrays = self.watch.state()
        if len(self.attributed.sums):
            arrays["attributed"] = self.attributed.sums.copy()
        kept = [[one.row, [[slot, curves] for slot, curves in one.curves.items()], one.learned] for one in self.kept]
        return {"detectors": meta, "kept": kept}, arrays

    def restore(self, meta: object, arrays: Mapping[str, NDArray[Any]], features: int) -> None:
        """Restore the alarms from a saved state.

        Parameters
        ----------
        features
            Number of features of the stream.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        saved = form.values(meta, _Meta, _OF)
        self.watch.restore(saved.detectors, arrays, self.settings.explain.names, features)
        if "attributed" in arrays:
            self.attributed = Smoothed.restored(arrays["attributed"], self.settings.explain.alpha, 1, _OF)
        for curve in (curve for _, held, _ in saved.kept for _, curves in held for curve in curves):
            points, answers = len(curve["grid"]), len(curve["curve"])
            form.expect(0 < points == answers, f"a curve with {points} answers", answers, _OF)
        self.kept = [_Kept(row, dict(held), learned) for row, held, learned in saved.kept]


def _pair(before: list[CurveFields], after: list[CurveFields]) -> tuple[CurveFields | None, CurveFields | None]:
    """Return the curves before and after for the output that moved furthest, or the first if none can be compared."""
    known = {one["output"]: one for one in before}
    pairs = [(known.get(one["output"]), one) for one in after]
    if not pairs:
        return (before[0] if before else None), None
    return max(pairs, key=lambda pair: _moved(*pair))


def _moved(before: CurveFields | None, after: CurveFields) -> float:
    if before is None:
        return -1.0
    return max(abs(now - then) for then, now in zip(before["curve"], after["curve"], strict=False))
