"""Inputs and outputs of a stage: messages, records, and what must become durable together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec
from confluent_kafka import TIMESTAMP_NOT_AVAILABLE
from confluent_kafka import Message as Fetched

from glasstream.events.message import Message

Headers = tuple[tuple[str, bytes], ...]


def received(fetched: Fetched, value: bytes | None) -> Message:
    """Return what the client has fetched, with this value."""
    kind, timestamp = fetched.timestamp()
    headers = fetched.headers()
    return Message(
        fetched.topic(),
        fetched.partition(),
        fetched.offset(),
        fetched.key(),
        value,
        None if kind == TIMESTAMP_NOT_AVAILABLE or timestamp < 0 else timestamp,
        tuple((name, data or b"") for name, data in headers) if headers else (),
    )


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
