"""Process a stream again from its log, up to the events that are to be explained.

Processing begins at a starting point: a checkpoint of the learner, or the first message. `place` finds the events on
the log, numbered as learner and novelty detector number them. `relearn` learns the stream again, to recover the blocks
of the events and the models that these name.
"""

import sys
from array import array
from collections.abc import Collection, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Final

from glasstream.app.operate.explain_at.stream_epoch import StreamEpoch
from glasstream.app.operate.models import file_reader
from glasstream.app.operate.topic_reader import latest, offsets
from glasstream.base.errors import FrameError, StateError
from glasstream.events.admission import Accepted, Admission
from glasstream.events.decode import decode
from glasstream.events.features import FeatureTable, KeptFeatures, Kind
from glasstream.events.message import Message, Position
from glasstream.events.waiting import Joined, Waiting
from glasstream.explain.sizes import pieces
from glasstream.flow.identity import event_id
from glasstream.flow.learner.checkpoint import opened
from glasstream.flow.learner.learner import Outbox
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.pushed import Decisions, PushedModels
from glasstream.flow.learner.stream_state import StreamState
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import differences, fingerprint, topic
from glasstream.kafka.transport.connection import connection
from glasstream.models.codec import snapshot as codec
from glasstream.models.codec.authentication import Key
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import checkpoints, events
from glasstream_topics.checkpoints import Checkpoint, Identity
from glasstream_topics.chunks import room_for
from glasstream_topics.labels import Label
from glasstream_topics.requests import ExplainRequest

_KEY = b"what leaves no process needs no secret"


@dataclass(frozen=True, slots=True)
class StartingPoint:
    """Position, number of the first event from there on, and the learner's state there (None at the beginning)."""

    at: Position
    seq: int = 0
    state: StreamState | None = None


def find_starting_point(stream_epoch: StreamEpoch, seq: int, key: Key | None) -> StartingPoint:
    """Return the newest starting point that is not after an event: a checkpoint, or the stream's first message.

    Raises
    ------
    StateError
        No starting point is left. The message says which setting would have kept one.
    """
    settings, link = stream_epoch.settings, connection(stream_epoch.settings)
    name = topic(settings, events.TOPIC.name)
    low, _ = offsets(link, [(name, stream_epoch.partition)])[name, stream_epoch.partition]
    reasons: list[str] = []
    for checkpoint in _checkpoints(stream_epoch, reasons):
        if checkpoint.seqs > seq or checkpoint.offset < low:
            continue
        try:
            state = opened(checkpoint, settings, key=key, models=PushedModels(file_reader(settings), key))
        except StateError as error:
            reasons.append(str(error))
            continue
        if state.tells_model:
            return StartingPoint(Position(checkpoint.offset, checkpoint.used), checkpoint.seqs, state)
    first = stream_epoch.progress.first_offset
    if first >= low:
        return StartingPoint(Position(first, 0))
    reasons.append(
        f"{name}[{stream_epoch.partition}] is kept from offset {low} on, but the stream began at {first} (a longer "
        "retention.ms or retention.bytes of the topic keeps it)"
    )
    if len(reasons) == 1:
        reasons.append(
            f"there is no checkpoint from before seq {seq} (the learner keeps only the newest ones, checkpoint.seconds "
            "apart)"
        )
    raise StateError(f"stream {stream_epoch.stream!r} cannot be learned again up to seq {seq}: {'; '.join(reasons)}")


def _checkpoints(stream_epoch: StreamEpoch, reasons: list[str]) -> list[Checkpoint]:
    """Return the complete checkpoints of the stream and epoch under its settings, newest first."""
    settings = stream_epoch.settings
    name = topic(settings, checkpoints.TOPIC.name)
    records = latest(connection(settings), [(name, stream_epoch.partition)])[name, stream_epoch.partition]
    mine: dict[bytes, Identity] = {}
    for key in records:
        try:
            mine[key] = checkpoints.Key.decode(key).identity
        except FrameError:
            continue  # the learner reports it
    wanted = {identity for identity in mine.values() if identity[:2] == (stream_epoch.stream, settings.epoch)}
    assembler = checkpoints.Assembler(room_for(records.values()))
    for key, identity in mine.items():
        if identity in wanted:
            assembler.add(key, records[key])
    found: list[Checkpoint] = []
    for identity in sorted(assembler.complete(), key=lambda one: one.version, reverse=True):
        data = assembler.get(*identity)
        try:
            checkpoint = checkpoints.decode(data or b"")
        except FrameError as error:
            reasons.append(f"{name}[{stream_epoch.partition}]: the checkpoint at row {identity.version}: {error}")
            continue
        if not differences(checkpoint.fingerprint, fingerprint(settings)):
            found.append(checkpoint)
    return found


@dataclass(frozen=True, slots=True)
class Placed:
    """Event with its position on the log.

    Attributes
    ----------
    offset, index
        Offset of the message in its partition of `events`, and index of the event in the message.
    id, x, target, ts
        Content of the event.
    """

    offset: int
    index: int
    id: str
    x: Mapping[str, float | str | bool | None]
    target: str | float | None
    ts: int | None


