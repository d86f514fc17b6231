"""What a topic promises: its name, its records, its readers, and how the broker must keep it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics.errors import TopicError
from glasstream_topics.record import Json

DEFAULT_PREFIX: Final = "glasstream."

Count = Literal["events", "requests", "one"]

Natural = Annotated[int, msgspec.Meta(ge=0)]
Positive = Annotated[int, msgspec.Meta(ge=1)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]

StreamName = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
"""A stream's name, as stages read it from records. It becomes a message key and appears in error messages."""

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Kafka's own default for `max.message.bytes`: 1 MiB and the overhead of a batch of records.
DEFAULT_MAX_MESSAGE_BYTES: Final = MIB + 12

# Records of progress and snapshots that are larger than this are split into chunks. This is half of a broker's default
# limit, which leaves enough room for key, headers and the batch.
CHUNK_BYTES: Final = 512 * KIB

# A stage that takes over a partition reads the whole compacted topic. Small segments that are closed and cleaned early
# keep the topic close to the size of its live records.
COMPACTED: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * MIB),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}

# Late consumers find the newest record of each key. All records of the last day stay for comparisons.
CURRENT: Final[Mapping[str, str]] = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(24 * 60 * 60 * 1000)}

# An internal queue is bounded by size and never by age, so that records survive an outage of any length. The learner
# pauses long before the queue reaches this size.
QUEUE: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "segment.bytes": str(64 * MIB),
    "retention.bytes": str(1024 * MIB),
    "retention.ms": "-1",
}


AVRO: Final = ".avro"
"""End of the name of a topic that holds records in Avro."""

# Room for the largest JSON record in Avro: a number that takes four bytes in an array (`0.0,`) takes up to nine.
AVRO_MAX_MESSAGE_BYTES: Final = 3 * MIB + 12

RENAMED: Final = ("work", "progress.fold", "progress.sentinel")
"""Topics of 0.1.0 that have new names now. The groups and transactional ids of their writers have new names too."""

SAFE_COPIES: Final = 3
"""Smallest number of replicas with which the loss of one broker neither stops writes nor loses records."""


def least_in_sync(copies: int) -> int:
    """Return the `min.insync.replicas` for a number of replicas: 2 for three or more replicas, otherwise 1.

    With three replicas and two in sync, a committed record survives the loss of any one broker, and writes continue.
    With two replicas, requiring both would stop writes whenever one broker is down.

    >>> [least_in_sync(copies) for copies in (1, 2, 3, 5)]
    [1, 1, 2, 2]
    """
    return 2 if copies >= SAFE_COPIES else 1


@dataclass(frozen=True, kw_only=True)
class Topic:
    """The contract of one topic: the one declaration from which everything about it is derived.

    These are its access rights, schema and reference, and what `glasstream tail`, the monitor of a run, the stages'
    checks of their topics and the live page know of it. The defaults are those of an output topic.

    Attributes
    ----------
    name
        name without the prefix.
    title
        name for people: the title of the schema.
    holds
        what a record is, as a phrase.
    key
        what the key is.
    partitioning
        how a record is assigned to a partition.
    partitions
        the setting that sets the number of partitions: `topics.events`, `topics.requests`, or always one.
    codec
        encoding of the value.
    written_by
        the roles of `glasstream_topics.access` that write it.
    read_by
        the stages and people that read it.
    public
        whether its records are an interface for users.
    json
        records of an output topic; None for all other topics.
    types
        types of the messages of a topic without `json`, or of its headers if the codec is `raw`. A message may be an
        array.
    marks
        messages without content, and their meaning, by name.
    named
        the marks whose value is a SHA-256 in hexadecimal digits; that of the others is true.
    version
        version of the schema of the records, if the topic has no `json`.
    config
        broker configuration that the topic needs; the operator decides everything else.
    """

    name: str
    title: str = ""
    holds: str
    key: str = "stream"
    partitioning: str = "murmur2 of the key"
    partitions: Count = "events"
    codec: Literal["json", "frame", "chunks", "raw", "avro"] = "json"
    written_by: tuple[str, ...]
    read_by: tuple[str, ...] = ("anyone",)
    public: bool = True
    json: Json[..., Any] | None = field(default=None, hash=False)
    types: tuple[type[msgspec.Struct], ...] = ()
    marks: Mapping[str, str] = field(default_factory=dict, hash=False)
    named: tuple[str, ...] = ()
    version: int = 1
    config: Mapping[str, str] = field(default_factory=lambda: {"cleanup.policy": "delete"}, hash=False)

    @property
    def schema_version(self) -> int:
        """Version of the schema of new records."""
        return self.version if self.json is None else self.json.versions[-1]

    @property
    def received(self) -> bool:
        """Whether users send its messages and Glasstream reads them."""
        return "producer" in self.written_by

    @property
    def published(self) -> bool:
        """Whether Glasstream writes it for users."""
        return self.public and not self.received

    @property
    def records(self) -> tuple[type[msgspec.Struct], ...]:
        """Types of the records of a public topic."""
        return self.types if self.json is None else (self.json.record,)

    @property
    def schema_file(self) -> str:
        """Name of the file with the schema of the records of a public topic."""
        if self.codec == "avro":
            return f"{self.name.removesuffix(AVRO)}.v{self.schema_version}.avsc"
        return f"{self.name}.v{self.schema_version}.json"

    def full_name(self, prefix: str = DEFAULT_PREFIX) -> str:
        """Return the topic's name on the broker."""
        return prefix + self.name

    def in_avro(self) -> "Topic":
        """Return the contract of the topic that holds the records of this published topic in Avro."""
        return replace(
            self,
            name=self.name + AVRO,
            holds=f"{self.holds}; a copy in Avro",
            partitioning=f"that of the record on {self.name}",
            codec="avro",
            written_by=("avro",),
            read_by=("anyone",),
            json=None,
            types=self.records,
            version=self.schema_version,
            config={"max.message.bytes": str(AVRO_MAX_MESSAGE_BYTES), **self.config},
        )

    def partition_count(self, counts: Mapping[str, int]) -> int:
        """Return the number of partitions.

        Parameters
        ----------
        counts
            the settings `topics.events` and `topics.requests`, under the keys `events` and `requests`.

        Raises
        ------
        TopicError
            a count is missing or less than one.
        """
        if self.partitions == "one":
            return 1
        count = counts.get(self.partitions)
        if count is None or count < 1:
            raise TopicError(f"partitions of {self.name}: expected a count of {self.partitions} from 1 on, got {count}")
        return count


def stream_key(stream: str) -> bytes:
    """Return the key of a stream's records."""
    return stream.encode()
