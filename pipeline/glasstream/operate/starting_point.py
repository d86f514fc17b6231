"""Starting points from which a stream can be processed again to reach one of its events."""

from dataclasses import dataclass

from glasstream.errors import FrameError, StateError
from glasstream.ingest.message import Position
from glasstream.learn.checkpoint import StreamState, opened
from glasstream.models.codec.authentication import Key
from glasstream.operate.stream_epoch import StreamEpoch
from glasstream.operate.topic_reader import latest, offsets
from glasstream.stages.build import connection
from glasstream.stages.names import differences, fingerprint, topic
from glasstream_topics import checkpoints, events
from glasstream_topics.checkpoints import Checkpoint, Identity
from glasstream_topics.chunks import room_for


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
            state = opened(checkpoint, key=key)
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
