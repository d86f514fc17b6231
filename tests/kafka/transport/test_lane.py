"""A partition whose log lacks the next messages to read."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from glasstream.events.message import Message
from glasstream.kafka.transport.lane import SEEK_AGAIN_AFTER, Lane, StalledLane
from glasstream.kafka.transport.reader import Batch

HERE = TP("in", 0)


class OpenLane(Lane):
    async def drop(self) -> None:
        self.open = False

    async def drain(self) -> None:
        self.open = False


class FakeConsumer:
    """Knows the bounds of the log, and notes what it is asked to do."""

    def __init__(self, low: int, high: int) -> None:
        self.kept = (low, high)
        self.at = 0
        self.held: set[TP] = set()
        self.sought: list[int] = []
        self.posted = self.gone = 0

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        self.sought += partitions.values()

    def left(self) -> int:
        return self.gone

    async def bounds(self, tp: TP) -> tuple[int, int]:
        return self.kept

    def handed(self, tp: TP) -> int:
        return self.at

    def hold(self, tp: TP) -> None:
        self.held.add(tp)

    def release(self, tp: TP) -> None:
        self.held.discard(tp)


class FakeStage:
    """A stage with one lane, whose input is produced again or not."""

    input_topic = "in"
    remedy = "do this"

    def __init__(self, consumer: FakeConsumer, replaceable: bool = False) -> None:
        self.replaceable_input = replaceable
        self.app = SimpleNamespace(consumer=consumer)
        self.options = SimpleNamespace(queue_messages=4, queue_bytes=10_000)
        self.taken_again: list[Lane] = []
        self.failure: Exception | None = None
        self.lost = 0

    def fail(self, error: Exception) -> None:
        self.failure = error

    def take_again(self, lane: Lane) -> None:
        self.taken_again.append(lane)


def batch(*offsets: int, follows: int | None = None, timestamp: float = 0.0, value: bytes = b"1") -> Batch:
    records = [Message("in", 0, offset, None, value, int(timestamp * 1000)) for offset in offsets]
    return Batch(HERE, offsets[0] if follows is None else follows, 1, records)


def in_a_loop(work: Callable[[OpenLane, FakeStage], Any], stage: FakeStage) -> OpenLane:
    async def run() -> OpenLane:
        lane = OpenLane(stage, 0, 1)  # type: ignore[arg-type]
        lane.begin(0)
        await work(lane, stage)
        return lane

    return asyncio.run(run())


async def reads_to_ten_and_meets_the_edge(lane: OpenLane, stage: FakeStage) -> None:
    """Ten messages leave the consumer; the last arrive while it is asked for bounds."""
    lane.offer(batch(*range(6)))
    stage.app.consumer.at = 10
    meeting = asyncio.ensure_future(lane.out_of_range(10))
    await asyncio.sleep(0)
    lane.offer(batch(*range(6, 10)))
    await meeting
    lane.offer(batch(25, follows=20 if stage.app.consumer.sought else 10))


@pytest.mark.parametrize(("low", "high"), [(20, 30), (0, 7), (0, 12)])
def test_what_is_lost_of_the_users_log_stops_the_partition_and_is_told_once(
    low: int, high: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Removed by retention; cut off; cut off and written anew beyond where it was read to."""
    consumer = FakeConsumer(low, high)
    with caplog.at_level(logging.WARNING):
        lane = in_a_loop(reads_to_ten_and_meets_the_edge, FakeStage(consumer))
    assert [message.offset for message in lane.waiting] == list(range(10)), "all before it, and nothing after"
    assert lane.stall is not None and lane.stall.endswith("; do this")
    assert ("offsets 10 to 19" in lane.stall) is (low > 10)
    assert (f"before offset 10 was read, but the broker lost the end of the log: it ends at {high}" in lane.stall) is (
        low <= 10
    )
    assert consumer.held == {HERE} and not consumer.sought
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_stalled_partition_stays_held_when_its_messages_are_used_up() -> None:
    consumer = FakeConsumer(20, 30)
    lane = in_a_loop(reads_to_ten_and_meets_the_edge, FakeStage(consumer))
    while lane.waiting:
        lane.next_run(1, 1)
    assert consumer.held == {HERE}


def test_a_partition_whose_message_waits_takes_and_reads_on() -> None:
    """The wait ends before the lane hears of it; what has arrived meanwhile is used, and more is asked for."""
    consumer = FakeConsumer(0, 30)

    async def waits(lane: OpenLane, stage: FakeStage) -> None:
        lane.offer(batch(0, 1, 2, 3))
        assert consumer.held == {HERE}
        lane.waits = "a model cannot be opened"
        lane.next_run(1, 1)
        lane.offer(batch(4))
        while lane.waiting:
            lane.next_run(1, 1)

    lane = in_a_loop(waits, FakeStage(consumer))
    assert lane.stalled == "a model cannot be opened" and not consumer.held
    assert lane.sequence is not None and lane.sequence.next_offset == 5


def test_a_run_is_bounded_in_messages_and_bytes_and_reading_goes_on_when_few_are_left() -> None:
    consumer = FakeConsumer(0, 30)

    async def takes(lane: OpenLane, stage: FakeStage) -> None:
        lane.offer(batch(*range(10)))
        size = lane.waiting[0].size
        assert [message.offset for message in lane.next_run(2, 100 * size)] == [0, 1] and consumer.held
        assert [message.offset for message in lane.next_run(100, 0)] == [2]
        assert [message.offset for message in lane.next_run(100, 2 * size + 1)] == [3, 4, 5] and consumer.held
        assert [message.offset for message in lane.next_run(100, 100 * size)] == [6, 7, 8, 9] and not consumer.held

    in_a_loop(takes, FakeStage(consumer))


