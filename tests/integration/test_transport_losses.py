"""Logs that lose records under a running stage: at the front by retention, at the end with an election, or whole."""

import asyncio
import logging

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from glasstream.events.message import Message
from glasstream.kafka.stages.health import StageHealth
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.stateless import StatelessStage
from tests.support.transport_harness import Total, Totals, make_topics, options, produce, read_all, running, total_stage
from tests.support.waiting import until


def make(kafka: str, prefix: str) -> str:
    """Make topics, one partition each; return their prefix."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("in", "state", "out")})
    return prefix


class Hesitant(Total):
    """Waits in the middle of a message until it is told to go on."""

    def __init__(self, partition: int, out: str) -> None:
        super().__init__(partition, out)
        self.go = asyncio.Event()

    async def use(self, message: Message) -> None:
        await self.go.wait()
        await super().use(message)


def remove(bootstrap: str, topic: str, before: int) -> None:
    place = TopicPartition(topic, 0, before)
    admin = AdminClient({"bootstrap.servers": bootstrap})  # kept alive until its future has ended
    admin.delete_records([place])[place].result(30)


def delete(bootstrap: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([topic])[topic].result(30)


WIDE = b"1" + b" " * 200_000
"""A message so large that 250 of them are more than a worker reads ahead of a stage that hesitates."""


def blocked_with_a_hole(kafka: str, prefix: str, replaceable: bool) -> tuple[list[int], str | None, float, int]:
    """Feed a stage that hesitates, remove what it has not read, let it go on; return what it was fed and says."""
    totals = Totals(prefix, Hesitant)
    source = f"{prefix}in"

    async def run() -> tuple[str | None, float, int]:
        stage = total_stage(Connection(kafka), prefix, totals, queue_messages=8)
        stage.replaceable = {source} if replaceable else set()
        stage.remedy = "lengthen the retention"
        health = StageHealth(stage, lambda: [])
        async with running(stage):
            await asyncio.to_thread(produce, kafka, source, [WIDE] * 300, batch=4)
            await until(lambda: stage.lanes[0].held)
            await asyncio.to_thread(remove, kafka, source, 250)
            totals.made[0].go.set()  # type: ignore[attr-defined]
            if replaceable:
                await until(lambda: totals.made[0].next == 300)
            else:
                await until(lambda: stage.lanes[0].stall is not None)
                await until(lambda: not stage.lanes[0].waiting and totals.made[0].pending() == 0)
            unready = health.unready()
            stalled = {sample.metric.name: sample.value for sample in health.samples()}["glasstream_stalled"]
        assert (stage.failure, stage.lost) == (None, 0)
        return unready, stalled, stage.lost

    unready, stalled, lost = asyncio.run(run())
    return totals.made[0].fed, unready, stalled, lost


def test_retention_that_overtakes_a_running_stage_stops_the_partition_before_the_hole(
    kafka: str, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Only a broker removes records. A hole in what is produced again is passed over."""
    topics = make(kafka, prefix)
    with caplog.at_level(logging.WARNING):
        fed, unready, stalled, _ = blocked_with_a_hole(kafka, topics, replaceable=False)
    assert fed == list(range(len(fed))) and 0 < len(fed) < 250, "nothing beyond the hole is used"
    assert unready is not None and f"{topics}in[0]: the broker removed offsets {len(fed)} to 249" in unready
    assert "lengthen the retention" in unready and stalled == 1.0
    assert [record.levelname for record in caplog.records if "removed offsets" in record.message] == ["ERROR"]
    assert len(read_all(kafka, f"{topics}out")[0]) == len(fed)
    # A restart meets the same, and stays as well.
    totals = Totals(topics)

    async def again() -> str | None:
        stage = total_stage(Connection(kafka), topics, totals)
        async with running(stage):
            await until(lambda: stage.settled)
            return StageHealth(stage, lambda: []).unready()

    said = asyncio.run(again())
    assert said is not None and f"again from offset {len(fed)}, but the broker keeps it from 250 on" in said
    assert totals.counted() == 0

    topics = make(kafka, f"{prefix}replaceable.")
    fed, unready, stalled, _ = blocked_with_a_hole(kafka, topics, replaceable=True)
    first = fed.index(250)
    assert fed == [*range(first), *range(250, 300)] and 0 < first < 250
    assert unready is None and stalled == 0.0
    assert f"{topics}in[0]: the broker removed offsets {first} to 249 before they were read" in caplog.text


def test_a_log_that_is_shorter_than_what_was_read_of_it_stops_the_partition(kafka: str, prefix: str) -> None:
    """Only a broker deletes a topic under a consumer. One that is produced again is read from its start."""
    topics = make(kafka, prefix)
    totals = Totals(topics)
    source = f"{topics}in"

    async def run() -> str:
        stage = total_stage(Connection(kafka), topics, totals, look_interval=0.5)
        stage.remedy = "another prefix"
        health = StageHealth(stage, lambda: [])
        async with running(stage):
            produce(kafka, source, [b"1"] * 20)
            await until(lambda: totals.counted() == 20)
            async with asyncio.timeout(60):  # until they are committed too
                while len((await asyncio.to_thread(read_all, kafka, f"{topics}out"))[0]) < 20:
                    pass
            await asyncio.to_thread(delete, kafka, source)
            await until(lambda: health.unready() is not None)
            await asyncio.to_thread(make_topics, kafka, {source: 1})
            await asyncio.to_thread(produce, kafka, source, [b"1"] * 5)
            await until(lambda: any(lane.stall for lane in stage.lanes.values()))
            said = health.unready() or ""
        assert stage.failure is None
        return said

    said = asyncio.run(run())
    assert "20" in said and "another prefix" in said
    assert totals.counted() == 0 and max(state.count for state in totals.made) == 20, "nothing of the new one is used"
    assert len(read_all(kafka, f"{topics}out")[0]) == 20
    read_a_shorter_log_of_what_is_produced_again(kafka, make(kafka, f"{prefix}replaceable."))


def read_a_shorter_log_of_what_is_produced_again(kafka: str, topics: str) -> None:
    source = f"{topics}in"
    seen: list[int] = []

    async def handle(message: Message) -> list[ProducerRecord]:
        seen.append(message.offset)
        return [ProducerRecord(f"{topics}out", message.key, message.value, 0)]

    async def run() -> None:
        stage = StatelessStage(
            Connection(kafka), options(topics, look_interval=0.5), input_topic=source, handle=handle,
            topics={f"{topics}out": 1},
        )  # fmt: skip
        stage.replaceable = {source}
        async with running(stage):
            produce(kafka, source, [b"1"] * 20)
            await until(lambda: len(seen) == 20)
            await asyncio.to_thread(delete, kafka, source)
            await asyncio.to_thread(make_topics, kafka, {source: 1})
            await asyncio.to_thread(produce, kafka, source, [b"1"] * 5)
            await until(lambda: len(seen) >= 25)
        assert stage.failure is None

    asyncio.run(run())
    assert seen[:20] == list(range(20)) and set(seen[20:]) == set(range(5))
