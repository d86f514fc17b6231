"""Brokers that are away, or too few: workers wait without limit, say so, and go on."""

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from glasstream.app.brokers.local import Kafka
from glasstream.base.errors import FencedError
from glasstream.events.message import Message
from glasstream.kafka.stages.health import StageHealth
from glasstream.kafka.transport import stateful
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.progress import watermarks
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.stateless import StatelessStage
from glasstream.kafka.transport.transactions import TransactionalProducer
from glasstream.kafka.transport.worker import CLOSE_PATIENCE, STOP_PATIENCE, ExitCode
from tests.support.transport_harness import (
    Gate,
    Totals,
    Worker,
    make_topics,
    options,
    produce,
    read_all,
    running,
    total_stage,
)
from tests.support.waiting import until, wait_for

FEW = 500
"""Messages in front of a gate."""
SOON = {"commit_deadline": 2.0, "look_interval": 0.5, "session_timeout": 60.0}
"""A commit that fails is written anew after 2 s, so that an outage of seconds holds many attempts. A worker whose
session has timed out releases its partitions, so that is longer."""


def counted_attempts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what transactions have waited for, one entry for each attempt."""
    causes: list[str] = []
    rest = TransactionalProducer._rest

    def counted(self: TransactionalProducer, patience: Any, cause: Any) -> None:
        causes.append(cause.str())
        rest(self, patience, cause)

    monkeypatch.setattr(TransactionalProducer, "_rest", counted)
    return causes


def copying(bootstrap: str, prefix: str) -> StatelessStage:
    async def handle(message: Message) -> list[ProducerRecord]:
        return [ProducerRecord(f"{prefix}copy", message.key, message.value, 0)]

    return StatelessStage(
        Connection(bootstrap), options(prefix, name="copy", **SOON), input_topic=f"{prefix}out", handle=handle,
        topics={f"{prefix}copy": 1},
    )  # fmt: skip


def test_brokers_that_do_not_answer_are_waited_for_and_nothing_is_lost_or_doubled(
    local_broker: Callable[..., Kafka],
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Only a broker can be away while a group holds its partitions.

    Longer than every deadline, with work in hand: first paused, then killed and started again.
    A paused broker is like a connection that was lost without a word.
    """
    broker = local_broker()
    bootstrap = broker.bootstrap
    causes = counted_attempts(monkeypatch)
    make_topics(bootstrap, {f"{prefix}{name}": 1 for name in ("in", "state", "out", "copy")})
    totals = Totals(prefix)
    said: list[str] = []
    sums: list[bytes | None] = []

    async def run() -> None:
        adding = total_stage(Connection(bootstrap), prefix, totals, **SOON)  # type: ignore[arg-type]
        copies = copying(bootstrap, prefix)
        healths = [StageHealth(stage, lambda: []) for stage in (adding, copies)]

        async def go_away(name: str, leave: Callable[[], None], come_back: Callable[[], None]) -> None:
            gate = Gate(tmp_path / name)
            produce(bootstrap, f"{prefix}in", [*[b"1"] * FEW, gate.message])
            sums.extend(b"%d" % number for number in range(len(sums) + 1, len(sums) + FEW + 2))
            await until(gate.is_reached)
            await asyncio.to_thread(leave)
            tried = len(causes)
            gate.open()
            await until(lambda: all(health.unready() for health in healths), 180.0)
            said.extend(health.unready() or "" for health in healths)
            await until(lambda: len(causes) > tried + 3, 180.0)
            await asyncio.to_thread(come_back)
            try:
                await until(lambda: not any(health.unready() for health in healths), 180.0)
            except TimeoutError as error:
                raise AssertionError([health.unready() for health in healths]) from error
            await until(lambda: read_all(bootstrap, f"{prefix}out")[0] == sums, 180.0)

        async with running(adding, copies):
            await go_away("paused", broker.pause, broker.resume)
            await go_away("killed", broker.kill, broker.start)
            await until(lambda: len(set(read_all(bootstrap, f"{prefix}copy")[0])) == len(sums), 180.0)
        assert (adding.failure, copies.failure) == (None, None)

    asyncio.run(run())
    assert all("do not answer" in one or "cannot write" in one for one in said), said
    assert read_all(bootstrap, f"{prefix}out")[0] == sums
    copied = read_all(bootstrap, f"{prefix}copy")[0]
    assert list(dict.fromkeys(copied)) == sums, "in order; what was not acknowledged may come twice"


