"""A partition whose log lacks the next messages to read."""

import asyncio
import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from glasstream.kafka.transport.lane import SEEK_AGAIN_AFTER, Lane, StalledLane
from glasstream.kafka.transport.passage import Passage

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
        self.skipped: list[int] = []
        self.sought: list[int] = []
        self.passage = Passage(queue=asyncio.Queue())

    async def seek_back(self, tp: TP, offset: int) -> bool:
        self.sought.append(offset)
        return True

    async def bounds(self, tp: TP) -> tuple[int, int]:
        return self.kept

    def handed(self, tp: TP) -> int:
        return self.at

    def hold(self, tp: TP) -> None:
        self.held.add(tp)

    def release(self, tp: TP) -> None:
        self.held.discard(tp)

    async def skip(self, tp: TP, offset: int) -> bool:
        self.skipped.append(offset)
        return True


class FakeStage:
    """A stage with one lane, whose input is produced again or not."""

    input_topic = "in"
    remedy = "do this"

    def __init__(self, consumer: FakeConsumer, replaceable: bool = False) -> None:
        self.replaceable_input = replaceable
        self.app = SimpleNamespace(consumer=consumer)
        self.options = SimpleNamespace(queue_messages=4)
        self.taken_again: list[Lane] = []
        self.failure: Exception | None = None
        self.lost = 0

    def fail(self, error: Exception) -> None:
        self.failure = error

    def take_again(self, lane: Lane) -> None:
        self.taken_again.append(lane)


def event(offset: int, follows: int | None = None, timestamp: float = 0.0, value: bytes = b"1") -> Any:
    message = SimpleNamespace(
        topic="in", partition=0, offset=offset, follows=offset if follows is None else follows, key=None, value=value,
        headers=(), timestamp=timestamp,
    )  # fmt: skip
    return SimpleNamespace(message=message)


def in_a_loop(work: Callable[[OpenLane, FakeStage], Any], stage: FakeStage) -> OpenLane:
    async def run() -> OpenLane:
        lane = OpenLane(stage, 0, 1)  # type: ignore[arg-type]
        lane.begin(0)
        await work(lane, stage)
        return lane

    return asyncio.run(run())


async def reads_to_ten_and_meets_the_edge(lane: OpenLane, stage: FakeStage) -> None:
    """Ten messages leave the consumer; the last arrive while it is asked for bounds."""
    for offset in range(6):
        lane.offer(event(offset))
    stage.app.consumer.at = 10
    meeting = asyncio.ensure_future(lane.out_of_range(10))
    await asyncio.sleep(0)
    for offset in range(6, 10):
        lane.offer(event(offset))
    await meeting
    lane.offer(event(25, follows=10))


