"""A broker that lost the end of a log ends the client of a producer, but not the producer."""

import asyncio
import ctypes
import logging
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import BrokerError
from glasstream.kafka.transport.connection import Connection, drain
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.records import ProducerRecord
from tests.support.transport_harness import read_all

_PRODUCE = 0
"""Number of the request in Kafka's protocol."""


@pytest.fixture
def broker() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        broker.create_topic("contributions", 2)
        yield broker


def lose_the_end(broker: EmbeddedKafka, times: int = 1) -> None:
    """Answer the next writes as a broker does whose log ends before the producer's last record."""
    push = broker._library.rd_kafka_mock_push_request_errors_array
    push.restype = None
    push.argtypes = [ctypes.c_void_p, ctypes.c_int16, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int)]
    errors = (ctypes.c_int * times)(*[KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER] * times)
    push(broker._cluster, _PRODUCE, times, errors)


def records(*values: bytes) -> list[ProducerRecord]:
    return [ProducerRecord("contributions", b"k", value, number % 2) for number, value in enumerate(values)]


def held(broker: EmbeddedKafka) -> set[bytes | None]:
    return {value for partition in read_all(broker.bootstrap, "contributions", 2) for value in partition}


def test_a_client_that_ended_before_it_was_polled_reports_every_record(broker: EmbeddedKafka) -> None:
    producer = Producer(Connection(broker.bootstrap).producer())
    reports: list[tuple[int | None, str | None]] = []

    def report(error: KafkaError | None, message: Message) -> None:
        reports.append((None if error is None else error.code(), message.topic()))

    producer.produce("contributions", b"a", partition=0, on_delivery=report)
    drain(producer, 20.0)
    lose_the_end(broker)
    handed = 1
    with pytest.raises(KafkaException, match="Fatal"):
        for number in range(1_000_000):
            try:
                producer.produce("contributions", b"b", partition=number % 2, on_delivery=report)
            except BufferError:
                continue
            handed += 1
    producer.purge()
    drain(producer, 20.0)
    assert not len(producer)
    assert len(reports) == handed
    assert reports[0] == (None, "contributions")
    assert any(code is not None for code, _ in reports)


@pytest.mark.parametrize("times", [1, 2])
def test_an_explainer_writes_again_what_a_broker_that_lost_records_did_not_take(
    broker: EmbeddedKafka, caplog: pytest.LogCaptureFixture, times: int
) -> None:
    producer = ConfirmedProducer(Connection(broker.bootstrap), patience=Patience("cannot write", seconds=0.0))

    async def run() -> None:
        await producer.produce_confirmed(records(b"a", b"b"))
        lose_the_end(broker, times)
        under_way = [await producer.begin(records(b"%d" % number, b"%d more" % number)) for number in range(20)]
        async with asyncio.timeout(60):
            await asyncio.gather(*under_way)
            await producer.produce_confirmed(records(b"y", b"z"))

    with caplog.at_level(logging.WARNING):
        asyncio.run(run())
    assert producer.waits_for is None
    producer.close()
    wanted = {b"%d%s" % (number, more) for number in range(20) for more in (b"", b" more")}
    assert held(broker) == {b"a", b"b", b"y", b"z"} | wanted
    assert "the broker lost records" in caplog.text


def test_a_learner_delivers_again_what_a_broker_that_lost_records_did_not_take(broker: EmbeddedKafka) -> None:
    producer = ConfirmedProducer(Connection(broker.bootstrap), patience=Patience("cannot write", seconds=0.0))
    producer.deliver(records(b"a", b"b"))
    lose_the_end(broker)
    producer.deliver(records(b"c", b"d", b"e", b"f"))
    assert producer.waits_for is None
    producer.close()
    assert held(broker) == {b"a", b"b", b"c", b"d", b"e", b"f"}


def test_without_patience_the_lost_end_of_a_log_is_an_error(broker: EmbeddedKafka) -> None:
    producer = ConfirmedProducer(Connection(broker.bootstrap), deadline=20.0)
    producer.deliver(records(b"a", b"b"))
    lose_the_end(broker)
    with pytest.raises(BrokerError, match="out of order sequence number"):
        producer.deliver(records(b"c", b"d"))
    producer.close()
