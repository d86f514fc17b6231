"""A run notices records that the embedded broker has removed before the run read them."""

import pytest
from confluent_kafka import Producer

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.configuration import load
from glasstream.app.runner.monitor import Monitor
from glasstream.base.errors import BrokerError
from glasstream.kafka.transport.connection import connection
from glasstream_topics import admin

RECORD = b"x" * 500_000


@pytest.mark.slow
def test_records_that_are_pushed_out_before_they_are_read_end_the_run() -> None:
    with EmbeddedKafka() as broker:
        settings = load(assignments=[f"broker={broker.bootstrap}", "topics.events=1", "worker.fetch_wait_ms=10"])
        for one in admin.show(settings.partitions, settings.prefix):
            broker.create_topic(one.name, one.partitions)
        link = connection(settings)
        producer = Producer(link.producer(compression_type="none", linger_ms=0))
        name = f"{settings.prefix}effects"

        def produce(count: int) -> None:
            for _ in range(count):
                producer.produce(name, RECORD, b"s/f", partition=0)
                producer.flush(30.0)

        def read(whole: bool, count: int) -> Monitor:
            monitor = Monitor(link, settings, lambda topic, messages: None, whole=whole)
            while monitor.read < count:
                monitor.poll(0.05)
            return monitor

        produce(4)
        monitor = read(whole=True, count=4)
        assert monitor.round_bytes("effects") == len(RECORD) and monitor.keys("effects") == 1
        monitor.close()
        produce(12)
        read(whole=False, count=9).close()
        with pytest.raises(BrokerError, match=r"effects\[0\]: expected to read offset 0 next, .*--broker local"):
            read(whole=True, count=9)