def test_transactions_that_the_broker_ends_and_a_worker_that_is_stopped_while_it_waits(
    local_broker: Callable[..., Kafka], prefix: str, tmp_path: Path
) -> None:
    """Only a broker ends transactions. One that it has ended is told from one that was replaced.

    It refuses both producers with the same words, and does not say whether the transaction was committed. A worker that
    was replaced ends and can add nothing.
    """
    broker = local_broker(settings={"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"})
    for number, (other, committed) in enumerate([(False, False), (False, True), (True, False)]):
        with pytest.MonkeyPatch.context() as monkeypatch:
            end_by_the_broker(broker.bootstrap, f"{prefix}{number}.", monkeypatch, other=other, committed=committed)
    end_while_waiting(broker, f"{prefix}waits.", tmp_path)


def end_by_the_broker(
    bootstrap: str, prefix: str, monkeypatch: pytest.MonkeyPatch, *, other: bool, committed: bool
) -> None:
    monkeypatch.setattr(stateful, "TransactionalProducer", partial(TransactionalProducer, timeout=3.0))
    make_topics(bootstrap, {f"{prefix}{name}": 1 for name in ("in", "state", "out")})
    totals = Totals(prefix)
    connection = Connection(bootstrap, {"socket.timeout.ms": "2000"})  # must be less than that of a transaction
    stolen = threading.Event()
    attempt = TransactionalProducer._attempt
    given = options(prefix)

    def late(self: TransactionalProducer, what: str, call: Callable[[float], object], seconds: float) -> None:
        """Commit when the broker has ended the transaction already."""
        if what == "commit_transaction" and not stolen.is_set() and totals.counted() == 3:
            stolen.set()
            self._producer.flush(30)
            before = watermarks(connection, f"{prefix}out", 0, 30.0)[1]
            if committed:
                attempt(self, what, call, seconds)
                self._producer.begin_transaction()
                self._producer.produce(f"{prefix}out", b"never", b"k", 0)
                self._producer.flush(30)
                before += 2  # a marker, and a record that is never seen
            wait_for("the broker's marker", lambda: watermarks(connection, f"{prefix}out", 0, 30.0)[1] != before)
            if other:
                successor = TransactionalProducer(connection, given.transactional_id(0))
                successor.open(60)
                successor.commit([ProducerRecord(f"{prefix}state", b"", b'{"sum":100,"count":1,"next":1}', 0)])
                successor.close()
        attempt(self, what, call, seconds)

    monkeypatch.setattr(TransactionalProducer, "_attempt", late)

    async def run() -> Exception | None:
        stage = total_stage(connection, prefix, totals, commit_deadline=3.0)  # type: ignore[arg-type]
        async with running(stage):
            produce(bootstrap, f"{prefix}in", [b"1", b"1"])
            await until(lambda: len(read_all(bootstrap, f"{prefix}out")[0]) == 2)
            produce(bootstrap, f"{prefix}in", [b"1"])
            await until(lambda: stolen.is_set())
            if other:
                await asyncio.wait_for(stage.ended.wait(), 120.0)
            else:
                produce(bootstrap, f"{prefix}in", [b"1"])
                await until(lambda: len(read_all(bootstrap, f"{prefix}out")[0]) == 4, 120.0)
        return stage.failure

    failure = asyncio.run(run())
    assert isinstance(failure, FencedError) is other
    expected = [b"1", b"2", b"3", b"4"] if not other else [b"1", b"2", b"3"][: 3 if committed else 2]
    assert read_all(bootstrap, f"{prefix}out")[0] == expected


def end_while_waiting(broker: Kafka, prefix: str, tmp_path: Path) -> None:
    """Tell a worker to end while its broker is away; its successor goes on exactly."""
    bootstrap = broker.bootstrap
    make_topics(bootstrap, {f"{prefix}{name}": 1 for name in ("in", "state", "out")})
    gate = Gate(tmp_path / "gate")
    with Worker(bootstrap, prefix, "a", session=60) as worker:
        produce(bootstrap, f"{prefix}in", [*[b"1"] * FEW, gate.message])
        asyncio.run(until(gate.is_reached))
        broker.kill()
        gate.open()
        assert worker.process.stderr is not None
        assert any("cannot write to" in line and "WARNING" in line for line in worker.process.stderr)
        worker.send(signal.SIGTERM)
        code, said = worker.end(STOP_PATIENCE + CLOSE_PATIENCE + 60.0)
        assert "Traceback" not in said
    broker.start()
    assert code == ExitCode.OK
    expected = [b"%d" % number for number in range(1, FEW + 2)]
    with Worker(bootstrap, prefix, "a", session=60):
        asyncio.run(until(lambda: read_all(bootstrap, f"{prefix}out")[0] == expected, 120.0))
