"""State is read to its very end, or not at all; records of a topic are followed."""

import asyncio
import threading
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from glasstream.errors import BrokerError, FencedError, StateError, TopicError, UnavailableError
from glasstream.transport.connection import Connection
from glasstream.transport.producers import ConfirmedProducer
from glasstream.transport.progress import read_to_end, watermarks
from glasstream.transport.records import ProducerRecord
from glasstream.transport.topic_check import check_topics, partition_count
from glasstream.transport.transactions import TransactionalProducer
from glasstream.transport.watch import Follower
from tests.transport.harness import make_topics, produce, produce_in_transactions, until


@pytest.fixture
def state(kafka: str, prefix: str) -> str:
    make_topics(kafka, {f"{prefix}state": 2}, {"cleanup.policy": "compact"})
    return f"{prefix}state"


def test_an_empty_partition_has_no_state(kafka: str, state: str) -> None:
    assert read_to_end(Connection(kafka), state, 1, 10.0) == {}


def test_the_last_value_of_each_key_is_found_behind_markers_aborted_records_and_tombstones(
    kafka: str, state: str
) -> None:
    connection = Connection(kafka)
    writer = TransactionalProducer(connection, f"{state}-writer")
    writer.open(60)
    writer.commit(
        [
            ProducerRecord(state, b"a", b"1", 0),
            ProducerRecord(state, b"b", b"1", 0),
            ProducerRecord(state, b"c", b"1", 0),
        ]
    )
    writer.commit(
        [
            ProducerRecord(state, b"b", b"2", 0),
            ProducerRecord(state, b"c", None, 0),
            ProducerRecord(state, b"", b"9", 0),
        ]
    )
    writer.close()
    produce_in_transactions(kafka, state, [[b"never"]], abort=[0])
    assert read_to_end(connection, state, 0, 30.0) == {b"a": b"1", b"b": b"2", b"": b"9"}
    assert watermarks(connection, state, 0, 10.0) == (0, 10)  # six records, one that was aborted, three markers


def test_a_partition_with_nothing_but_aborted_records_has_no_state(kafka: str, state: str) -> None:
    produce_in_transactions(kafka, state, [[b"never"]], abort=[0])
    assert read_to_end(Connection(kafka), state, 0, 10.0) == {}


def test_an_open_transaction_of_another_producer_is_a_failure_and_never_less_state(kafka: str, state: str) -> None:
    produce(kafka, state, [b"100"])
    foreign = Producer({"bootstrap.servers": kafka, "transactional.id": f"{state}-foreign"})
    foreign.init_transactions(60)
    foreign.begin_transaction()
    foreign.produce(state, b"x", b"x", 0)
    foreign.flush(60)
    produce(kafka, state, [b"200"])
    with pytest.raises(UnavailableError, match=r"read to offset 1 of 3 and for 10 s no further"):
        read_to_end(Connection(kafka), state, 0, 10.0)
    foreign.abort_transaction(60)
    assert read_to_end(Connection(kafka), state, 0, 60.0) == {b"k": b"200"}


def test_a_broker_that_is_not_there_is_a_broker_error() -> None:
    nowhere = Connection("127.0.0.1:1")
    with pytest.raises(BrokerError, match=r"no offsets of state\[0\] within 1 s"):
        watermarks(nowhere, "state", 0, 1.0)
    with pytest.raises(BrokerError, match=r"no broker answered at 127.0.0.1:1 within 1 s"):
        check_topics(nowhere, {"state": 1}, timeout=1.0)
    producer = TransactionalProducer(nowhere, "id", deadline=1.0)
    with pytest.raises(BrokerError, match="init_transactions of id"):
        producer.open(1.0)
    producer.close()


def test_every_missing_or_wrong_topic_is_named(kafka: str, state: str) -> None:
    connection = Connection(kafka)
    check_topics(connection, {state: 2})
    assert partition_count(connection, state) == 2
    with pytest.raises(TopicError, match=rf"{state} has 2 partitions instead of 3; {state}-x is missing"):
        check_topics(connection, {state: 3, f"{state}-x": None})


def test_a_transaction_that_the_broker_refuses_for_good_is_an_error_soon(kafka: str, state: str) -> None:
    writer = TransactionalProducer(Connection(kafka), f"{state}-writer")
    writer.open(60)
    with pytest.raises(BrokerError, match="attempt 3 of 3"):
        writer.commit(
            [ProducerRecord(state, b"a", b"1", 0), ProducerRecord(state, None, b"1", 0)]
        )  # compacted topics want keys
    writer.commit([ProducerRecord(state, b"a", b"2", 0)])
    writer.close()
    assert read_to_end(Connection(kafka), state, 0, 10.0) == {b"a": b"2"}


def test_a_second_producer_of_the_same_name_fences_the_first(kafka: str, state: str) -> None:
    first, second = (TransactionalProducer(Connection(kafka), f"{state}-id") for _ in range(2))
    first.open(60)
    first.commit([ProducerRecord(state, b"a", b"1", 0)])
    second.open(60)
    with pytest.raises(FencedError, match="does not own the partition any more"):
        first.commit([ProducerRecord(state, b"a", b"2", 0)])
    second.commit([ProducerRecord(state, b"b", b"3", 0)])
    first.close()
    second.close()
    assert read_to_end(Connection(kafka), state, 0, 10.0) == {b"a": b"1", b"b": b"3"}


