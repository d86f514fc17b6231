"""The mock cluster: what the demo relies on, and those of its limits that the pipeline is built around."""

import time

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import BrokerError

DEADLINE_S = 20.0


def values(consumer: Consumer, count: int) -> list[bytes]:
    """The values of the next messages until there are `count`."""
    end = time.monotonic() + DEADLINE_S
    messages: list[Message] = []
    while len(messages) < count and time.monotonic() < end:
        messages += [message for message in consumer.consume(count, timeout=0.5) if message.error() is None]
    return [message.value() for message in messages]


def reader(embedded: EmbeddedKafka, topic: str, isolation: str = "read_committed") -> Consumer:
    consumer = Consumer({"bootstrap.servers": embedded.bootstrap, "group.id": "none", "isolation.level": isolation})
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def test_topics_have_the_partitions_asked_for(embedded: EmbeddedKafka) -> None:
    counts = {"one": 1, "two": 2, "seven": 7}
    for name, partitions in counts.items():
        embedded.create_topic(name, partitions)
    listed = Producer({"bootstrap.servers": embedded.bootstrap}).list_topics(timeout=DEADLINE_S).topics
    assert {name: len(listed[name].partitions) for name in counts} == counts


def test_a_group_does_not_wait_for_more_members_at_its_first_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """librdkafka's own cluster waits for three seconds; beside it one that waits for longer than the test."""
    with EmbeddedKafka() as ours:
        monkeypatch.setattr("glasstream.app.brokers.embedded._REBALANCE_DELAY_MS", int(10 * DEADLINE_S * 1000))
        with EmbeddedKafka() as slow:
            consumers = []
            for cluster in (slow, ours):
                cluster.create_topic("t", 1)
                producer = Producer({"bootstrap.servers": cluster.bootstrap})
                for index in range(100):
                    producer.produce("t", str(index).encode())
                assert producer.flush(DEADLINE_S) == 0
                settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
                consumers.append(Consumer(settings))
                consumers[-1].subscribe(["t"])
            try:
                assert values(consumers[1], 100) == [str(index).encode() for index in range(100)]
                assert consumers[0].consume(1, timeout=0.0) == []
            finally:
                for consumer in consumers:
                    consumer.close()


def test_it_keeps_five_mebibytes_of_a_partition(embedded: EmbeddedKafka) -> None:
    """The bound on what `run` has in flight rests on this number."""
    embedded.create_topic("t", 1)
    producer = Producer({"bootstrap.servers": embedded.bootstrap})
    for _ in range(60):
        producer.produce("t", bytes(100_000))
        assert producer.flush(DEADLINE_S) == 0
    consumer = reader(embedded, "t")
    low, high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=DEADLINE_S)
    consumer.close()
    assert high == 60
    assert 5_000_000 <= (high - low) * 100_000 <= 5 * 1024 * 1024


def test_transactions_are_accepted_and_not_isolated(embedded: EmbeddedKafka) -> None:
    """No stage may rest on read_committed here; should this fail, the limit is gone from librdkafka."""
    embedded.create_topic("t", 1)
    producer = Producer({"bootstrap.servers": embedded.bootstrap, "transactional.id": "tx"})
    producer.init_transactions(DEADLINE_S)
    for value, end in [(b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)]:
        producer.begin_transaction()
        producer.produce("t", value)
        producer.flush(DEADLINE_S)
        end(DEADLINE_S)
    consumer = reader(embedded, "t")
    try:
        assert values(consumer, 2) == [b"aborted", b"committed"]
    finally:
        consumer.close()


def test_a_topic_that_exists_is_refused(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("t", 1)
    with pytest.raises(BrokerError, match="t already exists"):
        embedded.create_topic("t", 2)


def test_no_partitions_are_refused(embedded: EmbeddedKafka) -> None:
    with pytest.raises(BrokerError, match="1 or more partitions for t; got 0"):
        embedded.create_topic("t", 0)


def test_a_closed_cluster_says_so() -> None:
    with EmbeddedKafka() as cluster:
        pass
    cluster.close()
    with pytest.raises(BrokerError, match="has been closed"):
        cluster.create_topic("t", 1)


def test_a_library_without_the_mock_cluster_points_to_local(monkeypatch: pytest.MonkeyPatch) -> None:
    class WithoutFile:
        __file__ = "/nowhere/cimpl.so"

    monkeypatch.setattr("confluent_kafka.cimpl", WithoutFile)
    with pytest.raises(BrokerError, match="--broker local"):
        EmbeddedKafka()
