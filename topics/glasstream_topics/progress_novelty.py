"""`progress.novelty`: the novelty detector's progress and state, committed in one transaction with its output.

Keys tell three kinds of records apart. The partition's record says where to resume in `events`. A small record per
stream says how many events it has used. An anchor per stream, in chunks, holds its whole state as of an earlier
position. A successor restores the anchors. It reads again from the earliest of them up to the partition's position,
without publishing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics import frames
from glasstream_topics.chunks import Assembler, room_for, split
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, StreamName, Topic
from glasstream_topics.errors import FrameError, RecordError
from glasstream_topics.frames import Array
from glasstream_topics.progress_learner import PARTITION_KEY, Setting
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1
_ANCHOR: Final = "novelty-anchor"
_CHUNK: Final = "novelty-anchor-chunk"

TOPIC: Final = Topic(
    name="progress.novelty",
    holds="how far the novelty detector is on a partition and with each stream of it, and its states",
    key="stream, or the key of the partition's record, or that of a part of a stream's anchor",
    partitioning="the partition of events that it is about, set explicitly",
    written_by=("novelty",),
    read_by=("novelty", "glasstream run"),
    public=False,
    version=VERSION,
    config=COMPACTED,
)

_ANCHOR_PREFIX: Final = b"\xffanchor/"  # not UTF-8, so no stream's name begins like this

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class PartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    offset, used
        the message to resume with, and the number of its events that are used.
    fingerprint
        the settings and versions that change numbers, by name.
    """

    epoch: _Natural
    offset: _Natural
    used: _Natural
    fingerprint: dict[str, Setting]
    schema_version: Literal[1] = VERSION


class StreamProgress(msgspec.Struct, frozen=True):
    """What was done with a stream before the partition's position.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    first_offset
        the offset of `events` at which the stream began: without an anchor it is read again from there.
    seqs
        number of accepted events and of late labels that found their event.
    anchor
        value of `seqs` at the stream's newest anchor; -1 if it has none.
    """

    stream: StreamName
    epoch: _Natural
    first_offset: _Natural
    seqs: _Natural
    anchor: Annotated[int, msgspec.Meta(ge=-1)]
    schema_version: Literal[1] = VERSION


class _Place(msgspec.Struct, frozen=True):
    """Where an anchor was taken."""

    stream: StreamName
    epoch: _Natural
    offset: _Natural
    used: _Natural
    seqs: _Natural


@dataclass(frozen=True, kw_only=True, eq=False)
class Anchor:
    """A stream's state as of a position.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    offset, used
        the position: the message to resume with, and the number of its events that are in the state.
    seqs
        number of accepted events, and of late labels that found their event, before the position.
    meta, arrays
        the state: JSON values and numeric arrays, under names that the novelty detector chooses.
    """

    stream: str
    epoch: int
    offset: int
    used: int
    seqs: int
    meta: Mapping[str, Any]
    arrays: Mapping[str, Array]


@dataclass(frozen=True)
class Restored:
    """What a successor restores.

    This is where to resume (None on an untouched partition), how far each stream is, and the number of chunks of each
    stream's anchor, of whichever epoch.
    """

    partition: PartitionProgress | None
    streams: dict[str, StreamProgress] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)
    _anchors: Assembler[str] = field(default_factory=lambda: Assembler(_CHUNK, 0), compare=False)

    def anchor(self, stream: str) -> Anchor | None:
        """Return a stream's anchor, or None if it has none.

        Raises
        ------
        FrameError
            the anchor that the stream's progress names is incomplete. The novelty detector must not resume with less
            than was committed.
        """
        progress = self.streams[stream]
        return _anchor(progress, self._anchors.get(stream)) if progress.anchor >= 0 else None


_partition: Final = msgspec.json.Decoder(PartitionProgress)
_stream: Final = msgspec.json.Decoder(StreamProgress)


def encode(record: PartitionProgress | StreamProgress) -> tuple[bytes, bytes]:
    """Return key and value of a record.

    Raises
    ------
    RecordError
        JSON cannot hold a value.
    """
    fields = msgspec.structs.asdict(record)
    fields = {"schema_version": fields.pop("schema_version"), **fields}
    if isinstance(record, PartitionProgress):
        fields["fingerprint"] = dict(sorted(record.fingerprint.items()))
        return PARTITION_KEY, encode_record(TOPIC.name, fields)
    return record.stream.encode(), encode_record(TOPIC.name, fields)


