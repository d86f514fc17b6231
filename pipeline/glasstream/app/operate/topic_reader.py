"""Read topics up to their current ends, outside any consumer group."""

import time
from collections.abc import Iterable, Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from glasstream.base.errors import BrokerError
from glasstream.events.message import Message
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.records import received

STANDSTILL_SECONDS = 30.0
"""Seconds without a new record after which the reader stops waiting for the end."""
_BATCH = 1_000
_POLL_SECONDS = 0.03
"""Seconds to wait for a batch to fill."""
_RETRY_SECONDS = 0.1

_ELECTION = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
    }
)
"""Answers for a partition that is electing a leader, because the topic or the broker is new."""

Partition = tuple[str, int]
"""Topic and number of the partition."""


def offsets(connection: Connection, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
    """Return the first offset kept and the one after the last for each partition, open transactions included.

    Raises
    ------
    BrokerError
        The broker does not answer.
    """
    admin = AdminClient(connection.client())
    places = [TopicPartition(*one) for one in partitions]
    firsts = _asked(admin, places, OffsetSpec.earliest())
    ends = _asked(admin, places, OffsetSpec.latest())
    return {one: (firsts[one], ends[one]) for one in firsts}


def _asked(admin: AdminClient, places: list[TopicPartition], which: OffsetSpec) -> dict[Partition, int]:
    until = time.monotonic() + STANDSTILL_SECONDS
    found: dict[Partition, int] = {}
    while places:
        left: list[TopicPartition] = []
        for place, future in admin.list_offsets(dict.fromkeys(places, which)).items():
            try:
                found[place.topic, place.partition] = future.result().offset
            except KafkaException as error:
                cause = error.args[0]
                if not (cause.retriable() or cause.code() in _ELECTION) or time.monotonic() > until:
                    raise BrokerError(
                        f"{place.topic}[{place.partition}]: its offsets cannot be read: {cause.str()}"
                    ) from error
                left.append(place)
        places = left
        if places:
            time.sleep(_RETRY_SECONDS)
    return found


def read_records(connection: Connection, begin: Mapping[Partition, int], *, read_committed: bool) -> Iterator[Message]:
    """Yield the records of some partitions, each in its order, up to the ends at the time of the call.

    Parameters
    ----------
    begin
        First offset to read, by partition. If Kafka no longer keeps it, reading begins at the first offset kept.
    read_committed
        Whether to skip records of aborted and open transactions.

    Raises
    ------
    BrokerError
        A partition cannot be read, or an open transaction hides its end.
    """
    ends: dict[Partition, int] = {}
    places: list[TopicPartition] = []
    for one, (first, end) in offsets(connection, begin).items():
        if max(first, begin[one]) < end:
            ends[one] = end
            places.append(TopicPartition(*one, max(first, begin[one])))
    if not ends:
        return
    reader = Consumer(connection.consumer(read_committed=read_committed, enable_partition_eof=True))
    try:
        reader.assign(places)
        moved = time.monotonic()
        while ends:
            for message in reader.consume(_BATCH, timeout=_POLL_SECONDS):
                moved = time.monotonic()
                topic, partition, offset = message.topic(), message.partition(), message.offset()
                error, last = message.error(), ends.get((topic, partition))
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        if last is not None and offset >= last:
                            del ends[topic, partition]
                    elif not error.retriable():
                        raise BrokerError(f"{topic}[{partition}] cannot be read: {error.str()}")
                    continue
                if last is None or offset >= last:
                    continue  # written after the call
                if offset + 1 == last:
                    del ends[topic, partition]
                yield received(message, message.value())
            if time.monotonic() - moved > STANDSTILL_SECONDS:
                left = ", ".join(f"{topic}[{partition}]" for topic, partition in ends)
                raise BrokerError(
                    f"expected to read to the end of {left}, got nothing for {STANDSTILL_SECONDS:g} s: a transaction "
                    "is open there, or the broker is too slow; try again when the transaction has timed out"
                )
    except KafkaException as error:
        raise BrokerError(f"{', '.join(sorted({one[0] for one in begin}))}: {error.args[0].str()}") from error
    finally:
        reader.close()


def latest(connection: Connection, partitions: Iterable[Partition]) -> dict[Partition, dict[bytes, bytes]]:
    """Return the last committed value of every key, by partition; omit keys with a tombstone.

    Raises
    ------
    BrokerError
        A partition cannot be read, or an open transaction hides its end.
    """
    found: dict[Partition, dict[bytes, bytes]] = {one: {} for one in partitions}
    for message in read_records(connection, dict.fromkeys(found, 0), read_committed=True):
        values = found[message.topic, message.partition]
        if message.value is None:
            values.pop(message.key or b"", None)
        else:
            values[message.key or b""] = message.value
    return found
