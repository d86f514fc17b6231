"""What goes in and out of a stage: messages, records, and what must become durable together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

Headers = tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class ConsumerRecord:
    """One message as it was read. `timestamp` is Kafka's, in milliseconds."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int = 0

    @property
    def place(self) -> str:
        """Return where it was read, as errors name it: `topic[partition]@offset`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """One record to be written. Without a partition its key decides (murmur2), without a key chance does.

    Attributes
    ----------
    instead : callable, optional
        Makes the record that takes its place in a transaction where broker or client refuse it for its size; without
        it such a record ends the worker.
    """

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int | None = None
    headers: Headers = ()
    instead: "Callable[[], ProducerRecord] | None" = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a stage with state has produced since it was last asked.

    Attributes
    ----------
    before : sequence of ProducerRecord
        Delivered and confirmed before the transaction begins: what a record of the transaction refers to.
    records : sequence of ProducerRecord
        The outputs of the transaction.
    progress : sequence of ProducerRecord
        The state as of exactly these outputs. Whatever topic and partition a record names, it goes to the stage's
        state topic, to the partition of the input.
    apart : sequence of ProducerRecord
        Written after that, in a transaction of their own: large, and of use only as a whole.
    """

    before: Sequence[ProducerRecord] = field(default_factory=tuple)
    records: Sequence[ProducerRecord] = field(default_factory=tuple)
    progress: Sequence[ProducerRecord] = field(default_factory=tuple)
    apart: Sequence[ProducerRecord] = field(default_factory=tuple)

    def __bool__(self) -> bool:
        return bool(self.before or self.records or self.progress or self.apart)
