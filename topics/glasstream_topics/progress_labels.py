"""`progress.labels`: how far the forwarder of labels is, committed with what it moved to `events`."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.contract import COMPACTED, Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.progress_learner import PARTITION_KEY
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="progress.labels",
    holds="how far the forwarder of labels is on a partition",
    key="the key of the partition's record",
    partitioning="the partition of labels that it is about, set explicitly",
    partitions="events",
    codec="json",
    read_by=("labels",),
    public=False,
    schema_version=VERSION,
    config=COMPACTED,
)


class PartitionProgress(msgspec.Struct, frozen=True):
    """Where to go on.

    Attributes
    ----------
    offset
        of the message of `labels` to go on with.
    """

    offset: Annotated[int, msgspec.Meta(ge=0)]
    schema_version: Literal[1] = VERSION


_partition: Final = msgspec.json.Decoder(PartitionProgress)


def encode(record: PartitionProgress) -> tuple[bytes, bytes]:
    """Key and value of the record."""
    fields = {"schema_version": record.schema_version, "offset": record.offset}
    return PARTITION_KEY, encode_record(TOPIC.name, fields)


def restore(latest: Mapping[bytes, bytes]) -> PartitionProgress | None:
    """The record of a partition of the topic, from the newest value of every key; None on an untouched one.

    Raises
    ------
    RecordError
        it is damaged, or there is something else.
    """
    if unknown := sorted(latest.keys() - {PARTITION_KEY}):
        raise RecordError(f"progress.labels: expected the partition's record only, got the key {unknown[0]!r}")
    value = latest.get(PARTITION_KEY)
    return None if value is None else decode_record("progress.labels, the partition's record", value, _partition)
