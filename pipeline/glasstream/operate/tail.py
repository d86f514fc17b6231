"""Follow a public topic: its committed records as lines of JSON."""

from collections.abc import Iterator

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

from glasstream.errors import BrokerError, InputError
from glasstream.learn.dead_letters import DeadLetter
from glasstream.runner.monitor import PUBLIC
from glasstream.settings import Settings
from glasstream.transport.connection import connection

_ASK_SECONDS = 10.0


def tail(settings: Settings, topic: str, *, from_start: bool, most: int | None) -> Iterator[str]:
    """Yield records as they arrive, and stop after `most`.

    Raises
    ------
    InputError
        The public topic does not exist.
    BrokerError
        The topic cannot be read.
    """
    name = topic.removeprefix(settings.prefix)
    if name not in ("events", "labels", *PUBLIC):
        raise InputError(f"tail: expected one of events, labels, {', '.join(PUBLIC)}, got {topic!r}")
    reader = Consumer(connection(settings).consumer(read_committed=True))
    full = settings.prefix + name
    found = reader.list_topics(full, timeout=_ASK_SECONDS).topics[full]
    if found.error is not None or not found.partitions:
        raise InputError(
            f"tail: expected topic {full} on {settings.broker}, got none; create it with `glasstream topics create`"
        )
    start = OFFSET_BEGINNING if from_start else OFFSET_END
    reader.assign([TopicPartition(full, partition, start) for partition in found.partitions])
    count = 0
    while most is None or count < most:
        message = reader.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise BrokerError(f"{full}: cannot be read: {error.str()}")
        count += 1
        value = message.value() or b""
        if name == "events.dead":
            headers = tuple((key, text or b"") for key, text in message.headers() or [])
            value = DeadLetter(message.partition() or 0, message.key(), message.value(), headers).as_json()
        yield value.decode("utf-8", "backslashreplace")
    reader.close()
