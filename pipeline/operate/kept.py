"""What a topic still holds: its records up to where it ends now, read outside any group."""

import time
from collections.abc import Iterator, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from pipeline.errors import BrokerError
from pipeline.transport.connection import Connection
from pipeline.transport.progress import watermarks
from pipeline.transport.records import Message

STANDSTILL_SECONDS = 30.0
"""Without anything new for so long the end is not waited for any more."""
_BATCH = 1_000
_POLL_SECONDS = 0.2


def kept(connection: Connection, topic: str, begin: Mapping[int, int], *, read_committed: bool) -> Iterator[Message]:
    """The records of some partitions in their order, up to the ends that they have when this starts.

    Parameters
    ----------
    begin
        The offset to begin with, by partition; where that is not kept any more, the first that is.
    read_committed
        Whether records of aborted and of open transactions stay unseen.

    Raises
    ------
    BrokerError
        The topic cannot be read, or its end is not reached: a transaction is open there.
    """
    ends: dict[int, int] = {}
    places: list[TopicPartition] = []
    for partition, offset in begin.items():
        low, high = watermarks(connection, topic, partition, STANDSTILL_SECONDS)
        if max(low, offset) < high:
            ends[partition] = high
            places.append(TopicPartition(topic, partition, max(low, offset)))
    reader = Consumer(connection.consumer(read_committed=read_committed, enable_partition_eof=True))
    try:
        reader.assign(places)
        moved = time.monotonic()
        while ends:
            for message in reader.consume(_BATCH, timeout=_POLL_SECONDS):
                moved = time.monotonic()
                error, partition, offset = message.error(), message.partition(), message.offset()
                end = ends.get(partition)
                if error is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        if end is not None and offset >= end:
                            del ends[partition]
                    elif not error.retriable():
                        raise BrokerError(f"{topic}[{partition}] cannot be read: {error.str()}")
                    continue
                if end is None or offset >= end:
                    continue  # written after we began
                if offset + 1 == end:
                    del ends[partition]
                headers = tuple((name, text or b"") for name, text in message.headers() or [])
                yield Message(topic, partition, offset, message.key(), message.value(), headers, message.timestamp()[1])
            if time.monotonic() - moved > STANDSTILL_SECONDS:
                raise BrokerError(
                    f"{topic}{sorted(ends)}: the end was not reached, and nothing came for {STANDSTILL_SECONDS:g} s: "
                    "a transaction is open there, or the broker is too slow; try again when it has timed out"
                )
    except KafkaException as error:
        raise BrokerError(f"{topic} cannot be read: {error.args[0].str()}") from error
    finally:
        reader.close()
