"""Stages on the embedded broker: what ends them, what they hold back, and what reaches them unchanged.

Groups of two, and workers that are told to stop, are in `tests/integration/test_transport_stages.py`.
"""

import asyncio
import gc
import re
import time
import weakref
from collections.abc import Mapping
from pathlib import Path

import pytest
from faust.types import TP

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import StateError
from glasstream.events.message import Message
from glasstream.kafka.health import catalogue
from glasstream.kafka.stages.health import StageHealth
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.reader import IN_FLIGHT, MOST
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.snapshot_table import TableSpec
from glasstream.kafka.transport.stateful import PAUSE, STATE_BYTES_PER_SECOND, StatefulStage, pause_after
from glasstream.kafka.transport.stateless import StatelessStage
from tests.support.transport_harness import (
    Gate,
    Total,
    Totals,
    committed_offset,
    embedded_topics,
    numbers,
    options,
    produce,
    read_all,
    running,
    sums,
    total_stage,
)
from tests.support.waiting import until


@pytest.fixture
def link(embedded: EmbeddedKafka) -> Connection:
    return Connection(embedded.bootstrap, fetch_wait_ms=10, check_crcs=False)


@pytest.fixture
def topics(embedded: EmbeddedKafka, prefix: str) -> str:
    """Prefix of fresh topics: one partition each."""
    embedded_topics(embedded, prefix)
    return prefix


class Refuses(Total):
    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        raise StateError("made with other settings")


class Beyond(Total):
    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        return high + 1


class Below(Total):
    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        return low - 1


class Raises(Total):
    async def use(self, message: Message) -> None:
        raise ZeroDivisionError(message.place)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (Refuses, StateError, "made with other settings"),
        (Raises, ZeroDivisionError, r"in\[0\]@0"),
    ],
)
def test_a_state_that_cannot_go_on_ends_the_worker(
    embedded: EmbeddedKafka, link: Connection, topics: str, kind: type[Total], error: type[Exception], words: str
) -> None:
    produce(embedded.bootstrap, f"{topics}in", [b"1"])
    totals = Totals(topics, kind)

    async def run() -> Exception | None:
        stage = total_stage(link, topics, totals)
        starting = asyncio.ensure_future(stage.start())
        await asyncio.wait_for(stage.ended.wait(), 60)
        await stage.stop()
        await starting
        return stage.failure

    failure = asyncio.run(run())
    assert isinstance(failure, error)
    with pytest.raises(error, match=words):
        raise failure
    assert totals.made[0].was_dropped
    assert read_all(embedded.bootstrap, f"{topics}out") == [[]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Beyond, "ends at offset 1, but the state .* continues at 2"),
        (Below, "from offset -1, but the broker keeps it from 0 on"),
    ],
)
def test_a_state_whose_input_is_gone_stops_its_partition_and_not_the_worker(
    embedded: EmbeddedKafka, prefix: str, kind: type[Total], words: str
) -> None:
    link = embedded_topics(embedded, prefix, 2)
    for partition in range(2):
        produce(embedded.bootstrap, f"{prefix}in", [b"1"], partition)

    class OfOne(kind):  # type: ignore[misc,valid-type]
        def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
            return (
                super().restore(records, low, high) if self.partition == 0 else Total.restore(self, records, low, high)
            )

    totals = Totals(prefix, OfOne)

    async def run() -> str:
        stage = total_stage(link, prefix, totals)
        health = StageHealth(stage, lambda: [])
        async with running(stage):
            await until(lambda: totals.counted() == 1)
            produce(embedded.bootstrap, f"{prefix}in", [b"1"], 1)
            await until(lambda: totals.counted() == 2)
            unready = health.unready()
            stalled = {sample.labels: sample.value for sample in health.samples() if sample.metric is catalogue.STALLED}
        assert stage.failure is None and stalled == {("0",): 1.0, ("1",): 0.0}
        return unready or ""

    assert re.search(words, asyncio.run(run()))
    assert [len(found) for found in read_all(embedded.bootstrap, f"{prefix}out", 2)] == [0, 2]


BACKLOG = 10_000


class Hesitant(Total):
    """Waits in the middle of each message until it is told to go on."""

    def __init__(self, partition: int, out: str) -> None:
        super().__init__(partition, out)
        self.go = asyncio.Event()

    async def use(self, message: Message) -> None:
        if message.partition == 0:
            await self.go.wait()
        await super().use(message)


