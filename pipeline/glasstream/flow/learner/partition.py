"""All streams of one `events` partition, and the position up to which they have learned.

`consume` is a generator that stops after every event or late label, or after every block of them that a compiled model
learns in one call. The state is complete at each stop. The stage can then yield to its event loop, commit, or pause,
even in the middle of a message.

A reset mark ends a stream and replaces it with a new one, of the next epoch. `consume` stops between the two, with the
position still before the mark, until the aggregator has finished the old stream. A successor therefore does not see
the mark again: it lies before the first offset of the new stream.

A stream may give up its place to a new one (`glasstream.events.places`). Nothing of it was explained, so only learner
and novelty detector know it. From then on, streams begin in the next epoch: if the stream comes back, its records are
not taken for those of its first life. A successor that learns messages again knows which streams had a place at the
position up to which its predecessor has published, and begins no others.
"""

from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from glasstream.base.errors import ModelError, ModelRaised
from glasstream.base.sparse import logged
from glasstream.events.admission import Accepted, Admission
from glasstream.events.decode import Rejected, decode
from glasstream.events.message import Message, Oversized, Position, Rejections
from glasstream.events.places import Places
from glasstream.events.waiting import Joined
from glasstream.flow.identity import stream_name
from glasstream.flow.learner.learner import StreamLearner
from glasstream.flow.learner.outbox import Outbox
from glasstream.flow.learner.pushed import MOST_REFUSED, Decisions, PushedModels
from glasstream.flow.learner.stream_state import StreamState
from glasstream.flow.run import Run
from glasstream.flow.settings import Settings
from glasstream.models.onnx.model import FixedModel
from glasstream_topics.events import named_model
from glasstream_topics.events_dead import Reason

BLOCK_EVENTS: Final = 256
"""Largest number of events and late labels in one call, if the caller does not set a smaller number."""


def _model_error(error: ModelRaised, seq: int) -> tuple[Reason, str]:
    return Reason.MODEL_ERROR, f"seq {seq}: {error}"


@dataclass(slots=True)
class _Stream:
    admission: Admission
    learner: StreamLearner
    first_offset: int
    """Offset of the stream's first message."""
    resumed: Position = field(default_factory=Position)
    """Position of the state from which the stream resumed. Earlier messages are not learned again."""
    rejected: Sequence[Rejected] = ()
    """Elements of the message at `resumed` that were rejected after decoding."""
    after: int = 0
    """The offset after the newest message that may have changed the stream."""
    newest: int = 0
    """Offset of the newest message with an event or a label; at first, of the first one or after the reset mark."""


