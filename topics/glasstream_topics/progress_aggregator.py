"""`progress.aggregator`: the aggregator's progress and state, committed in one transaction with its output.

Keys tell three kinds of records apart. The partition's record says where to resume in `contributions`. A small record
per stream says how far the stream is. The state of each stream follows in chunks.
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
    written_by=("aggregator",),
    read_by=("aggregator", "learner", "explainer", "glasstream run"),
    public=False,
    version=VERSION,
    config=COMPACTED,
)

_STATE_PREFIX: Final = b"\xffstate/"  # not UTF-8, so no stream's name begins like this

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class PartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

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
        the stream and its epoch.
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
    """The state of a stream's aggregator as of its progress.

    Attributes
    ----------
    progress
        the stream, and the row as of which this is its state.
    meta, arrays
        the state: JSON values and numeric arrays, under names that the aggregator chooses.
    """

    progress: StreamProgress
    meta: Mapping[str, Any]
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Restored:
    """What a successor restores: where to resume (None on a new partition), and how far each stream is.

    Each stream's state is assembled when it is asked for. A partition with many streams therefore takes little more
    memory than its records.
    """

    partition: PartitionProgress | None
    streams: dict[str, StreamProgress] = field(default_factory=dict)
    _parts: dict[str, dict[int, bytes]] = field(default_factory=dict, compare=False)

    def chunks(self, stream: str) -> int:
        """Return the number of chunks of a stream's state."""
        return max(self._parts.get(stream, {}), default=-1) + 1

    def state(self, stream: str) -> AggregatorState:
        """Return a stream's state.

        Raises
        ------
        FrameError
            the state is incomplete, or belongs to another row than the stream's progress says. The aggregator must not
            resume with less than was committed.
        """
        parts = self._parts.get(stream, {})
        # Room for everything that was read, in parts and assembled: what was written can always be read again.
        whole: chunks.Assembler[str] = chunks.Assembler(_CHUNK, chunks.room_for(parts.values()))
        for index, value in parts.items():
            whole.add(stream, index, value)
        return _state(self.streams[stream], whole.get(stream))


_partition: Final = msgspec.json.Decoder(PartitionProgress)
_stream: Final = msgspec.json.Decoder(StreamProgress)


def encode_partition(record: PartitionProgress) -> tuple[bytes, bytes]:
    """Return key and value of the partition's record."""
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
    """Return keys and values of a stream's records, with its state in chunks of at most `limit` bytes.

    Parameters
    ----------
    previous_chunks
        number of chunks of the state that this one replaces; chunks that no longer exist get tombstones.

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
    """Decode the record under a key, for tools that watch progress; None for a part of a state.

    Raises
    ------
    RecordError
        the value does not fit the key.
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
    """Return whether a key belongs to a progress record. Parts of a stream's state, which only the aggregator needs, do
    not.
    """
    return not key.startswith(_STATE_PREFIX)


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Restore everything on a partition of the topic.

    Parameters
    ----------
    latest
        the newest value of every key, without keys that have a tombstone.

    Raises
    ------
    RecordError, FrameError
        a record is damaged, or a state has no progress record.
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
