"""Workers of a stage in one group: told to stop, joined by others, under load. Only a broker has groups of two.

Workers that are killed or paused are in `test_recovery.py`, single stages in `tests/kafka/transport/test_stages.py`.
"""

import asyncio
import signal

import pytest
from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.events.message import Message
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.snapshot_table import TableSpec
from glasstream.kafka.transport.stateless import StatelessStage
from glasstream.kafka.transport.worker import ExitCode
from tests.support.transport_harness import (
    Totals,
    Worker,
    embedded_topics,
    make_topics,
    numbers,
    options,
    produce,
    read_all,
    running,
    stays,
    sums,
    total_stage,
)
from tests.support.waiting import until, wait_for


@pytest.fixture
def topics(kafka: str, prefix: str) -> str:
    """Prefix of fresh topics: one partition each."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out", "table")})
    return prefix


def test_a_worker_that_ends_is_succeeded_long_before_its_session_times_out(kafka: str, topics: str) -> None:
    """Only a broker keeps the sessions of a group.

    One that is told to stop leaves its partition free; one that is killed has a successor of the same name.
    """
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
        wait_for("both workers", both_are_in)
        wait_for("500 records", lambda: len(read_all(kafka, f"{topics}out")[0]) == 500)
        # One partition: one of the two has it. Both are told, one after the other, and the last to go took it over.
        first.send(signal.SIGTERM)
        assert first.end() == (ExitCode.OK, "")
        produce(kafka, f"{topics}in", numbers(500, 600))
        wait_for("the take-over", lambda: len(read_all(kafka, f"{topics}out")[0]) == 600)
        second.send(signal.SIGKILL)
    with Worker(kafka, topics, "b", session=300) as third:
        produce(kafka, f"{topics}in", numbers(600, 700))
        wait_for("the successor", lambda: len(read_all(kafka, f"{topics}out")[0]) == 700)
        third.send(signal.SIGINT)
        assert third.end() == (ExitCode.OK, "")
    assert read_all(kafka, f"{topics}out")[0] == sums(700)


def test_what_was_used_is_committed_as_soon_as_nothing_waits(embedded: EmbeddedKafka, prefix: str) -> None:
    """The interval between commits, an hour here, is for partitions of which messages wait."""
    link = embedded_topics(embedded, prefix)
    totals = Totals(prefix)

    async def run() -> None:
        stage = total_stage(link, prefix, totals, commit_interval=3600.0)
        async with running(stage):
            for count in (1, 2, 300):
                produce(link.bootstrap, f"{prefix}in", numbers(totals.counted(), count))
                await until(lambda count=count: len(read_all(link.bootstrap, f"{prefix}out")[0]) == count)

    asyncio.run(run())
    assert read_all(link.bootstrap, f"{prefix}out")[0] == sums(300)


def test_partitions_move_between_workers_under_load_and_every_message_counts_once(kafka: str, prefix: str) -> None:
    """Only a broker takes partitions from a living member for another, and fences the transactions of the former."""
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
    wait_for("all records", lambda: sum(map(len, read_all(kafka, f"{prefix}out", 4))) >= 200 * steps)
    assert read_all(kafka, f"{prefix}out", 4) == [sums(50 * steps)] * 4


def test_workers_see_a_followed_topic_whole_and_a_survivor_repeats_uncommitted_work(kafka: str, prefix: str) -> None:
    """Only a broker has groups of two. A partition on which nothing was committed is taken over from its start.

    Without this cure of Faust, the order of two requests decides, mostly against the messages.
    """
    make_topics(kafka, {f"{prefix}in": 2, f"{prefix}table": 1})
    connection = Connection(kafka)
    produce(kafka, f"{prefix}table", [b"old"])
    seen: dict[str, list[tuple[bytes, bytes | None]]] = {"a": [], "b": []}
    opened = asyncio.Event()
    done: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}

    def worker(instance: str) -> StatelessStage:
        async def handle(message: Message) -> list[ProducerRecord]:
            await opened.wait()
            done[instance].append((message.partition, message.offset))
            return []

        def on_change(key: bytes, value: bytes | None) -> None:
            seen[instance].append((key, value))

        return StatelessStage(
            connection, options(prefix, instance, name="explainer"), input_topic=f"{prefix}in", handle=handle,
            table=TableSpec(f"{prefix}table", on_change),
        )  # fmt: skip

    async def run() -> None:
        producer = ConfirmedProducer(connection, linger_ms=0)
        killed, survivor = worker("a"), worker("b")
        async with running(survivor):
            await killed.start()
            await until(lambda: (b"k", b"old") in seen["a"] and (b"k", b"old") in seen["b"])
            await until(lambda: len(killed.lanes) == 1 and len(survivor.lanes) == 1)
            for number in range(10):
                record = ProducerRecord(
                    f"{prefix}table", b"%d" % number, b"%d" % number * 100_000 if number % 2 else None
                )
                await producer.produce_confirmed([record])
                for changes in seen.values():
                    await until(lambda changes=changes, record=record: (record.key, record.value) in changes)
            for partition in range(2):
                produce(kafka, f"{prefix}in", numbers(0, 300), partition)
            await until(lambda: all(lane.waiting for stage in (killed, survivor) for lane in stage.lanes.values()))
            await killed.stop(drain=False)
            late = ProducerRecord(f"{prefix}table", b"late", b"1")  # written while the partition moves
            await producer.produce_confirmed([late])
            opened.set()
            await until(lambda: (late.key, late.value) in seen["b"])
            await stays(lambda: len(set(done["b"])) == 600, 60.0)
        await asyncio.to_thread(producer.close)

    asyncio.run(run())
    assert not done["a"]
    assert sorted(set(done["b"])) == [(partition, offset) for partition in range(2) for offset in range(300)]
    latest = {instance: dict(changes) for instance, changes in seen.items()}
    assert len(latest["b"]) == 12
    assert latest["a"] == {key: value for key, value in latest["b"].items() if key != b"late"}
