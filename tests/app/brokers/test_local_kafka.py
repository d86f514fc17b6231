"""The real Kafka of this machine: records, transactions, restarts, deaths."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.answer import answers
from glasstream.app.brokers.choose import TopicRequest, open_broker
from glasstream.app.brokers.local import Kafka, local_kafka
from glasstream.app.brokers.local.node import free_ports
from glasstream.base.errors import BrokerError
from tests.support.local_kafka import DEADLINE_S, received, send
from tests.support.waiting import wait_for


def partitions(bootstrap: str) -> dict[str, int]:
    """Number of partitions of every topic that the broker lists."""
    topics = AdminClient({"bootstrap.servers": bootstrap}).list_topics(timeout=DEADLINE_S).topics
    return {name: len(topic.partitions) for name, topic in topics.items()}


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
        patched.setattr("glasstream.app.brokers.local.node.free_ports", lambda: choices.pop(0))
        first = local_broker(data)
    address = first.bootstrap
    assert address == f"127.0.0.1:{free[0]}"
    outlives_stop_kill_and_pause(first)
    with monkeypatch.context() as patched:
        patched.setattr("glasstream.app.brokers.local.node.LOCK_DEADLINE_S", 0.0)
        with pytest.raises(BrokerError, match="the Kafka of another run uses"), local_kafka(data):
            pass
    assert answers(address, DEADLINE_S)
    first.close()
    said: list[str] = []
    with open_broker("local", data=data, log=said.append) as second:
        assert second.kind == "local" and any(second.bootstrap in line for line in said)
        assert received(second.bootstrap, "t", 3) == [b"1", b"2", b"3"]
        second.create_topics([TopicRequest("more", 2, {})])
        wait_for("the new topic", lambda: partitions(second.bootstrap).get("more") == 2)


def outlives_stop_kill_and_pause(broker: Kafka) -> None:
    """The address stays the same."""
    address = broker.bootstrap
    large = os.urandom(1_100_000)
    with open_broker(address) as given:
        assert (given.kind, given.bootstrap) == ("given", address)
        given.create_topics([TopicRequest("t", 3, {}), TopicRequest("roomy", 1, {"max.message.bytes": "2000000"})])
        with pytest.raises(BrokerError, match="cannot create t"):
            given.create_topics([TopicRequest("t", 3, {})])
    wait_for("both topics", lambda: {"t", "roomy"} <= partitions(address).keys())
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
from glasstream.app.brokers.local import local_kafka
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
        (None, {"group.initial.rebalance.delay.ms": "soon"}, "Kafka could not prepare", "Invalid value soon"),
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
        wait_for("the end of the process", lambda: not _alive(int(pid)))
        wait_for("the end of the folder", lambda: not Path(folder).exists())


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
