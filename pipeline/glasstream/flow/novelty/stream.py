"""Novelty detector of one stream: it scores every accepted event with the map that is valid at the event's seq.

Another process fits a map to a window whose newest event has seq s. The map is valid from seq s + D on, where D is the
configured delay. When the next event is s + D, the stream is `due` and takes no event until the caller gives it the
map.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.errors import StateError
from glasstream.base.form import MOST, Count, Field
from glasstream.detect.drift.adwin import Adwin
from glasstream.detect.novelty import scorer as codec
from glasstream.detect.novelty.fit import Request
from glasstream.detect.novelty.level import ALARMS, FLAGS, LEAST, follow
from glasstream.detect.novelty.level import MOST as MOST_LEVEL
from glasstream.detect.novelty.scorer import Scorer
from glasstream.detect.novelty.window import ROWS, Labelled, Window, WindowMeta, check_targets, matrix
from glasstream.events.admission import Accepted, Admission, Task, check_saved
from glasstream.events.features import FeatureTable, KeptFeatures, Kind
from glasstream.events.waiting import Joined, Waiting
from glasstream.flow.settings import Settings
from glasstream_topics import novelty
from glasstream_topics.errors import FrameError
from glasstream_topics.events import LARGEST, Event
from glasstream_topics.labels import Label

_KINDS: Final = {"number": float, "boolean": bool, "text": str}
_NUMBERS: Final = (
    "labelled", "next_due", "scored", "flagged", "alarms", "level", "slow_level", "fitted", "unfitted",
)  # fmt: skip
"""Names of the numeric attributes that the state contains."""
_OF: Final = "novelty detector"
_WAITING: Final = {
    "seqs": Field("i8", ("events",), 0, MOST),
    "rows": Field("f8", ("waiting", "d"), -LARGEST, LARGEST, missing=True),
    "widths": Field("i8", ("waiting",), 0, MOST),
}
_MAP: Final = {"map": Field("u1", ("bytes",), 0, 255)}


class _Waiting(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the events that wait for their labels."""

    ids: list[str]
    labelled: list[bool]
    begun: bool
    joined: Count
    missed: Count
    dropped: Count = 0


