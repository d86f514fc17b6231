"""`progress.learner`: the learner's progress, committed in one transaction with its output.

The partition's record says where to resume in `events`. A record per stream says what had been accepted, learned and
sent by then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.contract import COMPACTED, Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="progress.learner",
    holds="how far the learner is on a partition, and with each stream of it",
    key="stream, or the key of the partition's record",
    partitioning="the partition of events that it is about, set explicitly",
    written_by=("learner",),
    read_by=("learner", "glasstream run"),
    public=False,
    version=VERSION,
    config=COMPACTED,
)

PARTITION_KEY: Final = b"\xffpartition"
"""Key of the partition's record, as a compacted topic requires. It is not UTF-8, so no stream has this name."""

Setting = str | int | float | bool | None

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class PartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    first_offset
        the first offset of `events` in this epoch: learning everything again starts here.
    offset
        offset of the message to resume with.
    used
        number of rows of that message that are already used.
    fingerprint
        the settings and versions that change numbers, by name.
    """

    epoch: _Natural
    first_offset: _Natural
    offset: _Natural
    used: _Natural
    fingerprint: dict[str, Setting]
    schema_version: Literal[1] = VERSION


class StreamProgress(msgspec.Struct, frozen=True):
    """What was done with a stream before the partition's offset.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    seqs
        number of events accepted: the next one gets this seq.
    rows
        number of rows learned: the next one gets this number.
    first_offset
        the offset of `events` at which the stream began: without a checkpoint it is learned again from there.
    after
        the offset after the newest message that may have changed the stream. State saved at this offset or later is
        still valid at the partition's offset.
    snapshots
        versions of the model that are published and not deleted, with the number of records of each.
    counts
        running counters by name, such as events without a label.
    stalled
        why the aggregator is stuck on the stream, what was done and what to check; empty while it makes progress.
    """

    stream: str
    epoch: _Natural
    seqs: _Natural
    rows: _Natural
    first_offset: _Natural
    after: _Natural
    snapshots: dict[str, _Natural] = {}
    counts: dict[str, int] = {}
    stalled: str = ""
    schema_version: Literal[1] = VERSION


_partition: Final = msgspec.json.Decoder(PartitionProgress)
_stream: Final = msgspec.json.Decoder(StreamProgress)


def key(stream: str) -> bytes:
    """Return the key of a stream's record."""
    return stream.encode()


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
        return PARTITION_KEY, encode_record("progress.learner", fields)
    fields["snapshots"] = dict(sorted(record.snapshots.items(), key=lambda item: int(item[0])))
    fields["counts"] = dict(sorted(record.counts.items()))
    if not record.stalled:
        del fields["stalled"]
    return key(record.stream), encode_record("progress.learner", fields)


def decode(key: bytes, value: bytes) -> PartitionProgress | StreamProgress:
    """Decode the record under a key.

    Raises
    ------
    RecordError
        the value does not fit the key.
    """
    if key == PARTITION_KEY:
        return decode_record("progress.learner, the partition's record", value, _partition)
    record = decode_record("progress.learner, a stream's record", value, _stream)
    if record.stream.encode() != key:
        raise RecordError(f"progress.learner: expected the record of the stream {key!r}, got that of {record.stream!r}")
    return record


@dataclass(frozen=True)
class Restored:
    """What a successor restores: where to resume (None on an untouched partition), and how far each stream is."""

    partition: PartitionProgress | None
    streams: dict[str, StreamProgress] = field(default_factory=dict)


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Restore everything on a partition of the topic.

    Parameters
    ----------
    latest
        the newest value of every key, without keys that have a tombstone.

    Raises
    ------
    RecordError
        a record is damaged, or there are streams without a record of the partition.
    """
    partition: PartitionProgress | None = None
    streams: dict[str, StreamProgress] = {}
    for key, value in latest.items():
        record = decode(key, value)
        if isinstance(record, PartitionProgress):
            partition = record
        else:
            streams[record.stream] = record
    if streams and partition is None:
        raise RecordError(f"progress.learner: expected the partition's record beside {sorted(streams)}, got none")
    return Restored(partition, streams)
