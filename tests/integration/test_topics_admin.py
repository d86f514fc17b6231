"""Topics on a real Kafka: created as the contract says, and every deviation reported."""

import asyncio
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AdminClient,
    NewPartitions,
)

import glasstream_topics
from glasstream.app.brokers.local import Kafka
from glasstream.app.command.tail import follow
from glasstream.app.configuration import load
from glasstream.app.operate.topics import create, verify
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.input_topic import LIMIT, SizeCheck
from glasstream.kafka.transport.topic_check import check_topics
from glasstream_topics import admin
from glasstream_topics.admin import Deviation
from glasstream_topics.contract import MIB
from glasstream_topics.errors import TopicError
from tests.support.topic_configs import TIMEOUT_S, alter, config
from tests.support.waiting import wait_for

COUNTS = {"events": 2, "requests": 3}


@pytest.fixture
def client(kafka: str, prefix: str) -> Iterator[AdminClient]:
    """A client whose topics of this test's prefix are deleted in the end."""
    made = AdminClient({"bootstrap.servers": kafka})
    yield made
    admin.delete(made, prefix)


def partitions(client: AdminClient) -> dict[str, int]:
    """Number of partitions of every topic that the broker lists."""
    return {name: len(topic.partitions) for name, topic in client.list_topics(timeout=TIMEOUT_S).topics.items()}


