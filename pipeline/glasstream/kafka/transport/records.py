"""Inputs and outputs of a stage: messages, records, and what must become durable together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from glasstream.events.message import Message

Headers = tuple[tuple[str, bytes], ...]


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """Message as it was read. `timestamp` is Kafka's, in milliseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = 0

    @property
    def size(self) -> int:
        """Return an estimate of the bytes that the message occupies."""
        return 200 + len(self.value or b"") + len(self.key or b"")

    @property
    def place(self) -> str:
        """Return the position as errors name it: `topic[partition]@offset`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def message(self) -> Message:
        """Return what stages pass on to their partitions."""
        return Message(self.topic, self.partition, self.offset, self.key, self.value, self.timestamp)


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """Record to write. Without a partition, the key decides (murmur2); without a key, the partition is random.

    Attributes
    ----------
    instead : callable, optional
        Function that returns a replacement if the broker or the client refuses the record in a transaction for its
        size. Without it, such a record ends the worker.
    timestamp : int, optional
        Timestamp in milliseconds for a record of a transaction. Without it, the record gets the time at which it is
        written.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Headers = ()
    instead: "Callable[[], ProducerRecord] | None" = None
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """Outputs of a stage with state since they were last collected.

    Attributes
    ----------
    before : sequence of ProducerRecord
        Records to deliver and confirm before the transaction begins, because records of the transaction refer to them.
    records : sequence of ProducerRecord
        Outputs of the transaction.
    progress : sequence of ProducerRecord
        State as of exactly these outputs. These records go to the stage's state topic and the partition of the input,
        whatever topic and partition they name.
    apart : sequence of ProducerRecord
        Large records that are useful only as a whole. They are written afterwards, in a separate transaction.
    """

    before: Sequence[ProducerRecord] = field(default_factory=tuple)
    records: Sequence[ProducerRecord] = field(default_factory=tuple)
    progress: Sequence[ProducerRecord] = field(default_factory=tuple)
    apart: Sequence[ProducerRecord] = field(default_factory=tuple)

    def __bool__(self) -> bool:
        return bool(self.before or self.records or self.progress or self.apart)
