"""Novelty detectors of all streams of one `events` partition, and the position up to which they have consumed it.

`consume` is a generator that stops after a bounded number of events, and when a map is due. The state is complete at
each stop. The stage can then yield to its event loop, commit, or wait for a map, even in the middle of a message. A
reset mark ends a stream and replaces it with a new one, of the next epoch. A stream gives up its place to a new one
where it does so in the learner, by the same rule (`glasstream.events.places`).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from glasstream.detect.novelty.fit import Request
from glasstream.events.decode import decode
from glasstream.events.message import Message, Oversized, Position
from glasstream.events.places import Places
from glasstream.flow.identity import stream_name
from glasstream.flow.novelty.stream import Element, StreamDetector
from glasstream.flow.run import Run
from glasstream.flow.settings import Settings

_ROWS: Final = 128
"""Largest number of events between two stops. The slowest scoring that was measured takes 10 ms for them."""


@dataclass(slots=True)
class TrackedStream:
    """Stream detector and its position in the partition."""

    detector: StreamDetector
    first_offset: int
    """Offset of the stream's first message."""
    resumed: Position = field(default_factory=Position)
    """Position of the state from which the stream resumed. Earlier messages are not used again."""
    newest: int = 0
    """Offset of the newest message with an event or a label; at first, of the first one or after the reset mark."""