@pytest.mark.parametrize(("low", "high"), [(20, 30), (0, 7), (0, 12)])
def test_what_is_lost_of_the_users_log_stops_the_partition_and_is_told_once(
    low: int, high: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Removed by retention; cut off; cut off and written anew beyond where it was read to."""
    consumer = FakeConsumer(low, high)
    with caplog.at_level(logging.WARNING):
        lane = in_a_loop(reads_to_ten_and_meets_the_edge, FakeStage(consumer))
    assert [message.offset for _, message in lane.waiting] == list(range(10)), "all before it, and nothing after"
    assert lane.stall is not None and lane.stall.endswith("; do this")
    assert ("offsets 10 to 19" in lane.stall) is (low > 10)
    assert (f"before offset 10 was read, but the broker lost the end of the log: it ends at {high}" in lane.stall) is (
        low <= 10
    )
    assert consumer.held == {HERE} and not consumer.skipped
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_stalled_partition_stays_held_when_its_messages_are_used_up() -> None:
    consumer = FakeConsumer(20, 30)
    lane = in_a_loop(reads_to_ten_and_meets_the_edge, FakeStage(consumer))
    while lane.waiting:
        lane.next_waiting()
    assert consumer.held == {HERE}


def test_a_partition_whose_message_waits_takes_and_reads_on() -> None:
    """The wait ends before the lane hears of it; what has arrived meanwhile is used, and more is asked for."""
    consumer = FakeConsumer(0, 30)

    async def waits(lane: OpenLane, stage: FakeStage) -> None:
        for offset in range(4):
            lane.offer(event(offset))
        assert consumer.held == {HERE}
        lane.waits = "a model cannot be opened"
        lane.next_waiting()
        lane.offer(event(4))
        while lane.waiting:
            lane.next_waiting()

    lane = in_a_loop(waits, FakeStage(consumer))
    assert lane.stalled == "a model cannot be opened" and not consumer.held
    assert lane.sequence is not None and lane.sequence.next_offset == 5


def test_a_run_is_bounded_in_messages_and_bytes_and_reading_goes_on_when_few_are_left() -> None:
    consumer = FakeConsumer(0, 30)

    async def takes(lane: OpenLane, stage: FakeStage) -> None:
        for offset in range(10):
            lane.offer(event(offset, value=b"x" * 10))
        assert [message.offset for _, message in lane.next_run(2, 1_000)] == [0, 1] and consumer.held
        assert [message.offset for _, message in lane.next_run(100, 0)] == [2]
        assert [message.offset for _, message in lane.next_run(100, 25)] == [3, 4, 5] and consumer.held
        assert [message.offset for _, message in lane.next_run(100, 1_000)] == [6, 7, 8, 9] and not consumer.held

    in_a_loop(takes, FakeStage(consumer))


def test_a_hole_in_what_is_produced_again_is_gone_over(caplog: pytest.LogCaptureFixture) -> None:
    consumer = FakeConsumer(20, 30)
    with caplog.at_level(logging.WARNING):
        lane = in_a_loop(reads_to_ten_and_meets_the_edge, FakeStage(consumer, replaceable=True))
    assert lane.stall is None and consumer.skipped == [20]
    assert [message.offset for _, message in lane.waiting] == [*range(10), 25]
    assert "removed offsets 10 to 19" in caplog.text and "ERROR" not in caplog.text


def test_a_log_that_was_cut_off_and_is_produced_again_is_taken_over_anew() -> None:
    consumer = FakeConsumer(3, 7)
    stage = FakeStage(consumer, replaceable=True)
    lane = in_a_loop(reads_to_ten_and_meets_the_edge, stage)
    assert stage.taken_again == [lane] and lane.stall is None and not consumer.skipped


def test_a_partition_that_nobody_could_go_on_with_takes_no_message() -> None:
    stage = FakeStage(FakeConsumer(20, 30))

    async def run() -> StalledLane:
        lane = StalledLane(stage, 0, 1, "it is gone")  # type: ignore[arg-type]
        lane.offer(event(0))
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
        lane.offer(event(0, timestamp=sent))
        lane.offer(event(1, timestamp=999.0))
        lane.measure(1_000.0, longest)
        assert lane.wait == expected
        lane.next_waiting()
        lane.next_waiting()
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


async def a_message_behind_those_of_others(lane: OpenLane, stage: FakeStage, *, lost: bool) -> None:
    """Messages of others arrive, a few between two looks, and the next message of the lane comes last, or never."""
    consumer: FakeConsumer = stage.app.consumer
    passage = consumer.passage
    lane._sought_at = -SEEK_AGAIN_AFTER
    consumer.at = 1
    for _ in range(LOOKS):
        lane.look()
    assert not stage.lost, "it may still be put into the queue"
    passage.rounds += 1
    for number in range(OTHERS):
        passage.queue.put_nowait(number)
    if not lost:
        passage.queue.put_nowait(event(0))
    while not passage.queue.empty():
        lane.look()
        assert not stage.lost, "it may still be in the queue"
        for _ in range(min(7, passage.queue.qsize())):
            arrived = passage.queue.get_nowait()
            passage.arrived += 1
            if not isinstance(arrived, int):
                lane.offer(arrived)
    for _ in range(LOOKS):
        lane.look()
    await asyncio.gather(*lane._tasks)
    assert (stage.lost, consumer.sought) == ((1, [0]) if lost else (0, []))


@pytest.mark.parametrize("lost", [False, True])
def test_a_message_counts_as_lost_when_all_that_were_on_the_way_with_it_have_arrived(lost: bool) -> None:
    in_a_loop(
        lambda lane, stage: a_message_behind_those_of_others(lane, stage, lost=lost), FakeStage(FakeConsumer(0, 9))
    )


def test_a_loss_is_found_while_other_partitions_never_pause() -> None:
    """The queue is never empty, but what was in it has arrived."""

    async def busy(lane: OpenLane, stage: FakeStage) -> None:
        consumer: FakeConsumer = stage.app.consumer
        lane._sought_at, consumer.at = -SEEK_AGAIN_AFTER, 1
        for number in range(3 * OTHERS):
            consumer.passage.queue.put_nowait(number)
        for _ in range(LOOKS):
            lane.look()
            consumer.passage.rounds += 1
            consumer.passage.arrived += OTHERS
        await asyncio.gather(*lane._tasks)
        assert stage.lost == 1 and consumer.sought == [0]

    in_a_loop(busy, FakeStage(FakeConsumer(0, 9)))
