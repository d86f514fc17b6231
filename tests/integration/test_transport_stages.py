"""Stages as workers: killed, paused, told to stop, joined by others; and on the embedded broker."""

import asyncio
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.brokers.embedded import EmbeddedKafka
from glasstream.errors import StateError, TopicError
from glasstream.health import catalogue
from glasstream.stages.health import StageHealth
from glasstream.transport.connection import Connection
from glasstream.transport.producers import ConfirmedProducer
from glasstream.transport.records import ConsumerRecord, ProducerRecord
from glasstream.transport.snapshot_table import TableSpec
from glasstream.transport.stateless import StatelessStage
from glasstream.transport.worker import ExitCode
from tests.transport.harness import (
    Total,
    Totals,
    Worker,
    make_topics,
    options,
    produce,
    read_all,
    running,
    total_stage,
    until,
    wait_for,
)


@pytest.fixture
def topics(kafka: str, prefix: str) -> str:
    """Prefix of fresh topics: one partition each."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out", "table")})
    return prefix


def sums(count: int) -> list[bytes]:
    """What `total` writes for 0, 1, 2, ..."""
    return [b"%d" % (number * (number + 1) // 2) for number in range(count)]


def numbers(first: int, after: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, after)]


@pytest.mark.slow
def test_a_killed_worker_goes_on_within_seconds_and_counts_nothing_twice(kafka: str, topics: str) -> None:
    """The name is fixed: without that the session, of far longer than is waited here, must time out first."""
    out = f"{topics}out"
    for restart in range(3):
        with Worker(kafka, topics, "a", session=120) as worker:
            produce(kafka, f"{topics}in", numbers(restart * 400, restart * 400 + 400))
            wait_for(lambda restart=restart: len(read_all(kafka, out)[0]) > restart * 400)
            worker.send(signal.SIGKILL)
    with Worker(kafka, topics, "a", session=120) as worker:
        produce(kafka, f"{topics}in", numbers(1200, 1201))
        wait_for(lambda: len(read_all(kafka, out)[0]) == 1201)
        worker.send(signal.SIGTERM)
        code, _ = worker.end()
    assert code == ExitCode.OK
    assert read_all(kafka, out)[0] == sums(1201)


def test_a_worker_that_is_told_to_stop_leaves_its_partition_free(kafka: str, topics: str) -> None:
    """The other one has it long before a session would have run out."""
    produce(kafka, f"{topics}in", numbers(0, 500))
    admin = AdminClient({"bootstrap.servers": kafka})
    group = f"{topics}total"

    def both_are_in() -> bool:
        try:
            found = admin.describe_consumer_groups([group])[group].result(20)
        except KafkaException:  # a broker that has just started has no coordinator yet
            return False
        return found.state is ConsumerGroupState.STABLE and len(found.members) == 2

    with Worker(kafka, topics, "a", session=300) as first, Worker(kafka, topics, "b", session=300) as second:
        wait_for(both_are_in, 120.0, "both workers")
        wait_for(lambda: len(read_all(kafka, f"{topics}out")[0]) == 500)
        # One partition: one of the two has it. Both are told, one after the other, and the last to go took it over.
        first.send(signal.SIGTERM)
        assert first.end() == (ExitCode.OK, "")
        produce(kafka, f"{topics}in", numbers(500, 600))
        wait_for(lambda: len(read_all(kafka, f"{topics}out")[0]) == 600, 120.0, "the take-over")
        second.send(signal.SIGINT)
        assert second.end() == (ExitCode.OK, "")
    assert read_all(kafka, f"{topics}out")[0] == sums(600)


@pytest.mark.slow
def test_a_worker_that_was_paused_past_its_session_is_fenced_and_adds_nothing(kafka: str, topics: str) -> None:
    with Worker(kafka, topics, "a") as paused:
        produce(kafka, f"{topics}in", numbers(0, 100))
        wait_for(lambda: len(read_all(kafka, f"{topics}out")[0]) == 100)
        produce(kafka, f"{topics}in", numbers(100, 3000))
        paused.send(signal.SIGSTOP)
        with Worker(kafka, topics, "b") as successor:
            wait_for(lambda: len(read_all(kafka, f"{topics}out")[0]) == 3000, what="the take-over")
            paused.send(signal.SIGCONT)
            produce(kafka, f"{topics}in", numbers(3000, 3100))
            wait_for(lambda: len(read_all(kafka, f"{topics}out")[0]) >= 3100)
            successor.send(signal.SIGTERM)
            assert successor.end()[0] == ExitCode.OK
            try:
                code, said = paused.end(3.0)
            except subprocess.TimeoutExpired:
                paused.send(signal.SIGTERM)
                code, said = paused.end()
    # It either tries to commit and is fenced, or hears first that it is out of the group and has nothing left to say;
    # one that was paused within a commit may find the commit's deadline gone.
    assert code in (ExitCode.FENCED, ExitCode.OK, ExitCode.BROKER), said
    assert read_all(kafka, f"{topics}out")[0] == sums(3100)


def test_partitions_move_between_workers_under_load_and_every_message_counts_once(kafka: str, prefix: str) -> None:
    make_topics(kafka, {f"{prefix}{name}": 4 for name in ("in", "state", "out")})
    totals = Totals(prefix)
    connection = Connection(kafka)

    moved = asyncio.Event()

    async def load(producer: ConfirmedProducer) -> int:
        """Step after step, each when all before it is counted, the last one after the last move; how many."""
        step, ended = 0, False
        while not ended:
            ended = moved.is_set()
            await producer.produce_confirmed(
                ProducerRecord(f"{prefix}in", b"k", value, partition)
                for partition in range(4)
                for value in numbers(step * 50, step * 50 + 50)
            )
            step += 1
            await until(lambda sent=200 * step: totals.counted() >= sent)
        return step

    async def run() -> int:
        producer = ConfirmedProducer(connection)
        first, second = (total_stage(connection, prefix, totals, instance) for instance in ("a", "b"))
        await first.start()
        loading = asyncio.ensure_future(load(producer))
        await until(lambda: totals.counted() > 200)
        async with running(second):
            await until(lambda: len(first.lanes) == 2 and len(second.lanes) == 2)
            await first.stop()
            await until(lambda: len(second.lanes) == 4)
            moved.set()
            steps = await loading
            assert totals.counted() == 200 * steps
        assert (first.failure, second.failure) == (None, None)
        assert (first.lost, second.lost) == (0, 0)
        await asyncio.to_thread(producer.close)
        return steps

    steps = asyncio.run(run())
    # a commit's markers come after it
    wait_for(lambda: sum(map(len, read_all(kafka, f"{prefix}out", 4))) >= 200 * steps)
    assert read_all(kafka, f"{prefix}out", 4) == [sums(50 * steps)] * 4


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
    async def feed(self, message: ConsumerRecord) -> None:
        raise ZeroDivisionError(message.place)


@pytest.mark.parametrize(
    ("kind", "error", "words"),
    [
        (Refuses, StateError, "made with other settings"),
        (Raises, ZeroDivisionError, r"in\[0\]@0"),
    ],
)
def test_a_state_that_cannot_go_on_ends_the_worker(
    kafka: str, topics: str, kind: type[Total], error: type[Exception], words: str
) -> None:
    produce(kafka, f"{topics}in", [b"1"])
    totals = Totals(topics, kind)

    async def run() -> Exception | None:
        stage = total_stage(Connection(kafka), topics, totals)
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
    assert read_all(kafka, f"{topics}out") == [[]]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Beyond, "ends at offset 1, but the state .* continues at 2"),
        (Below, "from offset -1, but the broker keeps it from 0 on"),
    ],
)
def test_a_state_whose_input_is_gone_stops_its_partition_and_not_the_worker(
    kafka: str, prefix: str, kind: type[Total], words: str
) -> None:
    make_topics(kafka, {f"{prefix}{name}": 2 for name in ("in", "state", "out")})
    for partition in range(2):
        produce(kafka, f"{prefix}in", [b"1"], partition)

    class OfOne(kind):  # type: ignore[misc,valid-type]
        def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
            return (
                super().restore(records, low, high) if self.partition == 0 else Total.restore(self, records, low, high)
            )

    totals = Totals(prefix, OfOne)

    async def run() -> str:
        stage = total_stage(Connection(kafka), prefix, totals)
        health = StageHealth(stage, lambda: [])
        async with running(stage):
            await until(lambda: totals.counted() == 1)
            produce(kafka, f"{prefix}in", [b"1"], 1)
            await until(lambda: totals.counted() == 2)
            unready = health.unready()
            stalled = {sample.labels: sample.value for sample in health.samples() if sample.metric is catalogue.STALLED}
        assert stage.failure is None and stalled == {("0",): 1.0, ("1",): 0.0}
        return unready or ""

    assert re.search(words, asyncio.run(run()))
    assert [len(found) for found in read_all(kafka, f"{prefix}out", 2)] == [0, 2]


def test_a_missing_topic_is_an_error_and_not_a_worker_that_hangs(kafka: str, prefix: str) -> None:
    make_topics(kafka, {f"{prefix}in": 1, f"{prefix}state": 1})
    with pytest.raises(TopicError, match=f"{prefix}out is missing"):
        asyncio.run(total_stage(Connection(kafka), prefix, Totals(prefix)).start())
    with Worker(kafka, prefix, "a") as worker:
        code, said = worker.end()
    assert code == ExitCode.BROKER
    assert len(said.splitlines()) == 1
    assert "exiting with code 5 (broker)" in said
    assert f"{prefix}out is missing" in said


class Hesitant(Total):
    """Waits in the middle of each message until it is told to go on."""

    def __init__(self, partition: int, out: str) -> None:
        super().__init__(partition, out)
        self.go = asyncio.Event()

    async def feed(self, message: ConsumerRecord) -> None:
        if message.partition == 0:
            await self.go.wait()
        await super().feed(message)


def test_a_partition_that_holds_back_is_read_no_further_and_the_others_go_on(kafka: str, prefix: str) -> None:
    make_topics(kafka, {f"{prefix}{name}": 2 for name in ("in", "state", "out")})
    totals = Totals(prefix, Hesitant)

    async def run() -> None:
        stage = total_stage(Connection(kafka), prefix, totals, queue_messages=8, max_fetch_bytes=2000)
        async with running(stage):
            for partition in range(2):
                await asyncio.to_thread(produce, kafka, f"{prefix}in", [b"1" + b" " * 500] * 300, partition, batch=4)
            await until(lambda: totals.counted() == 300)
            held = stage.lanes[0]
            assert held.held
            assert len(held.waiting) < 100
            totals.made[0].go.set()  # type: ignore[attr-defined]
            await until(lambda: totals.counted() == 600)
        assert stage.lost == 0

    asyncio.run(run())


def test_what_a_message_may_hold_reaches_the_stage_unchanged(kafka: str, topics: str) -> None:
    values: list[bytes | None] = [b"\xff\x00", b"not json", b"", None, b'{"a": 1}']
    seen: list[ConsumerRecord] = []

    async def handle(message: ConsumerRecord) -> list[ProducerRecord]:
        seen.append(message)
        return [ProducerRecord(f"{topics}out", message.key, message.value, 0, (("origin", b"\xfe"),))]

    before = time.time()
    produce(kafka, f"{topics}in", values, key=b"\x80")

    async def run() -> None:
        stage = StatelessStage(Connection(kafka), options(topics), input_topic=f"{topics}in", handle=handle)
        async with running(stage):
            await until(lambda: len(seen) == 5)

    asyncio.run(run())
    assert [message.value for message in seen] == values
    assert {message.key for message in seen} == {b"\x80"}
    assert seen[2].place == f"{topics}in[0]@2"
    assert int(before * 1000) <= seen[0].timestamp <= time.time() * 1000
    assert read_all(kafka, f"{topics}out") == [values]


def test_a_followed_topic_is_seen_whole_by_every_worker(kafka: str, topics: str) -> None:
    connection = Connection(kafka)
    produce(kafka, f"{topics}table", [b"old"])
    seen: dict[str, list[tuple[bytes, bytes | None]]] = {"a": [], "b": []}

    async def handle(message: ConsumerRecord) -> list[ProducerRecord]:
        return []

    def worker(instance: str) -> StatelessStage:
        def on_change(key: bytes, value: bytes | None) -> None:
            seen[instance].append((key, value))

        return StatelessStage(
            connection, options(topics, instance, name="explainer"), input_topic=f"{topics}in", handle=handle,
            table=TableSpec(f"{topics}table", on_change),
        )  # fmt: skip

    async def run() -> None:
        producer = ConfirmedProducer(connection, linger_ms=0)
        first, second = worker("a"), worker("b")
        async with running(second):
            async with running(first):
                await until(lambda: (b"k", b"old") in seen["a"] and (b"k", b"old") in seen["b"])
                await until(lambda: not first.app.rebalancing and not second.app.rebalancing)
                for number in range(10):
                    record = ProducerRecord(
                        f"{topics}table", b"%d" % number, b"%d" % number * 100_000 if number % 2 else None
                    )
                    await producer.produce_confirmed([record])
                    for instance in ("a", "b"):
                        await until(
                            lambda instance=instance, record=record: (record.key, record.value) in seen[instance]
                        )
            late = ProducerRecord(f"{topics}table", b"late", b"1")  # written while the other one leaves
            await producer.produce_confirmed([late])
            await until(lambda: (late.key, late.value) in seen["b"])
        await asyncio.to_thread(producer.close)

    asyncio.run(run())
    latest = {instance: dict(changes) for instance, changes in seen.items()}
    assert len(latest["b"]) == 12
    assert latest["a"] == {key: value for key, value in latest["b"].items() if key != b"late"}


def test_a_follower_of_a_topic_that_refuses_a_record_ends_the_worker(kafka: str, topics: str) -> None:
    produce(kafka, f"{topics}table", [b"bad"])

    async def handle(message: ConsumerRecord) -> list[ProducerRecord]:
        return []

    def refuse(key: bytes, value: bytes | None) -> None:
        raise StateError("not this one")

    async def run() -> Exception | None:
        stage = StatelessStage(
            Connection(kafka), options(topics), input_topic=f"{topics}in", handle=handle,
            table=TableSpec(f"{topics}table", refuse),
        )  # fmt: skip
        starting = asyncio.ensure_future(stage.start())
        await asyncio.wait_for(stage.ended.wait(), 60)
        await stage.stop()
        await starting
        return stage.failure

    assert str(asyncio.run(run())) == "not this one"


@pytest.fixture
def embedded() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as broker:
        yield broker


def test_stages_run_on_the_embedded_broker(embedded: EmbeddedKafka, prefix: str) -> None:
    for name in ("in", "state", "out", "copy", "table"):
        embedded.create_topic(f"{prefix}{name}", 1)
    connection = Connection(embedded.bootstrap, fetch_wait_ms=10, check_crcs=False)
    totals = Totals(prefix)
    copied: list[bytes | None] = []

    async def handle(message: ConsumerRecord) -> list[ProducerRecord]:
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
