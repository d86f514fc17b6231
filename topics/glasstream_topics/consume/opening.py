"""Open the consumer behind a reader: its settings, its start position, and the errors when there is nothing to read."""

from collections.abc import Mapping
from typing import Literal

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from glasstream_topics.access import READERS
from glasstream_topics.consume.offsets import bounds
from glasstream_topics.errors import BrokerError, InputError, TopicError

_ANSWER_SECONDS = 10.0


def opened(
    bootstrap: str,
    topic: str,
    start: Literal["earliest", "latest"] | Mapping[int, int],
    group: str | None,
    kafka: Mapping[str, str],
) -> Consumer:
    """Open a consumer of an existing topic, for its share in the group or for every partition.

    Raises
    ------
    InputError
        librdkafka rejects the settings, or a partition ends before the offset at which reading should start.
    BrokerError
        No Kafka answers.
    TopicError
        The topic does not exist.
    """
    settings = {
        "log_level": 2,
        **kafka,
        "bootstrap.servers": bootstrap,
        "group.id": group or READERS,
        "isolation.level": "read_committed",
        # Without a group, this applies only if a record was deleted before it was read. The oldest kept record is next.
        "auto.offset.reset": "latest" if group and start == "latest" else "earliest",
        "enable.auto.commit": group is not None,
        "enable.auto.offset.store": False,
        "enable.partition.eof": True,
    }
    try:
        consumer = Consumer(settings)
    except KafkaException as error:
        raise InputError(f"kafka: librdkafka rejects these settings: {error.args[0].str()}") from error
    try:
        partitions = _partitions(consumer, bootstrap, topic)
        if group is None:
            consumer.assign([_place(consumer, topic, partition, start) for partition in partitions])
        else:
            consumer.subscribe([topic])
    except BaseException:
        consumer.close()
        raise
    return consumer


def _place(
    consumer: Consumer, topic: str, partition: int, start: Literal["earliest", "latest"] | Mapping[int, int]
) -> TopicPartition:
    """Return where reading starts: at the oldest record, at the current end, or at an offset, if it is still kept."""
    place = TopicPartition(topic, partition, OFFSET_BEGINNING)
    wanted = start if isinstance(start, str) else start.get(partition)
    if wanted in (None, "earliest"):
        return place
    oldest, end = bounds(consumer, topic, partition, _ANSWER_SECONDS)
    if not isinstance(wanted, int):
        place.offset = end
        return place
    if wanted > end:
        raise InputError(
            f"start: expected an offset up to {end}, the end of {topic}[{partition}], got {wanted}; the topic was "
            "deleted and created again, or the broker lost the end of its log"
        )
    place.offset = max(wanted, oldest)
    return place


def _partitions(consumer: Consumer, bootstrap: str, topic: str) -> list[int]:
    """Return the partitions of a topic; raise if no broker answers or the topic does not exist."""
    try:
        found = consumer.list_topics(topic, timeout=_ANSWER_SECONDS).topics[topic]
    except KafkaException as error:
        raise BrokerError(
            f"no broker answers at {bootstrap}: {error.args[0].str()}. Check that Kafka runs, that the address is one "
            "that it advertises to clients, and the security settings (kafka={...})"
        ) from error
    if found.error is not None and found.error.code() not in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
    ):
        raise BrokerError(f"{topic} on {bootstrap}: cannot be read: {found.error.str()}")
    if found.error is not None or not found.partitions:
        raise TopicError(
            f"expected topic {topic} on {bootstrap}, got none. Check the prefix; `glasstream topics create` creates it"
        )
    return sorted(found.partitions)