def test_a_hole_in_what_is_produced_again_is_gone_over(caplog: pytest.LogCaptureFixture) -> None:
    consumer = FakeConsumer(20, 30)
    with caplog.at_level(logging.WARNING):
        lane = in_a_loop(reads_to_ten_and_meets_the_edge, FakeStage(consumer, replaceable=True))
    assert lane.stall is None and consumer.sought == [20]
    assert [message.offset for message in lane.waiting] == [*range(10), 25]
    assert "removed offsets 10 to 19" in caplog.text and "ERROR" not in caplog.text


def test_a_log_that_was_cut_off_and_is_produced_again_is_taken_over_anew() -> None:
    consumer = FakeConsumer(3, 7)
    stage = FakeStage(consumer, replaceable=True)
    lane = in_a_loop(reads_to_ten_and_meets_the_edge, stage)
    assert stage.taken_again == [lane] and lane.stall is None and not consumer.sought


def test_a_partition_that_nobody_could_go_on_with_takes_no_message() -> None:
    stage = FakeStage(FakeConsumer(20, 30))

    async def run() -> StalledLane:
        lane = StalledLane(stage, 0, 1, "it is gone")  # type: ignore[arg-type]
        lane.offer(batch(0))
        return lane

    lane = asyncio.run(run())
    assert lane.stalled == "it is gone" and not lane.waiting and stage.app.consumer.held == {HERE}


@pytest.mark.parametrize(
    ("sent", "seen", "expected"),
    [
        (900.0, 500.0, 100.0),  # by the timestamp
        (0.0, 7.0, 7.0),  # an old event, or no timestamp: since the brokers did not report the message
        (1_003.0, 7.0, 0.0),  # a clock that is ahead
    ],
)
def test_the_wait_of_a_partition_is_that_of_its_oldest_message(sent: float, seen: float, expected: float) -> None:
    asked: list[tuple[int, int]] = []

    def longest(partition: int, offset: int) -> float:
        asked.append((partition, offset))
        return seen

    async def work(lane: OpenLane, stage: FakeStage) -> None:
        lane.measure(1_000.0, longest)
        assert lane.wait == 0.0, "nothing waits"
        lane.offer(batch(0, timestamp=sent))
        lane.offer(batch(1, timestamp=999.0))
        lane.measure(1_000.0, longest)
        assert lane.wait == expected
        lane.next_run(1, 1)
        lane.next_run(1, 1)
        lane.measure(1_000.0, lambda partition, offset: 500.0)
        assert lane.wait == 1.0, "that of the message which was taken last"
        lane.measure(1_000.0, longest)
        assert lane.wait == 0.0

    in_a_loop(work, FakeStage(FakeConsumer(0, 9)))
    assert asked == [(0, 0)]


# --- Losses on the way that no later message reveals ----------------------------------------------------------------
OTHERS = 500
"""Messages of other partitions in the queue."""
LOOKS = 5
"""More looks than a loss needs to be found."""


async def a_batch_behind_those_of_others(lane: OpenLane, stage: FakeStage, *, lost: bool) -> None:
    """Batches of others leave the queue, a few between two looks, and the next one of the lane comes last, or never."""
    consumer: FakeConsumer = stage.app.consumer
    lane._sought_at = -SEEK_AGAIN_AFTER
    consumer.at, consumer.posted = 1, OTHERS + 1
    for gone in range(0, OTHERS, 7):
        consumer.gone = gone
        lane.look()
        consumer.posted += 1  # others never pause
        assert not stage.lost, "it may still be in the queue"
    if not lost:
        lane.offer(batch(0))
    consumer.gone = OTHERS + 1
    for _ in range(LOOKS):
        lane.look()
    await asyncio.gather(*lane._tasks)
    assert (stage.lost, consumer.sought) == ((1, [0]) if lost else (0, []))


@pytest.mark.parametrize("lost", [False, True])
def test_a_message_counts_as_lost_when_all_that_were_on_the_way_with_it_have_arrived(lost: bool) -> None:
    in_a_loop(lambda lane, stage: a_batch_behind_those_of_others(lane, stage, lost=lost), FakeStage(FakeConsumer(0, 9)))


def test_a_batch_that_was_used_in_part_brings_only_the_rest() -> None:
    async def work(lane: OpenLane, stage: FakeStage) -> None:
        lane.offer(batch(0, 1, 2))
        lane.offer(batch(1, 2, 4, 7, follows=1))
        lane.offer(batch(2, 4, follows=2))
        assert [message.offset for message in lane.waiting] == [0, 1, 2, 4, 7]

    in_a_loop(work, FakeStage(FakeConsumer(0, 9)))


@pytest.mark.parametrize(("count", "size"), [(4, 1), (1, 10_000)])
def test_a_partition_is_held_when_many_messages_or_many_bytes_wait_and_released_at_half(count: int, size: int) -> None:
    async def work(lane: OpenLane, stage: FakeStage) -> None:
        held = stage.app.consumer.held
        lane.offer(batch(0))
        assert not held
        lane.offer(batch(*range(1, count + 1), value=b"1" * size))
        assert held == {HERE}
        while lane.waiting:
            more = len(lane.waiting) > 2 or lane.waiting[-1].size > 5_000
            lane.next_run(1, 1)
            assert bool(held) == (more and bool(lane.waiting))

    in_a_loop(work, FakeStage(FakeConsumer(0, 9)))