def test_a_partition_that_holds_back_is_read_no_further_and_the_others_go_on(
    embedded: EmbeddedKafka, prefix: str
) -> None:
    link = embedded_topics(embedded, prefix, 2)
    totals = Totals(prefix, Hesitant)

    async def run() -> None:
        stage = total_stage(link, prefix, totals, queue_messages=8)
        async with running(stage):
            for partition in range(2):
                await asyncio.to_thread(produce, embedded.bootstrap, f"{prefix}in", [b"1"] * BACKLOG, partition)
            await until(lambda: totals.counted() == BACKLOG)
            held = stage.lanes[0]
            assert held.held
            # One batch on its way through Faust, and one that the thread reads when it did not see the hold yet.
            assert len(held.waiting) <= 8 + (IN_FLIGHT + 2) * MOST < BACKLOG
            totals.made[0].go.set()  # type: ignore[attr-defined]
            await until(lambda: totals.counted() == 2 * BACKLOG)
        assert stage.lost == 0

    asyncio.run(run())


def test_what_is_used_of_a_run_is_acknowledged_while_the_rest_waits(
    embedded: EmbeddedKafka, link: Connection, topics: str, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    produce(embedded.bootstrap, f"{topics}in", [*[b"1"] * 5, gate.message, *[b"1"] * 4])
    totals = Totals(topics)

    async def run() -> None:
        async with running(total_stage(link, topics, totals)):
            await until(gate.is_reached)
            await until(lambda: committed_offset(embedded.bootstrap, f"{topics}total", f"{topics}in") == 5)
            assert read_all(embedded.bootstrap, f"{topics}out") == [[b"%d" % n for n in range(1, 6)]]
            gate.open()
            await until(lambda: committed_offset(embedded.bootstrap, f"{topics}total", f"{topics}in") == 10)
        assert read_all(embedded.bootstrap, f"{topics}out") == [[b"%d" % n for n in range(1, 11)]]

    asyncio.run(run())


@pytest.mark.slow
def test_what_waits_behind_other_messages_of_its_partition_is_measured(embedded: EmbeddedKafka, prefix: str) -> None:
    """A stream waits for whatever precedes it on its partition, and for nothing on another one."""
    link = embedded_topics(embedded, prefix, 2)
    totals = Totals(prefix, Hesitant)

    async def run() -> None:
        stage = total_stage(link, prefix, totals, look_interval=0.2)
        health = StageHealth(stage, lambda: [])

        def waits() -> dict[str, float]:
            return {
                sample.labels[0]: sample.value for sample in health.samples() if sample.metric is catalogue.INPUT_WAIT
            }

        async with running(stage):
            for partition in range(2):
                await asyncio.to_thread(produce, embedded.bootstrap, f"{prefix}in", [b"1"] * 40, partition)
            await until(lambda: waits().get("0", 0.0) > 3.0)
            assert waits()["1"] < waits()["0"] - 1.0 and health.unready() is None
            totals.made[0].go.set()  # type: ignore[attr-defined]
            await until(lambda: waits() == {"0": 0.0, "1": 0.0})

    asyncio.run(run())


def test_what_a_message_may_hold_reaches_the_stage_unchanged(
    embedded: EmbeddedKafka, link: Connection, topics: str
) -> None:
    values: list[bytes | None] = [b"\xff\x00", b"not json", b"", None, b'{"a": 1}']
    seen: list[Message] = []

    async def handle(message: Message) -> list[ProducerRecord]:
        seen.append(message)
        return [ProducerRecord(f"{topics}out", message.key, message.value, 0, (("origin", b"\xfe"),))]

    before = time.time()
    produce(embedded.bootstrap, f"{topics}in", values, key=b"\x80")

    async def run() -> None:
        stage = StatelessStage(link, options(topics), input_topic=f"{topics}in", handle=handle)
        async with running(stage):
            await until(lambda: len(seen) == 5)

    asyncio.run(run())
    assert [message.value for message in seen] == values
    assert {message.key for message in seen} == {b"\x80"}
    assert seen[2].place == f"{topics}in[0]@2"
    assert int(before * 1000) <= seen[0].timestamp <= time.time() * 1000
    assert read_all(embedded.bootstrap, f"{topics}out") == [values]


def test_a_follower_of_a_topic_that_refuses_a_record_ends_the_worker(
    embedded: EmbeddedKafka, link: Connection, topics: str
) -> None:
    produce(embedded.bootstrap, f"{topics}table", [b"bad"])

    async def handle(message: Message) -> list[ProducerRecord]:
        return []

    def refuse(key: bytes, value: bytes | None) -> None:
        raise StateError("not this one")

    async def run() -> Exception | None:
        stage = StatelessStage(
            link, options(topics), input_topic=f"{topics}in", handle=handle,
            table=TableSpec(f"{topics}table", refuse),
        )  # fmt: skip
        starting = asyncio.ensure_future(stage.start())
        await asyncio.wait_for(stage.ended.wait(), 60)
        await stage.stop()
        await starting
        return stage.failure

    assert str(asyncio.run(run())) == "not this one"


def test_stages_run_on_the_embedded_broker(embedded: EmbeddedKafka, prefix: str) -> None:
    for name in ("in", "state", "out", "copy", "table"):
        embedded.create_topic(f"{prefix}{name}", 1)
    connection = Connection(embedded.bootstrap, fetch_wait_ms=10, check_crcs=False)
    totals = Totals(prefix)
    copied: list[bytes | None] = []

    async def handle(message: Message) -> list[ProducerRecord]:
        copied.append(message.value)
        return [ProducerRecord(f"{prefix}copy", message.key, message.value, 0)]

    async def run() -> None:
        producer = ConfirmedProducer(connection)
        adding = total_stage(connection, prefix, totals)
        copying = StatelessStage(
            connection, options(prefix, name="copy"), input_topic=f"{prefix}out", handle=handle,
            table=TableSpec(f"{prefix}table", lambda key, value: None),
        )  # fmt: skip
        async with running(adding, copying):
            await producer.produce_confirmed(ProducerRecord(f"{prefix}in", b"k", value, 0) for value in numbers(0, 200))
            await until(lambda: len(copied) == 200)
        assert (adding.failure, copying.failure) == (None, None)
        assert (adding.lost, copying.lost) == (0, 0)
        await asyncio.to_thread(producer.close)

    asyncio.run(run())
    assert copied == sums(200)
    assert read_all(embedded.bootstrap, f"{prefix}copy") == [sums(200)]


def test_a_stage_that_has_stopped_is_let_go_with_its_clients(link: Connection, topics: str) -> None:
    async def run() -> weakref.ref[StatefulStage]:
        stage = total_stage(link, topics, Totals(topics))
        async with running(stage):
            pass
        return weakref.ref(stage)

    stopped = asyncio.run(run())
    gc.collect()
    assert stopped() is None


class Busy(Total):
    """Keeps the event loop while it uses a message."""

    async def use(self, message: Message) -> None:
        end = time.perf_counter() + 0.02
        while time.perf_counter() < end:
            pass
        await super().use(message)


@pytest.mark.slow
def test_a_partition_that_starves_while_the_loop_is_busy_has_lost_nothing(embedded: EmbeddedKafka, prefix: str) -> None:
    """Its messages wait for seconds behind a backlog of another partition."""
    backlog, few = 200, 5
    link = embedded_topics(embedded, prefix, 2)
    produce(link.bootstrap, f"{prefix}in", numbers(0, backlog), 0)

    async def run() -> int:
        totals = Totals(prefix, Busy)
        stage = total_stage(link, prefix, totals)
        async with running(stage):
            consumer = stage.app.consumer
            await until(lambda: consumer.handed(TP(f"{prefix}in", 0)) == backlog)
            await asyncio.to_thread(produce, link.bootstrap, f"{prefix}in", numbers(0, few), 1)
            await until(lambda: totals.counted() == backlog + few)
        return stage.lost

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize("interval", [0.05, 0.2, 10.0])
def test_a_partition_that_commits_much_state_commits_less_often(interval: float) -> None:
    sizes = range(0, 64 * 1024 * 1024, 100_000)
    pauses = [pause_after(size, interval) for size in sizes]
    assert pauses == sorted(pauses)
    assert (pauses[0], pauses[-1]) == (PAUSE, interval)
    for size, pause in zip(sizes, pauses, strict=True):
        assert pause == interval or size <= pause * STATE_BYTES_PER_SECOND
