"""All streams of one `events` partition, and the position in it up to which they have been watched.

`consume` is a generator: it stops after every so many events, and where a map is due. At each stop the state is whole,
so that the stage around it can yield to its event loop, commit, or wait for a map, in the middle of a message as well.
A reset mark puts a stream of the next epoch in the place of the one that it ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from glasstream.ingest.decode import decode
from glasstream.ingest.identity import event_id, stream_name
from glasstream.ingest.message import Message, Oversized, Position
from glasstream.novelty.fit import Request
from glasstream.novelty.settings import NoveltySettings
from glasstream.novelty.stream import Element, StreamDetector

_ROWS: Final = 128
"""Events between two stops, at most: 10 ms at the slowest scoring that was measured."""


@dataclass(slots=True)
class TrackedStream:
    """A stream and where it stands in the partition."""

    detector: StreamDetector
    first_offset: int
    """Of the message that it began with."""
    resumed: Position = field(default_factory=Position)
    """Its state is as of here: what lies before is not used again."""


class PartitionDetector:
    """Watches the streams of one partition.

    What the learner rejects is passed over, by the same functions, so that an event has the same seq here and there.

    Parameters
    ----------
    settings
        See `NoveltySettings`.
    first_offset
        Where watching begins.
    silent_until
        Records of what lies before this position have been sent by a predecessor and are not sent again.
    """

    def __init__(
        self, settings: NoveltySettings, *, first_offset: int = 0, silent_until: Position | None = None
    ) -> None:
        self.settings = settings
        self.streams: dict[str, TrackedStream] = {}
        self.records: list[tuple[str, bytes]] = []
        """(stream, record) that nobody has taken yet, in order."""
        self.changed: set[str] = set()
        """Streams that have used events since this was last emptied."""
        self.ended: list[str] = []
        """Streams that a reset mark has ended since this was last emptied."""
        self.requests: list[Request] = []
        """Windows that maps are to be fitted to, and that nobody has taken yet."""
        self.position = Position(first_offset, 0)
        """How far the partition has been consumed."""
        self._silent_until = silent_until or self.position

    @property
    def silent(self) -> bool:
        """Whether what happens here has already been published."""
        return self.position < self._silent_until

    def consume(self, message: Message) -> Iterator[StreamDetector | None]:
        """Take one message; yields None to stop for a moment, or a stream that is `due` and must be given its map
        before the generator is resumed."""
        self.position = Position(message.offset, 0)
        name = stream_name(message, self.settings, self.streams)
        if isinstance(name, str) and not isinstance(message.value, Oversized):
            watched = self.streams.get(name)
            if watched is None or message.offset >= watched.resumed.offset:
                yield from self._watch(name, message)
        self.position = Position(message.offset + 1, 0)

    def resume(self, name: str, detector: StreamDetector, first_offset: int, at: Position) -> None:
        """Go on with a stream whose state is as of a position."""
        self.streams[name] = TrackedStream(detector, first_offset, at)
        self.requests += detector.take_request()

    def begin(self, name: str, epoch: int, first_offset: int) -> None:
        """Begin a stream in an epoch of its own; what lies before an offset is not used."""
        detector = StreamDetector.empty(name, replace(self.settings, epoch=epoch))
        self.streams[name] = TrackedStream(detector, first_offset, Position(first_offset, 0))

    def take_ended(self) -> list[str]:
        """The streams that reset marks have ended, since the last call."""
        taken, self.ended = self.ended, []
        return taken

    def take_requests(self) -> list[Request]:
        """What maps are to be fitted to, since the last call."""
        taken, self.requests = self.requests, []
        return taken

    def take_records(self) -> list[tuple[str, bytes]]:
        """(stream, record) since the last call, in order."""
        taken, self.records = self.records, []
        return taken

    def take_changed(self) -> list[str]:
        """The streams that have used events since the last call, by name."""
        taken, self.changed = sorted(self.changed), set()
        return taken

    def _watch(self, name: str, message: Message) -> Iterator[StreamDetector | None]:
        decoded = decode(message.value, self.settings.message_bytes)
        watched = self.streams.get(name)
        if decoded.reset and watched is not None and not self.silent:  # silently: a release that knew no such mark
            self.begin(name, watched.detector.settings.epoch + 1, message.offset + 1)
            self.requests = [request for request in self.requests if request.stream != name]
            self.ended.append(name)
            self.changed.add(name)
        if not decoded.events:
            return
        if watched is None:
            watched = self.streams[name] = TrackedStream(StreamDetector.empty(name, self.settings), message.offset)
        detector = watched.detector
        elements = [
            Element(place, event_id(event.id, message, index), event)
            for place, (index, event) in enumerate(decoded.events)
        ]
        used = watched.resumed.used if message.offset == watched.resumed.offset else 0
        while used < len(elements):
            if detector.due:
                yield detector
            taken, told = detector.take(elements[used : used + _ROWS])
            self.changed.add(name)
            self.records += [
                (name, one.record) for one in told if Position(message.offset, one.place) >= self._silent_until
            ]
            self.requests += detector.take_request()
            used += taken
            self.position = Position(message.offset, used)
            yield None
