"""Read the public topics back from the past and then continuously, outside any consumer group."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from msgspec.structs import replace

from glasstream.app.page.store import Store
from glasstream.app.page.stream import Record, StreamHistory
from glasstream.base.errors import BrokerError, RecordError, TopicError
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import ALL, events_dead
from glasstream_topics.comparisons import Comparison
from glasstream_topics.consume.offsets import bounds
from glasstream_topics.consume.records import Records

log = logging.getLogger(__name__)

_RECORDS: Mapping[str, Records[Record]] = {
    topic.name: Records(topic.json) for topic in ALL if topic.json and topic.json.record in get_args(Record)
}
_DEAD = events_dead.TOPIC.name
TOPICS = (*_RECORDS, _DEAD)
"""Topics that the page reads, without the prefix."""

_BY_STREAM = {topic.name for topic in ALL if topic.key == "stream"}
"""Topics of which a stream has one partition, and the same in all of them."""

_AT = " @ "
"""Between the name of a stream and the prefix of its deployment."""

_BATCH = 500
_BACK_BATCH, _BACK_SECONDS, _BACK_BATCHES = 5_000, 0.05, 10
"""Largest number of messages, time to wait for them, and largest number of such batches, in one call of
`StreamBack.read`."""
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
    partition: int | None = None
    """Partition, if the topic's key is the stream."""


class Topics:
    """Reader of the newest `history` records of each partition, and then of new records.

    The methods block. Call them from one thread at a time.

    Parameters
    ----------
    connection
        Connection to the brokers.
    prefixes
        Prefixes of the topics of one or several deployments. With several, each stream is shown as "stream @ prefix".
    history
        Largest number of records per partition that are read back.

    Raises
    ------
    BrokerError
        No broker answers.
    TopicError
        A topic does not exist.
    """

    def __init__(self, connection: Connection, prefixes: Sequence[str], history: int) -> None:
        self._prefixes = list(dict.fromkeys(prefixes))
        self._names = {prefix + topic: (prefix, topic) for prefix in self._prefixes for topic in TOPICS}
        """Prefix and topic by full name."""
        self._all_down = False
        self._told: set[str] = set()
        self._connection, self._history = connection, history
        self.newest: dict[tuple[str, int], int] = {}
        """Offset of the newest message that was read, by topic and partition."""
        self._consumer = Consumer({**_options(connection), "error_cb": self._failed})
        try:
            self._unread, starts = self._places(connection.bootstrap, history)
        except BaseException:
            self._consumer.close()
            raise
        self._partitions = [(start.topic, start.partition) for start in starts]
        self.total = sum(end - start for start, end in self._unread.values())
        """Offsets between where the reading begins and what was there then."""
        self._consumer.assign(starts)

    def _places(
        self, bootstrap: str, history: int
    ) -> tuple[dict[tuple[str, int], tuple[int, int]], list[TopicPartition]]:
        """Return what to read back (first offset and end by topic and partition), and where to begin."""
        spans: dict[tuple[str, int], tuple[int, int]] = {}
        starts = []
        for name in self._names:
            try:
                found = self._consumer.list_topics(name, timeout=_ASK_SECONDS).topics[name]
                if found.error is not None and found.error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise TopicError(
                        f"this client is not authorized to see {name} on {bootstrap}; grant it the consumer role of "
                        "`glasstream topics acls`"
                    )
                if found.error is not None or not found.partitions:
                    raise TopicError(
                        f"expected topic {name} on {bootstrap}, got none; check the prefix (--prefix), or create it "
                        "with `glasstream topics create`"
                    )
                for partition in sorted(found.partitions):
                    place = TopicPartition(name, partition)
                    low, high = bounds(self._consumer, name, partition, _ASK_SECONDS)
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

    def back(self, stream: str, partition: int | None, most_features: int) -> "StreamBack":
        """Return a reader of the newest records of one stream, up to what was read so far.

        Parameters
        ----------
        stream
            Name of the stream, as it is shown.
        partition
            Partition of the topics whose key is the stream; None reads all.
        most_features
            Largest number of features to keep.
        """
        mine, name = self._named(stream)
        places = [
            (full, one)
            for full, one in self._partitions
            for prefix, topic in (self._names[full],)
            if prefix == mine and topic != _DEAD and (partition in (None, one) or topic not in _BY_STREAM)
        ]
        history = StreamHistory(stream, most_features)
        return StreamBack(self, self._connection, places, self._history, history, name)

    def shown(self, stream: str) -> str:
        """Return the name under which a stream is shown: one without a prefix is of the first deployment."""
        return self._shown(*self._named(stream))

    def _shown(self, prefix: str, stream: str) -> str:
        return f"{stream}{_AT}{prefix}" if len(self._prefixes) > 1 else stream

    def _named(self, shown: str) -> tuple[str, str]:
        """Return the prefix and the name of a stream that is shown. A prefix contains no space, so there is one way."""
        stream, at, prefix = shown.rpartition(_AT)
        if len(self._prefixes) > 1 and at and prefix in self._prefixes:
            return prefix, stream
        return self._prefixes[0], shown

    def taken(self, message: Message) -> Taken | None:
        """Return the content of a message; None for a tombstone."""
        return self._taken(message, (message.topic() or "", message.partition() or 0))

    def trouble(self) -> str | None:
        """Why nothing can be read at the moment; None while the brokers answer."""
        if not self._all_down:
            return None
        try:
            self._consumer.list_topics(self._prefixes[0] + TOPICS[0], timeout=1.0)
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
            self.newest[place] = message.offset() or 0
            if (span := self._unread.get(place)) is not None:
                offset = (message.offset() or 0) + 1
                if offset < span[1]:
                    self._unread[place] = (offset, span[1])
                else:
                    del self._unread[place]
            taken = self.taken(message)
            if taken is not None:
                yield taken

    def _taken(self, message: Message, place: tuple[str, int]) -> Taken | None:
        prefix, topic = self._names[place[0]]
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
        if len(self._prefixes) > 1:
            record = replace(record, stream=self._shown(prefix, record.stream))
            if isinstance(record, Comparison):
                other = record.other
                record = replace(record, other=replace(other, stream=self._shown(other.prefix, other.stream)))
        return Taken(topic, written, record, partition=place[1] if topic in _BY_STREAM else None)


