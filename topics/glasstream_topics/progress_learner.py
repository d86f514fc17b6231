"""`progress.learner`: how far the learner is, committed in one transaction with what it sent.

One record for the partition says where to go on in `events`; one per stream says what had been accepted, learned and
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
    partitions="events",
    codec="json",
    read_by=("learner", "glasstream run"),
    public=False,
    schema_version=VERSION,
    config=COMPACTED,
)

PARTITION_KEY: Final = b"\xffpartition"
"""Key of the partition's record: a compacted topic needs one, and no stream's name is this, for it is not UTF-8."""

Setting = str | int | float | bool | None

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class PartitionProgress(msgspec.Struct, frozen=True):
    """Where to go on.

    Attributes
    ----------
    epoch
        epoch of the partition's streams.
    first_offset
        the first offset of `events` in this epoch: what is learned again starts here.
    offset
        offset of the message to go on with.
    used
        rows of that message that are already used.
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
        whose progress.
    seqs
        events accepted: the next one gets this seq.
    rows
        rows learned: the next one gets this number.
    first_offset
        the offset of `events` that the stream began with: without a checkpoint it is learned again from there.
    after
        the offset behind the newest message that may have changed the stream: a state as of there or later is as of
        the partition's offset.
    snapshots
        versions of the model that are published and not ended, with the number of records of each.
    counts
        running counters by name, such as events without a label.
    stalled
        why the aggregator stands still with the stream, what was done and what to check; empty while it moves.
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
    """Key of a stream's record."""
    return stream.encode()


def encode(record: PartitionProgress | StreamProgress) -> tuple[bytes, bytes]:
    """Key and value of a record.

    Raises
    ------
    RecordError
        a value that JSON cannot hold.
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
    """The record under a key.

    Raises
    ------
    RecordError
        the value is not what the key says.
    """
    if key == PARTITION_KEY:
        return decode_record("progress.learner, the partition's record", value, _partition)
    record = decode_record("progress.learner, a stream's record", value, _stream)
    if record.stream.encode() != key:
        raise RecordError(f"progress.learner: expected the record of the stream {key!r}, got that of {record.stream!r}")
    return record


@dataclass(frozen=True)
class Restored:
    """What a successor finds: where to go on (None on an untouched partition), and how far each stream is."""

    partition: PartitionProgress | None
    streams: dict[str, StreamProgress] = field(default_factory=dict)


def restore(latest: Mapping[bytes, bytes]) -> Restored:
    """Everything on a partition of the topic, from the newest value of every key (without those with a tombstone).

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
