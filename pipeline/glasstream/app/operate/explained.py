"""Explain some events of a stream again, by a replay of the stream up to them, and compare with what was published."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
import numpy as np

from glasstream.app.operate.models import file_reader
from glasstream.app.operate.replay import Begin, Log, messages
from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import FrameError, InputError, LostInputError
from glasstream.events.features import decoded
from glasstream.events.message import Message
from glasstream.flow.learner.learner import StreamLearner
from glasstream.flow.reference import Published, Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions, events, predictions
from glasstream_topics.contributions import Contributions
from glasstream_topics.frames import Array
from glasstream_topics.methods import EFFECTS, GIVEN, LABELLED, methods_of
from glasstream_topics.predictions import Prediction
from glasstream_topics.requests import ExplainRequest

Value = float | str | bool | None
ByMethod = dict[str, dict[str, float]]
"""Contribution of each feature by method."""

_PARTS: Final = {name: EFFECTS if dims[0] == "events" else LABELLED for name, (_, dims) in GIVEN.items()}


class PublishedAnswer(msgspec.Struct, frozen=True):
    """What an explainer published about an event.

    Attributes
    ----------
    at
        Position of the record.
    equal
        Whether all its numbers are those of the replay, to the last bit.
    reason
        Why it has no numbers.
    """

    at: str
    equal: bool
    reason: str
    contributions: ByMethod


class Explained(msgspec.Struct, frozen=True):
    """What the replay explained of an event.

    With `explain.unlabelled`, an event whose label comes late is explained twice: its effects, and its importance.

    Attributes
    ----------
    seq, row, id, ts
        Numbers, id and time of the event.
    at
        Position of its message.
    features
        Its values.
    target
        Its label; None in an explanation that needs none.
    prediction
        What the model predicted when the event arrived.
    model_version, lag
        Version of the model that explains it, and the number of rows that this model had learned less than it could
        have.
    reason
        Why it could not be explained.
    published
        What an explainer published; None if the topic does not hold it.
    """

    stream: str
    epoch: int
    seq: int
    row: int
    id: str
    ts: int | None
    at: str
    features: dict[str, Value]
    target: Value
    prediction: Value
    model_version: int
    lag: int
    loss: float | None
    loss_name: str
    reason: str
    contributions: ByMethod
    published: PublishedAnswer | None


def explained(settings: Settings, log: Log, stream: str, seqs: Collection[int]) -> Iterator[Explained]:
    """Yield the explanations of some events of the newest epoch of a stream, in the order of the log.

    Raises
    ------
    InputError
        The stream does not exist, or an event has no explanation.
    LostInputError
        Kafka has deleted events of the stream, so that the others cannot be numbered.
    BrokerError
        A topic cannot be read.
    """
    begin = _begin(settings, log, stream)
    settings = msgspec.structs.replace(settings, epoch=begin.epoch)
    published = _published(settings, begin, stream, seqs)
    loop, found = _Loop(settings, begin, stream, frozenset(seqs)), set[int]()
    for message in messages(settings, [begin], [stream]):
        for one in loop.explained(message, published):
            found.add(one.seq)
            yield one
        if loop.has_passed:
            break
    if missing := sorted(set(seqs) - found):
        raise InputError(
            f"stream {stream!r}: expected events with an explanation, got seq {', '.join(map(str, missing))}. Of the "
            f"{loop.count:,} events that were read, those have none that came before row {settings.explain.first_row} "
            "(explain.start, explain.reservoir), without a label, or on which the model raised an error (reason "
            f"model_error on {topic(settings, 'events.dead')})"
        )


def _begin(settings: Settings, log: Log, stream: str) -> Begin:
    begin = log.streams.get(stream)
    if begin is None or begin.epoch < log.begins[begin.partition].epoch:
        raise InputError(
            f"the learner has seen no event of a stream {stream!r} in this epoch; `glasstream state show` lists all "
            "streams"
        )
    if begin.lost:
        raise LostInputError(
            f"stream {stream!r}: its events cannot be numbered, because Kafka has deleted those before offset "
            f"{begin.offset:,} of {topic(settings, events.TOPIC.name)}[{begin.partition}] (a longer retention.ms or "
            "retention.bytes of the topic keeps them)"
        )
    return begin


class _Loop(Reference):
    """The plain loop for one stream, which explains only the blocks with some of its events."""

    def __init__(self, settings: Settings, begin: Begin, stream: str, seqs: frozenset[int]) -> None:
        super().__init__(settings, file_reader(settings), begin.decisions)
        self._begin = begin
        self._stream = stream
        self._seqs = seqs
        self._predicted: dict[int, tuple[str, Prediction]] = {}
        self._answers: list[tuple[ExplainRequest, Contributions]] = []

    def explained(self, message: Message, published: Mapping[int, tuple[str, Contributions]]) -> Iterator[Explained]:
        """Yield what results from one message."""
        for name, record in self.feed(message):
            if name == predictions.TOPIC.name and (one := predictions.decode(record)).seq in self._seqs:
                self._predicted.setdefault(one.seq, (f"{message.topic}[{message.partition}]@{message.offset}", one))
        for block, answer in self._answers:
            for index, seq in _entries(answer, self._seqs):
                yield self._record(block, answer, index, seq, published.get(answer.first_row + index))
        self._answers.clear()

    @property
    def has_passed(self) -> bool:
        """Whether no later message explains any of the events."""
        learner = self._learner
        return learner is not None and (
            learner.epoch != self.settings.epoch
            or (learner.state.seqs > max(self._seqs) and not learner.state.waiting.awaits(self._seqs))
        )

    @property
    def count(self) -> int:
        """Number of events so far."""
        return 0 if self._learner is None else self._learner.state.seqs

    @property
    def _learner(self) -> StreamLearner | None:
        partition = self._learners.get(self._begin.partition)
        stream = None if partition is None else partition.streams.get(self._stream)
        return None if stream is None else stream.learner

    def _explain(self, block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
        if block.epoch == self.settings.epoch and any(_entries(block, self._seqs)):
            self._answers += [(block, answer) for answer in super()._explain(block, model)]
        return []

    def _watch(self, message: Message) -> Iterator[Published]:
        return iter(())

    def _record(
        self,
        block: ExplainRequest,
        answer: Contributions,
        index: int,
        seq: int,
        published: tuple[str, Contributions] | None,
    ) -> Explained:
        at, event = self._predicted[seq]
        place = answer.first_row - block.first_row + index
        number = block.numbering(slice(place, place + 1))
        row = number["row"] if block.parts else number["first_row"]
        values, y = _values(answer, index), float(block.y[place])
        table = None if self._learner is None else self._learner.state.features
        target: Value = block.classes[int(y)] if block.classes and not np.isnan(y) else y
        return Explained(
            stream=block.stream,
            epoch=block.epoch,
            seq=seq,
            row=row,
            id=event.id,
            ts=event.ts,
            at=at,
            features={
                name: None if table is None else decoded(value, table.kinds[slot], table.texts(slot))
                for slot, (name, value) in enumerate(zip(block.names, block.x[place], strict=True))
            },
            target=target if block.has(LABELLED)[place] else None,
            prediction=event.prediction,
            model_version=block.version,
            lag=row - block.version if self.settings.model.learns else 0,
            loss=float(values["loss"]) if "loss" in values else None,
            loss_name=block.loss,
            reason=answer.reason,
            contributions=_by_feature(answer, values),
            published=None if published is None else _compared(answer, values, *published, answer.first_row + index),
        )


def _published(
    settings: Settings, begin: Begin, stream: str, seqs: Collection[int]
) -> dict[int, tuple[str, Contributions]]:
    """Return what the explainers published about some events, and where, by the numbers of the entries."""
    name, key = topic(settings, contributions.TOPIC.name), contributions.key(stream)
    found: dict[int, tuple[str, Contributions]] = {}
    for message in read_records(connection(settings), {(name, begin.partition): 0}, read_committed=False):
        try:
            record = contributions.decode(message.value or b"") if message.key == key else None
        except FrameError:
            continue  # the aggregator reports it
        if record is not None and (record.stream, record.epoch) == (stream, settings.epoch):
            found |= {record.first_row + index: (message.place, record) for index, _ in _entries(record, seqs)}
    return found


def _entries(record: ExplainRequest | Contributions, seqs: Collection[int]) -> list[tuple[int, int]]:
    """Return index and seq of the entries that belong to some events."""
    return [(index, seq) for index, seq in enumerate(record.seqs.tolist()) if seq in seqs]


def _values(answer: Contributions, index: int) -> dict[str, Array]:
    """Return the numbers of one entry."""
    places = {part: answer.within(part, slice(index, index + 1)) for part in (EFFECTS, LABELLED)}
    found = {name: array[places[_PARTS[name]]] for name, array in answer.values.items()}
    return {name: array[0] for name, array in found.items() if len(array)}


def _by_feature(answer: Contributions, values: Mapping[str, Array]) -> ByMethod:
    return {
        method.name: dict(zip(answer.names, values[method.name].tolist(), strict=True))
        for method in methods_of(values)
        if method.per_feature
    }


def _compared(
    mine: Contributions, values: Mapping[str, Any], at: str, theirs: Contributions, entry: int
) -> PublishedAnswer:
    there = _values(theirs, entry - theirs.first_row)
    equal = (mine.kind, mine.version, mine.names) == (theirs.kind, theirs.version, theirs.names)
    equal = equal and values.keys() == there.keys()
    equal = equal and all(np.array_equal(values[name], there[name], equal_nan=True) for name in values)
    return PublishedAnswer(at, equal, theirs.reason, _by_feature(theirs, there))