@dataclass(frozen=True, slots=True)
class Counted:
    """Result of counting the events of a stream.

    Attributes
    ----------
    events
        Requested events by seq.
    texts
        Categories of each text feature by their codes, as of the last requested event.
    """

    events: dict[int, Placed]
    texts: dict[str, tuple[str, ...]]


def place(settings: Settings, begin: StartingPoint, messages: Iterable[Message], seqs: Collection[int]) -> Counted:
    """Find events by their numbers.

    Parameters
    ----------
    begin
        Starting point of the messages.
    messages
        Messages of this one stream, in order.
    """
    last = max(seqs)
    admission, table = Admission(settings.model.chosen_task, limits=settings.limits), FeatureTable(settings.limits)
    waiting: Waiting[Any] = Waiting(settings.labels.window, sys.maxsize)
    if begin.state is not None:
        state = begin.state
        admission = Admission(state.task, begin.seq, state.target_kind, settings.limits, dict.fromkeys(state.classes))
        table = deepcopy(begin.state.features)
        waiting = deepcopy(begin.state.waiting)
        waiting.most_bytes = sys.maxsize
    found: dict[int, Placed] = {}
    for message in messages:
        used = begin.at.used if message.offset == begin.at.offset else 0
        decoded = decode(message.value, settings.limits.message_bytes)
        if decoded.reset:
            break
        for index, event in decoded.events[used:]:
            if isinstance(event, Label):
                joined = waiting.join(event, admission)
                if isinstance(joined, Joined) and joined.seq in found:
                    found[joined.seq] = replace(found[joined.seq], target=joined.target)
            else:
                accepted = admission.admit(event)
                if isinstance(accepted, Accepted):
                    name = event_id(event.id, message, index)
                    _note(waiting, accepted, name)
                    if accepted.seq <= last:
                        table.encode(event.x)
                    if accepted.seq in seqs:
                        found[accepted.seq] = Placed(message.offset, index, name, event.x, accepted.target, event.ts)
            if admission.seq > last and not waiting.awaits(seqs):
                return Counted(found, _texts(table))
    return Counted(found, _texts(table))


_NOTHING: Final = KeptFeatures(None, array("d"))


def _note(waiting: Waiting[Any], accepted: Accepted, name: str) -> None:
    """Record an accepted event like a learner whose model raises on no event, and without `limits.waiting_bytes`."""
    if accepted.event.id is None:
        return
    if accepted.target is None:
        waiting.add(name, accepted.seq, _NOTHING)
    elif waiting.begun:
        waiting.labelled(name, accepted.seq)
    waiting.expire(accepted.seq + 1)


def _texts(table: FeatureTable) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(codes)
        for name, kind, codes in zip(table.names, table.kinds, table.categories, strict=True)
        if kind is Kind.TEXT
    }


def relearn(
    settings: Settings,
    stream: str,
    partition: int,
    begin: StartingPoint,
    messages: Iterable[Message],
    seqs: Collection[int],
    models: PushedModels | None = None,
    decisions: Decisions | None = None,
) -> dict[int, tuple[ExplainRequest, Predictor]]:
    """Return for each event its block and the model that explains it. Omit events that are not explained.

    Learning is a function of the log, so the results equal the learner's to the last bit. Only the places where blocks
    are cut may differ.

    Parameters
    ----------
    begin
        Starting point of the messages.
    messages
        Messages of this one stream, in order.
    models, decisions
        The models that marks name, and what the learner has decided about these marks.
    """
    wanted = set(seqs)
    last = max(wanted)
    core = PartitionLearner(partition, settings, first_offset=begin.at.offset, models=models, decisions=decisions)
    if begin.state is not None:
        core.resume(stream, begin.state, begin.at)
    found: dict[int, tuple[ExplainRequest, Predictor]] = {}
    model: tuple[int, bytes] | None = None

    def take(outbox: Outbox) -> None:
        """Take blocks before snapshots, because a block is cut before the snapshot of its last row is taken."""
        nonlocal model
        for block in chain.from_iterable(map(pieces, outbox.requests)):
            asked = wanted.intersection(block.seqs.tolist())
            if asked and model is not None and model[0] == block.version:
                predictor = codec.decode(model[1], key=_KEY)
                found.update((seq, (block, predictor)) for seq in asked)
        for snapshot in outbox.snapshots:  # as bytes, because the model itself continues to learn
            version = snapshot.version
            data = codec.encode(snapshot.predictor, stream=stream, epoch=settings.epoch, version=version, key=_KEY)
            model = version, data

    take(core.take_outbox()[0])
    for message in messages:
        passed = False
        for learner in core.consume(message):
            if learner.ended:
                passed = True
                break
            if core.outbox.requests or core.outbox.snapshots:
                take(core.take_outbox()[0])
            passed = learner.seqs > last and not learner.waiting.awaits(wanted)
        if passed:
            break
    core.cut()
    take(core.take_outbox()[0])
    return found
