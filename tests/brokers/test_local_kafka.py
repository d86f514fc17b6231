"""The real Kafka of this machine: records, transactions, restarts, deaths."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline.brokers.answer import answers
from pipeline.brokers.local import Kafka, local_kafka
from pipeline.brokers.local.node import free_ports
from pipeline.errors import BrokerError

DEADLINE_S = 30.0


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    """Whether the condition, asked again and again, holds before the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if condition():
            return True
    return False


def create(bootstrap: str, topic: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(DEADLINE_S)


def send(bootstrap: str, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 16_000_000})
    for value in values:
        producer.produce(topic, value)
    assert producer.flush(DEADLINE_S) == 0


def received(bootstrap: str, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The first `count` values of partition 0."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    try:
        assert until(lambda: _take(consumer, values) >= count)
    finally:
        consumer.close()
    return values


def _take(consumer: Consumer, values: list[bytes]) -> int:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        values.append(message.value())
    return len(values)


def test_records_of_ten_megabytes_come_back(kafka: str, prefix: str) -> None:
    create(kafka, f"{prefix}t")
    values = [b"small", os.urandom(10_000_000)]
    send(kafka, f"{prefix}t", values)
    assert received(kafka, f"{prefix}t", 2) == values


def test_aborted_records_are_not_read_committed(kafka: str, prefix: str) -> None:
    topic = f"{prefix}t"
    create(kafka, topic)
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": f"{prefix}tx"})
    producer.init_transactions(DEADLINE_S)
    for value, end in [(b"aborted", producer.abort_transaction), (b"committed", producer.commit_transaction)]:
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(DEADLINE_S)
        end(DEADLINE_S)
    assert received(kafka, topic, 1) == [b"committed"]
    assert received(kafka, topic, 2, "read_uncommitted") == [b"aborted", b"committed"]


def test_a_second_producer_fences_the_first(kafka: str, prefix: str) -> None:
    topic = f"{prefix}t"
    create(kafka, topic)
    settings = {"bootstrap.servers": kafka, "transactional.id": f"{prefix}tx"}
    first = Producer(settings)
    first.init_transactions(DEADLINE_S)
    first.begin_transaction()
    first.produce(topic, b"late")
    second = Producer(settings)
    second.init_transactions(DEADLINE_S)
    with pytest.raises(KafkaException) as raised:
        first.commit_transaction(DEADLINE_S)
    assert raised.value.args[0].fatal()


def test_an_unknown_topic_is_an_error(kafka: str, prefix: str) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": kafka, "topic.metadata.propagation.max.ms": 100})
    producer.produce(f"{prefix}unknown", b"lost", on_delivery=lambda error, _: failed.append(error))
    producer.flush(DEADLINE_S)
    assert len(failed) == 1 and failed[0] is not None


@pytest.mark.slow
def test_records_survive_stop_kill_and_pause_on_the_same_address(local_broker: Callable[..., Kafka]) -> None:
    broker = local_broker()
    address = broker.bootstrap
    create(address, "t")
    send(address, "t", [b"1"])
    broker.stop()
    assert not answers(address, 0.2)
    broker.start()
    send(address, "t", [b"2"])
    broker.kill()
    assert not answers(address, 0.2)
    broker.start()
    broker.pause()
    assert not answers(address, 1.0)
    broker.resume()
    send(address, "t", [b"3"])
    assert broker.bootstrap == address
    assert received(address, "t", 3) == [b"1", b"2", b"3"]


@pytest.mark.slow
def test_a_data_folder_outlives_the_run_and_is_for_one_run_at_a_time(
    local_broker: Callable[..., Kafka], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "a folder"
    first = local_broker(data)
    create(first.bootstrap, "t")
    send(first.bootstrap, "t", [b"kept"])
    monkeypatch.setattr("pipeline.brokers.local.node.LOCK_DEADLINE_S", 0.0)
    with pytest.raises(BrokerError, match="for this run alone"), local_kafka(data):
        pass
    assert answers(first.bootstrap, DEADLINE_S)
    first.close()
    second = local_broker(data)
    assert received(second.bootstrap, "t", 1) == [b"kept"]


OWNER = """
import sys, threading
from pipeline.brokers.local import local_kafka
started = []
def start():
    # Started by a thread that ends: the server must outlive it, and not the process.
    context = local_kafka()
    kafka = context.__enter__()
    started.append(context)
    print(kafka.bootstrap, kafka.pid, kafka.folder, flush=True)
thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.stdin.read()
"""


def test_the_server_and_its_folder_go_when_its_owner_is_killed(kafka: str) -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        address, pid, folder = owner.stdout.readline().split()
        assert answers(address, DEADLINE_S)
        os.kill(int(pid), signal.SIGSTOP)
        owner.kill()
        assert until(lambda: not _alive(int(pid)))
        assert until(lambda: not Path(folder).exists())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
def test_a_taken_port_is_answered_with_another(
    local_broker: Callable[..., Kafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        choices = [(taken.getsockname()[1], free_ports()[1]), free_ports()]
        free = choices[1]
        monkeypatch.setattr("pipeline.brokers.local.node.free_ports", lambda: choices.pop(0))
        assert local_broker().bootstrap == f"127.0.0.1:{free[0]}"


def test_a_server_that_dies_at_its_start_shows_why(kafka: str) -> None:
    settings = {"authorizer.class.name": "no.such.Authorizer"}
    with pytest.raises(BrokerError, match="ended while it was starting") as raised, local_kafka(settings=settings):
        pass
    assert "no.such.Authorizer" in str(raised.value)


def test_a_setting_that_kafka_refuses_is_named(kafka: str) -> None:
    settings = {"group.initial.rebalance.delay.ms": "soon"}
    with pytest.raises(BrokerError, match="Invalid value soon"), local_kafka(settings=settings):
        pass
