"""`glasstream tail TOPIC`: print the committed records of a public topic as lines of JSON."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.options import load_settings, settings_options
from glasstream_topics import ALL, events

if TYPE_CHECKING:
    from glasstream.flow.settings import Settings

_PUBLIC = [one.name for one in ALL if one.public]


@click.command(
    short_help="Print the records of a topic as JSON.",
    help="Print the committed records of a topic as JSON, one record per line.\n\n"
    f"TOPIC is one of {', '.join(_PUBLIC)}, with or without the prefix.",
)
@click.argument("topic")
@click.option("--from-start", is_flag=True, help="Start with the oldest record on the topic instead of at its end.")
@click.option("--stream", help="Print only records with this key: those of the stream.")
@click.option("--max", "most", type=click.IntRange(min=1), help="Exit after this many records.")
@settings_options()
def tail(topic: str, from_start: bool, stream: str | None, most: int | None, **common: Any) -> int:
    """Print the committed records of a topic as JSON, one record per line."""
    from glasstream.app.command.expect import expect_broker

    settings = load_settings(common)
    expect_broker(settings)
    for line in follow(settings, topic, from_start=from_start, stream=stream, most=most):
        click.echo(line)
    return 0


def follow(
    settings: "Settings", topic: str, *, from_start: bool, stream: str | None = None, most: int | None
) -> Iterator[str]:
    """Yield records as they arrive, only those of `stream` if it is given, and stop after `most`.

    Raises
    ------
    InputError
        There is no public topic of this name.
    TopicError
        The broker does not have the topic, or does not let this client see it.
    BrokerError
        The topic cannot be read.
    """
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition

    from glasstream.app.runner.monitor import as_json
    from glasstream.base.errors import BrokerError, InputError
    from glasstream.kafka.transport.connection import connection
    from glasstream.kafka.transport.topic_check import check_topics

    name = topic.removeprefix(settings.prefix)
    if name not in _PUBLIC:
        raise InputError(f"tail: expected one of {', '.join(_PUBLIC)}, got {topic!r}")
    full, link = settings.prefix + name, connection(settings)
    partitions = range(check_topics(link, {full: None})[full])
    reader = Consumer(link.consumer(read_committed=True))
    start = OFFSET_BEGINNING if from_start else OFFSET_END
    reader.assign([TopicPartition(full, partition, start) for partition in partitions])
    key = None if stream is None else events.key(stream)
    count = 0
    while most is None or count < most:
        message = reader.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            raise BrokerError(f"{full}: cannot be read: {error.str()}")
        if key is not None and message.key() != key:
            continue
        count += 1
        yield as_json(name, message).decode("utf-8", "backslashreplace")
    reader.close()
