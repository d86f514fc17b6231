"""State and records on the embedded broker: laws that do not rest on transactions. What only a broker can show is in
`tests/integration/test_transport_progress.py`.
"""

import asyncio
import threading
from typing import Any

import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import KafkaError, KafkaException, Producer

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import BrokerError, StateError, TopicError
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.progress import read_to_end, watermarks
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.topic_check import check_topics, partition_count
from glasstream.kafka.transport.transactions import TransactionalProducer
from glasstream.kafka.transport.watch import Follower
from tests.support.transport_harness import produce
from tests.support.waiting import until

STATE = "state"


@pytest.fixture
def connection(embedded: EmbeddedKafka) -> Connection:
    embedded.create_topic(STATE, 2)
    return Connection(embedded.bootstrap, fetch_wait_ms=10)


@pytest.mark.slow
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


def test_every_missing_or_wrong_topic_is_named(connection: Connection) -> None:
    check_topics(connection, {STATE: 2})
    assert partition_count(connection, STATE) == 2
    with pytest.raises(TopicError, match=rf"{STATE} has 2 partitions instead of 3; {STATE}-x is missing"):
        check_topics(connection, {STATE: 3, f"{STATE}-x": None})


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

    def __len__(self) -> int:
        return len(self._producer)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)


def test_a_producer_that_learns_of_its_fence_while_it_closes_closes(connection: Connection) -> None:
    writer = TransactionalProducer(connection, f"{STATE}-id")
    writer.open(60)
    writer._producer = fenced = Raising(writer._producer)
    writer.close()
    assert fenced.raised.is_set()


def test_reports_arrive_after_an_error_that_polling_raised(connection: Connection) -> None:
    producer = ConfirmedProducer(connection)
    producer._producer = failing = Raising(producer._producer)
    # Before anything is delivered: a `poll` from before the exchange may still run, and would take the report.
    assert failing.raised.wait(60.0)
    producer.deliver([ProducerRecord(STATE, b"a", b"1", 1)])
    producer.deliver([ProducerRecord(STATE, b"b", b"1", 1)])
    producer.close()
    assert len(read_to_end(connection, STATE, 1, 60.0)) == 2


def test_the_plain_producer_confirms_in_threads_and_on_the_loop(connection: Connection) -> None:
    producer = ConfirmedProducer(connection)
    producer.deliver([ProducerRecord(STATE, b"a", b"1", 1)])
    asyncio.run(producer.produce_confirmed(ProducerRecord(STATE, b"%d" % number, b"2", 1) for number in range(100)))
    moves: list[None] = []
    assert len(read_to_end(connection, STATE, 1, 60.0, moved=lambda: moves.append(None))) == len(moves) == 101
    with pytest.raises(BrokerError, match=r"not accepted|cannot be written"):
        producer.deliver([ProducerRecord(STATE, b"a", b"1", 77)])
    producer.close()


def test_keys_go_to_the_partitions_that_java_clients_choose(embedded: EmbeddedKafka, connection: Connection) -> None:
    embedded.create_topic("keys", 8)
    producer = ConfirmedProducer(connection)
    producer.deliver([ProducerRecord("keys", key, b"v") for key in (b"elec2", b"agrawal", b"bike")])
    producer.close()
    found = {partition: set(read_to_end(connection, "keys", partition, 60.0)) for partition in range(8)}
    for key in (b"elec2", b"agrawal", b"bike"):
        assert key in found[(murmur2(key) & 0x7FFFFFFF) % 8]  # Java: toPositive(murmur2(key)) % 8


def test_a_follower_whose_callback_raises_says_so(connection: Connection) -> None:
    produce(connection.bootstrap, STATE, [b"1"])
    errors: list[Exception] = []

    def refuse(*record: object) -> None:
        raise StateError("not this one")

    async def run() -> None:
        follower = Follower(connection, STATE, refuse, errors.append)
        await follower.start()
        follower.follow(0)
        await until(lambda: bool(errors))
        await follower.stop()

    asyncio.run(run())
    assert [str(error) for error in errors] == ["not this one"]
