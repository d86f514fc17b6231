"""`progress.aggregator`: the aggregator's progress and state, committed in one transaction with its output.

Keys tell three kinds of records apart. The partition's record says where to resume in `contributions`. A small record
per stream says how far the stream is. The state of each stream follows in chunks.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics import frames, progress
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, Natural, Topic
from glasstream_topics.errors import FrameError
from glasstream_topics.frames import Array
from glasstream_topics.progress import Open, Seal, Setting

VERSION: Final = 1

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


class AggregatorPartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    offset
        the lowest offset of `contributions` that holds a row which is not aggregated yet.
    fingerprint
        the settings and versions that change numbers, by name.
    topic_id
        id of the topic `contributions` that the offsets belong to; None if the brokers give no ids.
    """

    epoch: Natural
    offset: Natural
    fingerprint: dict[str, Setting]
    topic_id: str | None = None
    schema_version: Literal[1] = VERSION


class AggregatorStreamProgress(msgspec.Struct, frozen=True):
    """How far a stream is.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    next_row
        all rows below it are aggregated.
    published_row
        row as of which estimates were last due; -1 before the first. They were published if any row was explained.
    failed
        number of the rows below `next_row` that could not be explained.
    cause
        why the first of them could not; empty while there is none.
    """

    stream: str
    epoch: Natural
    next_row: Natural
    published_row: Annotated[int, msgspec.Meta(ge=-1)]
    failed: Natural = 0
    cause: str = ""
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

    progress: AggregatorStreamProgress
    meta: Mapping[str, Any]
    arrays: Mapping[str, Array]


_LAYOUT: Final = progress.StateLayout(TOPIC.name, "state", "aggregator-state", b"\xffstate/", "progress", VERSION)
_RECORDS: Final = progress.ProgressRecords(TOPIC.name, AggregatorPartitionProgress, AggregatorStreamProgress)


class Restored(progress.Restored[AggregatorPartitionProgress, AggregatorStreamProgress]):
    """What a successor restores."""

    layout = _LAYOUT

    def state(self, stream: str, opened: Open = lambda data, sealed: data) -> AggregatorState:
        """Return a stream's state; `opened` verifies it before anything of it is decoded.

        Raises
        ------
        FrameError
            the state is incomplete, or belongs to another row than the stream's progress says.
        """
        own = self.streams[stream]
        frame = _LAYOUT.decode(stream, f"row {own.next_row}", self.parts.get(stream, {}), opened)
        found = frames.convert(frame.meta.get("progress"), AggregatorStreamProgress, _LAYOUT.kind)
        if found != own:
            raise FrameError(f"progress.aggregator: expected the state of {own}, got that of {found}")
        return AggregatorState(progress=own, meta=frame.meta["state"], arrays=frame.arrays)


def encode_partition(record: AggregatorPartitionProgress) -> tuple[bytes, bytes]:
    """Return key and value of the partition's record."""
    return _RECORDS.encode(record)


def encode_stream(
    state: AggregatorState, previous_chunks: int = 0, limit: int = CHUNK_BYTES, seal: Seal | None = None
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of a stream's records, with its state in chunks of at most `limit` bytes.

    Parameters
    ----------
    previous_chunks
        number of chunks of the state that this one replaces; chunks that no longer exist get tombstones.
    seal
        function that seals the state; None leaves it plain.

    Raises
    ------
    FrameError
        the state cannot be written exactly.
    """
    own = state.progress
    absent = [name for name in ("failed", "cause") if not getattr(own, name)]
    place = {name: value for name, value in msgspec.structs.asdict(own).items() if name not in absent}
    parts = _LAYOUT.encode(own.stream, place, state.meta, state.arrays, previous_chunks, limit, seal)
    return [_RECORDS.encode(own, **dict.fromkeys(absent)), *parts]


def unexplained(stream: str, failed: int, rows: int, cause: str) -> str:
    """Return a sentence about the rows of a stream that could not be explained.

    >>> unexplained("s", 3, 900, "ValueError: no such class")
    "stream 's': 3 of 900 rows could not be explained; the first because: ValueError: no such class"
    """
    return f"stream {stream!r}: {failed:,} of {rows:,} rows could not be explained; the first because: {cause}"


def decode(key: bytes, value: bytes) -> AggregatorPartitionProgress | AggregatorStreamProgress | None:
    """Decode the record under a key, for tools that watch progress; None for a part of a state.

    Raises
    ------
    RecordError
        the value does not fit the key.
    """
    return _RECORDS.decode(key, value) if is_progress(key) else None


def is_progress(key: bytes) -> bool:
    """Return whether a key belongs to a progress record. Parts of a stream's state, which only the aggregator needs, do
    not.
    """
    return not key.startswith(_LAYOUT.prefix)


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Restore everything on a partition of the topic; see `glasstream_topics.progress.ProgressRecords.restore`.

    Raises
    ------
    RecordError, FrameError
        a record is damaged, or a state has no progress record.
    """
    restored = _RECORDS.restore(latest, Restored)
    orphans = sorted(restored.parts.keys() - restored.streams.keys())
    if orphans:
        raise FrameError(f"progress.aggregator: expected a stream's progress with its state, got none of {orphans}")
    return restored
