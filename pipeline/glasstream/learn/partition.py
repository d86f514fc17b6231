"""All streams of one `events` partition, and the position in it up to which they have learned.

`consume` is a generator: it stops after every event, and at each stop the state is whole, so that the stage around it
can yield to its event loop, commit, or hold back, in the middle of a message as well.

A reset mark ends a stream, and puts a new one, of the next epoch, in its place. Between the two it stops with the
position before the mark: the stage goes on when the aggregator has finished what has ended. So a mark that a
predecessor has used lies before the first offset of its stream, and is not met again.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from glasstream.errors import ModelRaised
from glasstream.ingest.admission import Accepted, Admission
from glasstream.ingest.decode import Decoded, Rejected, decode
from glasstream.ingest.identity import event_id, stream_name
from glasstream.ingest.message import Message, Oversized, Position, Rejections
from glasstream.ingest.waiting import Joined
from glasstream.learn.checkpoint import StreamState
from glasstream.learn.learner import Outbox, StreamLearner, Unlabelled
from glasstream.learn.settings import LearnSettings
from glasstream_topics.events import Event
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label

_Outcome = Accepted | Joined[Unlabelled] | tuple[Reason, str]


def _admit(one: Event | Label, admission: Admission, learner: StreamLearner) -> _Outcome:
    return learner.waiting.join(one, admission) if isinstance(one, Label) else admission.admit(one)


@dataclass(slots=True)
class _Stream:
    admission: Admission
    learner: StreamLearner
    first_offset: int
    """Of the message that it began with."""
    resumed: Position = field(default_factory=Position)
    """Its state is as of here: what lies before is not learned again."""
    rejected: Sequence[Rejected] = ()
    """What had been rejected of the message at `resumed`, beyond what decoding says."""
    after: int = 0
    """The offset behind the newest message that may have changed it."""


class PartitionLearner:
    """Learns the streams of one partition.

    Parameters
    ----------
    partition
        Of `events`.
    settings
        See `LearnSettings`.
    first_offset
        Where learning begins.
    silent_until
        Records of what lies before this position have been sent by a predecessor and are not sent again; snapshots
        are, byte for byte the same. Its requests come apart from new ones, in `Outbox.sent`.
    """

    def __init__(
        self,
        partition: int,
        settings: LearnSettings,
        *,
        first_offset: int = 0,
        silent_until: Position | None = None,
    ) -> None:
        self.partition = partition
        self.settings = settings
        self.streams: dict[str, _Stream] = {}
        self.outbox = Outbox()
        self.dead: list[Rejections] = []
        self.rejected = 0
        """Messages and elements of messages that were rejected."""
        self.missed: Counter[str] = Counter()
        """Per stream: labels that never came in epochs that have ended."""
        self._offset = first_offset
        self._used = 0
        self._rejections: Rejections | None = None
        """Of the message under way; those from `_decoded` on were found after decoding."""
        self._decoded = 0
        self._silent_until = silent_until or Position(first_offset, 0)
        self.silent = self.position < self._silent_until
        """Whether what happens here has already been published."""

    @property
    def position(self) -> Position:
        """How far the partition has been consumed."""
        return Position(self._offset, self._used)

    def consume(self, message: Message) -> Iterator[StreamLearner]:
        """Take one message, stopping after every event; yields the learner of the event, or one that has `ended`."""
        rejections = self._rejections = Rejections(message, self.settings.epoch)
        self._offset, self._used = message.offset, 0
        name = stream_name(message, self.settings, self.streams)
        if isinstance(message.value, Oversized):
            rejections.add(None, Reason.TOO_LARGE, message.value.detail)
        elif isinstance(name, tuple):
            rejections.add(None, *name)
        elif not self._has_learned(name, message.offset):
            if name in self.streams:
                rejections.epoch = self.streams[name].learner.epoch
            decoded = decode(message.value, self.settings.message_bytes)
            rejections.found += decoded.rejected
            if decoded.flush:
                if name in self.streams:
                    self.streams[name].after = message.offset + 1
                    self.streams[name].learner.flush()
            elif decoded.reset:
                if name in self.streams:
                    yield from self._reset(name)
            elif decoded.events:
                yield from self._learn(self._stream(name), decoded, rejections)
        if rejections:
            self.rejected += len(rejections.found)
            if not self.silent:
                self.dead.append(rejections)
        self._offset, self._used = message.offset + 1, 0
        if self.silent:
            self._withhold()

    def _learn(self, stream: _Stream, decoded: Decoded, rejections: Rejections) -> Iterator[StreamLearner]:
        """Take the events and labels of a message, stopping after every one."""
        admission, learner, message = stream.admission, stream.learner, rejections.message
        stream.after = message.offset + 1
        self._decoded = len(rejections.found)
        events = decoded.events
        if message.offset == stream.resumed.offset and stream.resumed.used:
            self._used = stream.resumed.used
            events = events[self._used :]
            rejections.found += stream.rejected
            if self.silent:
                self._withhold()
        outcomes: Iterable[_Outcome]
        if decoded.labels:  # one after the other: what a label is of depends on what was learned before it
            outcomes = (_admit(one, admission, learner) for _, one in events)
        else:
            outcomes = [admission.admit(event) for _, event in events]  # type: ignore[arg-type]  # all are events
        for (index, event), outcome in zip(events, outcomes, strict=True):
            place = index if decoded.array else None
            try:
                if isinstance(outcome, Accepted):
                    learner.step(outcome, event_id(event.id, message, index))
                elif isinstance(outcome, Joined):
                    learner.join(outcome)
                else:
                    rejections.add(place, *outcome)
            except ModelRaised as error:
                seq = outcome.seq  # type: ignore[union-attr]  # a reason is nothing that a model is asked about
                rejections.add(place, Reason.MODEL_ERROR, f"seq {seq}: {error}")
            self._used += 1
            if self.silent:
                self._withhold()
            yield learner

    def _reset(self, name: str) -> Iterator[StreamLearner]:
        """End a stream, and begin it anew after the message."""
        if self.silent:
            self._withhold()
        if self.silent:
            return  # by a release that knew no such mark
        ended = self.streams[name].learner
        ended.end()
        self.missed[name] += ended.waiting.missed
        yield ended
        self.begin(name, ended.epoch + 1, self._offset + 1)

    def begin(self, name: str, epoch: int, first_offset: int) -> None:
        """Begin a stream in an epoch of its own; what lies before an offset is not learned again."""
        learner = StreamLearner(name, self.partition, replace(self.settings, epoch=epoch), self.outbox)
        at = Position(first_offset, 0)
        self.streams[name] = _Stream(self._admission(), learner, first_offset, at, after=first_offset)

    def state(self, name: str, *, at_rest: bool = False) -> StreamState:
        """What a stream goes on with from the position, while its learner is `at_snapshot` or, `at_rest`, after a
        `cut`."""
        stream = self.streams[name]
        admission = stream.admission
        rejected = tuple(self._rejections.found[self._decoded :]) if self._used and self._rejections else ()
        learner = stream.learner.state(at_rest=at_rest)
        return StreamState(
            admission.task, admission.target_kind, stream.first_offset, rejected, learner, tuple(admission.classes)
        )

    def resume(self, name: str, state: StreamState, at: Position, epoch: int | None = None) -> None:
        """Go on with a stream from where its state was taken; what lies before is not learned again.

        Parameters
        ----------
        epoch
            The stream's; None: the partition's.
        """
        settings = self.settings if epoch is None else replace(self.settings, epoch=epoch)
        learner = StreamLearner(name, self.partition, settings, self.outbox)
        learner.resume(state.learner)
        admission = Admission(
            state.task, learner.seqs, state.target_kind, settings.class_limits, dict.fromkeys(state.classes)
        )
        self.streams[name] = _Stream(admission, learner, state.first_offset, at, state.rejected, after=at.offset)

    @property
    def waiting(self) -> int:
        """Predictions that nobody has taken yet."""
        return len(self.outbox.predictions) + sum(len(one.learner.predicted) for one in self.streams.values())

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

    def _withhold(self) -> None:
        """Set the predecessor's requests apart and drop its predictions; its end is reached when the position is."""
        self.silent = self.position < self._silent_until
        if not self.silent:
            self.cut()  # the open blocks hold rows that the predecessor has sent
        self.outbox.predictions.clear()
        self.outbox.sent += self.outbox.requests
        self.outbox.requests.clear()

    def _admission(self) -> Admission:
        """That of a stream that begins."""
        return Admission(self.settings.task, limits=self.settings.class_limits)

    def _has_learned(self, name: str, offset: int) -> bool:
        """Whether the state that a stream was resumed with is as of a later message."""
        stream = self.streams.get(name)
        return stream is not None and offset < stream.resumed.offset

    def _stream(self, name: str) -> _Stream:
        stream = self.streams.get(name)
        if stream is None:
            learner = StreamLearner(name, self.partition, self.settings, self.outbox)
            stream = self.streams[name] = _Stream(self._admission(), learner, self._offset)
        return stream
