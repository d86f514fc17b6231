"""`progress.aggregator`: how far the aggregator is, and its state, committed in one transaction with what it sent.

Three kinds of records, told apart by their keys: one for the partition (where to go on in `contributions`), one small
one per stream for those who watch (how far it is), and per stream its state, in chunks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics import chunks, frames
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, Topic
from glasstream_topics.errors import FrameError, RecordError
from glasstream_topics.frames import Array
from glasstream_topics.progress_learner import PARTITION_KEY, Setting
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1
_STATE: Final = "aggregator-state"
_CHUNK: Final = "aggregator-state-chunk"

TOPIC: Final = Topic(
    name="progress.aggregator",
    holds="how far the aggregator is on a partition and with each stream of it, and its state",
    key="stream, or the key of the partition's record, or that of a part of a stream's state",
    partitioning="the partition of contributions that it is about, set explicitly",
    partitions="events",
    codec="json",
    read_by=("aggregator", "learner", "explainer", "glasstream run"),
    public=False,
    schema_version=VERSION,
    config=COMPACTED,
)

_STATE_PREFIX: Final = b"\xffstate/"  # not UTF-8, so no stream's name begins like this

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class PartitionProgress(msgspec.Struct, frozen=True):
    """Where to go on.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    offset
        the lowest offset of `contributions` that holds a row which is not aggregated yet.
    fingerprint
        the settings and versions that change numbers, by name.
    """

    epoch: _Natural
    offset: _Natural
    fingerprint: dict[str, Setting]
    schema_version: Literal[1] = VERSION


class StreamProgress(msgspec.Struct, frozen=True):
    """How far a stream is.

    Attributes
    ----------
    stream, epoch
        whose progress.
    next_row
        all rows below it are aggregated.
    published_row
        row as of which estimates were last due; -1 before the first. They were published if any row was explained.
    """

    stream: str
    epoch: _Natural
    next_row: _Natural
    published_row: Annotated[int, msgspec.Meta(ge=-1)]
    schema_version: Literal[1] = VERSION


@dataclass(frozen=True, kw_only=True, eq=False)
class AggregatorState:
    """A stream's aggregator as of its progress.

    Attributes
    ----------
    progress
        whose state, and as of which row.
    meta, arrays
        what the aggregator goes on with: JSON values and numeric arrays, by names of its own.
    """

    progress: StreamProgress
    meta: Mapping[str, Any]
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Restored:
    """What a successor finds: where to go on (None on a new partition), and how far each stream is.

    The streams' states are put together one by one, when they are asked for, so that a partition with many streams
    takes little more memory than its records.
    """

    partition: PartitionProgress | None
    streams: dict[str, StreamProgress] = field(default_factory=dict)
    _parts: dict[str, dict[int, bytes]] = field(default_factory=dict, compare=False)

    def chunks(self, stream: str) -> int:
        """In how many chunks the state of a stream is there."""
        return max(self._parts.get(stream, {}), default=-1) + 1

    def state(self, stream: str) -> AggregatorState:
        """A stream's state.

        Raises
        ------
        FrameError
            it is not whole, or not of the row that the stream's progress says: the aggregator must not go on with less
            than was committed.
        """
        parts = self._parts.get(stream, {})
        # Room for all that was read, whole and in parts: what was written is never too much to be read.
        whole: chunks.Assembler[str] = chunks.Assembler(_CHUNK, chunks.room_for(parts.values()))
        for index, value in parts.items():
            whole.add(stream, index, value)
        return _state(self.streams[stream], whole.get(stream))


_partition: Final = msgspec.json.Decoder(PartitionProgress)
_stream: Final = msgspec.json.Decoder(StreamProgress)


def encode_partition(record: PartitionProgress) -> tuple[bytes, bytes]:
    """Key and value of the partition's record."""
    value = {
        "schema_version": record.schema_version,
        "epoch": record.epoch,
        "offset": record.offset,
        "fingerprint": dict(sorted(record.fingerprint.items())),
    }
    return PARTITION_KEY, encode_record(TOPIC.name, value)


