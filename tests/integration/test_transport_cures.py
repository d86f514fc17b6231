"""What Faust does to messages, offsets and partitions, and that the cures are what prevents it.

Each law is tested with its cure, and once more without it, where it must fail. One test runs with the cure only,
because the failure without it depends on a race.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError
from faust.app import App
from faust.transport.consumer import Consumer as FaustConsumer
from faust.transport.drivers.aiokafka import AIOKafkaConsumerThread
from faust.types import TP

from glasstream.errors import FencedError
from glasstream.transport.app import StreamApp
from glasstream.transport.connection import Connection
from glasstream.transport.consumer import Consumer, ConsumerThread, Transport
from glasstream.transport.lane import Lane
from glasstream.transport.options import StageOptions
from glasstream.transport.records import ConsumerRecord, ProducerRecord
from glasstream.transport.snapshot_table import TableSpec
from glasstream.transport.stateful import StatefulStage
from glasstream.transport.stateless import StatelessStage
from glasstream.transport.transactions import TransactionalProducer
from tests.transport.harness import (
    Total,
    Totals,
    committed_offset,
    make_topics,
    options,
    produce,
    produce_in_transactions,
    read_all,
    running,
    stays,
    total_stage,
    until,
)


@pytest.fixture
def topics(kafka: str, prefix: str) -> str:
    """Prefix of fresh topics: one partition each."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out", "table")})
    return prefix


class Handled:
    """A handler that remembers the offsets it was given."""

    def __init__(self, out: str) -> None:
        self.out = out
        self.offsets: list[int] = []

    async def __call__(self, message: ConsumerRecord) -> list[ProducerRecord]:
        self.offsets.append(message.offset)
        return [ProducerRecord(self.out, message.key, message.value, message.partition)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


# --- messages dropped at a start with a backlog ---------------------------------------------------------------------


BACKLOG = 500


class SlowSeek(Consumer):
    """A broker that takes its time with the offsets: the whole backlog is handed to the streams meanwhile."""

    delivered = 0

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:
        async for tp, message in super().getmany(timeout):
            yield tp, message
            self.delivered += not self._is_changelog_tp(tp)  # the next one is asked for

    async def perform_seek(self) -> None:
        flowing = self.flow_active  # else it is `getmany` that seeks
        await super().perform_seek()
        self.delivered = 0
        inputs = [tp for tp in self.assignment() if not self._is_changelog_tp(tp)]
        if flowing:
            await until(lambda: self.delivered >= BACKLOG and all((self.handed(tp) or 0) >= BACKLOG for tp in inputs))


class LateAgent(StatelessStage):
    """A worker whose agent gets its turn when the worker is ready: what was fetched until then waits in the queue."""

    async def _consume(self, stream: Any) -> None:
        while self.app.rebalancing or not self.lanes:
            await asyncio.sleep(0.01)
        await super()._consume(stream)


async def _start_with_backlog(kafka: str, prefix: str, seconds: float) -> tuple[list[int], int]:
    handled = Handled(f"{prefix}out")
    stage = LateAgent(
        Connection(kafka), options(prefix), input_topic=f"{prefix}in", handle=handled,
        table=TableSpec(f"{prefix}table", lambda key, value: None),
    )  # fmt: skip
    async with running(stage):
        await stays(lambda: len(handled.offsets) >= BACKLOG, seconds)
    assert stage.failure is None
    return handled.offsets, stage.lost


@pytest.mark.parametrize(
    ("queue_keeps", "watch_repairs", "complete", "found_lost"),
    [(True, True, True, 0), (False, True, True, 1), (False, False, False, 0)],
)
def test_a_start_with_a_backlog_drops_no_message(
    kafka: str,
    topics: str,
    monkeypatch: pytest.MonkeyPatch,
    queue_keeps: bool,
    watch_repairs: bool,
    complete: bool,
    found_lost: int,
) -> None:
    produce(kafka, f"{topics}in", numbers(BACKLOG))
    produce(kafka, f"{topics}table", numbers(20))
    monkeypatch.setattr(Transport, "Consumer", SlowSeek)
    if not queue_keeps:
        monkeypatch.setattr(StreamApp, "FlowControlQueue", App.FlowControlQueue)
    if not watch_repairs:
        monkeypatch.setattr(Lane, "read_again", lambda self: None)
    offsets, lost = asyncio.run(_start_with_backlog(kafka, topics, 60 if complete else 3))
    assert (offsets == list(range(BACKLOG))) is complete
    assert lost == found_lost


# --- messages lost anywhere on the way ------------------------------------------------------------------------------


class Leaky(Consumer):
    """Loses a few messages between the broker and the stage: two in the middle, and twice the last."""

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[TP, Any]]:
        losses = self.__dict__.setdefault("losses", {40: 1, 41: 1, 199: 2})
        async for tp, message in super().getmany(timeout):
            if losses.get(message.offset, 0):
                losses[message.offset] -= 1
            else:
                yield tp, message


