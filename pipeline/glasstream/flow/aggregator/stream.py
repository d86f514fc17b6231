"""Aggregator of one stream: put contributions in the order of their rows, smooth them, and publish estimates.

Blocks may arrive in any order, twice, and cut differently each time. Only the row numbers count. Rows that are already
aggregated are dropped, a block that contains some of them is trimmed, and a block that is ahead waits. A reset mark is
the last block of an epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.errors import StateError
from glasstream.base.form import Before, Count
from glasstream.explain.losses import LOSSES
from glasstream.explain.method import HasCurves, HasEvents, MethodAggregator, Moment, OutputRecord, Signals
from glasstream.explain.registry import REGISTRY
from glasstream.explain.sizes import REASON
from glasstream.flow.aggregator.alarms import EVERY, Alarms
from glasstream.flow.aggregator.incidents import Incidents
from glasstream.flow.aggregator.timeline import Span, Timeline
from glasstream.flow.settings import Settings
from glasstream_topics.blocks import Time
from glasstream_topics.contributions import Contributions
from glasstream_topics.errors import FrameError
from glasstream_topics.methods import BOTH, EFFECTS, LABELLED, METHODS
from glasstream_topics.progress_aggregator import unexplained

NOTHING = 100
"""Number of consecutive rows that could not be explained after which a stream counts as not explained."""

_OF: Final = "rows"
"""What is wrong with the values of a state that belong to no part of it, for errors."""


class _Meta(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of a stream."""

    next_row: Count
    published_row: Before
    explained: Count
    failed: Count
    timelines: list[tuple[Before, Count, Before, Time | None]]
    version: Count
    loss: str
    staleness: float | None
    names: list[str]
    kinds: list[Annotated[int, msgspec.Meta(ge=0, le=2)]]
    methods: dict[str, dict[str, Any]]
    drift: dict[str, Any] | None = None
    incidents: dict[str, Any] | None = None
    segments: dict[str, Any] | None = None
    events: dict[str, Any] | None = None


_AHEAD: Final = 100_000
"""Rows by which a block may be further ahead than learners are: they look at how far they are now and then only."""
_BLOCK_BYTES: Final = 4_096
"""Memory of a block that waits, without its arrays."""


@dataclass(slots=True)
class _Waiting:
    """A block that is ahead, and the offset of its message."""

    block: Contributions
    offset: int

    @property
    def size(self) -> int:
        """Number of bytes that it takes."""
        return _BLOCK_BYTES + self.block.seqs.nbytes + sum(array.nbytes for array in self.block.values.values())


