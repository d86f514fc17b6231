"""What a topic promises: its name, what it holds, who reads it, and how the broker must keep it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.errors import TopicError

DEFAULT_PREFIX: Final = "glasstream."

Count = Literal["events", "requests", "one"]

StreamName = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]
"""Of a record that a stage reads: it becomes a key, and a part of everything that is said of the stream."""

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Kafka's own default for `max.message.bytes`: 1 MiB and the overhead of a batch of records.
DEFAULT_MAX_MESSAGE_BYTES: Final = MIB + 12

# A record larger than this goes in chunks (progress and snapshots). Half of what a broker takes by default, so that
# key, headers and the batch around it never matter.
CHUNK_BYTES: Final = 512 * KIB

# An internal compacted topic is written to without end and read whole at a take-over: small segments, closed soon and
# cleaned early, keep what must be read close to what is live.
COMPACTED: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(16 * MIB),
    "segment.ms": str(10 * 60 * 1000),
    "min.cleanable.dirty.ratio": "0.1",
}

# An internal queue is bounded by size and never by age: what is still to be explained or aggregated waits through an
# outage of any length, and the learner holds back long before this much is outstanding.
QUEUE: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "segment.bytes": str(64 * MIB),
    "retention.bytes": str(1024 * MIB),
    "retention.ms": "-1",
}


RENAMED: Final = ("work", "progress.fold", "progress.sentinel")
"""Topics of 0.1.0 that have other names now, as have the groups and transactional ids of those that write them."""

SAFE_COPIES: Final = 3
"""Copies of a partition from which on one broker can be lost without stopping writes or risking records."""


def least_in_sync(copies: int) -> int:
    """Return the `min.insync.replicas` of a topic with so many copies: 2 from three copies on, else 1.

    With three copies and two in sync, a committed record outlives any one broker, and writes go on without it. With
    two copies, asking for both would stop writes whenever one broker is away.

    >>> [least_in_sync(copies) for copies in (1, 2, 3, 5)]
    [1, 1, 2, 2]
    """
    return 2 if copies >= SAFE_COPIES else 1


@dataclass(frozen=True, kw_only=True)
class Topic:
    """The contract of one topic.

    Attributes
    ----------
    name
        without the prefix.
    holds
        what a record is, in a sentence.
    key
        what the key is.
    partitioning
        how a record finds its partition.
    partitions
        which setting counts its partitions: `topics.events`, `topics.requests`, or always one.
    codec
        form of the value.
    read_by
        who reads it.
    public
        whether its records are an interface for users.
    schema_version
        version of the record's schema; None where the value is not ours (`events.dead`).
    config
        configuration the broker must have for it; everything else is the operator's.
    """

    name: str
    holds: str
    key: str
    partitioning: str
    partitions: Count
    codec: Literal["json", "frame", "chunks", "raw"]
    read_by: tuple[str, ...]
    public: bool
    schema_version: int | None
    config: Mapping[str, str] = field(hash=False)

    def full_name(self, prefix: str = DEFAULT_PREFIX) -> str:
        """Name on the broker."""
        return prefix + self.name

    def partition_count(self, counts: Mapping[str, int]) -> int:
        """Number of partitions.

        Parameters
        ----------
        counts
            the settings `topics.events` and `topics.requests`, as `events` and `requests`.

        Raises
        ------
        TopicError
            a count is missing or below one.
        """
        if self.partitions == "one":
            return 1
        count = counts.get(self.partitions)
        if count is None or count < 1:
            raise TopicError(f"partitions of {self.name}: expected a count of {self.partitions} from 1 on, got {count}")
        return count
