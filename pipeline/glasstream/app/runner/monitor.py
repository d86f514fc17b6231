"""Monitor of a run: reads the public topics and the progress of the stages."""

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from glasstream.base.errors import BrokerError, RecordError
from glasstream.explain.settings import NOVELTY
from glasstream.flow.learner.dead_letters import DeadLetter
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import ALL, events_dead, progress_aggregator, progress_learner, progress_novelty
from glasstream_topics.client_errors import heals
from glasstream_topics.consume.offsets import bounds

log = logging.getLogger(__name__)

PUBLIC = tuple(topic.name for topic in ALL if topic.published and "compare" not in topic.written_by)
"""Public topics that stages write."""
PROGRESS = tuple(topic.name for topic in ALL if "glasstream run" in topic.read_by)
"""Topics of the stages' progress on the partitions of `events`."""
_BATCH = 1_000
_ASK_SECONDS = 10.0

OnRecords = Callable[[str, list[Message]], None]


def written(settings: Settings) -> tuple[str, ...]:
    """Return the public topics to which a run with these settings writes."""
    others = () if settings.explain.detects_novelty else (NOVELTY,)
    return tuple(topic.name for topic in ALL if topic.name in PUBLIC and not set(topic.written_by) <= set(others))


def as_json(topic: str, message: Message) -> bytes:
    """Return the value of a message of a public topic, or a dead letter as JSON."""
    if topic != events_dead.TOPIC.name:
        return message.value() or b""
    headers = tuple((name, text or b"") for name, text in message.headers() or [])
    return DeadLetter(message.partition() or 0, message.key(), message.value(), headers).as_json()