def encode_stream(
    state: AggregatorState, previous_chunks: int = 0, limit: int = CHUNK_BYTES
) -> list[tuple[bytes, bytes | None]]:
    """Keys and values of a stream's records, its state in chunks of at most `limit` bytes.

    Parameters
    ----------
    previous_chunks
        how many chunks the state had that this one replaces; those that it no longer has get tombstones.

    Raises
    ------
    FrameError
        the state cannot be written exactly.
    """
    progress = state.progress
    summary = {
        "schema_version": progress.schema_version,
        "stream": progress.stream,
        "epoch": progress.epoch,
        "next_row": progress.next_row,
        "published_row": progress.published_row,
    }
    data = frames.encode(_STATE, VERSION, {"progress": summary, "state": dict(state.meta)}, state.arrays)
    values: list[bytes | None] = [*chunks.split(_CHUNK, data, limit)]
    values += [None] * (previous_chunks - len(values))
    return [
        (progress.stream.encode(), encode_record(TOPIC.name, summary)),
        *((_state_key(progress.stream, index), value) for index, value in enumerate(values)),
    ]


def decode(key: bytes, value: bytes) -> PartitionProgress | StreamProgress | None:
    """The record under a key, for those who watch; None for a part of a state.

    Raises
    ------
    RecordError
        the value is not what the key says.
    """
    if key == PARTITION_KEY:
        return decode_record("progress.aggregator, the partition's record", value, _partition)
    if key.startswith(_STATE_PREFIX):
        return None
    record = decode_record("progress.aggregator, a stream's record", value, _stream)
    if record.stream.encode() != key:
        raise RecordError(
            f"progress.aggregator: expected the record of the stream {key!r}, got that of {record.stream!r}"
        )
    return record


def is_progress(key: bytes) -> bool:
    """Whether a key is that of progress, and not of a part of a stream's state, which only the aggregator needs."""
    return not key.startswith(_STATE_PREFIX)


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Everything on a partition of the topic, from the newest value of every key (without those with a tombstone).

    Raises
    ------
    RecordError, FrameError
        a record is damaged, or there is a state without a stream's progress.
    """
    partition: PartitionProgress | None = None
    progress: dict[str, StreamProgress] = {}
    parts: dict[str, dict[int, bytes]] = {}
    for key, value in latest.items():
        record = decode(key, value)
        if isinstance(record, PartitionProgress):
            partition = record
        elif isinstance(record, StreamProgress):
            progress[record.stream] = record
        else:
            stream, index = _parse_state_key(key)
            parts.setdefault(stream, {})[index] = value
    orphans = sorted(parts.keys() - progress.keys())
    if orphans:
        raise FrameError(f"progress.aggregator: expected a stream's progress beside its state, got none of {orphans}")
    if progress and partition is None:
        raise RecordError(
            f"progress.aggregator: expected the partition's record beside those of {sorted(progress)}, got none"
        )
    return Restored(partition, progress, parts)


def _state(progress: StreamProgress, data: bytes | None) -> AggregatorState:
    if data is None:
        raise FrameError(
            f"progress.aggregator: the state of stream {progress.stream!r} at row {progress.next_row} is not whole: a "
            f"part is missing or damaged; restore the topic, or start a new epoch"
        )
    frame = frames.decode(data, _STATE, VERSION)
    meta = frame.meta.get("state")
    try:
        found = msgspec.convert(frame.meta.get("progress"), StreamProgress)
    except msgspec.ValidationError as error:
        raise FrameError(f"the meta of a {_STATE} frame: {error}") from error
    if found != progress or not isinstance(meta, dict):
        raise FrameError(f"progress.aggregator: expected the state of {progress}, got that of {found}")
    return AggregatorState(progress=progress, meta=meta, arrays=frame.arrays)


def _state_key(stream: str, chunk: int) -> bytes:
    return b"%s%s/%d" % (_STATE_PREFIX, stream.encode(), chunk)


def _parse_state_key(key: bytes) -> tuple[str, int]:
    try:
        stream, _, chunk = key.removeprefix(_STATE_PREFIX).decode().rpartition("/")
        return stream, int(chunk)
    except ValueError as error:
        raise FrameError(f"a key of progress.aggregator: expected a stream's name and a chunk, got {key!r}") from error
