"""`progress.intake`: the types of fields that the intake holds, and the topics that it has begun to read.

Its offsets are those of its group.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from glasstream_topics.contract import COMPACTED, Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1
KEY: Final = b"types"

Kind = Literal["number", "text", "boolean"]

TOPIC: Final = Topic(
    name="progress.intake",
    holds="the types of the fields that the intake reads, and the topics that it has begun to read",
    key="the text types",
    partitioning="the only partition",
    partitions="one",
    written_by=("intake",),
    read_by=("intake",),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


class IntakeTypes(msgspec.Struct, frozen=True):
    """Types of fields, by the text of their paths, and topics.

    Attributes
    ----------
    events
        types of the fields of events.
    labels
        types of the fields of labels.
    topics
        topics of which the group has committed offsets, in order.
    """

    events: dict[str, Kind]
    labels: dict[str, Kind]
    topics: tuple[str, ...] = ()
    schema_version: Literal[1] = VERSION


_types: Final = msgspec.json.Decoder(IntakeTypes)


def encode(record: IntakeTypes) -> tuple[bytes, bytes]:
    """Return key and value of the record."""
    fields = {"schema_version": record.schema_version, "events": record.events, "labels": record.labels}
    topics = {"topics": record.topics} if record.topics else {}
    return KEY, encode_record(TOPIC.name, {**fields, **topics})


def restore(latest: Mapping[bytes, bytes]) -> IntakeTypes:
    """Restore the record from the newest value of every key; without one, no types are held.

    Raises
    ------
    RecordError
        the record is damaged, or the topic holds another record.
    """
    if unknown := sorted(latest.keys() - {KEY}):
        raise RecordError(f"progress.intake: expected the record of the types only, got the key {unknown[0]!r}")
    value = latest.get(KEY)
    return IntakeTypes({}, {}) if value is None else decode_record("progress.intake, the types", value, _types)
