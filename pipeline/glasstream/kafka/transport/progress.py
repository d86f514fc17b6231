"""Reads a partition of state to its very end."""

import time
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from glasstream.base.errors import BrokerError, UnavailableError
from glasstream.kafka.transport.connection import Connection
from glasstream_topics.client_errors import heals
from glasstream_topics.consume.offsets import bounds

#: Seconds within which a broker must show that it is there.
_ANSWER = 5.0
#: Seconds that a single poll waits.
_POLL = 0.2


def watermarks(connection: Connection, topic: str, partition: int, timeout: float) -> tuple[int, int]:
    """Return the first offset kept and the one after the last, open transactions included.

    Raises
    ------
    BrokerError
        The broker does not answer within `timeout` seconds. UnavailableError means that it may answer later.
    """
    client = Consumer(connection.consumer(read_committed=False))
    try:
        return bounds(client, topic, partition, timeout)
    finally:
        client.close()


def read_to_end(
    connection: Connection,
    topic: str,
    partition: int,
    timeout: float,
    wanted: Callable[[bytes], bool] = lambda key: True,
    moved: Callable[[], None] = lambda: None,
) -> dict[bytes, bytes]:
    """Return the last committed value of every key in a partition of state. Omit keys with a tombstone.

    The end is the high watermark as a read_uncommitted client sees it when the reading starts. The reader has reached
    the end when its read_committed position is at or beyond it. Counting records would wait for ever, because the last
    offset is the marker of a transaction, and because records of aborted transactions never arrive. An open transaction
    holds the reader back before the end. The function then fails: to continue with the records read so far would count
    twice what the open transaction may still commit.

    Parameters
    ----------
    connection, topic, partition
        Partition to read.
    timeout
        Seconds within which the broker must answer, and further records must arrive.
    wanted
        Function that returns whether to keep the value of a key. Other keys take no memory.
    moved
        Function that is called with each record that arrives.

    Raises
    ------
    UnavailableError
        The end is not reached and nothing arrives for `timeout` seconds, because the producer of an open transaction is
        gone. The broker ends that transaction later. Or the broker does not answer, and may do so later.
    BrokerError
        The broker refuses.
    """
    deadline = time.monotonic() + timeout
    low, high = watermarks(connection, topic, partition, timeout)
    latest: dict[bytes, bytes] = {}
    if low >= high:
        return latest
    reader = Consumer(connection.consumer(read_committed=True, enable_partition_eof=True))
    position = low
    try:
        reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        while position < high:
            left = deadline - time.monotonic()
            if left <= 0:
                bounds(reader, topic, partition, _ANSWER)  # check that a broker still answers
                raise UnavailableError(
                    f"{topic}[{partition}] was read to offset {position} of {high}, and no further within "
                    f"{timeout:g} s: the broker is too slow, or another producer's transaction is still open there "
                    "until the broker times it out"
                )
            message = reader.poll(min(left, _POLL))
            if message is None:
                continue
            error = message.error()
            if error is None:
                deadline = time.monotonic() + timeout  # large state may take long, as long as records arrive
                moved()
                position = message.offset() + 1
                key, value = message.key() or b"", message.value()
                if not wanted(key):
                    continue
                if value is None:
                    latest.pop(key, None)
                else:
                    latest[key] = value
            elif error.code() == KafkaError._PARTITION_EOF:
                position = max(position, message.offset())  # after markers and aborted records
            elif not heals(error):
                raise BrokerError(f"{topic}[{partition}] cannot be read: {error.str()}")
    except KafkaException as error:
        raise BrokerError(f"{topic}[{partition}] cannot be read: {error.args[0].str()}") from error
    finally:
        reader.close()
    return latest
