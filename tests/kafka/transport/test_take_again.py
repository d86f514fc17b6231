"""A partition that is let go and taken over again, while the group may give it to another worker."""

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace

import pytest
from faust.types import TP

from glasstream.base.errors import StalledError
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.group import AGREE, Look, Unknown
from glasstream.kafka.transport.lane import Lane
from glasstream.kafka.transport.sequence import Sequence
from glasstream.kafka.transport.stage import Stage
from tests.support.transport_harness import options


class SlowLane(Lane):
    """Lets go when the test says so, as one whose transaction is still being written."""

    def __init__(self, stage: Stage, partition: int, generation: int) -> None:
        super().__init__(stage, partition, generation)
        self.may_go = asyncio.Event()

    async def drop(self) -> None:
        self.open = False
        await self.may_go.wait()

    async def drain(self) -> None:
        self.open = False


class OneStage(Stage):
    """Counts how often a partition was taken over, which fences whoever has it."""

    taken = 0

    async def take_over(self, partition: int, generation: int) -> Lane | None:
        self.taken += 1
        lane = SlowLane(self, partition, generation)
        lane.may_go.set()
        return lane

    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        return {}


@pytest.mark.parametrize("meanwhile", ["nothing", "revoked", "stopped"])
def test_a_partition_that_was_revoked_while_it_was_let_go_is_not_taken_over_again(meanwhile: str) -> None:
    async def run() -> tuple[int, bool]:
        stage = OneStage(Connection("127.0.0.1:1"), options("test."), "in", {})
        lane = stage.lanes[0] = SlowLane(stage, 0, 1)
        stage.take_again(lane)
        while lane.open:
            await asyncio.sleep(0)
        if meanwhile == "revoked":
            await stage._revoked()
        stage._draining = meanwhile == "stopped"
        lane.may_go.set()
        await asyncio.gather(*stage._tasks)
        return stage.taken, 0 in stage.lanes

    assert asyncio.run(run()) == ((1, True) if meanwhile == "nothing" else (0, False))


class ReadingStage(OneStage):
    """Takes over each partition at offset 90, where its state is."""

    async def take_over(self, partition: int, generation: int) -> Lane | None:
        lane = await super().take_over(partition, generation)
        assert lane is not None
        lane.sequence = Sequence(90)
        return lane


@pytest.mark.parametrize(("cut", "stalled"), [("out", {0, 1, 2}), ("in", {0}), ("again", set())])
def test_partitions_that_are_taken_over_after_a_loss_say_why_they_stand_still(
    cut: str, stalled: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that another worker owned at the time, if the records that are gone were not theirs alone."""

    async def run() -> dict[int, str | None]:
        stage = ReadingStage(Connection("127.0.0.1:1"), options("test."), "in", {"out": None, "again": None})
        stage.replaceable = frozenset({"again"})
        consumer = SimpleNamespace(hold=lambda tp: None, release=lambda tp: None, partitions=[0, 1])
        consumer.assignment = lambda: {TP("in", number) for number in consumer.partitions}
        monkeypatch.setattr(type(stage.app), "consumer", consumer)
        monkeypatch.setattr(type(stage.app), "consumer_generation_id", 1)
        await stage._assigned()
        for end in (100, *[80] * AGREE):
            stage.see(Look(Unknown("nobody asks"), ends={(cut, 0): end}))
        before = {number: lane.stalled for number, lane in stage.lanes.items()}
        assert {number for number, reason in before.items() if reason} == stalled - {2}
        await stage._revoked()
        stage.see(Look(Unknown("nobody asks"), ends={(cut, 0): 200}))
        consumer.partitions = [0, 1, 2]
        await stage._assigned()
        after = {number: lane.stalled for number, lane in stage.lanes.items()}
        assert {number: after[number] for number in before} == before
        return after

    assert {number for number, reason in asyncio.run(run()).items() if reason} == stalled


def test_a_take_over_may_take_long_and_a_rebalance_without_progress_ends_the_worker() -> None:
    """A partition with a gigabyte of state takes minutes on a busy machine; whoever restarts must read it again."""

    async def run() -> None:
        stage = OneStage(Connection("127.0.0.1:1"), options("test."), "in", {})
        limit = 60.0 + 2 * stage.options.session_timeout + stage.options.take_over_timeout
        now = 1_000.0
        for _ in range(10):
            stage.check_rebalance(now)
            stage.has_read()
            now += limit + 1
        stage.check_rebalance(now)
        assert stage.failure is None
        stage.check_rebalance(now + limit)
        assert stage.failure is None
        stage.view.away = "no broker answers"
        stage.check_rebalance(now + 2 * limit)
        stage.view.away = None
        stage.check_rebalance(now + 3 * limit)
        assert stage.failure is None
        stage.check_rebalance(now + 4 * limit + 1)
        assert isinstance(stage.failure, StalledError) and "no progress" in str(stage.failure)

    asyncio.run(run())
