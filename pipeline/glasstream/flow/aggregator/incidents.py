"""Incidents and weak segments of one stream: rows go through the watch, and what is found becomes records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import Count
from glasstream.detect.incidents.segments import WeakSegments
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.explain.method import OutputRecord, Signals
from glasstream.flow.settings import Settings
from glasstream_topics import incidents, segments, watching
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import EFFECTS, LABELLED

_METHOD: Final = "attributions"
_OF: Final = "incidents of events"


class _MetaOfEvents(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of the watch of events without labels."""

    events: Count
    version: Count
    watch: dict[str, Any]


@dataclass(slots=True)
class Incidents:
    """Incidents of one stream. They are a function of its explained rows in order, however blocks are cut."""

    watch: IncidentWatch
    weak: WeakSegments | None = None
    """Weak segments, whose bins are those of the watch; None if none are looked for."""
    of_events: IncidentWatch | None = None
    """The watch of events without labels; None if no method explains single predictions."""
    events: int = 0
    """Number of the events that it got."""
    version: int = 0
    """Version of the model that explained the newest of them."""

    @classmethod
    def empty(cls, stream: str, settings: Settings) -> "Incidents | None":
        """Return the state before any row, or None if the stream is not watched."""
        if not settings.drift.finds_incidents:
            return None
        watched = stream, settings.epoch, settings.seed, settings.drift.budget
        level = settings.segments.level
        weak = WeakSegments(stream, settings.epoch, level) if level > 0.0 else None
        if _METHOD not in settings.explain.names:
            return cls(IncidentWatch(*watched, learns=settings.model.learns), weak)
        # Odd and even numbers: which watch is the first to open an incident depends on how blocks are cut.
        of_rows = IncidentWatch(*watched, learns=settings.model.learns, step=2)
        return cls(of_rows, weak, IncidentWatch(*watched, labelled=False, step=2))

    def update(
        self, block: Contributions, rows: slice, first_row: int, signals: Mapping[str, Signals]
    ) -> Iterator[tuple[int, OutputRecord]]:
        """Add rows of a block, and return the records of the incidents that they open, change or end, of the watch, and
        of weak segments. Each record comes with the place of its newest row among these rows.

        Parameters
        ----------
        rows
            Places of the rows among those of the block that have a label.
        first_row
            Number of the first of these rows.
        signals
            What the methods returned for these rows, by the name of the method. The first importance is watched.
        """
        places = np.flatnonzero(block.has(LABELLED))[rows]
        importance = (values["importance"] for values in signals.values() if "importance" in values)
        whole = Rows(
            first_row=first_row,
            seqs=block.seqs[places],
            times=[block.times[place] for place in places] if block.times else [],
            names=block.names,
            kinds=block.kinds,
            inputs=block.values["inputs"][rows],
            target=block.values["target"][rows],
            classes=[*block.classes, *block.new_classes],
            loss=block.values["loss"][rows],
            loss_name=block.loss,
            importance=next(importance, None),
            texts=block.texts,
        )
        for part in self._parts(whole):
            yield from ((one.row - first_row, _record(one)) for one in self.watch.update(part))
            yield from ((one.row - first_row, _watched(one)) for one in self.watch.taken())
            weak = self._looked(part)
            if weak is not None:
                yield weak.row - first_row, _weak(weak)

    def _parts(self, rows: Rows) -> Iterator[Rows]:
        """Yield rows in parts that end where weak segments are looked for: the bins are then those of that row."""
        begin = 0
        while begin < len(rows.loss):
            most = len(rows.loss) if self.weak is None else self.weak.until_due
            yield rows.part(slice(begin, begin + most))
            begin += most

    def _looked(self, rows: Rows) -> segments.Segments | None:
        """Add rows to the weak segments, and return their record if one is due at the newest row."""
        weak, count = self.weak, len(rows.loss)
        if weak is None:
            return None
        weak.widen(rows.names, rows.kinds)
        weak.add(rows.inputs, rows.loss, rows.importance)
        if weak.until_due:
            return None
        newest, texts = rows.first_row + count - 1, self.watch.recent.texts
        return weak.look(newest, int(rows.seqs[-1]), rows.loss_name, self.watch.series, texts)

    def update_events(
        self, block: Contributions, events: slice, signals: Mapping[str, Signals]
    ) -> Iterator[tuple[int, OutputRecord]]:
        """Add events of a block, and return the records of the incidents in those without a label, and of the watch.

        Each record comes with the place of its newest event among these events.

        Parameters
        ----------
        events
            Places of the events among those of the block that have effects.
        signals
            What the methods returned for these events, by the name of the method.
        """
        if self.of_events is None:
            return
        places = np.flatnonzero(block.has(EFFECTS))[events]
        chosen = (block.values[f"{_METHOD}.output"][events] >= 0) & ~block.has(LABELLED)[places]
        places, count, among = places[chosen], int(chosen.sum()), np.flatnonzero(chosen)
        if not count:
            return
        if block.version != self.version:
            self.of_events.learned()
            self.version = block.version
        place_of = dict(zip(block.seqs[places].tolist(), among.tolist(), strict=True))
        found = self.of_events.update(
            Rows(
                first_row=self.events,
                seqs=block.seqs[places],
                times=[block.times[place] for place in places] if block.times else [],
                names=block.names,
                kinds=block.kinds,
                inputs=block.values[f"{_METHOD}.inputs"][events][chosen],
                target=np.zeros(count),
                classes=[],
                loss=np.zeros(count),
                loss_name=block.loss,
                importance=signals[_METHOD]["importance"][chosen],
                texts=block.texts,
            )
        )
        yield from [(place_of[one.seq], _record(one)) for one in found]
        yield from [(place_of[one.seq], _watched(one)) for one in self.of_events.taken()]
        self.events += count

    @property
    def verdicts(self) -> set[str]:
        """Verdicts of the open incidents."""
        watches = (self.watch, self.of_events)
        return {watch.verdict for watch in watches if watch is not None and watch.verdict is not None}

    def replaced(self, row: int, seq: int, time: int | None, loss_name: str) -> Iterator[OutputRecord]:
        """Return the records about a model that was replaced; see `IncidentWatch.replace`."""
        if self.of_events is not None:
            yield from map(_record, self.of_events.replace(row, seq, time, loss_name))
            yield from map(_watched, self.of_events.taken())
        yield from map(_record, self.watch.replace(row, seq, time, loss_name))
        yield from map(_watched, self.watch.taken())

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        return self.watch.state()

    def state_of_segments(self) -> tuple[dict[str, Any] | None, dict[str, NDArray[Any]]]:
        """Return the state of the weak segments in the same way; None if none are looked for."""
        return (None, {}) if self.weak is None else self.weak.state()

    def state_of_events(self) -> tuple[dict[str, Any] | None, dict[str, NDArray[Any]]]:
        """Return the state of the watch of events without labels in the same way; None if there is none."""
        if self.of_events is None:
            return None, {}
        meta, arrays = self.of_events.state()
        return {"events": self.events, "version": self.version, "watch": meta}, arrays

    def restore(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], row: int, features: Sequence[tuple[str, int]]
    ) -> None:
        """Restore the incidents from a saved state.

        Parameters
        ----------
        row
            The newest row.
        features
            Names and kinds of the stream's features.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        self.watch.restore(meta, arrays, row, features)

    def restore_segments(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], row: int, features: Sequence[tuple[str, int]]
    ) -> None:
        """Restore the weak segments from a saved state, after the incidents; see `restore`."""
        form.expect((meta is None) == (self.weak is None), "a state of weak segments", meta, "segments")
        if self.weak is not None:
            self.weak.restore(meta, arrays, row, features, self.watch.recent.texts)

    def restore_events(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], features: Sequence[tuple[str, int]]
    ) -> None:
        """Restore the watch of events without labels from a saved state; see `restore`."""
        form.expect((meta is None) == (self.of_events is None), "a state of the watch of events", meta, _OF)
        if self.of_events is not None:
            saved = form.values(meta, _MetaOfEvents, _OF)
            self.events, self.version = saved.events, saved.version
            self.of_events.restore(saved.watch, arrays, self.events, features)


def _record(incident: incidents.Incident) -> OutputRecord:
    return OutputRecord(incidents.TOPIC.name, incidents.key(incident.stream), incidents.encode(incident))


def _weak(record: segments.Segments) -> OutputRecord:
    fields = {name: value for name, value in msgspec.structs.asdict(record).items() if name != "schema_version"}
    return OutputRecord(segments.TOPIC.name, segments.key(record.stream), segments.encode(**fields))


def _watched(record: watching.Watching) -> OutputRecord:
    fields = {name: value for name, value in msgspec.structs.asdict(record).items() if name != "schema_version"}
    key = watching.key(record.stream, unlabelled=record.unlabelled)
    return OutputRecord(watching.TOPIC.name, key, watching.encode(**fields))
