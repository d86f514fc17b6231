"""Batches of messages that the client cannot decompress, because they are damaged or inflate to too much.

A batch that inflates to gigabytes could end the worker at every start. librdkafka gives up zstd beyond
`receive.message.max.bytes`. It has no such limit for gzip, which inflates a batch at most 1,032 times, and lz4 (255
times). It reports the first offset of a batch that it gives up, again and again, and does not say where the batch ends.
"""

import time
from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition
from faust.types import TP

from glasstream.base.errors import UnavailableError
from glasstream.events.message import Oversized
from glasstream.kafka.transport.input_topic import LIMIT

ANSWER: Final = 30.0
"""Seconds for a broker to send what follows an offset."""


def stand_in(message: Message) -> Oversized | None:
    """Return what replaces the value of a message that is larger than any that a worker handles; None for others."""
    size = len(message)
    if size <= LIMIT:
        return None
    detail = f"expected a message of at most {LIMIT} bytes, got one of {size}: send smaller messages"
    return Oversized(size, detail)


def end_of_batch(settings: Mapping[str, Any], tp: TP, first: int) -> int:
    """Return the offset after the batch that begins at `first` and cannot be read.

    Parameters
    ----------
    settings
        Configuration of the consumer that could not read it.

    Raises
    ------
    UnavailableError
        The broker does not answer.
    """
    own = {name: value for name, value in settings.items() if name != "group.instance.id"}
    client = Consumer({**own, "enable.partition.eof": True, "auto.offset.reset": "latest"})
    try:
        bad, beyond = first, first + 1
        while _is_in_batch(client, tp, beyond, first):
            bad, beyond = beyond, first + 2 * (beyond - first)
        while beyond - bad > 1:
            middle = (bad + beyond) // 2
            if _is_in_batch(client, tp, middle, first):
                bad = middle
            else:
                beyond = middle
        return beyond
    finally:
        client.close()


def _is_in_batch(client: Consumer, tp: TP, offset: int, first: int) -> bool:
    """Return whether reading from `offset` meets the batch that begins at `first`."""
    client.assign([TopicPartition(tp.topic, tp.partition, offset)])
    until = time.monotonic() + ANSWER
    while time.monotonic() < until:
        message = client.poll(1.0)
        error: Any = None if message is None else message.error()
        if message is not None and (error is None or error.code() == KafkaError._PARTITION_EOF):
            return False
        if message is not None and error.code() == KafkaError._BAD_COMPRESSION:
            return bool(message.offset() == first)
    raise UnavailableError(f"no broker sends {tp.topic}[{tp.partition}] from offset {offset}")


def unread(first: int, after: int) -> Oversized:
    """Return what replaces the value of all messages of a batch that cannot be read."""
    found = f"offset {first}" if after - first == 1 else f"offsets {first} to {after - 1}"
    return Oversized(
        0,
        f"expected a batch of messages that inflates to at most about {LIMIT} bytes, got one that is damaged or "
        f"inflates to more, at {found}; none of it was read: send smaller messages, or fewer in a batch (batch.size)",
    )
