"""Repeat the explanation of an event from the log, and compare it with the published one."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from glasstream.app.operate.explain_at.from_log import (
    Counted,
    Placed,
    StartingPoint,
    find_starting_point,
    place,
    relearn,
)
from glasstream.app.operate.explain_at.from_topics import Published, Sent, published, sent
from glasstream.app.operate.explain_at.stream_epoch import StreamEpoch, load_stream_epoch
from glasstream.app.operate.models import file_reader
from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import InputError, LostInputError, StateError
from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.flow.learner.pushed import Decisions, PushedModels
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import connection
from glasstream.models.codec.authentication import Key
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import events, requests
from glasstream_topics.contributions import Contributions
from glasstream_topics.frames import Array
from glasstream_topics.requests import ExplainRequest

Source = Literal["topics", "log"]

TOLERANCE = 1e-12
"""Largest difference at which two explanations count as equal. Correct ones are equal to the bit."""


@dataclass(frozen=True, slots=True, eq=False)
class Explained:
    """Repeated explanation.

    Attributes
    ----------
    stream_epoch
        Epoch of the stream.
    seq
        Number of the event.
    event, texts
        Event on the log, and the categories of its text features by their codes; None if the log no longer has it.
    source
        Origin of the block and the model: the topics, or the log, from which the stream was learned again.
    block, answer
        Block that was explained, and the resulting contributions.
    published
        Contributions that the explainers published; None if the topic no longer has them.
    notes
        Lines about what is missing, and what would have kept it.
    """

    stream_epoch: StreamEpoch
    seq: int
    event: Placed | None
    texts: dict[str, tuple[str, ...]]
    source: Source
    block: ExplainRequest
    answer: Contributions
    published: Published | None
    notes: tuple[str, ...]

    @property
    def at(self) -> int:
        """Return the event's index in the block."""
        return _place(self.block.seqs, self.seq)

    @property
    def row(self) -> int:
        """Return the event's row."""
        return self.block.first_row + self.at

    @property
    def lag(self) -> int:
        """Return the number of rows that the model had learned less than it could have."""
        return self.row - self.block.version if self.stream_epoch.settings.model.learns else 0

    @property
    def at_answer(self) -> int:
        """Return the event's index in the contributions."""
        return _place(self.answer.seqs, self.seq)

    @property
    def difference(self) -> float | None:
        """Return the largest difference from the published numbers, or None if the topic no longer has them.

        The difference is infinite where only one of the two has a number.
        """
        if self.published is None:
            return None
        there = self.published.contributions
        if (self.answer.kind, self.answer.version, self.answer.names) != (there.kind, there.version, there.names):
            return float("inf")
        if self.answer.values.keys() != there.values.keys():
            return float("inf")
        index = _place(there.seqs, self.seq)
        return max(
            (_distance(mine[self.at_answer], there.values[name][index]) for name, mine in self.answer.values.items()),
            default=0.0,
        )


def explain_at(
    settings: Settings, stream: str, seqs: Sequence[int], key: Key | None, source: Source | None = None
) -> Iterator[Explained]:
    """Explain events of a stream again, each as when it arrived.

    Parameters
    ----------
    settings
        Configuration, for the topics. Settings that change numbers come from the learner's committed state.
    key
        HMAC key for pickled models and checkpoints.
    source
        `topics` uses the block and the snapshot that were sent. `log` uses only the events, and learns them again from
        the first one or from a checkpoint. None uses the topics, and the log for what they no longer hold.

    Raises
    ------
    InputError
        The stream or the event does not exist, or no method explains it.
    StateError
        Kafka no longer holds enough to explain an event. The message says which setting would have kept it.
    """
    of, asked = load_stream_epoch(settings, stream), frozenset(seqs)
    _expect(of, seqs)
    if of.settings.explain.unlabelled:
        raise InputError(
            f"stream {stream!r}: expected a stream that is explained by rows, got one with explain.unlabelled, whose "
            "events are explained in two parts at two times; this command cannot repeat these yet"
        )
    notes: list[str] = []
    there = Sent(published(of, asked)) if source == "log" else sent(of, asked, key)
    notes += there.notes
    begin, counted = _counted(of, asked, key, notes)
    for seq in seqs:
        _expect_explained(of, seq, counted, there)
    sources: dict[int, tuple[Source, ExplainRequest, Predictor]] = {
        seq: ("topics", block, there.models[block.version])
        for seq, block in there.requests.items()
        if block.version in there.models
    }
    missing = [seq for seq in seqs if seq not in sources]
    if missing and source == "topics":
        raise StateError("\n".join([_gone(of, missing, there), *notes]))
    if missing:
        if source is None and (lost := [seq for seq in missing if seq not in there.requests]):
            notes.append(_gone(of, lost, there))
        for seq, (block, model) in _learned(of, begin, missing, notes).items():
            sources[seq] = "log", block, model
    answers: dict[int, list[Contributions]] = {}
    for seq in seqs:
        if seq not in sources:
            raise InputError(
                f"stream {stream!r}: event {seq} has no explanation. Explanations start at row "
                f"{of.settings.explain.first_row} (explain.start, explain.reservoir), and leave out events on "
                f"which the model raised an error (reason model_error on {topic(settings, 'events.dead')})"
            )
        way, block, model = sources[seq]
        parts = answers.setdefault(id(block), [])
        if not parts:
            parts += explain(block, model)
        answer = next(part for part in parts if seq in part.seqs)
        yield Explained(
            of, seq, counted.events.get(seq), counted.texts, way, block, answer, there.published.get(seq), tuple(notes)
        )