@dataclass(slots=True)
class StreamAggregator:
    """Aggregator of one stream.

    Parameters
    ----------
    stream
        Name of the stream.
    settings
        All settings, with the stream's own epoch.
    """

    stream: str
    settings: Settings
    next_row: int
    methods: list[MethodAggregator]
    timelines: list[Timeline]
    """The numbering of rows, first; with `explain.unlabelled`, then that of events."""
    alarms: Alarms | None = None
    """Drift detectors; None if no signal is watched."""
    incidents: Incidents | None = None
    """Incidents; None if the stream is not watched for any."""
    explained: int = 0
    published_row: int = -1
    """Entry at which records were last due. Records exist only if a row had been explained by then."""
    version: int = 0
    """Version of the model that explained the newest aggregated row."""
    loss: str = ""
    staleness: float | None = None
    """Staleness of that model."""
    names: list[str] = field(default_factory=list)
    """Names of the features as of the newest aggregated row."""
    failed: int = 0
    cause: str = ""
    """Why the first of the failed rows could not be explained; empty while there is none."""
    failing: int = 0
    """Number of rows since the newest explained one that could not be explained."""
    ended: bool = False
    """Whether all rows before a reset mark are aggregated, so that the epoch has no more rows."""
    dropped: int = 0
    """Number of blocks that have waited and did not fit the rows before them."""
    waiting_bytes: int = 0
    """Bytes of the blocks that wait."""
    _features: list[tuple[str, int]] = field(default_factory=list)
    """Name and kind of every feature that occurred in an aggregated block."""
    _waiting: dict[int, _Waiting] = field(default_factory=dict)
    records: list[OutputRecord] = field(default_factory=list)
    """Published records that the caller has not taken yet."""
    _by_event: list[HasEvents] = field(init=False)
    """The methods that publish records of single events."""
    _curves: HasCurves | None = field(init=False)
    """The method that has curves. Both are looked up once, because `isinstance` of a protocol is slow."""

    def __post_init__(self) -> None:
        self._by_event = [method for method in self.methods if isinstance(method, HasEvents)]
        self._curves = next((method for method in self.methods if isinstance(method, HasCurves)), None)

    @classmethod
    def empty(cls, stream: str, settings: Settings) -> "StreamAggregator":
        """Return the aggregator of a new stream. Its first row is t0."""
        methods = [REGISTRY[name].aggregator(settings) for name in settings.explain.names]
        first_row = settings.explain.first_row
        timelines = [Timeline(BOTH, first_row - 1)]
        if settings.explain.every_event:
            timelines = [Timeline(LABELLED, first_row - 1), Timeline(EFFECTS, -1)]
        alarms, incidents = Alarms.empty(settings), Incidents.empty(stream, settings)
        return cls(stream, settings, first_row, methods, timelines, alarms, incidents)

    @property
    def coverage(self) -> float:
        """Explained entries divided by those that could have been explained; 1 before the first."""
        explainable = self.next_row - self.settings.explain.first_row
        return self.explained / explainable if explainable else 1.0

    @property
    def waiting(self) -> int:
        """Number of blocks that are ahead."""
        return len(self._waiting)

    @property
    def oldest_waiting(self) -> int | None:
        """Lowest offset of a waiting block; None if no block waits."""
        return min((waiting.offset for waiting in self._waiting.values()), default=None)

    def offer(self, block: Contributions, offset: int) -> None:
        """Accept a block: aggregate the rows that are next, and keep rows that are ahead.

        Raises
        ------
        FrameError
            The block's features contradict those of earlier blocks, so it does not belong to this stream.
        """
        if block.count and bool(block.parts) != self.settings.explain.every_event:
            raise FrameError(
                f"contributions of stream {block.stream!r}, first row {block.first_row}: expected the parts of every "
                "entry with explain.unlabelled, and none without; give all stages the same settings"
            )
        self._expect_features(block)
        if block.first_row > self.next_row:
            self._wait(block, offset)
            return
        self._aggregate(block)
        while self._waiting:
            ready = [row for row in self._waiting if row <= self.next_row]
            if not ready:
                return
            following = self._take_waiting(min(ready))
            try:
                self._expect_features(following)  # there may be more of them since it began to wait
            except FrameError:
                self.dropped += 1
            else:
                self._aggregate(following)

    def _wait(self, block: Contributions, offset: int) -> None:
        """Keep a block that is ahead; raise FrameError if it is further ahead than learners are."""
        limits = self.settings.limits
        most = self.next_row + limits.rows_ahead + _AHEAD
        if limits.lag == "wait" and block.first_row > most:
            raise FrameError(
                f"contributions of stream {block.stream!r}, first row {block.first_row}: expected one up to {most}, "
                f"{_AHEAD} beyond limits.rows_ahead; give all stages the same settings"
            )
        held = self._waiting.get(block.first_row)
        if held is not None:
            if block.count <= held.block.count and not block.ends:
                return
            # Of two blocks with the same first row, keep the longer one. The committed position must not pass the
            # lower of their offsets.
            offset = min(offset, self._waiting[block.first_row].offset)
            self._take_waiting(block.first_row)
        waiting = self._waiting[block.first_row] = _Waiting(block, offset)
        self.waiting_bytes += waiting.size

    def drop_furthest(self) -> None:
        """Drop the waiting block that is needed last. The learner sends its rows again when they are missing."""
        self._take_waiting(max(self._waiting))

    def _take_waiting(self, row: int) -> Contributions:
        waiting = self._waiting.pop(row)
        self.waiting_bytes -= waiting.size
        return waiting.block

    def _expect_features(self, block: Contributions) -> None:
        """Raise FrameError if the features of a block are not those of earlier rows, and perhaps more."""
        given = list(zip(block.names, block.kinds, strict=True))
        for slot, (before, now) in enumerate(zip(self._features, given, strict=False)):
            if before != now:
                raise FrameError(
                    f"expected feature {before[0]!r} of kind {before[1]} at {slot}, got {now[0]!r} of {now[1]}"
                )
        if block.kind == "ok" and len(given) < len(self._features) and block.first_row + block.count > self.next_row:
            raise FrameError(
                f"contributions of stream {block.stream!r}, first row {block.first_row}: expected the "
                f"{len(self._features)} features of earlier rows, got {len(given)}"
            )

    def _aggregate(self, block: Contributions) -> None:
        if block.flush_before and block.first_row == self.next_row:
            self._publish_if_new()
        if block.ends:
            self._publish_if_new()
            self.ended = True
            return
        skip = self.next_row - block.first_row
        if skip >= block.count:
            return
        if len(block.names) > len(self.names):
            self.names, self._features = list(block.names), list(zip(block.names, block.kinds, strict=True))
        if block.version != self.version and not self.settings.model.learns:
            self._note_replaced(block, skip)
        self.version = block.version
        self.loss = block.loss
        self.staleness = block.staleness
        spans = [timeline.span(block, skip) for timeline in self.timelines]
        due = [span.due(self.settings.publish.every) for span in spans]
        kept = [span.due(EVERY) for span in spans]
        # Records may be due after every entry. The detectors get the entries up to the next curves to keep in one turn.
        turns = np.logical_or.reduce(kept)
        turns[-1] = True
        begun, done = 0, 0
        signals: list[list[Mapping[str, Signals]]] = []
        before = self._curves_now()
        for end in (np.flatnonzero(np.logical_or.reduce([*due, turns])) + 1).tolist():
            entries = slice(done, end)
            if block.kind == "ok":
                signals.append(self._enter(block, skip, entries))
                self.explained += end - done
                self.failing = 0
            else:
                self._note_failed(end - done, block.reason)
            self.next_row += end - done
            done = end
            for timeline, span in zip(self.timelines, spans, strict=True):
                timeline.advance(span, entries)
            if turns[end - 1]:
                if signals:
                    self._watch(block, skip, slice(begun, end), spans, _joined(signals), before)
                for timeline, keeps in zip(self.timelines, kept, strict=True):
                    if self.alarms is not None and timeline.part & EFFECTS and keeps[end - 1]:
                        self.alarms.keep(self.methods, timeline.row, self.timelines[0].row)
                begun, signals, before = end, [], self._curves_now()
            for timeline, publishes in zip(self.timelines, due, strict=True):
                if publishes[end - 1]:
                    self._publish(timeline)

    def _note_failed(self, count: int, reason: str) -> None:
        """Count rows that could not be explained, and keep the cause of the first."""
        self.failed += count
        self.failing += count
        self.cause = self.cause or reason[:REASON]

    def unexplained(self) -> str | None:
        """Return how many rows could not be explained, and why the first could not; None if there is none."""
        if not self.failed:
            return None
        rows = self.next_row - self.settings.explain.first_row
        return unexplained(self.stream, self.failed, rows, self.cause)

    @property
    def explains_nothing(self) -> bool:
        """Whether no row, or none of the newest `NOTHING` rows, could be explained."""
        return self.failing >= NOTHING or (self.failed > 0 and self.explained == 0)

    def _curves_now(self) -> HasCurves | None:
        """Return a copy of the curves as they are, if alarms may need it."""
        return None if self._curves is None or self.alarms is None else self._curves.copy()

    def _note_replaced(self, block: Contributions, skip: int) -> None:
        """Publish that the model of the stream was replaced, if entries of another one are aggregated."""
        if self.incidents is not None and self.next_row > self.settings.explain.first_row:
            time = block.times[skip] if block.times else None
            row, seq = self.timelines[0].row + 1, int(block.seqs[skip])
            self.records.extend(self.incidents.replaced(row, seq, time, block.loss))

    def _enter(self, block: Contributions, skip: int, entries: slice) -> list[Mapping[str, Signals]]:
        """Add the next entries to every method, and return what is to be watched, per timeline and method.

        Entries count from `skip` on, as in the spans.
        """
        inside = slice(skip + entries.start, skip + entries.stop)
        signals: list[Mapping[str, Signals]] = []
        for timeline in self.timelines:
            own = block.within(timeline.part, inside)
            methods = [method for method in self.methods if METHODS[method.name].part & timeline.part]
            entered = methods if own.start < own.stop else []
            signals.append({method.name: method.update(block, own) for method in entered})
            for method in self._by_event:
                self.records.extend(method.taken())
        return signals

    def _watch(
        self,
        block: Contributions,
        skip: int,
        entries: slice,
        spans: Sequence[Span],
        signals: Sequence[Mapping[str, Signals]],
        before: HasCurves | None,
    ) -> None:
        """Give the newest entries to the detectors, whatever was published between them.

        Parameters
        ----------
        signals
            What the methods returned for these entries, per timeline.
        before
            The curves before these entries; None if no alarm needs any.
        """
        found: list[tuple[int, bool, OutputRecord]] = []
        opened: list[tuple[int, int, OutputRecord]] = []
        first, explained = self.next_row - entries.stop, self.explained - entries.stop
        inside = slice(skip + entries.start, skip + entries.stop)
        for timeline, span, said in zip(self.timelines, spans, signals, strict=True):
            part = timeline.part
            own = block.within(part, inside)
            if own.start == own.stop:
                continue
            places = (entries.start + np.flatnonzero(span.mask[entries])).tolist()

            def moment(index: int, places: Sequence[int] = places, span: Span = span) -> Moment:
                at = places[index]
                return self._moment(*span.moment(at), explained + at + 1, first + at)

            if self.alarms is not None:
                ends = [skip + at + 1 for at in places]
                curves = None if before is None else partial(_curves_at, before, block, inside.start, ends)
                alarms = self.alarms.update(block, own, said, curves, moment, part)
                found += ((places[index], about_loss, record) for index, about_loss, record in alarms)
            if self.incidents is not None and part & LABELLED:
                labelled = self.incidents.update(block, own, int(span.rows[places[0]]), said)
                opened += ((places[index], 0, record) for index, record in labelled)
            if self.incidents is not None and part == EFFECTS:
                unlabelled = self.incidents.update_events(block, own, said)
                opened += ((places[index], 1, record) for index, record in unlabelled)
        self.records.extend(record for *_, record in sorted(found, key=itemgetter(0, 1)))
        self.records.extend(record for *_, record in sorted(opened, key=itemgetter(0, 1)))

    def _moment(self, row: int, seq: int, ts: int | None, explained: int, entry: int) -> Moment:
        return Moment(
            stream=self.stream,
            row=row,
            seq=seq,
            ts=ts,
            version=self.version,
            coverage=explained / (entry + 1 - self.settings.explain.first_row),
            loss=self.loss,
            staleness=self.staleness,
            names=self.names,
        )

    def _publish_if_new(self) -> None:
        if self.next_row > self.settings.explain.first_row:
            for timeline in self.timelines:
                if timeline.published != timeline.row:
                    self._publish(timeline)
            self.published_row = self.next_row - 1

    def _publish(self, timeline: Timeline) -> None:
        """Publish the records of every method of a timeline as of its newest row, unless none has been explained."""
        timeline.published, self.published_row = timeline.row, self.next_row - 1
        moment = self._moment(timeline.row, timeline.seq, timeline.ts, self.explained, self.next_row - 1)
        for method in self.methods:
            if method.count and METHODS[method.name].part & timeline.part:
                self.records.extend(method.records(moment))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor, without waiting blocks: the successor reads them again."""
        meta: dict[str, Any] = {
            "next_row": self.next_row,
            "published_row": self.published_row,
            "explained": self.explained,
            "failed": self.failed,
            "timelines": [[one.row, one.seq, one.published, one.ts] for one in self.timelines],
            "version": self.version,
            "loss": self.loss,
            "staleness": self.staleness,
            "names": self.names,
            "kinds": [int(kind) for _, kind in self._features],
            "methods": {},
        }
        arrays: dict[str, NDArray[Any]] = {}
        for method in self.methods:
            meta["methods"][method.name], own = method.state()
            arrays |= {f"{method.name}/{name}": array for name, array in own.items()}
        if self.alarms is not None:
            meta["drift"], own = self.alarms.state()
            arrays |= {f"drift/{name}": array for name, array in own.items()}
        if self.incidents is not None:
            meta["incidents"], own = self.incidents.state()
            arrays |= {f"incidents/{name}": array for name, array in own.items()}
            meta["segments"], own = self.incidents.state_of_segments()
            arrays |= {f"segments/{name}": array for name, array in own.items()}
            meta["events"], own = self.incidents.state_of_events()
            arrays |= {f"events/{name}": array for name, array in own.items()}
        return meta, arrays

    @classmethod
    def restore(
        cls, stream: str, settings: Settings, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "StreamAggregator":
        """Restore the aggregator from a saved state.

        Raises
        ------
        StateError
            The state is damaged or forged, or another version wrote it.
        """
        try:
            return cls._restored(stream, settings, form.values(meta, _Meta, _OF), arrays)
        except FrameError as error:
            raise StateError(
                f"progress.aggregator: expected a state of stream {stream!r} that this version wrote; {error}; use the "
                f"version that wrote it, or {form.NEW_EPOCH}"
            ) from error

    @classmethod
    def _restored(
        cls, stream: str, settings: Settings, saved: _Meta, arrays: Mapping[str, NDArray[Any]]
    ) -> "StreamAggregator":
        """Return the aggregator with a saved state; raise FrameError if no stream can have it."""
        restored = cls.empty(stream, settings)
        names, first, done = saved.names, restored.next_row, saved.explained + saved.failed
        form.expect(len(set(names)) == len(names) == len(saved.kinds), "names, each with a kind", names, _OF)
        restored._features = list(zip(names, saved.kinds, strict=True))
        form.expect(saved.next_row == first + done, f"next_row {first + done}", saved.next_row, _OF)
        form.expect(saved.published_row < max(1, saved.next_row), "published_row before it", saved.published_row, _OF)
        form.expect(saved.version <= saved.next_row, "a version up to it", saved.version, _OF)
        form.expect(saved.loss in ("", *LOSSES), f"a loss of {', '.join(LOSSES)}", saved.loss, _OF)
        form.expect(len(saved.timelines) == len(restored.timelines), "a row for each timeline", saved.timelines, _OF)
        for timeline, (row, seq, published, ts) in zip(restored.timelines, saved.timelines, strict=True):
            if timeline.part & LABELLED:
                low = saved.next_row - 1 if timeline.part == BOTH else timeline.row
                form.expect(low <= row < saved.next_row, f"a newest row from {low} on", row, _OF)
            timeline.row, timeline.seq, timeline.published, timeline.ts = row, seq, published, ts
        form.expect(
            saved.methods.keys() == {one.name for one in restored.methods}, "its methods", [*saved.methods], _OF
        )
        for method in restored.methods:
            method.restore(saved.methods[method.name], form.part(f"{method.name}/", arrays), saved.kinds)
        if restored.alarms is not None:
            restored.alarms.restore(saved.drift, form.part("drift/", arrays), len(names))
        if restored.incidents is not None:
            own = form.part("incidents/", arrays)
            row = restored.timelines[0].row
            restored.incidents.restore(saved.incidents, own, row, restored._features)
            own = form.part("segments/", arrays)
            restored.incidents.restore_segments(saved.segments, own, row, restored._features)
            restored.incidents.restore_events(saved.events, form.part("events/", arrays), restored._features)
        restored.next_row, restored.explained, restored.failed = saved.next_row, saved.explained, saved.failed
        restored.published_row, restored.version = saved.published_row, saved.version
        restored.loss, restored.staleness, restored.names = saved.loss, saved.staleness, names
        return restored


def _joined(pieces: Sequence[Sequence[Mapping[str, Signals]]]) -> Sequence[Mapping[str, Signals]]:
    """Return what the methods said of consecutive pieces of entries as if of one, per timeline."""
    if len(pieces) == 1:
        return pieces[0]
    return [_joined_signals([said for said in timeline if said]) for timeline in zip(*pieces, strict=True)]


def _joined_signals(pieces: Sequence[Mapping[str, Signals]]) -> Mapping[str, Signals]:
    return {
        method: {name: np.concatenate([said[method][name] for said in pieces]) for name in signals}
        for method, signals in (pieces[0] if pieces else {}).items()
    }


def _curves_at(before: HasCurves, block: Contributions, begin: int, ends: Sequence[int], index: int) -> HasCurves:
    """Return the curves after the entries of a block from `begin` up to the end with an index."""
    curves = before.copy()
    entered = block.within(EFFECTS, slice(begin, ends[index]))
    if entered.start < entered.stop:
        curves.update(block, entered)
    return curves
