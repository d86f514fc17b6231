"""All streams of one `events` partition, and the position in it up to which they have learned.

`consume` is a generator: it stops after every event, and at each stop the state is whole, so that the stage around it
can yield to its event loop, commit, or hold back, in the middle of a message as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.errors import ModelRaised
from pipeline.ingest.admission import Accepted, Admission
from pipeline.ingest.decode import decode
from topics.events_dead import Reason
from pipeline.ingest.message import Message, Rejections
from pipeline.learn.learner import Outbox, StreamLearner
from pipeline.learn.settings import LearnSettings
from topics.events import Event
from topics.events import partition as partition_of


class Position(NamedTuple):
    """How far a partition has been consumed: `used` events of the message at `offset`, all of those before it."""

    offset: int = 0
    used: int = 0


@dataclass(slots=True)
class Counts:
    """What a person watching wants to know."""

    accepted: int = 0
    labelled: int = 0
    unlabelled: int = 0
    rejected: int = 0


@dataclass(slots=True)
class _Stream:
    admission: Admission
    learner: StreamLearner


@dataclass(slots=True)
class PartitionLearner:
    """Learns the streams of one partition.

    Parameters
    ----------
    partition
        Of `events`.
    settings
        See `LearnSettings`.
    silent_until
        Records of what lies before this position have been sent by a predecessor and are not sent again; snapshots
        are, byte for byte the same.
    """

    partition: int
    settings: LearnSettings
    silent_until: Position = Position()
    position: Position = Position()
    counts: Counts = field(default_factory=Counts)
    streams: dict[str, _Stream] = field(default_factory=dict)
    outbox: Outbox = field(default_factory=Outbox)
    dead: list[Rejections] = field(default_factory=list)

    @property
    def silent(self) -> bool:
        """Whether what happens here has already been published."""
        return self.position < self.silent_until

    def consume(self, message: Message) -> Iterator[StreamLearner]:
        """Take one message, stopping after every event; yields the learner of the event."""
        rejections = Rejections(message)
        decoded = decode(message.value, self.settings.message_bytes)
        name = self._stream_name(message, rejections)
        if name is not None:
            for rejected in decoded.rejected:
                rejections.add(rejected.index, rejected.reason, rejected.detail)
            if decoded.flush:
                if name in self.streams:
                    self.streams[name].learner.flush()
            elif decoded.events:
                stream = self._stream(name)
                for used, (index, event) in enumerate(decoded.events, start=1):
                    self._take(stream, message, index, event, rejections)
                    self._advance(Position(message.offset, used))
                    yield stream.learner
        if rejections:
            self.counts.rejected += len(rejections.found)
            if not self.silent:
                self.dead.append(rejections)
        self._advance(Position(message.offset + 1, 0))

    def cut(self) -> None:
        """Close every open block, so that the outbox holds all of what has been learned up to the position."""
        for stream in self.streams.values():
            stream.learner.cut()

    def take_outbox(self) -> tuple[Outbox, list[Rejections]]:
        """What has been produced since the last call."""
        taken, dead = self.outbox, self.dead
        self.outbox, self.dead = Outbox(), []
        for stream in self.streams.values():
            stream.learner.outbox = self.outbox
        return taken, dead

    def _take(self, stream: _Stream, message: Message, index: int, event: Event, rejections: Rejections) -> None:
        accepted = stream.admission.admit(event)
        if not isinstance(accepted, Accepted):
            rejections.add(index, *accepted)
            return
        event_id = str(event.id) if event.id is not None else f"{message.partition}-{message.offset}-{index}"
        self.counts.accepted += 1
        if accepted.target is None:
            self.counts.unlabelled += 1
        else:
            self.counts.labelled += 1
        try:
            stream.learner.step(accepted, event_id)
        except ModelRaised as error:
            rejections.add(index, Reason.MODEL_ERROR, f"seq {accepted.seq}: {error}")

    def _advance(self, position: Position) -> None:
        was_silent, self.position = self.silent, position
        if was_silent:
            if not self.silent:
                self.cut()  # the open blocks hold rows that the predecessor has sent
            self.outbox.predictions.clear()
            self.outbox.work.clear()

    def _stream(self, name: str) -> _Stream:
        stream = self.streams.get(name)
        if stream is None:
            learner = StreamLearner(name, self.partition, self.settings, self.outbox)
            stream = self.streams[name] = _Stream(Admission(self.settings.task), learner)
        return stream

    def _stream_name(self, message: Message, rejections: Rejections) -> str | None:
        key = message.key
        if not key:
            rejections.add(None, Reason.MISSING_STREAM, "expected the stream's name as the message key, got no key")
            return None
        if len(key) > self.settings.stream_bytes:
            rejections.add(
                None,
                Reason.BAD_STREAM,
                f"expected a stream name (the message key) of at most {self.settings.stream_bytes} bytes, got {len(key)}",
            )
            return None
        try:
            name = key.decode("utf-8")
        except UnicodeDecodeError:
            rejections.add(None, Reason.BAD_STREAM, "expected a stream name (the message key) in UTF-8")
            return None
        if self.settings.event_partitions:
            expected = partition_of(key, self.settings.event_partitions, self.settings.partitioner)
            if expected != message.partition:
                rejections.add(
                    None,
                    Reason.WRONG_PARTITION,
                    f"expected stream {name!r} on partition {expected} ({self.settings.partitioner} of its key), "
                    f"got it on {message.partition}; set `partitioner: murmur2_random` in a librdkafka producer "
                    "(its default is CRC32), or topics.partitioner = crc32 for a topic written that way",
                )
                return None
        return name
