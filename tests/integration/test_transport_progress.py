"""State is read to its very end, or not at all; records of a topic are followed."""

import asyncio

import pytest
from confluent_kafka import Producer

from glasstream.base.errors import BrokerError, FencedError, UnavailableError
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.progress import read_to_end, watermarks
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.transactions import TransactionalProducer
from glasstream.kafka.transport.watch import Follower
from tests.support.transport_harness import (
    Totals,
    make_topics,
    options,
    produce,
    produce_in_transactions,
    read_all,
    running,
    total_stage,
)
from tests.support.waiting import until, wait_for


@pytest.fixture
def state(kafka: str, prefix: str) -> str:
    make_topics(kafka, {f"{prefix}state": 2}, {"cleanup.policy": "compact"})
    return f"{prefix}state"


def test_state_is_read_behind_markers_aborted_records_and_tombstones_or_not_at_all(kafka: str, state: str) -> None:
    """Only a broker writes the markers of transactions, and hides what lies behind an open one."""
    connection = Connection(kafka)
    assert read_to_end(connection, state, 0, 60.0) == {}
    produce_in_transactions(kafka, state, [[b"never"]], 1, abort=[0])
    assert read_to_end(connection, state, 1, 60.0) == {}, "aborted records are no state"

    writer = TransactionalProducer(connection, f"{state}-writer")
    writer.open(60)
    one, two = ([ProducerRecord(state, key, value, 0) for key, value in records] for records in (
        ((b"a", b"1"), (b"b", b"1"), (b"c", b"1")), ((b"b", b"2"), (b"c", None), (b"", b"9")),
    ))  # fmt: skip
    writer.commit(one)
    writer.commit(two)
    writer.close()
    produce_in_transactions(kafka, state, [[b"never"]], abort=[0])
    expected = {b"a": b"1", b"b": b"2", b"": b"9"}
    assert read_to_end(connection, state, 0, 60.0) == expected
    # six records, one that was aborted, three markers, the last of which comes after the answer
    wait_for("the watermarks", lambda: watermarks(connection, state, 0, 60.0) == (0, 10))

    foreign = Producer({"bootstrap.servers": kafka, "transactional.id": f"{state}-foreign"})
    foreign.init_transactions(60)
    foreign.begin_transaction()
    foreign.produce(state, b"x", b"x", 0)
    foreign.flush(60)
    produce(kafka, state, [b"200"])
    with pytest.raises(UnavailableError, match=r"read to offset 10 of 12, and no further within 10 s"):
        read_to_end(connection, state, 0, 10.0)
    foreign.abort_transaction(60)
    assert read_to_end(connection, state, 0, 60.0) == {**expected, b"k": b"200"}


def test_a_producer_is_followed_refused_values_without_keys_and_fenced_by_its_successor(
    kafka: str, prefix: str, state: str
) -> None:
    """Only a broker tells what is committed, refuses a transaction for good, and fences the producer of a former owner.

    Two workers have the same transactional id for a partition.
    """
    connection = Connection(kafka)
    first, second = (
        TransactionalProducer(connection, options(prefix, instance).transactional_id(0)) for instance in ("a", "b")
    )
    first.open(60)
    with pytest.raises(BrokerError, match="attempt 3 of 3"):
        first.commit([ProducerRecord(state, b"a", b"0", 0), ProducerRecord(state, None, b"1", 0)])  # it wants keys
    first.commit([ProducerRecord(state, b"a", b"1", 0)])
    second.open(60)
    with pytest.raises(FencedError, match="no longer owns the partition"):
        first.commit([ProducerRecord(state, b"a", b"2", 0)])
    second.commit([ProducerRecord(state, b"b", b"3", 0)])
    first.close()
    second.close()
    assert read_to_end(connection, state, 0, 60.0) == {b"a": b"1", b"b": b"3"}
    make_topics(kafka, {f"{prefix}followed": 2}, {"cleanup.policy": "compact"})
    committed_records_are_followed_as_they_come(connection, f"{prefix}followed")
    a_stage_ends_when_a_successor_has_opened_its_producer(connection, f"{prefix}stage.")


def committed_records_are_followed_as_they_come(connection: Connection, state: str) -> None:
    writer = TransactionalProducer(connection, f"{state}-writer")
    writer.open(60)
    writer.commit([ProducerRecord(state, b"a", b"1", 0)])
    seen: list[tuple[int, int, bytes | None, bytes | None]] = []

    async def run() -> None:
        follower = Follower(connection, state, lambda *record: seen.append(record))
        await follower.start()
        follower.follow(0)
        await until(lambda: len(seen) == 1)
        await asyncio.to_thread(
            writer.commit, [ProducerRecord(state, b"a", b"2", 0), ProducerRecord(state, b"x", b"3", 1)]
        )
        await until(lambda: len(seen) == 2)
        follower.follow(1)
        await until(lambda: len(seen) == 3)
        follower.unfollow(0)
        await asyncio.to_thread(
            writer.commit, [ProducerRecord(state, b"a", b"4", 0), ProducerRecord(state, b"x", b"5", 1)]
        )
        await until(lambda: len(seen) == 4)
        await follower.stop()

    asyncio.run(run())
    writer.close()
    assert [(partition, key, value) for partition, _, key, value in seen] == [
        (0, b"a", b"1"), (0, b"a", b"2"), (1, b"x", b"3"), (1, b"x", b"5"),
    ]  # fmt: skip


def a_stage_ends_when_a_successor_has_opened_its_producer(connection: Connection, prefix: str) -> None:
    """It can add nothing to what it has written."""
    kafka = connection.bootstrap
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out")})

    async def run() -> Exception | None:
        stage = total_stage(connection, prefix, Totals(prefix))
        async with running(stage):
            produce(kafka, f"{prefix}in", [b"1", b"2"])
            await until(lambda: len(read_all(kafka, f"{prefix}out")[0]) == 2)
            successor = TransactionalProducer(connection, options(prefix, "b").transactional_id(0))
            await asyncio.to_thread(successor.open, 60)
            produce(kafka, f"{prefix}in", [b"4"])
            await until(lambda: stage.ended.is_set() or len(read_all(kafka, f"{prefix}out")[0]) == 3)
            await asyncio.to_thread(successor.close)
        return stage.failure

    assert isinstance(asyncio.run(run()), FencedError)
    assert read_all(kafka, f"{prefix}out") == [[b"1", b"3"]]
