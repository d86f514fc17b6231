"""Aggregator of one stream: put contributions in the order of their rows, smooth them, and publish estimates.

Blocks may arrive in any order, twice, and cut differently each time. Only the row numbers count. Rows that are already
aggregated are dropped, a block that contains some of them is trimmed, and a block that is ahead waits. A reset mark is
the last block of an epoch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.aggregator.alarms import EVERY, Alarms
from glasstream.aggregator.incidents import Incidents
from glasstream.aggregator.timeline import Span, Timeline
from glasstream.errors import StateError
from glasstream.explain.sizes import REASON
from glasstream.methods.method import HasCurves, MethodAggregator, Moment, OutputRecord, Signals
from glasstream.methods.registry import REGISTRY
from glasstream.settings import Settings
from glasstream_topics.contributions import Contributions
from glasstream_topics.errors import FrameError
from glasstream_topics.methods import BOTH, EFFECTS, LABELLED, METHODS
from glasstream_topics.progress_aggregator import unexplained

NOTHING = 100
"""Number of consecutive rows that could not be explained after which a stream counts as not explained."""


@dataclass(slots=True)
class _Waiting:
    """A block that is ahead, and the offset of its message."""

    block: Contributions
    offset: int


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
    _features: list[tuple[str, int]] = field(default_factory=list)
    """Name and kind of every feature that occurred in a block."""
    _waiting: dict[int, _Waiting] = field(default_factory=dict)
    records: list[OutputRecord] = field(default_factory=list)
    """Published records that the caller has not taken yet."""
    _curves: HasCurves | None = field(init=False)
    """The method that has curves. It is looked up once, because `isinstance` of a protocol is slow."""

    def __post_init__(self) -> None:
        self._curves = next((method for method in self.methods if isinstance(method, HasCurves)), None)

    @classmethod
    def empty(cls, stream: str, settings: Settings) -> "StreamAggregator":
        """Return the aggregator of a new stream. Its first row is t0."""
        methods = [REGISTRY[name].aggregator(settings) for name in settings.explain.names]
        first_row = settings.explain.first_row
        timelines = [Timeline(BOTH, first_row - 1)]
        if settings.explain.unlabelled:
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
        if block.count and bool(block.parts) != self.settings.explain.unlabelled:
            raise FrameError(
                f"contributions of stream {block.stream!r}, first row {block.first_row}: expected the parts of every "
                "entry with explain.unlabelled, and none without; give all stages the same settings"
            )
        self._features = _longer(self._features, list(zip(block.names, block.kinds, strict=True)))
        if block.first_row > self.next_row:
            held = self._waiting.get(block.first_row)
            if held is None or block.count > held.block.count or block.ends:
                # Of two blocks with the same first row, keep the longer one. The committed position must not pass
                # the lower of their offsets.
                first = offset if held is None else min(offset, held.offset)
                self._waiting[block.first_row] = _Waiting(block, first)
            return
        self._aggregate(block)
        while self._waiting:
            ready = [row for row in self._waiting if row <= self.next_row]
            if not ready:
                return
            self._aggregate(self._waiting.pop(min(ready)).block)

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
            self.names = list(block.names)
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
        opened: list[OutputRecord] = []
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
                return self._moment(int(span.rows[at]), int(span.seqs[at]), explained + at + 1, first + at)

            if self.alarms is not None:
                ends = [skip + at + 1 for at in places]
                curves = None if before is None else partial(_curves_at, before, block, inside.start, ends)
                alarms = self.alarms.update(block, own, said, curves, moment, part)
                found += ((places[index], about_loss, record) for index, about_loss, record in alarms)
            if self.incidents is not None and part & LABELLED:
                opened += self.incidents.update(block, own, int(span.rows[places[0]]), said)
        self.records.extend(record for *_, record in sorted(found, key=itemgetter(0, 1)))
        self.records.extend(opened)

    def _moment(self, row: int, seq: int, explained: int, entry: int) -> Moment:
        return Moment(
            stream=self.stream,
            row=row,
            seq=seq,
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
        moment = self._moment(timeline.row, timeline.seq, self.explained, self.next_row - 1)
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
            "timelines": [[timeline.row, timeline.seq, timeline.published] for timeline in self.timelines],
            "version": self.version,
            "loss": self.loss,
            "staleness": self.staleness,
            "names": self.names,
            "kinds": [int(kind) for _, kind in self._features[: len(self.names)]],
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
        return meta, arrays

    @classmethod
    def restore(
        cls, stream: str, settings: Settings, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> "StreamAggregator":
        """Restore the aggregator from a saved state.

        Raises
        ------
        StateError
            The state is incomplete.
        """
        try:
            restored = cls.empty(stream, settings)
            for method in restored.methods:
                method.restore(meta["methods"][method.name], _of(method.name, arrays))
            if restored.alarms is not None:
                restored.alarms.restore(meta, _of("drift", arrays))
            if restored.incidents is not None:
                restored.incidents.restore(meta, _of("incidents", arrays))
            restored.next_row = int(meta["next_row"])
            restored.explained = int(meta["explained"])
            restored.published_row = int(meta["published_row"])
            for timeline, (row, seq, published) in zip(restored.timelines, meta["timelines"], strict=True):
                timeline.row, timeline.seq, timeline.published = int(row), int(seq), int(published)
            restored.version = int(meta["version"])
            restored.loss = str(meta["loss"])
            restored.staleness = None if meta["staleness"] is None else float(meta["staleness"])
            restored.names = [str(name) for name in meta["names"]]
            restored.failed = int(meta["failed"])
            restored._features = [(name, int(kind)) for name, kind in zip(restored.names, meta["kinds"], strict=True)]
            return restored
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(
                f"progress.aggregator: the state of stream {stream!r} is not one that this version wrote ({error!r}); "
                "upgrade the aggregator, or start a new epoch"
            ) from error


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


def _longer(known: list[tuple[str, int]], given: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Return the longer of two lists of features, of which one begins with the other."""
    for slot, (before, now) in enumerate(zip(known, given, strict=False)):
        if before != now:
            raise FrameError(
                f"expected feature {before[0]!r} of kind {before[1]} at {slot}, got {now[0]!r} of {now[1]}"
            )
    return max(known, given, key=len)


def _of(method: str, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Return a method's arrays under their own names."""
    return {name.removeprefix(f"{method}/"): array for name, array in arrays.items() if name.startswith(f"{method}/")}
