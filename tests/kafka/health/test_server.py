"""Laws of what a worker says of itself: true, from its own loop, and in the form that Prometheus reads."""

import asyncio
import json
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest
from prometheus_client.parser import text_string_to_metric_families

from glasstream.base.errors import SettingsError
from glasstream.kafka.health import catalogue, server
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.health.server import HealthServer, Note
from glasstream.kafka.health.steps import Steps


class FakeWorker:
    """Says what it is told to, and notes the thread it is asked on."""

    def __init__(self) -> None:
        self.trouble_is: str | None = None
        self.unready_is: str | None = None
        self.told: list[Sample] = []
        self.noted: list[Note] = []
        self.asked_on: set[str] = set()

    def trouble(self) -> str | None:
        self.asked_on.add(threading.current_thread().name)
        return self.trouble_is

    def unready(self) -> str | None:
        return self.unready_is

    def notes(self) -> list[Note]:
        return self.noted

    def samples(self) -> Iterator[Sample]:
        self.asked_on.add(threading.current_thread().name)
        yield from self.told


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def answers(worker: FakeWorker, *paths: str) -> list[tuple[int, str]]:
    async def run() -> list[tuple[int, str]]:
        health = HealthServer("127.0.0.1", 0, "aggregator", "aggregator-1", worker)
        await health.start()
        try:
            return [await asyncio.to_thread(ask, health.port, path) for path in paths]
        finally:
            await health.stop()

    return asyncio.run(run())


def test_a_worker_that_works_is_healthy_and_ready() -> None:
    worker = FakeWorker()
    for status, body in answers(worker, "/healthz", "/readyz"):
        assert (status, json.loads(body)["status"]) == (200, "ok")
    assert worker.asked_on == {threading.main_thread().name}


def test_a_worker_without_partitions_is_healthy_and_not_ready() -> None:
    worker = FakeWorker()
    worker.unready_is = "it has not taken its partitions over"
    (healthy, _), (ready, body) = answers(worker, "/healthz", "/readyz")
    assert (healthy, ready) == (200, 503)
    assert json.loads(body)["reason"] == worker.unready_is


def test_notes_are_in_the_answer_of_a_worker_that_is_ready_and_only_so_many() -> None:
    worker = FakeWorker()
    worker.noted = [Note(f"stream {number}: 3 rows could not be explained") for number in range(12)]
    (_, health), (status, body) = answers(worker, "/healthz", "/readyz")
    assert "notes" not in json.loads(health)
    assert (status, json.loads(body)["status"]) == (200, "ok")
    assert json.loads(body)["notes"] == [*(note.text for note in worker.noted[:10]), "and 2 more"]


def test_a_failed_worker_is_neither() -> None:
    worker = FakeWorker()
    worker.trouble_is = "the broker is gone"
    assert [status for status, _ in answers(worker, "/healthz", "/readyz")] == [503, 503]


def test_a_loop_that_does_not_turn_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.05)
    asked = threading.Event()

    async def run() -> tuple[int, str]:
        health = HealthServer("127.0.0.1", 0, "aggregator", "aggregator-1", FakeWorker())
        await health.start()
        found: list[tuple[int, str]] = []

        def client() -> None:
            found.append(ask(health.port, "/healthz"))
            asked.set()

        threading.Thread(target=client).start()
        assert asked.wait(10)  # on the loop, which therefore stands still
        await health.stop()
        return found[0]

    status, body = asyncio.run(run())
    assert status == 503
    assert "has not answered" in body


def test_a_probe_that_has_no_more_patience_leaves_no_trace(capfd: pytest.CaptureFixture[str]) -> None:
    async def run() -> None:
        health = HealthServer("127.0.0.1", 0, "aggregator", "aggregator-1", FakeWorker())
        await health.start()
        before = set(threading.enumerate())
        probe = socket.create_connection(("127.0.0.1", health.port))
        probe.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        while not (answering := [one for one in set(threading.enumerate()) - before if one.is_alive()]):
            pass  # on the loop, which therefore cannot answer yet
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closed with a reset
        probe.close()
        await asyncio.gather(*(asyncio.to_thread(thread.join, 10) for thread in answering))
        await health.stop()

    asyncio.run(run())
    assert capfd.readouterr().err == ""


def test_metrics_are_what_prometheus_reads() -> None:
    worker = FakeWorker()
    odd = 'a"b\\c\nd'
    worker.told = [
        Sample(catalogue.COVERAGE, 0.5, ("elec2",)),
        Sample(catalogue.COVERAGE, 1.0, (odd,)),
        Sample(catalogue.ROWS, 7.0, ("elec2",)),
    ]
    [(status, text)] = answers(worker, "/metrics")
    assert status == 200
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    own = (("instance", "aggregator-1"), ("stage", "aggregator"))
    assert found == {
        ("glasstream_coverage", *own, ("stream", "elec2")): 0.5,
        ("glasstream_coverage", *own, ("stream", odd)): 1.0,
        ("glasstream_rows_learned_total", *own, ("stream", "elec2")): 7.0,
    }


def test_other_paths_are_not_found() -> None:
    [(status, body)] = answers(FakeWorker(), "/secret")
    assert status == 404
    assert "/metrics" in body


def test_a_port_in_use_is_a_clear_error() -> None:
    async def run() -> None:
        first = HealthServer("127.0.0.1", 0, "aggregator", "1", FakeWorker())
        await first.start()
        try:
            await HealthServer("127.0.0.1", first.port, "aggregator", "2", FakeWorker()).start()
        finally:
            await first.stop()

    with pytest.raises(SettingsError, match=r"health\.port: cannot listen on 127\.0\.0\.1:\d+"):
        asyncio.run(run())


def test_every_metric_has_one_name_and_says_what_it_is() -> None:
    names = [metric.name for metric in catalogue.ALL]
    assert len(set(names)) == len(names) > 20
    assert all(metric.help.endswith(".") and not metric.name.endswith("_total") for metric in catalogue.ALL)


def test_steps_add_up() -> None:
    steps = Steps()
    steps.add("aggregator", 1.0)
    steps.add("aggregator", 0.5)
    with steps.time("commit"):
        pass
    seconds = {sample.labels: sample.value for sample in steps.samples()}
    assert seconds[("aggregator",)] == 1.5
    assert seconds[("commit",)] >= 0.0