@dataclass(slots=True)
class Progress:
    """Committed progress of the stages."""

    consumed: dict[int, int] = field(default_factory=dict)
    """Per partition of `events`, the offset of the first message that the learner has not finished."""
    watched: dict[int, int] = field(default_factory=dict)
    """Per partition of `events`, the offset of the first message that the novelty detector has not finished."""
    rows: dict[str, int] = field(default_factory=dict)
    """Number of rows learned, per stream."""
    entries: dict[str, int] = field(default_factory=dict)
    """Number of rows, and of events without a label that are explained too, per stream."""
    aggregated: dict[str, int] = field(default_factory=dict)
    """Next row to be aggregated, per stream."""
    published: dict[str, int] = field(default_factory=dict)
    """Row of the newest importance record, per stream."""
    unexplained: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Number of rows that could not be explained, and why the first could not, per stream."""

    def take(self, topic: str, message: Message) -> None:
        """Read one record of a topic in `PROGRESS`."""
        key, value = message.key(), message.value()
        if key is None or value is None:
            return
        if topic == progress_learner.TOPIC.name:
            record = progress_learner.decode(key, value)
            if isinstance(record, progress_learner.LearnerStreamProgress):
                self.rows[record.stream] = record.rows
                self.entries[record.stream] = record.next_entry
            else:
                self.consumed[message.partition()] = record.offset
            return
        if topic == progress_novelty.TOPIC.name:
            watching = progress_novelty.decode(key, value)
            if isinstance(watching, progress_novelty.NoveltyPartitionProgress):
                self.watched[message.partition()] = watching.offset
            return
        aggregator = progress_aggregator.decode(key, value)
        if isinstance(aggregator, progress_aggregator.AggregatorStreamProgress):
            self.aggregated[aggregator.stream] = aggregator.next_row
            self.published[aggregator.stream] = aggregator.published_row
            self.unexplained[aggregator.stream] = aggregator.failed, aggregator.cause


class Monitor:
    """Reader of committed records of the public topics and of progress, outside any group.

    Parameters
    ----------
    connection, settings
        Connection to the broker, and the configuration with the prefix of the topics.
    on_records
        Function that is called with the name of a public topic (without the prefix) and its new records, in order.
    public
        Public topics to read.
    from_start
        Whether to read the public topics from their first record. Otherwise reading begins at their current ends.
    whole
        Whether every record of the public topics must be read. If so, a record that the broker has removed is an error.
    """

    def __init__(
        self,
        connection: Connection,
        settings: Settings,
        on_records: OnRecords,
        *,
        public: tuple[str, ...] = PUBLIC,
        from_start: bool = True,
        whole: bool = False,
    ) -> None:
        self.progress = Progress()
        self._prefix = settings.prefix
        self._on_records = on_records
        self._reader = Consumer(connection.consumer(read_committed=True, enable_partition_eof=True))
        self._ends: dict[tuple[str, int], int] = {}
        self._partitions: list[tuple[str, int]] = []
        self._public = public
        self._whole = whole
        self._next: dict[tuple[str, int], int] = {}
        self.read = 0
        """Number of records of the public topics that have been read."""
        self._largest: Counter[str] = Counter()
        self._keys: dict[str, set[bytes | None]] = {topic: set() for topic in public}
        progress = [name for name in PROGRESS if "novelty" in public or name != progress_novelty.TOPIC.name]
        for topic in (*public, *progress):
            self._partitions += [(topic, partition) for partition in range(settings.topics.events)]
        start: list[TopicPartition] = []
        for topic, partition in self._partitions:
            offset = OFFSET_BEGINNING
            if topic in public and not from_start:
                _, offset = self._kept(topic, partition)
            start.append(TopicPartition(self._prefix + topic, partition, offset))
        self._reader.assign(start)

    def poll(self, seconds: float) -> int:
        """Read the available records, waiting at most this long for the first, and return their number.

        Raises
        ------
        BrokerError
            The broker refuses, a topic is gone, or the broker has removed records that had to be read.
        """
        batches: dict[str, list[Message]] = {}
        count = 0
        for message in self._reader.consume(_BATCH, timeout=seconds):
            error = message.error()
            topic = (message.topic() or "").removeprefix(self._prefix)
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    self._ends[topic, message.partition()] = message.offset()
                elif not heals(error):
                    raise BrokerError(f"{message.topic()}: cannot be read: {error.str()}")
                continue
            count += 1
            self._ends.pop((topic, message.partition()), None)
            if topic in self._public:
                self._measure(topic, message)
                batches.setdefault(topic, []).append(message)
            else:
                try:
                    self.progress.take(topic, message)
                except RecordError as damaged:
                    log.warning(
                        "Skipping unreadable record %s[%d]@%d: %s",
                        topic,
                        message.partition(),
                        message.offset(),
                        damaged,
                    )
        for topic, messages in batches.items():
            self._on_records(topic, messages)
        return count

    def _measure(self, topic: str, message: Message) -> None:
        """Track the sizes of the records of a topic, and check that none is missing."""
        self.read += 1
        self._largest[topic] = max(self._largest[topic], len(message.value() or b""))
        self._keys[topic].add(message.key())
        if not self._whole:
            return
        partition, offset = message.partition() or 0, message.offset() or 0
        expected = self._next.get((topic, partition), 0)
        self._next[topic, partition] = offset + 1
        if offset - expected > 1:  # a gap of one is the marker of a transaction
            low, _ = self._kept(topic, partition)
            if low > expected:
                raise BrokerError(
                    f"{self._prefix}{topic}[{partition}]: expected to read offset {expected:,} next, but the broker "
                    f"has removed the records before {low:,}; use --broker local, which keeps all records, "
                    f"or lower --rows-per-message"
                )

    def round_bytes(self, topic: str) -> int:
        """Return the largest size in bytes of one record under each key of a topic; 0 before the first record."""
        return self._largest[topic] * len(self._keys[topic])

    def keys(self, topic: str) -> int:
        """Return the number of keys among the records of a topic that have been read."""
        return len(self._keys[topic])

    def behind(self, topic: str) -> int:
        """Return the number of records of a topic that have not been read, as of the last fetch."""
        lag = 0
        for place in self._reader.position([p for p in self._reader.assignment() if p.topic == self._prefix + topic]):
            _, high = self._reader.get_watermark_offsets(place, cached=True)
            if place.offset >= 0 and high > 0:
                lag += max(0, high - place.offset)
        return lag

    def ends(self) -> Mapping[tuple[str, int], int]:
        """Return the current ends of the public topics' partitions, as an argument for `has_read`."""
        return {
            (topic, number): self._kept(topic, number)[1] for topic, number in self._partitions if topic in self._public
        }

    def has_read(self, ends: Mapping[tuple[str, int], int]) -> bool:
        """Return whether all records before `ends` have been read (the last ones may be markers of transactions)."""
        return all(high <= 0 or self._ends.get(place, -1) >= high for place, high in ends.items())

    def close(self) -> None:
        """Close the connection to the broker."""
        self._reader.close()

    def _kept(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the beginning and the end of a partition.

        Raises
        ------
        BrokerError
            The broker does not answer in time.
        """
        return bounds(self._reader, self._prefix + topic, partition, _ASK_SECONDS)
