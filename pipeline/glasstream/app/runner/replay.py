"""Writes a source's events to `events`, no faster than the broker can store them."""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from glasstream.base.errors import BrokerError, InputError
from glasstream.events.sources.messages import pack
from glasstream.events.sources.source import Source, UntilError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import Connection, connection, drain
from glasstream_topics import events

EMBEDDED_MESSAGE_BYTES = 900_000
"""Largest message for the embedded broker. Two messages of 3 MB make a partition unreadable; below 1 MB all is well."""
EMBEDDED_BYTES_AHEAD = 1024 * 1024
"""Most bytes that the learner has not consumed. The embedded broker keeps only 5 MiB per partition."""
EMBEDDED_BYTES_UNREAD = 2 * 1024 * 1024
"""Most bytes of resulting records on a public topic that have not been read, for the same reason."""
_STEP_SECONDS = 0.05
"""Seconds of writing before the readers get their turn."""


@dataclass(slots=True)
class Replay:
    """Produces packed messages of one stream, then the flush mark.

    Parameters
    ----------
    connection, settings, stream
        Connection to the broker, configuration, and name of the stream.
    messages
        Pairs (value, number of events) from `glasstream.events.sources.messages.pack`.
    bytes_ahead
        Most bytes on the topic that the learner has not consumed; None sets no limit.
    """

    connection: Connection
    settings: Settings
    stream: str
    messages: Iterable[tuple[bytes, int]]
    bytes_ahead: int | None = None
    sent: int = 0
    """Number of events handed to the broker."""
    exhausted: bool = False
    """Whether the source is exhausted, so that everything has been sent."""
    end: tuple[int, int] | None = None
    """Partition and offset of the flush mark, once it is on the topic."""
    _rest: Iterator[tuple[bytes, int]] = field(init=False)
    _producer: Producer = field(init=False)
    _under_way: deque[tuple[int, int]] = field(default_factory=deque)
    _bytes: int = 0
    _messages: int = 0
    _next: tuple[bytes, int] | None = None
    _flushed: bool = False
    _refused: KafkaError | None = None

    def __post_init__(self) -> None:
        self._rest = iter(self.messages)
        self._producer = Producer(
            self.connection.producer(linger_ms=5, compression_type="lz4" if self.bytes_ahead is None else "none")
        )

    def step(self, consumed: int, messages_ahead: float = inf, wait: float = 0.0) -> None:
        """Write as many messages as the limits allow now.

        Parameters
        ----------
        wait
            Longest time in seconds to wait for the broker's answers.
        consumed
            Offset up to which the learner has consumed the stream's partition.
        messages_ahead
            Largest number of messages that may be written and not consumed.
        """
        while self._under_way and self._under_way[0][0] < consumed:
            self._bytes -= self._under_way.popleft()[1]
            self._messages -= 1
        until = time.monotonic() + _STEP_SECONDS
        while time.monotonic() < until:
            if self._flushed or (self.bytes_ahead is not None and self._bytes > self.bytes_ahead):
                break
            if self._messages >= messages_ahead:
                break
            if self._next is None:
                self._next = next(self._rest, None)
            if self._next is None:
                self.exhausted = True
                self.finish()
                break
            value, count = self._next
            if not self._write(value):
                break
            self._next = None
            self.sent += count
        self._producer.poll(wait)
        if self._refused is not None:
            raise self._refusal(self._refused)

    def _refusal(self, cause: KafkaError) -> BrokerError:
        return BrokerError(f"{self.settings.prefix}events: the broker refused a message: {cause.str()}")

    def finish(self) -> None:
        """Write the flush mark, after which nothing follows."""
        if not self._flushed and self._write(events.FLUSH):
            self._flushed = True

    def close(self) -> None:
        """Wait for the messages that are still on the way."""
        drain(self._producer, 10.0)

    def _write(self, value: bytes) -> bool:
        try:
            self._producer.produce(
                self.settings.prefix + events.TOPIC.name,
                key=events.key(self.stream),
                value=value,
                partition=events.partition(
                    events.key(self.stream), self.settings.topics.events, self.settings.topics.partitioner
                ),
                on_delivery=self._delivered,
            )
        except BufferError:  # the local queue is full: the broker must catch up first
            return False
        except KafkaException as error:  # the producer has ended; the answer to an earlier message says why
            self._producer.poll(0)
            raise self._refusal(self._refused or error.args[0]) from error
        self._bytes += len(value)
        self._messages += 1
        return True

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._refused = error
            return
        offset, partition = message.offset(), message.partition()
        if offset is None or partition is None:
            return
        value = message.value() or b""
        self._under_way.append((offset, len(value)))
        if value == events.FLUSH:
            self.end = (partition, offset)


def produce(settings: Settings, source: Source, rows_per_message: int) -> tuple[int, InputError | None]:
    """Write all events that can be read, and the flush mark. Return their number, and why the rest cannot be read.

    Raises
    ------
    BrokerError
        The broker refuses a message.
    InputError
        A message would be larger than the topic takes.
    """
    rows = UntilError(source.events())
    replay = Replay(
        connection(settings),
        settings,
        source.stream,
        pack(rows, rows_per_message, settings.limits.message_bytes),
    )
    while replay.end is None:
        replay.step(0, wait=0.02)
    replay.close()
    return replay.sent, rows.error