def _expect(of: StreamEpoch, seqs: Sequence[int]) -> None:
    if not of.progress.seqs:
        raise InputError(f"stream {of.stream!r}: expected an event in epoch {of.settings.epoch}, got none")
    if outside := [seq for seq in seqs if not 0 <= seq < of.progress.seqs]:
        raise InputError(
            f"stream {of.stream!r}: expected a seq from 0 to {of.progress.seqs - 1}, the events accepted in epoch "
            f"{of.settings.epoch}, got {', '.join(map(str, outside))}"
        )


def _messages(of: StreamEpoch, begin: StartingPoint) -> Iterator[Message]:
    """Yield the messages of the stream from a starting point on."""
    name, key = topic(of.settings, events.TOPIC.name), events.key(of.stream)
    for one in read_records(connection(of.settings), {(name, of.partition): begin.at.offset}, read_committed=True):
        if one.key == key:
            yield Message(one.topic, one.partition, one.offset, one.key, one.value, one.timestamp)


def _counted(
    of: StreamEpoch, seqs: Collection[int], key: Key | None, notes: list[str]
) -> tuple[StartingPoint | None, Counted]:
    try:
        begin = find_starting_point(of, min(seqs), key)
    except StateError as error:
        notes.append(str(error))
        return None, Counted({}, {})
    return begin, place(of.settings, begin, _messages(of, begin), seqs)


def _expect_explained(of: StreamEpoch, seq: int, counted: Counted, there: Sent) -> None:
    """Raise InputError for an event that no method explains."""
    if seq in there.published or seq in there.requests or seq not in counted.events:
        return
    event = counted.events[seq]
    where = f"stream {of.stream!r}: seq {seq} ({topic(of.settings, 'events')}[{of.partition}]@{event.offset})"
    if event.target is None:
        raise InputError(f"{where} has no label: the model predicted it but did not learn it, so no method explains it")


def _gone(of: StreamEpoch, seqs: Sequence[int], there: Sent) -> str:
    lost = ", ".join(str(seq) for seq in seqs if seq not in there.requests)
    name = topic(of.settings, requests.TOPIC.name)
    if not lost:
        return f"the blocks of seqs {', '.join(map(str, seqs))} are on {name}, but their snapshots are gone"
    return (
        f"there is no block with seq {lost} on {name}: Kafka has deleted it (a larger retention.bytes of the topic "
        "keeps it longer), or no method explains the event"
    )


def _learned(
    of: StreamEpoch, begin: StartingPoint | None, seqs: Sequence[int], notes: list[str]
) -> dict[int, tuple[ExplainRequest, Predictor]]:
    if begin is None:
        raise LostInputError("\n".join(notes))
    if of.differing:
        raise StateError(
            f"stream {of.stream!r} must be learned again to explain this, which gives the same numbers only under the "
            f"learner's versions, but these differ: {'; '.join(of.differing)}; run this with the same packages and "
            "model"
        )
    models = PushedModels(file_reader(of.settings))
    decisions = Decisions(of.progress.after, {of.stream: of.progress.refused})
    return relearn(of.settings, of.stream, of.partition, begin, _messages(of, begin), seqs, models, decisions)


def _place(seqs: Array, seq: int) -> int:
    """Return the index of an event. Labels that come late put seqs in any order."""
    return int(np.flatnonzero(seqs == seq)[0])


def _distance(mine: np.typing.NDArray[np.float64], theirs: np.typing.NDArray[np.float64]) -> float:
    """Return the largest difference between two arrays. Places where both have no number are equal."""
    mine, theirs = np.asarray(mine, np.float64), np.asarray(theirs, np.float64)
    if mine.shape != theirs.shape or bool((np.isnan(mine) != np.isnan(theirs)).any()):
        return float("inf")
    apart = np.abs(mine - theirs)
    return float(np.max(apart, initial=0.0, where=~np.isnan(apart)))