@pytest.mark.parametrize("cured", [True, False])
def test_messages_lost_on_the_way_are_read_again(
    kafka: str, topics: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    monkeypatch.setattr(Transport, "Consumer", Leaky)
    if not cured:
        monkeypatch.setattr(Lane, "read_again", lambda self: None)
    produce(kafka, f"{topics}in", numbers(200))
    totals = Totals(topics)

    async def run() -> int:
        stage = total_stage(Connection(kafka), topics, totals)
        async with running(stage):
            await until(lambda: totals.counted() == (200 if cured else 40))
            if not cured:
                await stays(lambda: totals.counted() > 40, 3)
        return stage.lost

    lost = asyncio.run(run())
    assert totals.made[0].fed == list(range(200 if cured else 40))
    assert lost == (2 if cured else 0)


# --- commits stuck behind the markers of transactions ---------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_the_group_commits_past_transaction_markers(
    kafka: str, topics: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    if not cured:
        monkeypatch.setattr(Consumer, "_new_offset", FaustConsumer._new_offset)
    produce_in_transactions(kafka, f"{topics}in", [numbers(5)] * 20)  # 120 offsets, every sixth a marker
    handled = Handled(f"{topics}out")

    async def run() -> None:
        stage = StatelessStage(Connection(kafka), options(topics), input_topic=f"{topics}in", handle=handled)
        async with running(stage):
            await until(lambda: len(handled.offsets) == 100)
        assert stage.lost == 0

    asyncio.run(run())
    committed = committed_offset(kafka, f"{topics}total", f"{topics}in")
    assert (committed == 119) is cured  # Faust's own steps over one marker a commit


# --- a commit that a rebalance has made void -------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_a_commit_that_comes_after_a_rebalance_does_not_end_the_worker(
    kafka: str, topics: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    async def refuse(self: AIOKafkaConsumer, offsets: object) -> None:
        raise CommitFailedError

    monkeypatch.setattr(AIOKafkaConsumer, "commit", refuse)
    if not cured:
        monkeypatch.setattr(ConsumerThread, "_commit", AIOKafkaConsumerThread._commit)
    handled = Handled(f"{topics}out")

    async def run() -> Exception | None:
        stage = StatelessStage(Connection(kafka), options(topics), input_topic=f"{topics}in", handle=handled)
        async with running(stage):
            crashed = asyncio.ensure_future(stage.wait_crashed())
            produce(kafka, f"{topics}in", numbers(10))
            await until(lambda: len(handled.offsets) == 10)
            if cured:
                await stays(stage.ended.is_set, 3.0)
            else:
                await until(stage.ended.is_set)
            crashed.cancel()
        return stage.failure

    assert (asyncio.run(run()) is None) is cured


# --- brokers that are all replaced by others -------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_a_worker_whose_known_brokers_are_all_gone_asks_the_addresses_that_it_was_given(
    kafka: str, topics: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    """As after a time in which only one broker was alive, when this one goes and the others are back."""
    if not cured:
        monkeypatch.setattr("glasstream.transport.consumer._remember_bootstrap", lambda client: None)
    totals = Totals(topics)

    async def run() -> int:
        stage = total_stage(Connection(kafka), topics, totals)
        async with running(stage):
            thread = stage.app.consumer._thread
            client = thread._ensure_consumer()._client

            async def strand() -> bool:
                [broker] = client.cluster._brokers.values()
                client.cluster._brokers = {7: broker._replace(nodeId=7, port=9)}
                for connection in list(client._conns.values()):
                    connection.close()
                return bool(await client.force_metadata_update())

            found = await thread.call_thread(strand)
            assert found is cured
            produce(kafka, f"{topics}in", numbers(10))
            await stays(lambda: totals.counted() == 10, 60.0 if cured else 2.0)
            return totals.counted()

    assert asyncio.run(run()) == (10 if cured else 0)


# --- a stop while a commit is under way -----------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_what_is_acknowledged_during_a_commit_is_committed_at_the_stop(
    kafka: str, topics: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    under_way, go_on = threading.Event(), threading.Event()
    commit = ConsumerThread._commit

    async def held_up(self: ConsumerThread, offsets: Mapping[TP, int]) -> bool:
        if not under_way.is_set() and max(offsets.values()) == 5:
            under_way.set()
            await asyncio.to_thread(go_on.wait, 60)
        return await commit(self, offsets)

    waits = FaustConsumer.maybe_wait_for_commit_to_finish

    async def met(self: Consumer) -> bool:
        if self.should_stop:  # the commit of the stop has met the one that is under way
            go_on.set()
        return await waits(self)

    monkeypatch.setattr(ConsumerThread, "_commit", held_up)
    monkeypatch.setattr(FaustConsumer, "maybe_wait_for_commit_to_finish", met)
    if not cured:
        monkeypatch.delattr(Consumer, "commit_and_end_transactions")
    handled = Handled(f"{topics}out")

    async def run() -> None:
        stage = StatelessStage(Connection(kafka), options(topics), input_topic=f"{topics}in", handle=handled)
        async with running(stage):
            produce(kafka, f"{topics}in", numbers(5))
            await until(under_way.is_set)
            produce(kafka, f"{topics}in", numbers(5))
            await until(lambda: len(read_all(kafka, f"{topics}out")[0]) == 10)

    asyncio.run(run())
    assert committed_offset(kafka, f"{topics}total", f"{topics}in") == (10 if cured else 5)


# --- a second owner of the same partition ---------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_a_fenced_owner_can_add_nothing(kafka: str, topics: str, monkeypatch: pytest.MonkeyPatch, cured: bool) -> None:
    if not cured:
        names = iter(["one", "two"])
        monkeypatch.setattr(StageOptions, "transactional_id", lambda self, partition: f"{topics}{next(names)}")
    totals = Totals(topics)
    given = options(topics)

    async def run() -> Exception | None:
        stage = total_stage(Connection(kafka), topics, totals)
        async with running(stage):
            produce(kafka, f"{topics}in", [b"1", b"2"])
            await until(lambda: len(read_all(kafka, f"{topics}out")[0]) == 2)
            successor = TransactionalProducer(Connection(kafka), given.transactional_id(0))
            await asyncio.to_thread(successor.open, 60)
            produce(kafka, f"{topics}in", [b"4"])
            if cured:
                await asyncio.wait_for(stage.ended.wait(), 60)
            else:
                await until(lambda: len(read_all(kafka, f"{topics}out")[0]) == 3)
            await asyncio.to_thread(successor.close)
        return stage.failure

    failure = asyncio.run(run())
    assert isinstance(failure, FencedError) is cured
    assert read_all(kafka, f"{topics}out")[0] == ([b"1", b"3"] if cured else [b"1", b"3", b"7"])


# --- events that arrive before a slow take-over has finished --------------------------------------------------------


class EarlyCounter(StatefulStage):
    """Counts the messages that reach the agent before their partition has been taken over."""

    early = 0

    async def _consume(self, stream: Any) -> None:
        async for event in stream.noack().events():
            lane = self.lanes.get(event.message.partition)
            if lane is None:
                self.early += 1
            else:
                lane.offer(event)


class TakesOverTooLate(EarlyCounter):
    """Takes over beside the rebalance instead of within it, as a handler of `on_partitions_assigned` would."""

    async def _assigned(self, *args: Any, **kwargs: Any) -> None:
        self.late = asyncio.ensure_future(super()._assigned())

    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        return dict.fromkeys(tps, 0)


@pytest.mark.parametrize("cured", [True, False])
def test_no_event_arrives_before_a_slow_take_over_has_finished(kafka: str, topics: str, cured: bool) -> None:
    go_on = threading.Event()

    class SlowTotal(Total):
        """Takes its time to be restored: without the cure until a message has come too early."""

        def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
            go_on.wait(2.0 if cured else 60.0)
            return super().restore(records, low, high)

    produce(kafka, f"{topics}in", numbers(200))
    totals = Totals(topics, SlowTotal)

    async def run() -> tuple[int, int]:
        kind = EarlyCounter if cured else TakesOverTooLate
        stage = total_stage(Connection(kafka), topics, totals, kind=kind)
        async with running(stage):
            await until(lambda: totals.counted() >= 200 if cured else stage.early > 0)  # type: ignore[attr-defined]
            go_on.set()
        return stage.early, stage.lost  # type: ignore[attr-defined]

    early, lost = asyncio.run(run())
    assert (early == 0) is cured
    assert lost == 0 or not cured
    if cured:
        assert totals.made[0].fed == list(range(200))


# --- a take-over of a partition on which nothing was committed -------------------------------------------------------


def test_a_partition_on_which_nothing_was_committed_is_taken_over_from_its_start(kafka: str, prefix: str) -> None:
    """A survivor does all that a killed worker had in hand and had not committed.

    Without the cure the order of two requests decides, mostly against the messages.
    """
    make_topics(kafka, {f"{prefix}in": 2, f"{prefix}table": 1})
    produce(kafka, f"{prefix}table", numbers(5))
    opened = asyncio.Event()
    done: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}

    def worker(instance: str) -> StatelessStage:
        async def handle(message: ConsumerRecord) -> list[ProducerRecord]:
            await opened.wait()
            done[instance].append((message.partition, message.offset))
            return []

        return StatelessStage(
            Connection(kafka), options(prefix, instance), input_topic=f"{prefix}in", handle=handle,
            table=TableSpec(f"{prefix}table", lambda key, value: None),
        )  # fmt: skip

    async def run() -> None:
        killed, survivor = worker("a"), worker("b")
        async with running(survivor):
            await killed.start()
            await until(lambda: len(killed.lanes) == 1 and len(survivor.lanes) == 1)
            for partition in range(2):
                produce(kafka, f"{prefix}in", numbers(300), partition)
            await until(lambda: all(lane.waiting for stage in (killed, survivor) for lane in stage.lanes.values()))
            await killed.stop(drain=False)
            opened.set()
            await stays(lambda: len(set(done["b"])) == 600, 60.0)

    asyncio.run(run())
    assert not done["a"]
    assert sorted(set(done["b"])) == [(partition, offset) for partition in range(2) for offset in range(300)]


# --- an aborted transaction on the input ----------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_what_was_aborted_is_not_delivered(kafka: str, topics: str, cured: bool) -> None:
    produce_in_transactions(kafka, f"{topics}in", [[b"1", b"2"], [b"100"], [b"4"]], abort=[1])
    totals = Totals(topics)

    async def run() -> int:
        stage = total_stage(Connection(kafka), topics, totals, read_committed=cured)
        async with running(stage):
            await until(lambda: totals.counted() >= (3 if cured else 4))
            await stays(lambda: totals.counted() > 4, 0.5)
        return stage.lost

    assert asyncio.run(run()) == 0
    assert totals.made[0].sum == (7 if cured else 107)