class PartitionDetector:
    """Novelty detector of the streams of one partition.

    It skips what the learner rejects, by the same functions, so that learner and novelty detector give an event the
    same seq.

    Parameters
    ----------
    settings
        All settings.
    first_offset
        Offset at which scoring begins.
    silent_until
        Position before which a predecessor has already sent all records. They are not sent again.
    begun
        The streams that had a place at `silent_until`, with their first offsets; None if any stream may begin before.
    begins_in
        Epoch in which streams begin at `silent_until`; None for that of the partition.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        first_offset: int = 0,
        silent_until: Position | None = None,
        begun: Mapping[str, int] | None = None,
        begins_in: int | None = None,
    ) -> None:
        self.settings = settings
        self.begins_in = settings.epoch if begins_in is None else begins_in
        """Epoch in which a new stream begins."""
        self._begun = begun
        self._places = Places(settings.limits, settings.explain.first_row)
        self._places_known = silent_until is None
        """Whether `_places` is as of the position. It is not after streams were resumed, or while they read again."""
        self.streams: dict[str, TrackedStream] = {}
        self.records: list[tuple[str, bytes]] = []
        """Pairs (stream, record) in order that the caller has not taken yet."""
        self.changed: set[str] = set()
        """Streams that have used events since the last call of `take_changed`."""
        self.ended: list[str] = []
        """Streams that a reset mark has ended since the last call of `take_ended`."""
        self.forgotten: list[str] = []
        """Streams that have given up their places since the last call of `take_forgotten`."""
        self.requests: list[Request] = []
        """Requests for maps that the caller has not taken yet."""
        self.position = Position(first_offset, 0)
        """Position up to which the partition has been consumed."""
        self._silent_until = silent_until or self.position

    @property
    def silent(self) -> bool:
        """Whether a predecessor has already published the records of the current position."""
        return self.position < self._silent_until

    def consume(self, *messages: Message) -> Iterator[StreamDetector | None]:
        """Consume messages, in the order of their offsets.

        Yield None for a pause, or a stream that is `due`. The caller must give that stream its map before it resumes
        the generator.
        """
        begin = 0
        while begin < len(messages):
            begin += yield from self._consume(messages, begin)

    def _consume(self, messages: Sequence[Message], begin: int) -> Generator[StreamDetector | None, None, int]:
        """Consume the next message, with those after it that are of the same run; return their number."""
        message, used = messages[begin], 1
        self.position = Position(message.offset, 0)
        name = stream_name(message, self.settings)
        if isinstance(name, str) and not isinstance(message.value, Oversized):
            watched = self.streams.get(name)
            if watched is None or message.offset >= watched.resumed.offset:
                used = yield from self._watch(name, messages, begin)
        self.position = Position(messages[begin + used - 1].offset + 1, 0)
        return used

    def resume(
        self, name: str, detector: StreamDetector, first_offset: int, at: Position, newest: int | None = None
    ) -> None:
        """Resume a stream from a state as of a position. `newest` is as in `TrackedStream`, if it is known."""
        self.streams[name] = TrackedStream(detector, first_offset, at, at.offset if newest is None else newest)
        self._places_known = False
        self.requests += detector.take_request()

    def begin(self, name: str, epoch: int, first_offset: int) -> None:
        """Start a stream in an epoch of its own. Messages before the offset are not used."""
        detector = StreamDetector.empty(name, msgspec.structs.replace(self.settings, epoch=epoch))
        self.streams[name] = TrackedStream(detector, first_offset, Position(first_offset, 0), first_offset)
        self._places_known = False

    def take_forgotten(self) -> list[str]:
        """Return the streams that have given up their places since the last call."""
        taken, self.forgotten = self.forgotten, []
        return taken

    def take_ended(self) -> list[str]:
        """Return the streams that reset marks have ended since the last call."""
        taken, self.ended = self.ended, []
        return taken

    def take_requests(self) -> list[Request]:
        """Return the requests for maps since the last call."""
        taken, self.requests = self.requests, []
        return taken

    def take_records(self) -> list[tuple[str, bytes]]:
        """Return the pairs (stream, record) since the last call, in order."""
        taken, self.records = self.records, []
        return taken

    def take_changed(self) -> list[str]:
        """Return the names of streams that have used events since the last call."""
        taken, self.changed = sorted(self.changed), set()
        return taken

    def _watch(self, name: str, messages: Sequence[Message], begin: int) -> Generator[StreamDetector | None, None, int]:
        message, limit = messages[begin], self.settings.limits.message_bytes
        decoded = decode(message.value, limit)
        watched = self.streams.get(name)
        if decoded.reset and watched is not None and not self.silent:  # older releases know no marks
            self.begin(name, watched.detector.settings.epoch + 1, message.offset + 1)
            self.requests = [request for request in self.requests if request.stream != name]
            self.ended.append(name)
            self.changed.add(name)
        if not decoded.events:
            return 1
        watched = watched or self._begin(name, message.offset)
        if watched is None:
            return 1
        watched.newest = message.offset
        detector = watched.detector
        run = Run(message, decoded, watched.resumed.used if message.offset == watched.resumed.offset else 0)
        run.extend(messages, begin + 1, limit)
        published_before = run.before(self._silent_until)
        elements = [Element(place, run.id_of(place), element) for place, element in enumerate(run.elements)]
        while run:
            if detector.due:
                yield detector
            taken, scored = detector.take(elements[run.place : run.place + _ROWS])
            self.changed.add(name)
            self.records += [(name, one.record) for one in scored if one.place >= published_before]
            self.requests += detector.take_request()
            run.place += taken
            if run.place:
                watched.newest = run.messages[run.message_of(run.place - 1)].offset
            self.position = run.position()
            self._places.note(name, watched.newest, detector.seqs)
            yield None
        return len(run.messages)

    def _begin(self, name: str, offset: int) -> TrackedStream | None:
        """Return a new stream; None if it gets no place."""
        if self.silent and self._begun is not None:
            if self._begun.get(name, offset + 1) > offset:
                return None
        elif len(self.streams) >= self.settings.limits.streams and not self._make_place(offset):
            return None
        epoch = self.settings.epoch if self.silent else self.begins_in
        detector = StreamDetector.empty(name, msgspec.structs.replace(self.settings, epoch=epoch))
        made = self.streams[name] = TrackedStream(detector, offset)
        return made

    def _make_place(self, offset: int) -> bool:
        """Forget the stream that has to give up its place, and return whether there is one."""
        if not self._places_known:
            self._places.restart((name, one.newest, one.detector.seqs) for name, one in self.streams.items())
            self._places_known = True
        name = self._places.idle(offset)
        if name is None:
            return False
        epoch = self.streams.pop(name).detector.settings.epoch
        self._places.forget(name)
        self.changed.discard(name)
        self.requests = [request for request in self.requests if request.stream != name]
        self.forgotten.append(name)
        self.begins_in = max(self.begins_in, epoch + 1)
        return True
