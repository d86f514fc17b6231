"""Read the public topics back from the past and then continuously, outside any consumer group."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from glasstream.consume.records import Records
from glasstream.errors import BrokerError, RecordError, TopicError
from glasstream.page.store import Store
from glasstream.page.stream import Record
from glasstream.transport.connection import Connection
from glasstream_topics import ALL, events_dead

log = logging.getLogger(__name__)

_RECORDS: Mapping[str, Records[Record]] = {
    topic.name: Records(topic.json) for topic in ALL if topic.json and topic.json.record in get_args(Record)
}
_DEAD = events_dead.TOPIC.name
TOPICS = (*_RECORDS, _DEAD)
"""Topics that the page reads, without the prefix."""

_BATCH = 500
_POLL_SECONDS = 0.25
_ASK_SECONDS = 10.0
_QUEUE_KIB = 4_096
"""Largest amount of data to fetch ahead from a partition."""
_FULL_MS = 10
"""Pause in fetching when that amount is reached. With librdkafka's default of 1 s, 100,000 records took 28 s instead of
10 s."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Message of a public topic."""

    topic: str
    written: int
    record: Record | None
    """Decoded record; None if the message cannot be read."""
    reason: str | None = None
    """Reason given by a dead letter."""


class Topics:
    """Reader of the newest `history` records of each partition, and then of new records.

    The methods block. Call them from one thread at a time.

    Parameters
    ----------
    connection, prefix
        Connection to the brokers, and prefix of the topics.
    history
        Largest number of records per partition that are read back.

    Raises
    ------
    BrokerError
        No broker answers.
    TopicError
        A topic does not exist.
    """

    def __init__(self, connection: Connection, prefix: str, history: int) -> None:
        self._prefix = prefix
        self._all_down = False
        self._told: set[str] = set()
        options = connection.consumer(
            read_committed=True,
            enable_partition_eof=True,
            queued_max_messages_kbytes=_QUEUE_KIB,
            fetch_queue_backoff_ms=_FULL_MS,
        )
        self._consumer = Consumer({**options, "error_cb": self._failed})
        try:
            self._unread, starts = self._places(connection.bootstrap, history)
        except BaseException:
            self._consumer.close()
            raise
        self.total = sum(end - start for start, end in self._unread.values())
        """Offsets between where the reading begins and what was there then."""
        self._consumer.assign(starts)

    def _places(
        self, bootstrap: str, history: int
    ) -> tuple[dict[tuple[str, int], tuple[int, int]], list[TopicPartition]]:
        """Return what to read back (first offset and end by topic and partition), and where to begin."""
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        starts = []
        for topic in TOPICS:
            name = self._prefix + topic
            try:
                found = self._consumer.list_topics(name, timeout=_ASK_SECONDS).topics[name]
                if found.error is not None or not found.partitions:
                    raise TopicError(
                        f"expected topic {name} on {bootstrap}, got none; check the prefix (--prefix), or make it with "
                        "`glasstream topics create`"
                    )
                for partition in sorted(found.partitions):
                    place = TopicPartition(name, partition)
                    low, high = self._consumer.get_watermark_offsets(place, timeout=_ASK_SECONDS)
                    place.offset = max(low, high - history)
                    starts.append(place)
                    if high > place.offset:
                        spans[name, partition] = (place.offset, high)
            except KafkaException as error:
                raise BrokerError(f"{name} on {bootstrap}: cannot be read: {error.args[0].str()}") from error
        return spans, starts

    @property
    def left(self) -> int:
        """Number of offsets that existed at the start and are still to be read."""
        return sum(end - start for start, end in self._unread.values())

    def read(self) -> list[Taken]:
        """Return new messages; wait briefly if there are none.

        Raises
        ------
        BrokerError
            The broker refuses the read.
        """
        return list(self._records(self._consumer.consume(_BATCH, timeout=_POLL_SECONDS)))

    def trouble(self) -> str | None:
        """Why nothing can be read at the moment; None while the brokers answer."""
        if not self._all_down:
            return None
        try:
            self._consumer.list_topics(self._prefix + TOPICS[0], timeout=1.0)
        except KafkaException as error:
            return f"no broker answers: {error.args[0].str()}"
        self._all_down = False
        return None

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()

    def _failed(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True

    def _records(self, messages: list[Message]) -> Iterator[Taken]:
        for message in messages:
            error = message.error()
            place = (message.topic() or "", message.partition() or 0)
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._unread.pop(place, None)
                elif not error.retriable():
                    raise BrokerError(f"{place[0]}[{place[1]}]: cannot be read: {error.str()}")
                continue
            if (span := self._unread.get(place)) is not None:
                offset = (message.offset() or 0) + 1
                if offset < span[1]:
                    self._unread[place] = (offset, span[1])
                else:
                    del self._unread[place]
            taken = self._taken(message, place)
            if taken is not None:
                yield taken

    def _taken(self, message: Message, place: tuple[str, int]) -> Taken | None:
        topic = place[0].removeprefix(self._prefix)
        written = message.timestamp()[1]
        if topic == _DEAD:
            headers = dict(message.headers() or [])
            return Taken(topic, written, None, (headers.get("reason") or b"unknown").decode("utf-8", "replace"))
        data = message.value()
        if data is None:
            return None  # a tombstone on a compacted topic
        try:
            record = _RECORDS[topic].read(data, f"{place[0]}[{place[1]}]@{message.offset()}")
        except RecordError as error:
            if topic not in self._told:
                self._told.add(topic)
                log.warning(
                    "Skipping unreadable record: %s. Further records like it on this topic are not reported.", error
                )
            return Taken(topic, written, None)
        return Taken(topic, written, record)


def put(taken: list[Taken], store: Store) -> None:
    """Add messages to the store."""
    for one in taken:
        if one.reason is not None:
            store.reject(one.reason)
        elif one.record is None:
            store.damaged += 1
        else:
            store.take(one.topic, one.record, one.written)