class StreamBack:
    """Reader of the newest records of one stream into a history of its own.

    The history is complete when this reader has come as far as the one of all streams.

    Parameters
    ----------
    topics
        Reader of all streams.
    connection
        Connection to the brokers.
    places
        Topics and partitions to read.
    most
        Largest number of records per partition to read back.
    history
        Receives the records.
    name
        Name of the stream in the keys of the records.
    """

    def __init__(
        self,
        topics: Topics,
        connection: Connection,
        places: Iterable[tuple[str, int]],
        most: int,
        history: StreamHistory,
        name: str,
    ) -> None:
        self.history = history
        self._topics = topics
        self._name = name.encode("utf-8", "surrogatepass")
        self._read: dict[tuple[str, int], int] = {}
        """Offset of the newest message that was read, by topic and partition that has been read to its end once."""
        self._consumer = Consumer(_options(connection))
        self._places = list(places)
        starts = []
        try:
            for topic, partition in self._places:
                place = TopicPartition(topic, partition)
                low, high = bounds(self._consumer, topic, partition, _ASK_SECONDS)
                place.offset = max(low, high - most)
                starts.append(place)
            self._consumer.assign(starts)
        except BaseException:
            self._consumer.close()
            raise

    def read(self) -> bool:
        """Add further records to the history, and return whether it is complete now.

        Raises
        ------
        BrokerError
            The broker refuses the read.
        """
        for _ in range(_BACK_BATCHES):
            self._take(self._consumer.consume(_BACK_BATCH, timeout=_BACK_SECONDS))
            if self._complete:
                return True
        return False

    @property
    def _complete(self) -> bool:
        newest = self._topics.newest
        return all(place in self._read and self._read[place] >= newest.get(place, -1) for place in self._places)

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            error, place = message.error(), (message.topic() or "", message.partition() or 0)
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._read[place] = (message.offset() or 0) - 1
                elif not error.retriable():
                    raise BrokerError(f"{place[0]}[{place[1]}]: cannot be read back: {error.str()}")
                continue
            if place in self._read:
                self._read[place] = message.offset() or 0
            key = message.key() or b""
            if not (key == self._name or key.startswith(self._name + b"/")):
                continue
            taken = self._topics.taken(message)
            if taken is not None and taken.record is not None and taken.record.stream == self.history.name:
                self.history.take(taken.topic, taken.record, taken.written)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._consumer.close()


def _options(connection: Connection) -> dict[str, Any]:
    return connection.consumer(
        read_committed=True,
        enable_partition_eof=True,
        queued_max_messages_kbytes=_QUEUE_KIB,
        fetch_queue_backoff_ms=_FULL_MS,
    )


def put(taken: list[Taken], store: Store) -> None:
    """Add messages to the store."""
    for one in taken:
        if one.reason is not None:
            store.reject(one.reason)
        elif one.record is None:
            store.damaged += 1
        else:
            store.take(one.topic, one.record, one.written, one.partition)
