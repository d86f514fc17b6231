"""Faults of Faust with messages, offsets and partitions, and our cures for them.

Each law is tested with its cure, and once more without it, where it must fail. What Faust does within the worker is
shown on the embedded broker. One test needs a real Kafka, for the markers of transactions and what they hide. Fencing
is in `test_transport_waits.py`, a take-over within a group of two in `test_transport_stages.py`.
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

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.kafka.transport.app import StreamApp
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.consumer import Consumer, ConsumerThread, Transport
from glasstream.kafka.transport.lane import Lane
from glasstream.kafka.transport.records import ConsumerRecord, ProducerRecord
from glasstream.kafka.transport.snapshot_table import TableSpec
from glasstream.kafka.transport.stateful import StatefulStage
from glasstream.kafka.transport.stateless import StatelessStage
from tests.support.transport_harness import (
    Total,
    Totals,
    committed_offset,
    embedded_topics,
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


async def _start_with_backlog(link: Connection, prefix: str, seconds: float) -> tuple[list[int], int]:
    handled = Handled(f"{prefix}out")
    stage = LateAgent(
        link, options(prefix), input_topic=f"{prefix}in", handle=handled,
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
    embedded: EmbeddedKafka,
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
    queue_keeps: bool,
    watch_repairs: bool,
    complete: bool,
    found_lost: int,
) -> None:
    link = embedded_topics(embedded, prefix)
    produce(link.bootstrap, f"{prefix}in", numbers(BACKLOG))
    produce(link.bootstrap, f"{prefix}table", numbers(20))
    monkeypatch.setattr(Transport, "Consumer", SlowSeek)
    if not queue_keeps:
        monkeypatch.setattr(StreamApp, "FlowControlQueue", App.FlowControlQueue)
    if not watch_repairs:
        monkeypatch.setattr(Lane, "read_again", lambda self: None)
    offsets, lost = asyncio.run(_start_with_backlog(link, prefix, 60 if complete else 3))
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
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    link = embedded_topics(embedded, prefix)
    monkeypatch.setattr(Transport, "Consumer", Leaky)
    if not cured:
        monkeypatch.setattr(Lane, "read_again", lambda self: None)
    produce(link.bootstrap, f"{prefix}in", numbers(200))
    totals = Totals(prefix)

    async def run() -> int:
        stage = total_stage(link, prefix, totals)
        async with running(stage):
            await until(lambda: totals.counted() == (200 if cured else 40))
            if not cured:
                await stays(lambda: totals.counted() > 40, 3)
        return stage.lost

    lost = asyncio.run(run())
    assert totals.made[0].fed == list(range(200 if cured else 40))
    assert lost == (2 if cured else 0)


# --- the markers of transactions, and an aborted one, on the input ----------------------------------------------------


def test_the_group_commits_past_transaction_markers_and_is_given_nothing_aborted(
    kafka: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a broker writes markers that have offsets, and hides aborted records from who reads committed ones."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out")})
    batches = [numbers(5)] * 20
    batches.insert(10, [b"aborted"])  # at offset 60; each of the others is 5 records and a marker
    produce_in_transactions(kafka, f"{prefix}in", batches, abort=[10])

    def run(name: str, **changes: object) -> tuple[list[int], int]:
        """Return the offsets that a stage is given, and what its group has committed when it has stopped."""
        handled = Handled(f"{prefix}out")

        async def handle_all() -> None:
            stage = StatelessStage(
                Connection(kafka), options(prefix, name=name, **changes), input_topic=f"{prefix}in", handle=handled
            )
            async with running(stage):
                await until(lambda: 120 in handled.offsets)
            assert stage.lost == 0

        asyncio.run(handle_all())
        return handled.offsets, committed_offset(kafka, f"{prefix}{name}", f"{prefix}in")

    offsets, committed = run("cured")
    assert len(offsets) == 100 and 60 not in offsets, "an aborted record is delivered, or a committed one is not"
    assert committed == 121, "the commits are stuck behind a marker"
    offsets, _ = run("uncommitted", read_committed=False)
    assert 60 in offsets, "without the cure, the aborted record is delivered"
    monkeypatch.setattr(Consumer, "_new_offset", FaustConsumer._new_offset)
    _, committed = run("uncured")
    assert committed < 121, "without the cure, a commit steps over one marker only"


# --- a commit that a rebalance has made void -------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_a_commit_that_comes_after_a_rebalance_does_not_end_the_worker(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    link = embedded_topics(embedded, prefix)
    refused: list[object] = []

    async def refuse(self: AIOKafkaConsumer, offsets: object) -> None:
        refused.append(offsets)
        raise CommitFailedError

    monkeypatch.setattr(AIOKafkaConsumer, "commit", refuse)
    if not cured:
        monkeypatch.setattr(ConsumerThread, "_commit", AIOKafkaConsumerThread._commit)
    handled = Handled(f"{prefix}out")

    async def run() -> Exception | None:
        stage = StatelessStage(link, options(prefix), input_topic=f"{prefix}in", handle=handled)
        async with running(stage):
            crashed = asyncio.ensure_future(stage.wait_crashed())
            produce(link.bootstrap, f"{prefix}in", numbers(10))
            await until(lambda: len(handled.offsets) == 10)
            if cured:
                await until(lambda: len(refused) == 1)
                produce(link.bootstrap, f"{prefix}in", numbers(10))
                await until(lambda: len(handled.offsets) == 20 and len(refused) == 2)
                assert not stage.ended.is_set()
            else:
                await until(stage.ended.is_set)
            crashed.cancel()
        return stage.failure

    assert (asyncio.run(run()) is None) is cured


# --- brokers that are all replaced by others -------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_a_worker_whose_known_brokers_are_all_gone_asks_the_addresses_that_it_was_given(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    """Behave as when the only live broker goes away and the others come back."""
    link = embedded_topics(embedded, prefix)
    if not cured:
        monkeypatch.setattr("glasstream.kafka.transport.consumer._remember_bootstrap", lambda client: None)
    totals = Totals(prefix)

    async def run() -> int:
        stage = total_stage(link, prefix, totals)
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
            produce(link.bootstrap, f"{prefix}in", numbers(10))
            await stays(lambda: totals.counted() == 10, 60.0 if cured else 2.0)
            return totals.counted()

    assert asyncio.run(run()) == (10 if cured else 0)


# --- a stop while a commit is under way -----------------------------------------------------------------------------


@pytest.mark.parametrize("cured", [True, False])
def test_what_is_acknowledged_during_a_commit_is_committed_at_the_stop(
    embedded: EmbeddedKafka, prefix: str, monkeypatch: pytest.MonkeyPatch, cured: bool
) -> None:
    link = embedded_topics(embedded, prefix)
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
    handled = Handled(f"{prefix}out")

    async def run() -> None:
        stage = StatelessStage(link, options(prefix), input_topic=f"{prefix}in", handle=handled)
        async with running(stage):
            produce(link.bootstrap, f"{prefix}in", numbers(5))
            await until(under_way.is_set)
            produce(link.bootstrap, f"{prefix}in", numbers(5))
            await until(lambda: len(read_all(link.bootstrap, f"{prefix}out")[0]) == 10)

    asyncio.run(run())
    assert committed_offset(link.bootstrap, f"{prefix}total", f"{prefix}in") == (10 if cured else 5)


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
def test_no_event_arrives_before_a_slow_take_over_has_finished(
    embedded: EmbeddedKafka, prefix: str, cured: bool
) -> None:
    link = embedded_topics(embedded, prefix)
    go_on = threading.Event()

    class SlowTotal(Total):
        """Takes its time to be restored: without the cure until a message has come too early."""

        def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
            go_on.wait(2.0 if cured else 60.0)
            return super().restore(records, low, high)

    produce(link.bootstrap, f"{prefix}in", numbers(200))
    totals = Totals(prefix, SlowTotal)

    async def run() -> tuple[int, int]:
        kind = EarlyCounter if cured else TakesOverTooLate
        stage = total_stage(link, prefix, totals, kind=kind)
        async with running(stage):
            await until(lambda: totals.counted() >= 200 if cured else stage.early > 0)  # type: ignore[attr-defined]
            go_on.set()
        return stage.early, stage.lost  # type: ignore[attr-defined]

    early, lost = asyncio.run(run())
    assert (early == 0) is cured
    assert lost == 0 or not cured
    if cured:
        assert totals.made[0].fed == list(range(200))