class _Pending(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the request for the next map."""

    seq: Count
    classes: list[str]
    texts: list[int]


_Level = Annotated[float, msgspec.Meta(ge=LEAST, le=MOST_LEVEL)]


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of a stream."""

    seqs: Count
    task: Task | None
    target_kind: Literal["number", "boolean", "text"] | None
    classes: list[str]
    names: list[str]
    kinds: list[Kind]
    categories: list[list[str]]
    window: WindowMeta
    waiting: _Waiting
    pending: _Pending | None
    detector: dict[str, Any]
    labelled: Count
    next_due: Annotated[int, msgspec.Meta(ge=1, le=2 * MOST)]
    scored: Count
    flagged: Count
    alarms: Count
    level: _Level
    slow_level: _Level
    fitted: Count
    unfitted: Count


class Element(NamedTuple):
    """Event or label in a run of messages."""

    place: int
    """Number of events and labels before it in the run."""
    id: str
    event: Event | Label


class PlacedRecord(NamedTuple):
    """Record of one event."""

    place: int
    """Place of the event in its run."""
    record: bytes


@dataclass(slots=True)
class StreamDetector:
    """Novelty detector of one stream."""

    stream: str
    settings: Settings
    admission: Admission
    features: FeatureTable
    window: Window
    waiting: Waiting[KeptFeatures]
    labelled: int = 0
    next_due: int = 0
    """Number of labelled events at which the detector requests the next map."""
    pending: Request | None = None
    """Request for the next map."""
    asked: bool = False
    """Whether `pending` is new, so that `take_request` has not returned it yet."""
    scorer: Scorer | None = None
    detector: Adwin = field(default_factory=Adwin.empty)
    scored: int = 0
    flagged: int = 0
    alarms: int = 0
    level: float = 0.0
    """Level of the threshold of the flags: see `glasstream.detect.novelty.level`."""
    slow_level: float = 0.0
    """Level of the threshold of the alarms."""
    fitted: int = 0
    """Number of maps that have been used."""
    unfitted: int = 0
    """Number of windows to which no map could be fitted. The previous map stays in use."""
    reason: str = ""
    """Reason why no map could be fitted to the newest of these windows."""
    _map: bytes = b""
    """Encoded form of `scorer`."""

    @classmethod
    def empty(cls, stream: str, settings: Settings) -> "StreamDetector":
        """Return the detector of a new stream."""
        features = FeatureTable(settings.limits)
        window = Window(settings.novelty.window)
        waiting: Waiting[KeptFeatures] = Waiting(settings.labels.window, settings.limits.waiting_bytes)
        return cls(
            stream,
            settings,
            Admission(settings.model.chosen_task, limits=settings.limits),
            features,
            window,
            waiting,
            next_due=settings.novelty.window,
        )

    @property
    def seqs(self) -> int:
        """Number of accepted events."""
        return self.admission.seq

    @property
    def used(self) -> int:
        """Number of accepted events plus joined late labels, which together determine the state."""
        return self.seqs + self.waiting.joined

    @property
    def due(self) -> bool:
        """Whether the next event is the first that needs the pending map."""
        return self.pending is not None and self.seqs == self.pending.seq + self.settings.novelty.delay

    def give(self, data: bytes) -> None:
        """Set the map that is `due`, as returned by `glasstream.detect.novelty.fit.fit`.

        Raises
        ------
        FrameError
            The map is damaged or belongs to another window.
        """
        found = codec.decode(data, self.settings.novelty)
        if isinstance(found, Scorer):
            if self.pending is None or found.version != self.pending.seq:
                wanted = "no map" if self.pending is None else f"the map of seq {self.pending.seq}"
                raise FrameError(f"stream {self.stream!r}: expected {wanted}, got the one of seq {found.version}")
            self.scorer, self._map = found, bytes(data)
            self.fitted += 1
        else:
            self.reason = found
            self.unfitted += 1
        self.pending, self.asked = None, False

    def take_request(self) -> list[Request]:
        """Return the pending request if it is new, and mark it as taken."""
        asked, self.asked = self.asked, False
        return [self.pending] if asked and self.pending is not None else []

    def take(self, events: Sequence[Element]) -> tuple[int, list[PlacedRecord]]:
        """Take events and labels in order, up to the next event that must wait for a map.

        Returns
        -------
        The number of elements taken, and the records of the scored events. The places where events are cut into calls
        change no result.
        """
        batch: list[tuple[int, int, str]] = []
        rows: list[list[float]] = []
        taken = 0
        for place, event_id, event in events:
            if self.due:
                break
            taken += 1
            if isinstance(event, Label):
                label = self.waiting.join(event, self.admission)
                if isinstance(label, Joined):
                    self._learn(Labelled(label.seq, list(label.kept.values), label.target))
                continue
            outcome = self.admission.admit(event)
            if not isinstance(outcome, Accepted):
                continue
            values, _ = self.features.encode(event.x)
            row = list(values)
            if self.scorer is not None:
                batch.append((place, outcome.seq, event_id))
                rows.append(row)
            if outcome.target is not None:
                if event.id is not None:
                    self.waiting.labelled(event_id, outcome.seq)
                self._learn(Labelled(outcome.seq, row, outcome.target))
            elif event.id is not None:
                self.waiting.add(event_id, outcome.seq, KeptFeatures(None, array("d", row)))
        if self.scorer is None or not batch:
            return taken, []
        return taken, self._score(self.scorer, batch, rows)

    def _learn(self, event: Labelled) -> None:
        self.window.add(event)
        self.labelled += 1
        if self.labelled >= self.next_due and self.pending is None:  # many late labels may precede the next event
            self.next_due = self.labelled + self.settings.novelty.stride
            self.pending = self.window.request(self.stream, self.seqs - 1, self.settings.novelty.age, self.features)
            self.asked = True

    def _score(self, scorer: Scorer, batch: list[tuple[int, int, str]], rows: list[list[float]]) -> list[PlacedRecord]:
        width = scorer.features
        matrix = np.array([row[:width] for row in rows], np.float64)
        scores = scorer.score(matrix)
        indicators, held, rate = scores.indicators.tolist(), scorer.threshold, self.settings.novelty.rate
        self.level, thresholds = follow(self.level, indicators, held, FLAGS, rate)
        self.slow_level, slow = follow(self.slow_level, indicators, held, ALARMS, rate)
        beyond = (scores.indicators > np.array(slow))[:, np.newaxis].astype(np.float64)
        raised = self.detector.update(beyond, self.settings.novelty.detector)
        alarms = {alarm.row: novelty.Alarm(alarm.before, alarm.after, alarm.width) for alarm in raised}
        slopes: dict[int, dict[str, float]] = {}
        flagged = np.flatnonzero(scores.indicators > np.array(thresholds))
        if self.settings.novelty.attribution and len(flagged):
            names = self.features.names[:width]
            given = scorer.attributions(matrix[flagged], scores.maps[flagged].tolist())
            slopes = {
                int(row): dict(zip(names, one, strict=True)) for row, one in zip(flagged.tolist(), given, strict=True)
            }
        self.scored += len(batch)
        self.flagged += len(flagged)
        self.alarms += len(alarms)
        numbers = zip(batch, indicators, scores.baselines.tolist(), thresholds, strict=True)
        return [
            PlacedRecord(
                place,
                novelty.encode(
                    epoch=self.settings.epoch,
                    stream=self.stream,
                    seq=seq,
                    id=event_id,
                    indicator=indicator,
                    baseline=baseline,
                    threshold=threshold,
                    held_threshold=held,
                    flagged=indicator > threshold,
                    map_version=scorer.version,
                    attribution=slopes.get(row),
                    alarm=alarms.get(row),
                ),
            )
            for row, ((place, seq, event_id), indicator, baseline, threshold) in enumerate(numbers)
        ]

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor as JSON values and arrays. The successor requests a pending map again."""
        kind = self.admission.target_kind
        window, arrays = self.window.state(len(self.features))
        waiting, awaited = _waiting_state(self.waiting, len(self.features))
        detector, detecting = self.detector.state()
        meta: dict[str, Any] = {
            "seqs": self.seqs,
            "task": self.admission.task,
            "target_kind": next((name for name, one in _KINDS.items() if one is kind), None),
            "classes": list(self.admission.classes),
            "names": self.features.names,
            "kinds": [int(one) for one in self.features.kinds],
            "categories": [list(codes) for codes in self.features.categories],
            "window": window,
            "waiting": waiting,
            "pending": None,
            "detector": detector,
            **{name: getattr(self, name) for name in _NUMBERS},
        }
        made = {f"window/{name}": array for name, array in arrays.items()}
        made |= {f"waiting/{name}": array for name, array in awaited.items()}
        made |= {f"detector/{name}": array for name, array in detecting.items()}
        if self.pending is not None:
            asked = self.pending
            meta["pending"] = {"seq": asked.seq, "classes": list(asked.classes), "texts": list(asked.texts)}
            made |= {"pending/rows": asked.rows, "pending/targets": asked.targets}
        if self._map:
            made["map"] = np.frombuffer(self._map, np.uint8)
        return meta, made

    @classmethod
    def restore(
        cls, stream: str, settings: Settings, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "StreamDetector":
        """Restore the detector from a saved state, and request its pending map again.

        Raises
        ------
        StateError
            The state is incomplete or damaged.
        """
        try:
            return cls._restored(stream, settings, form.values(meta, _Meta, _OF), arrays)
        except FrameError as error:
            raise StateError(
                f"progress.novelty: expected a state of stream {stream!r} that this version wrote; {error}; use the "
                f"version that wrote it, or {form.NEW_EPOCH}"
            ) from error

    @classmethod
    def _restored(
        cls, stream: str, settings: Settings, saved: _Meta, arrays: Mapping[str, NDArray[Any]]
    ) -> "StreamDetector":
        """Return the detector with a saved state; raise FrameError if no stream can have it."""
        made, limits = cls.empty(stream, settings), settings.limits
        kind = None if saved.target_kind is None else _KINDS[saved.target_kind]
        check_saved(saved.task, kind, saved.classes, settings.model.chosen_task, limits, _OF)
        made.admission = Admission(saved.task, saved.seqs, kind, limits, dict.fromkeys(saved.classes))
        made.features = FeatureTable.of_state(limits, saved.names, saved.kinds, saved.categories, _OF)
        known = saved.classes if saved.task is Task.CLASSIFICATION else None
        made.window.restore(saved.window, form.part("window/", arrays), saved.seqs, made.features, known)
        _restore_waiting(made.waiting, saved.waiting, form.part("waiting/", arrays), saved.seqs, made.features)
        made.detector = Adwin.restore(saved.detector, form.part("detector/", arrays), settings.novelty.detector, 1)
        for name in _NUMBERS:
            setattr(made, name, getattr(saved, name))
        latest = max(settings.novelty.window, saved.labelled + settings.novelty.stride)
        form.expect(saved.next_due <= latest, f"the next map at {latest} labels at most", saved.next_due, _OF)
        form.expect(
            saved.seqs <= MOST // 2, f"events up to {MOST // 2}, so that later ones can be counted", saved.seqs, _OF
        )
        form.expect(saved.labelled <= saved.seqs, f"labels of {saved.seqs} events at most", saved.labelled, _OF)
        if saved.pending is not None:
            own = form.part("pending/", arrays)
            made.pending, made.asked = made._restored_request(saved.pending, own, known), True
        if "map" in arrays:
            made._map = form.read(_MAP, arrays, _OF)["map"].tobytes()
            scorer = codec.decode(made._map, settings.novelty)
            if not isinstance(scorer, Scorer):
                raise FrameError(f"{_OF}: expected a fitted map, got the reason why none was fitted: {scorer}")
            form.expect(scorer.features <= len(saved.names), "a map of the stream's features", scorer.features, _OF)
            form.expect(0 <= scorer.version < saved.seqs, f"a map of an event before {saved.seqs}", scorer.version, _OF)
            made.scorer = scorer
        return made

    def _restored_request(
        self, saved: _Pending, arrays: Mapping[str, NDArray[Any]], known: Sequence[str] | None
    ) -> Request:
        """Return the request for the next map of a saved state; raise FrameError if it is not due later."""
        of, delay = "request for a map", self.settings.novelty.delay
        found = form.read(ROWS, arrays, of)
        rows, texts = found["rows"], tuple(saved.texts)
        form.expect(
            saved.seq < self.seqs <= saved.seq + delay, f"events {saved.seq} to {saved.seq + delay}", self.seqs, of
        )
        fits = len(rows) <= self.window.size and rows.shape[1] <= len(self.features) and self.features.can_hold(rows)
        form.expect(fits, f"at most {self.window.size} rows of the stream's features", rows.shape, of)
        kinds = self.features.kinds[: rows.shape[1]]
        wanted = tuple(slot for slot, kind in enumerate(kinds) if kind is Kind.TEXT)
        form.expect(texts == wanted, f"texts in the columns {wanted}", texts, of)
        check_targets(saved.classes, found["targets"], known, of)
        return Request(self.stream, saved.seq, rows, found["targets"], tuple(saved.classes), texts)


def _waiting_state(waiting: Waiting[KeptFeatures], width: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the state of the waiting events for `_restore_waiting`."""
    kept = [row.values for _, row in waiting.events.values() if row is not None]
    meta = {
        "ids": list(waiting.events),
        "labelled": [row is None for _, row in waiting.events.values()],
        "begun": waiting.begun,
        "joined": waiting.joined,
        "missed": waiting.missed,
        "dropped": waiting.dropped,
    }
    seqs = np.array([seq for seq, _ in waiting.events.values()], np.int64)
    widths = np.array([len(row) for row in kept], np.int64)
    return meta, {"seqs": seqs, "rows": matrix(kept, width), "widths": widths}


def _restore_waiting(
    waiting: Waiting[KeptFeatures],
    saved: _Waiting,
    arrays: Mapping[str, NDArray[Any]],
    seqs: int,
    features: FeatureTable,
) -> None:
    of, without = "events that wait for labels", saved.labelled.count(False)
    found = form.read(_WAITING, arrays, of, events=len(saved.ids), waiting=without, d=len(features))
    numbers = found["seqs"]
    form.expect(
        len(set(saved.ids)) == len(saved.ids) == len(saved.labelled),
        "distinct ids, each with or without a label",
        saved.ids,
        of,
    )
    form.expect(len(numbers) <= waiting.window, f"at most {waiting.window} events", len(numbers), of)
    form.expect(saved.begun or not saved.ids, "none before the first has waited", len(saved.ids), of)
    ascending = (np.diff(numbers) > 0).all() and numbers.max(initial=-1) < seqs
    form.expect(ascending, f"events before {seqs} in their order", numbers, of)
    form.expect(features.can_hold(found["rows"]), "values of the stream's features", "others", of)
    form.expect((found["widths"] <= len(features)).all(), f"at most {len(features)} values", found["widths"], of)
    pairs = zip(found["rows"].tolist(), found["widths"].tolist(), strict=True)
    kept = (KeptFeatures(None, array("d", row[:width])) for row, width in pairs)
    for event_id, labelled, seq in zip(saved.ids, saved.labelled, numbers.tolist(), strict=True):
        waiting.resume(event_id, seq, None if labelled else next(kept))
    waiting.begun, waiting.joined = saved.begun, saved.joined
    waiting.missed, waiting.dropped = saved.missed, saved.dropped
