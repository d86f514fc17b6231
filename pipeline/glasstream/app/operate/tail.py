"""Follow a public topic: its committed records as lines of JSON."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from glasstream.app.runner.monitor import as_json
from glasstream.base.errors import BrokerError, InputError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.topic_check import check_topics
from glasstream_topics import ALL


def tail(settings: Settings, topic: str, *, from_start: bool, most: int | None) -> Iterator[str]:
    """Yield records as they arrive, and stop after `most`.

    Raises
    ------
    InputError
        There is no public topic of this name.
    TopicError
        The broker does not have the topic, or does not let this client see it.
    BrokerError
        The topic cannot be read.
    """
    name = topic.removeprefix(settings.prefix)
    public = [one.name for one in ALL if one.public]
    if name not in public:
        raise InputError(f"tail: expected one of {', '.join(public)}, got {topic!r}")
    full, link = settings.prefix + name, connection(settings)
    partitions = range(check_topics(link, {full: None})[full])
    reader = Consumer(link.consumer(read_committed=True))
    start = OFFSET_BEGINNING if from_start else OFFSET_END
    reader.assign([TopicPartition(full, partition, start) for partition in partitions])
    count = 0
    while most is None or count < most:
        message = reader.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise BrokerError(f"{full}: cannot be read: {error.str()}")
        count += 1
        yield as_json(name, message).decode("utf-8", "backslashreplace")
    reader.close()