def encode_anchor(
    anchor: Anchor, previous_chunks: int = 0, limit: int = CHUNK_BYTES
) -> list[tuple[bytes, bytes | None]]:
    """Return keys and values of an anchor's chunks, each of at most `limit` bytes.

    Parameters
    ----------
    previous_chunks
        number of chunks of the anchor that this one replaces; chunks that no longer exist get tombstones.

    Raises
    ------
    FrameError
        the state cannot be written exactly.
    """
    place = {name: getattr(anchor, name) for name in _Place.__struct_fields__}
    data = frames.encode(_ANCHOR, VERSION, {"place": place, "state": dict(anchor.meta)}, anchor.arrays)
    values: list[bytes | None] = [*split(_CHUNK, data, limit)]
    values += [None] * (previous_chunks - len(values))
    return [(b"%s%s/%d" % (_ANCHOR_PREFIX, anchor.stream.encode(), index), value) for index, value in enumerate(values)]


def decode(key: bytes, value: bytes) -> PartitionProgress | StreamProgress | None:
    """Decode the record under a key, for tools that watch progress; None for a part of an anchor.

    Raises
    ------
    RecordError
        the value does not fit the key.
    """
    if key == PARTITION_KEY:
        return decode_record("progress.novelty, the partition's record", value, _partition)
    if key.startswith(_ANCHOR_PREFIX):
        return None
    record = decode_record("progress.novelty, a stream's record", value, _stream)
    if record.stream.encode() != key:
        raise RecordError(f"progress.novelty: expected the record of the stream {key!r}, got that of {record.stream!r}")
    return record


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Restore everything on a partition of the topic.

    Parameters
    ----------
    latest
        the newest value of every key, without keys that have a tombstone.

    Raises
    ------
    RecordError, FrameError
        a record is damaged.
    """
    partition: PartitionProgress | None = None
    streams: dict[str, StreamProgress] = {}
    # Room for everything that was read, in parts and assembled, because a damaged part may state any size.
    whole: Assembler[str] = Assembler(_CHUNK, room_for(latest.values()))
    counts: dict[str, int] = {}
    for key, value in latest.items():
        record = decode(key, value)
        if isinstance(record, PartitionProgress):
            partition = record
        elif isinstance(record, StreamProgress):
            streams[record.stream] = record
        else:
            name, index = _parse_key(key)
            counts[name] = max(counts.get(name, 0), index + 1)
            whole.add(name, index, value)
    if streams and partition is None:
        raise RecordError(f"progress.novelty: expected the partition's record beside {sorted(streams)}, got none")
    return Restored(partition, streams, counts, whole)


def tombstones(stream: str, chunks: int) -> list[tuple[bytes, None]]:
    """Return the tombstones that delete everything of a stream, including an anchor of `chunks` chunks."""
    keys = [b"%s%s/%d" % (_ANCHOR_PREFIX, stream.encode(), index) for index in range(chunks)]
    return [(key, None) for key in (*keys, stream.encode())]


def _anchor(progress: StreamProgress, data: bytes | None) -> Anchor:
    if data is None:
        raise FrameError(
            f"progress.novelty: the anchor of stream {progress.stream!r} at seq {progress.anchor} is not whole: a "
            "part is missing or damaged; restore the topic, or start a new epoch"
        )
    frame = frames.decode(data, _ANCHOR, VERSION)
    meta = frame.meta.get("state")
    try:
        place = msgspec.convert(frame.meta.get("place"), _Place)
    except msgspec.ValidationError as error:
        raise FrameError(f"the meta of a {_ANCHOR} frame: {error}") from error
    named = (progress.stream, progress.epoch, progress.anchor)
    if (place.stream, place.epoch, place.seqs) != named or not isinstance(meta, dict):
        raise FrameError(f"progress.novelty: expected the anchor that {progress} names, got that of {place}")
    return Anchor(**msgspec.structs.asdict(place), meta=meta, arrays=frame.arrays)


def _parse_key(key: bytes) -> tuple[str, int]:
    try:
        stream, _, chunk = key.removeprefix(_ANCHOR_PREFIX).decode().rpartition("/")
        return stream, int(chunk)
    except ValueError as error:
        raise FrameError(f"a key of progress.novelty: expected a stream's name and a chunk, got {key!r}") from error
