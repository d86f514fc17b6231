"""`progress.labels`: the label forwarder's progress, committed with the messages that it moved to `events`."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.contract import COMPACTED, Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.progress import PARTITION_KEY
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="progress.labels",
    holds="how far the forwarder of labels is on a partition",
    key="the key of the partition's record",
    partitioning="the partition of labels that it is about, set explicitly",
    written_by=("labels",),
    read_by=("labels",),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


class LabelsPartitionProgress(msgspec.Struct, frozen=True):
    """Where to resume.

    Attributes
    ----------
    offset
        offset of the next message of `labels`.
    topic_id
        id of the topic `labels` that the offset belongs to; None if the brokers give no ids.
    """

    offset: Annotated[int, msgspec.Meta(ge=0)]
    topic_id: str | None = None
    schema_version: Literal[1] = VERSION


_partition: Final = msgspec.json.Decoder(LabelsPartitionProgress)


def encode(record: LabelsPartitionProgress) -> tuple[bytes, bytes]:
    """Return key and value of the record."""
    fields: dict[str, object] = {"schema_version": record.schema_version, "offset": record.offset}
    if record.topic_id is not None:
        fields["topic_id"] = record.topic_id
    return PARTITION_KEY, encode_record(TOPIC.name, fields)


def restore(latest: Mapping[bytes, bytes]) -> LabelsPartitionProgress | None:
    """Restore the record of a partition from the newest value of every key; None for an untouched partition.

    Raises
    ------
    RecordError
        the record is damaged, or the partition holds another record.
    """
    if unknown := sorted(latest.keys() - {PARTITION_KEY}):
        raise RecordError(f"progress.labels: expected the partition's record only, got the key {unknown[0]!r}")
    value = latest.get(PARTITION_KEY)
    return None if value is None else decode_record("progress.labels, the partition's record", value, _partition)