class PartitionLearner:
    """Learner of the streams of one partition.

    Parameters
    ----------
    partition
        Partition of `events`.
    settings
        All settings.
    first_offset
        Offset at which learning begins.
    silent_until
        A predecessor has sent the records for everything before this position, so they are not sent again. Snapshots
        are made again, with the same bytes. The predecessor's requests are kept apart from new ones, in `Outbox.sent`.
    models
        The models that marks name.
    decisions
        What a predecessor has decided about such marks.
    begun
        The streams that had a place at `silent_until`, with their first offsets; None if any stream may begin before.
    begins_in
        Epoch in which streams begin at `silent_until`; None for that of the partition.
    """

    def __init__(
        self,
        partition: int,
        settings: Settings,
        *,
        first_offset: int = 0,
        silent_until: Position | None = None,
        models: PushedModels | None = None,
        decisions: Decisions | None = None,
        begun: Mapping[str, int] | None = None,
        begins_in: int | None = None,
    ) -> None:
        self.partition = partition
        self.settings = settings
        decided = decisions or Decisions()
        self.refused: dict[str, list[int]] = {name: list(offsets) for name, offsets in decided.refused.items()}
        """Offsets of refused marks that name a model, by stream; see `Decisions`."""
        self._decided_until = decided.until
        self._models = models or PushedModels()
        self._judged: tuple[int, FixedModel | ModelError | str] | None = None
        """Offset of the next mark, and what `consume` will decide about it."""
        self.streams: dict[str, _Stream] = {}
        self.begins_in = settings.epoch if begins_in is None else begins_in
        """Epoch in which a new stream begins."""
        self._begun = begun
        self._places = Places(settings.limits, settings.explain.first_row)
        self._places_known = True
        """Whether `_places` is as of the position. It is not after streams were resumed, or while they learn again."""
        self.forgotten: dict[str, int] = {}
        """Streams that have given up their places since the last call of `take_forgotten`, with their epochs."""
        self.gave_up = 0
        """Number of streams that have given up their places to new ones."""
        self._changed: set[str] = set()
        """Streams of which a message has come since the last call of `take_changed`."""
        self._open: set[str] = set()
        """Streams of which a message has come since the last `cut`."""
        self.outbox = Outbox()
        self.dead: list[Rejections] = []
        self.rejected = 0
        """Number of rejected messages and elements."""
        self.missed: Counter[str] = Counter()
        """Number of labels per stream that did not arrive before their epoch ended."""
        self.block_events = BLOCK_EVENTS
        """Largest number of events and late labels before the next stop."""
        self._offset = first_offset
        self._used = 0
        self._rejections: Rejections | None = None
        """Rejections of the current message; those from `_decoded` on were found after decoding."""
        self._decoded = 0
        self._found: dict[int, Rejections] = {}
        """Rejections of the current run, by the number of their message."""
        self.stepped = 0
        """Number of events and labels between the last two stops."""
        self._silent_until = silent_until or Position(first_offset, 0)
        self.silent = self.position < self._silent_until
        """Whether a predecessor has already published the output of the current position."""
        self._places_known = not self.silent

    @property
    def position(self) -> Position:
        """Position up to which the partition has been consumed."""
        return Position(self._offset, self._used)

    def consume(self, *messages: Message) -> Iterator[StreamLearner]:
        """Consume messages, in the order of their offsets. How they are divided into calls changes no output.

        Stop after every block of events, before a stream ends at a reset mark, after every reset mark, and after a mark
        that brings a model. Yield the stream's learner, which `ended` tells at the first stop of a reset mark.
        """
        begin = 0
        while begin < len(messages):
            begin += yield from self._consume(messages, begin)

    def _consume(self, messages: Sequence[Message], begin: int) -> Generator[StreamLearner, None, int]:
        """Consume the next message, with those after it that are of the same run; return their number."""
        message = messages[begin]
        rejections = self._rejections = Rejections(message, self.settings.epoch)
        self._offset, self._used, self.stepped = message.offset, 0, 0
        name = stream_name(message, self.settings)
        after: StreamLearner | None = None
        if isinstance(message.value, Oversized):
            rejections.add(None, Reason.TOO_LARGE, message.value.detail)
        elif isinstance(name, tuple):
            rejections.add(None, *name)
        elif not self._has_learned(name, message.offset):
            if name in self.streams:
                rejections.epoch = self.streams[name].learner.epoch
                self._note_change(name)
            decoded = decode(message.value, self.settings.limits.message_bytes)
            if decoded.flush:
                if name in self.streams:
                    self.streams[name].after = message.offset + 1
                    self.streams[name].learner.flush()
            elif decoded.reset:
                if name in self.streams:
                    yield from self._reset(name)
                    after = self.streams[name].learner
            elif decoded.model is not None:
                yield from self._replace(name, decoded.model, rejections)
            elif decoded.events:
                stream = self._stream(name)
                if not isinstance(stream, tuple):
                    run = Run(message, decoded, stream.resumed.used if message.offset == stream.resumed.offset else 0)
                    run.extend(messages, begin + 1, self.settings.limits.message_bytes)
                    yield from self._learn(stream, run)
                    return len(run.messages)
                rejections.add(None, *stream)
            rejections.found[:0] = decoded.rejected
        self._finish(message, rejections)
        if after is not None:
            yield after
        return 1

    def _finish(self, message: Message, rejections: Rejections | None) -> None:
        """Note that a message is used up."""
        if rejections:
            self.rejected += len(rejections.found)
            if not self.silent:
                self.dead.append(rejections)
        self._offset, self._used = message.offset + 1, 0
        if self.silent:
            self._withhold()

    def judge(self, message: Message) -> None:
        """Decide about a mark that names a model, before `consume` gets it: this may take seconds, and read a topic.

        Raises
        ------
        UnavailableError
            The file of the model cannot be read now.
        """
        name = stream_name(message, self.settings)
        named = None if message.value is None else named_model(message.value)
        known = isinstance(name, str) and name in self.streams and not self._has_learned(name, message.offset)
        if isinstance(name, str) and known and named is not None:
            self._judged = message.offset, self._verdict(name, named, message.offset)

    def _verdict(self, name: str, named: str, offset: int) -> FixedModel | ModelError | str:
        """Return the model that a mark names, or why it is refused; an error if the log alone does not tell that."""
        learner, refused = self.streams[name].learner, self.refused.get(name, [])
        before, settings = learner.state.model, learner.settings
        reason = learner.refuses_another()
        if reason is not None or not isinstance(before, FixedModel):
            return reason or ""
        if len(refused) >= MOST_REFUSED and offset > refused[-1]:
            return f"{len(refused):,} models were refused before, so no further one is looked at; reset the stream"
        if offset in refused:
            return "it was refused before"
        if offset < self._decided_until:
            texts = [list(codes) for codes in learner.state.features.categories[: len(before.features)]]
            return self._models.again(named, settings, before, texts)
        try:
            return self._models.fitting(named, settings, before, learner.state.features, name)
        except ModelError as error:
            return error

    def _replace(self, name: str, named: str, rejections: Rejections) -> Iterator[StreamLearner]:
        """Replace the model of a stream by the one that a mark names, or reject the mark."""
        stream = self.streams.get(name)
        if stream is None:
            reason = f"stream {name!r} has no events yet; set its first model with model.name"
            rejections.add(None, Reason.MODEL_REFUSED, reason)
            return
        stream.after = self._offset + 1
        if stream.resumed == Position(self._offset, 1):
            return
        judged, self._judged = self._judged, None
        known = judged is not None and judged[0] == self._offset
        verdict = judged[1] if judged is not None and known else self._verdict(name, named, self._offset)
        if isinstance(verdict, ModelError):
            self.refused.setdefault(name, []).append(self._offset)
        if not isinstance(verdict, FixedModel):
            rejections.add(None, Reason.MODEL_REFUSED, f"{verdict}. The stream keeps its model")
            return
        stream.learner.replace(verdict)
        self._used, self._decoded = 1, len(rejections.found)  # who resumes here has the model already
        if self.silent:
            self._withhold()
        yield stream.learner

    def _learn(self, stream: _Stream, run: Run) -> Iterator[StreamLearner]:
        """Process the events and labels of a run, stopping after each block of them."""
        learner, epoch = stream.learner, stream.learner.epoch
        self._note_change(learner.stream)
        self._found = {
            number: Rejections(run.messages[number], epoch, list(found)) for number, found in run.rejected.items()
        }
        self._decoded = len(run.rejected.get(0, ()))
        if run.place:
            self._used = run.place
            for found in stream.rejected:
                self._reject(run, 0, epoch).found.append(found)
            if self.silent:
                self._withhold()
        run.find_form()
        number = self._advance(stream, run, 0) if not run else 0
        while run:
            first = run.place
            taken, reasons = self._step(stream, run)
            run.place += taken
            for place, reason in reasons:
                of = run.message_of(first + place)
                self._reject(run, of, epoch).add(run.index(of, first + place), *reason)
            self.stepped = taken
            self._note_change(learner.stream)
            number = self._advance(stream, run, number)
            yield learner
        self._found = {}

    def _reject(self, run: Run, number: int, epoch: int) -> Rejections:
        """Return the rejections of a message of a run."""
        found = self._found.get(number)
        if found is None:
            found = self._found[number] = Rejections(run.messages[number], epoch)
        return found

    def _advance(self, stream: _Stream, run: Run, number: int) -> int:
        """Move the position behind the processed elements of a run; return the number of the message that is next.

        Parameters
        ----------
        number
            Number of the first message that was not used up before.
        """
        newest, until = run.message_of(run.place - 1), run.message_of(run.place)
        stream.newest = run.messages[newest].offset
        stream.after = stream.newest + 1
        self._places.note(stream.learner.stream, stream.newest, stream.admission.seq)
        if self.silent:
            for place in range(number, until):
                message = run.messages[place]
                self._offset, self._used = message.offset, run.begin_of(place + 1) - run.begin_of(place)
                self._withhold()
                self._finish(message, self._found.get(place))
        else:
            for rejected in sorted(one for one in self._found if number <= one < until) if self._found else ():
                self._finish(run.messages[rejected], self._found[rejected])
            self._offset, self._used = run.messages[until - 1].offset + 1 if until else self._offset, 0
        if until < len(run.messages):
            self._offset, self._used = run.messages[until].offset, run.place - run.begin_of(until)
            self._rejections, self._decoded = self._found.get(until), len(run.rejected.get(until, ()))
            if self.silent:
                self._withhold()
        return until

    def _step(self, stream: _Stream, run: Run) -> tuple[int, Sequence[tuple[int, tuple[Reason, str]]]]:
        """Process the next elements as a block, or one alone; return their number, and the places of rejected ones."""
        learner = stream.learner
        least = learner.least_block
        if least is not None and len(run) >= least:
            taken, errors = learner.step_block(run, self._room(run), stream.admission)
            if taken:
                return taken, [(place, _model_error(error, seq)) for place, seq, error in errors]
        element, event_id = run.first(learner.state.waiting, stream.admission)
        if not isinstance(element, (Accepted, Joined)):
            return 1, [(0, element)]
        try:
            if isinstance(element, Joined):
                learner.join(element, event_id)
            else:
                learner.step(element, event_id)
        except ModelRaised as error:
            return 1, [(0, _model_error(error, element.seq))]
        return 1, ()

    def _room(self, run: Run) -> int:
        """Return how many elements the next block may have. A block ends where the predecessor's output ends."""
        ahead = run.before(self._silent_until) - run.place if self.silent else 0
        return min(self.block_events, ahead) if ahead > 0 else self.block_events

    def _reset(self, name: str) -> Iterator[StreamLearner]:
        """End a stream, and start its next epoch after the message."""
        if self.silent:
            self._withhold()
        if self.silent:
            return  # the predecessor was a release without reset marks
        ended = self.streams[name].learner
        ended.end()
        self.missed[name] += ended.state.waiting.missed
        yield ended
        self.refused[name] = [offset for offset in self.refused.get(name, ()) if offset > self._offset]
        self.begin(name, ended.epoch + 1, self._offset + 1)

    def begin(self, name: str, epoch: int, first_offset: int) -> None:
        """Start a stream in an epoch of its own. Messages before the offset are not learned again."""
        learner = self._learner(name, epoch)
        at = Position(first_offset, 0)
        self.streams[name] = _Stream(
            self._admission(), learner, first_offset, at, after=first_offset, newest=first_offset
        )
        self._places_known = False
        self._note_change(name)

    def state(self, name: str, *, at_rest: bool = False) -> StreamState:
        """Return the state from which a stream resumes at the position.

        The learner must be `at_snapshot` or, with `at_rest`, right after a `cut`.
        """
        stream = self.streams[name]
        admission = stream.admission
        rejected = tuple(self._rejections.found[self._decoded :]) if self._used and self._rejections else ()
        learner = stream.learner.saved_state(at_rest=at_rest)
        return StreamState(
            admission.task, admission.target_kind, stream.first_offset, rejected, learner, tuple(admission.classes)
        )

    def resume(
        self, name: str, state: StreamState, at: Position, epoch: int | None = None, newest: int | None = None
    ) -> None:
        """Resume a stream from a saved state. Earlier messages are not learned again.

        Parameters
        ----------
        epoch
            Epoch of the stream; None for the epoch of the partition.
        newest
            Offset of the stream's newest message with an event or a label; None if it is not known.
        """
        learner = self._learner(name, self.settings.epoch if epoch is None else epoch)
        learner.resume(state.learner)
        admission = Admission(
            state.task, learner.state.seqs, state.target_kind, self.settings.limits, dict.fromkeys(state.classes)
        )
        self.streams[name] = _Stream(
            admission,
            learner,
            state.first_offset,
            at,
            state.rejected,
            after=at.offset,
            newest=at.offset if newest is None else newest,
        )
        self._places_known = False
        self._note_change(name)

    @property
    def waiting(self) -> int:
        """Number of predictions and records of groups that were not taken yet."""
        streams = (self.streams[name] for name in self._open if name in self.streams)
        made = len(self.outbox.predictions) + len(self.outbox.groups)
        return made + sum(len(one.learner.scoring) for one in streams)

    def cut(self) -> None:
        """Close every open block, so that the outbox holds everything that was learned up to the position."""
        for name in sorted(self._open):
            if name in self.streams:
                self.streams[name].learner.cut()
        self._open.clear()

    def take_outbox(self) -> tuple[Outbox, list[Rejections]]:
        """Return everything that was produced since the last call."""
        taken, dead = self.outbox.emptied(), self.dead
        self.dead = []
        return taken, dead

    @property
    def dropped(self) -> int:
        """Number of events that no longer wait for a label, because of `limits.waiting_bytes`."""
        return sum(stream.learner.state.waiting.dropped for stream in self.streams.values())

    def _note_change(self, name: str) -> None:
        self._changed.add(name)
        self._open.add(name)

    def take_changed(self) -> list[str]:
        """Return the streams of which a message has come since the last call."""
        changed = sorted(name for name in self._changed if name in self.streams)
        self._changed.clear()
        return changed

    def take_forgotten(self) -> dict[str, int]:
        """Return the streams that have given up their places since the last call, with their epochs."""
        taken, self.forgotten = self.forgotten, {}
        return taken

    def _withhold(self) -> None:
        """Set the predecessor's requests apart and drop its predictions. End this once the position reaches the
        predecessor's.
        """
        self.silent = self.position < self._silent_until
        if not self.silent:
            self.cut()  # the open blocks hold rows that the predecessor has sent
        self.outbox.predictions.clear()
        self.outbox.groups.clear()
        self.outbox.sent += self.outbox.requests
        self.outbox.requests.clear()

    def _learner(self, name: str, epoch: int) -> StreamLearner:
        """Return the learner of a new stream."""
        settings = msgspec.structs.replace(self.settings, epoch=epoch)
        return StreamLearner(name, self.partition, settings, self.outbox, self._models)

    def _admission(self) -> Admission:
        """Return the admission of a new stream."""
        return Admission(self.settings.model.chosen_task, limits=self.settings.limits)

    def _has_learned(self, name: str, offset: int) -> bool:
        """Return whether the state from which a stream resumed already contains a message."""
        stream = self.streams.get(name)
        return stream is not None and offset < stream.resumed.offset

    def _stream(self, name: str) -> _Stream | tuple[Reason, str]:
        """Return the stream of a message with events, a new one if there is none; or why it gets no place."""
        stream = self.streams.get(name)
        if stream is not None:
            return stream
        if self.silent and self._begun is not None:
            if self._begun.get(name, self._offset + 1) > self._offset:
                return self._places.refusal(name)
        elif len(self.streams) >= self.settings.limits.streams and not self._make_place():
            return self._places.refusal(name)
        learner = self._learner(name, self.settings.epoch if self.silent else self.begins_in)
        stream = self.streams[name] = _Stream(self._admission(), learner, self._offset)
        return stream

    def _make_place(self) -> bool:
        """Forget the stream that has to give up its place, and return whether there is one."""
        if not self._places_known:
            self._places.restart((name, one.newest, one.admission.seq) for name, one in self.streams.items())
            self._places_known = True
        name = self._places.idle(self._offset)
        if name is None:
            return False
        learner = self.streams[name].learner
        learner.cut()
        learner.publish_groups()
        del self.streams[name]
        self._places.forget(name)
        self.refused.pop(name, None)
        self.missed.pop(name, None)
        self.forgotten[name] = learner.epoch
        self.gave_up += 1
        self.begins_in = max(self.begins_in, learner.epoch + 1)
        if logged(self.gave_up):
            self.outbox.notices.append(
                f"stream {name!r} gave up its place to a new one after {learner.state.seqs:,} events, because none has "
                f"come for long and all {self.settings.limits.streams:,} places (limits.streams) are taken "
                f"({self.gave_up:,} so far)"
            )
        return True