def test_topics_are_created_left_as_they_are_compared_and_deleted(
    client: AdminClient, kafka: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a broker shows that it takes the contract's configuration, and reports the one that it uses."""
    with pytest.raises(TopicError, match="create"):
        admin.create(client, COUNTS, "not allowed/")
    with pytest.raises(TopicError, match="create"):
        admin.create(client, COUNTS, prefix, replication=7)

    other = f"other-{prefix}"
    names = [topic.full_name(prefix) for topic in glasstream_topics.ALL]
    assert admin.create(client, COUNTS, prefix) == names
    assert admin.verify(client, COUNTS, prefix) == []
    found = partitions(client)
    for description in admin.show(COUNTS, prefix):
        assert found[description.name] == description.partitions

    alter(client, f"{prefix}events", "retention.ms", "123456789")
    assert admin.create(client, {"events": 9, "requests": 9}, prefix) == []
    assert admin.verify(client, COUNTS, prefix) == []  # retention of public topics is the operator's
    assert admin.verify(client, {"events": 2, "requests": 5}, prefix) == [
        Deviation(f"{prefix}explain.requests", "partitions", "5", "3")
    ]

    overrides = {"events": {"max.message.bytes": "4194304"}}
    admin.create(client, COUNTS, other, overrides)
    assert admin.verify(client, COUNTS, other, overrides) == []
    assert [(finding.topic, finding.what, finding.found) for finding in admin.verify(client, COUNTS, other)] == [
        (f"{other}events", "max.message.bytes", "4194304")
    ]

    assert sorted(admin.delete(client, prefix)) == sorted(names)
    assert admin.delete(client, prefix) == []
    assert admin.verify(client, COUNTS, other, overrides) == [], "topics of another prefix stay"
    admin.delete(client, other)

    topics_in_avro_are_there_only_where_they_are_wanted(client, kafka, f"avro-{prefix}")
    every_deviation_is_reported(client, f"deviating-{prefix}")
    a_worker_starts_on_no_topic_whose_messages_it_cannot_hold(client, Connection(kafka), f"limits-{prefix}", caplog)


def topics_in_avro_are_there_only_where_they_are_wanted(client: AdminClient, kafka: str, prefix: str) -> None:
    given = [f"broker={kafka}", f"prefix={prefix}", "topics.events=2", "topics.requests=3"]
    settings, wanted = load(assignments=given), load(assignments=[*given, "avro.registry=http://localhost:8081"])
    plain = [f"{topic.full_name(prefix)}: created" for topic in glasstream_topics.ALL]
    assert [line for line in create(settings) if not line.startswith("warning")] == plain
    assert verify(settings) == []
    names = [topic.full_name(prefix) for topic in glasstream_topics.AVRO]
    assert verify(wanted) == [f"{name}: expected the topic to exist, found none" for name in names]
    lines = create(wanted)
    assert [line.partition(":")[0] for line in lines if line.endswith(": created")] == names
    assert verify(wanted) == verify(settings) == []
    for topic in glasstream_topics.AVRO:
        assert partitions(client)[topic.full_name(prefix)] == 2
        assert int(config(client, topic.full_name(prefix))["max.message.bytes"].value) >= 3 * MIB
    admin.delete(client, prefix)
    assert not {name for name in partitions(client) if name.startswith(prefix)}


def every_deviation_is_reported(client: AdminClient, prefix: str) -> None:
    admin.create(client, COUNTS, prefix)
    name: Callable[[str], str] = lambda topic: prefix + topic  # noqa: E731
    for future in client.delete_topics([name("importance")], operation_timeout=TIMEOUT_S).values():
        future.result(TIMEOUT_S)
    for future in client.create_partitions([NewPartitions(name("contributions"), 4)]).values():
        future.result(TIMEOUT_S)
    wait_for(
        "the topics",
        lambda: name("importance") not in partitions(client) and partitions(client)[name("contributions")] == 4,
    )
    alter(client, name("snapshots"), "cleanup.policy", "compact,delete")
    alter(client, name("snapshots"), "segment.bytes", "1048576")
    alter(client, name("progress.aggregator"), "min.cleanable.dirty.ratio", "0.5")
    alter(client, name("explain.requests"), "retention.bytes", "-1")
    assert sorted(admin.verify(client, COUNTS, prefix), key=str) == [
        Deviation(name("contributions"), "partitions", "2", "4"),
        Deviation(name("explain.requests"), "retention.bytes", "1073741824", "-1"),
        Deviation(name("importance"), "the topic", "to exist", "none"),
        Deviation(name("progress.aggregator"), "min.cleanable.dirty.ratio", "0.1", "0.5"),
        Deviation(name("snapshots"), "cleanup.policy", "compact", "compact,delete"),
        Deviation(name("snapshots"), "segment.bytes", "16777216", "1048576"),
    ]
    assert str(Deviation("t", "partitions", "2", "4")) == "t: expected partitions 2, found 4"
    admin.delete(client, prefix)


def a_worker_starts_on_no_topic_whose_messages_it_cannot_hold(
    client: AdminClient, connection: Connection, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A topic that cannot be read is logged and no hindrance."""
    admin.create(client, COUNTS, prefix)
    name = f"{prefix}events"
    alter(client, name, "max.message.bytes", str(LIMIT))
    asyncio.run(SizeCheck(connection, name).start())
    alter(client, name, "max.message.bytes", str(LIMIT + 1))
    with pytest.raises(TopicError, match=rf"accepts messages of {LIMIT + 1} bytes.*handles at most {LIMIT}"):
        asyncio.run(SizeCheck(connection, name).start())
    admin.delete(client, prefix)
    SizeCheck(connection, f"{prefix}none").check()
    assert f"cannot read max.message.bytes of {prefix}none" in caplog.text


@pytest.mark.kafka
def test_a_question_about_missing_topics_creates_none(local_broker: Callable[..., Kafka], prefix: str) -> None:
    """Many brokers create a topic when a client asks for it by name; this is Kafka's default."""
    broker = local_broker(settings={"auto.create.topics.enable": "true"})
    client, link = AdminClient({"bootstrap.servers": broker.bootstrap}), Connection(broker.bootstrap)
    name, settings = f"{prefix}events", load(assignments=[f"broker={broker.bootstrap}", f"prefix={prefix}"])
    for _ in range(2):
        assert len(verify(settings)) == len(settings.all_topics)
        with pytest.raises(TopicError, match="is missing"):
            check_topics(link, {name: 2})
        with pytest.raises(TopicError, match="is missing"):
            next(
                follow(
                    load(assignments=[f"broker={broker.bootstrap}", f"prefix={prefix}"]),
                    "drift",
                    from_start=True,
                    most=1,
                )
            )
    assert not [topic for topic in partitions(client) if topic.startswith(prefix)]


def test_no_broker_is_a_topic_error() -> None:
    nobody = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    for call in (admin.verify, admin.create):
        with pytest.raises(TopicError):
            call(nobody, COUNTS, "nobody.", timeout=0.5)
