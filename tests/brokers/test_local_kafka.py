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
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from glasstream.brokers.answer import answers
from glasstream.brokers.choose import TopicRequest, open_broker
from glasstream.brokers.local import Kafka, local_kafka
from glasstream.brokers.local.node import free_ports
from glasstream.errors import BrokerError

DEADLINE_S = 30.0


def until(condition: Callable[[], bool], deadline_s: float = DEADLINE_S) -> bool:
    """Whether the condition, asked again and again, holds before the deadline."""
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if condition():
            return True
    return False


def partitions(bootstrap: str) -> dict[str, int]:
    """Number of partitions of every topic that the broker lists."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=DEADLINE_S).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


def send(bootstrap: str, topic: str, values: list[bytes]) -> list[KafkaError]:
    """Write records, and return the broker's refusals."""
    refusals: list[KafkaError] = []

    def on_delivery(error: KafkaError | None, message: object) -> None:
        if error is not None:
            refusals.append(error)

    producer = Producer({"bootstrap.servers": bootstrap, "message.max.bytes": 16_000_000})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
    assert producer.flush(DEADLINE_S) == 0
    return refusals


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


@pytest.mark.slow
def test_records_outlive_stop_kill_pause_and_the_run_in_a_folder_for_one_run_at_a_time(
    local_broker: Callable[..., Kafka], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a server keeps records on a disk.

    Also: a port that is taken is answered with another, and messages are limited as Kafka's defaults do, unless the
    topic says otherwise.
    """
    data = tmp_path / "a folder"
    with socket.socket() as taken, monkeypatch.context() as patched:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        choices = [[taken.getsockname()[1], free_ports()[1]], free_ports()]
        free = choices[1]
        patched.setattr("glasstream.brokers.local.node.free_ports", lambda: choices.pop(0))
        first = local_broker(data)
    address = first.bootstrap
    assert address == f"127.0.0.1:{free[0]}"
    outlives_stop_kill_and_pause(first)
    with monkeypatch.context() as patched:
        patched.setattr("glasstream.brokers.local.node.LOCK_DEADLINE_S", 0.0)
        with pytest.raises(BrokerError, match="the Kafka of another run uses"), local_kafka(data):
            pass
    assert answers(address, DEADLINE_S)
    first.close()
    said: list[str] = []
    with open_broker("local", data=data, log=said.append) as second:
        assert second.kind == "local" and any(second.bootstrap in line for line in said)
        assert received(second.bootstrap, "t", 3) == [b"1", b"2", b"3"]
        second.create_topics([TopicRequest("more", 2, {})])
        assert until(lambda: partitions(second.bootstrap).get("more") == 2)


def outlives_stop_kill_and_pause(broker: Kafka) -> None:
    """The address stays the same."""
    address = broker.bootstrap
    large = os.urandom(1_100_000)
    with open_broker(address) as given:
        assert (given.kind, given.bootstrap) == ("given", address)
        given.create_topics([TopicRequest("t", 3, {}), TopicRequest("roomy", 1, {"max.message.bytes": "2000000"})])
        with pytest.raises(BrokerError, match="expected to create t"):
            given.create_topics([TopicRequest("t", 3, {})])
    assert until(lambda: {"t", "roomy"} <= partitions(address).keys())
    assert (partitions(address)["t"], partitions(address)["roomy"]) == (3, 1)
    (refusal,) = send(address, "t", [b"1", large])
    assert refusal.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send(address, "roomy", [b"small", large]) == []
    assert received(address, "roomy", 2) == [b"small", large]
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


OWNER = """
import sys, threading
from glasstream.brokers.local import local_kafka
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


def test_a_server_that_cannot_start_shows_why_and_one_goes_with_its_owner(kafka: str) -> None:
    """Only a server is a process that can be left behind. `kafka` says whether there can be one on this machine."""
    for data, settings, when, why in (
        (None, {"authorizer.class.name": "no.such.Authorizer"}, "ended while it was starting", "no.such.Authorizer"),
        (None, {"group.initial.rebalance.delay.ms": "soon"}, "expected Kafka to prepare", "Invalid value soon"),
        (Path("/proc/nope"), {}, "/proc/nope", "give another --data, or make this folder writable"),
    ):
        with pytest.raises(BrokerError, match=when) as raised, local_kafka(data, settings=settings):
            pass
        assert why in str(raised.value)
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