class Raising:
    """A producer of librdkafka whose next `poll` raises what is fatal to it, as confluent-kafka does, once."""

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self.raised = threading.Event()

    def poll(self, timeout: float) -> int:
        if not self.raised.is_set():
            self.raised.set()
            raise KafkaException(KafkaError(KafkaError._FENCED, fatal=True))
        return int(self._producer.poll(timeout))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


def test_a_producer_that_learns_of_its_fence_while_it_closes_closes(kafka: str, state: str) -> None:
    writer = TransactionalProducer(Connection(kafka), f"{state}-id")
    writer.open(60)
    writer._producer = fenced = Raising(writer._producer)
    writer.close()
    assert fenced.raised.is_set()


def test_reports_arrive_after_an_error_that_polling_raised(kafka: str, state: str) -> None:
    producer = ConfirmedProducer(Connection(kafka))
    producer._producer = failing = Raising(producer._producer)
    # Before anything is delivered: a `poll` from before the exchange may still run, and would take the report.
    assert failing.raised.wait(10.0)
    producer.deliver([ProducerRecord(state, b"a", b"1", 1)])
    producer.deliver([ProducerRecord(state, b"b", b"1", 1)])
    producer.close()
    assert len(read_to_end(Connection(kafka), state, 1, 10.0)) == 2


def test_the_plain_producer_confirms_in_threads_and_on_the_loop(kafka: str, state: str) -> None:
    producer = ConfirmedProducer(Connection(kafka))
    producer.deliver([ProducerRecord(state, b"a", b"1", 1)])
    asyncio.run(producer.produce_confirmed(ProducerRecord(state, b"%d" % number, b"2", 1) for number in range(100)))
    assert len(read_to_end(Connection(kafka), state, 1, 10.0)) == 101
    with pytest.raises(BrokerError, match=r"not accepted|cannot be written"):
        producer.deliver([ProducerRecord(state, b"a", b"1", 77)])
    producer.close()


def test_keys_go_to_the_partitions_that_java_clients_choose(kafka: str, prefix: str) -> None:
    topic = f"{prefix}keys"
    make_topics(kafka, {topic: 8})
    connection = Connection(kafka)
    producer = ConfirmedProducer(connection)
    producer.deliver([ProducerRecord(topic, key, b"v") for key in (b"elec2", b"agrawal", b"bike")])
    producer.close()
    found = {partition: set(read_to_end(connection, topic, partition, 10.0)) for partition in range(8)}
    # Java: toPositive(murmur2(key)) % 8
    assert b"elec2" in found[_java_partition(b"elec2", 8)]
    assert b"agrawal" in found[_java_partition(b"agrawal", 8)]
    assert b"bike" in found[_java_partition(b"bike", 8)]


def _java_partition(key: bytes, partitions: int) -> int:
    from aiokafka.partitioner import murmur2

    return int((murmur2(key) & 0x7FFFFFFF) % partitions)


def test_committed_records_are_followed_as_they_come(kafka: str, state: str) -> None:
    connection = Connection(kafka)
    writer = TransactionalProducer(connection, f"{state}-writer")
    writer.open(60)
    writer.commit([ProducerRecord(state, b"a", b"1", 0)])
    seen: list[tuple[int, int, bytes | None, bytes | None]] = []

    async def run() -> None:
        follower = Follower(connection, state, lambda *record: seen.append(record))
        await follower.start()
        follower.follow(0)
        await until(lambda: len(seen) == 1)
        await asyncio.to_thread(
            writer.commit, [ProducerRecord(state, b"a", b"2", 0), ProducerRecord(state, b"x", b"3", 1)]
        )
        await until(lambda: len(seen) == 2)
        follower.follow(1)
        await until(lambda: len(seen) == 3)
        follower.unfollow(0)
        await asyncio.to_thread(
            writer.commit, [ProducerRecord(state, b"a", b"4", 0), ProducerRecord(state, b"x", b"5", 1)]
        )
        await until(lambda: len(seen) == 4)
        await follower.stop()

    asyncio.run(run())
    writer.close()
    assert [(partition, key, value) for partition, _, key, value in seen] == [
        (0, b"a", b"1"), (0, b"a", b"2"), (1, b"x", b"3"), (1, b"x", b"5"),
    ]  # fmt: skip


def test_a_follower_whose_callback_raises_says_so(kafka: str, state: str) -> None:
    produce(kafka, state, [b"1"])
    errors: list[Exception] = []

    def refuse(*record: object) -> None:
        raise StateError("not this one")

    async def run() -> None:
        follower = Follower(Connection(kafka), state, refuse, errors.append)
        await follower.start()
        follower.follow(0)
        await until(lambda: bool(errors))
        await follower.stop()

    asyncio.run(run())
    assert [str(error) for error in errors] == ["not this one"]
