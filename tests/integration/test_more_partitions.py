"""Partitions are added to a topic of the users while stages run, and then to all topics."""

import asyncio
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewPartitions
from msgspec.structs import replace

from glasstream.app.brokers.local.node import free_ports
from glasstream.app.configuration import load
from glasstream.app.operate.topics import create, expand, verify
from glasstream.base.errors import TopicError
from glasstream.kafka.stages.health import StageHealth
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.lane import StalledLane
from glasstream.kafka.transport.stateful import StatefulStage
from tests.support.deployment import Deployment
from tests.support.transport_harness import Totals, make_topics, numbers, options, produce, read_all, running, sums
from tests.support.waiting import until, wait_for


def add_partitions(bootstrap: str, topic: str, count: int) -> None:
    """Return when the broker lists the partitions, which is later than the answer of the controller."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_partitions([NewPartitions(topic, count)]).values():
        future.result()
    wait_for("the partitions", lambda: len(admin.list_topics(topic, timeout=10.0).topics[topic].partitions) == count)


def stage_for_one(kafka: str, prefix: str, totals: Totals) -> StatefulStage:
    """Return a stage of a deployment whose `events` has one partition."""
    return StatefulStage(
        Connection(kafka), options(prefix), input_topic=f"{prefix}events", state_topic=f"{prefix}state",
        make_state=totals, topics={f"{prefix}events": 1, f"{prefix}out": None}, commit_interval=0.1,
    )  # fmt: skip


def test_a_stage_continues_with_the_partitions_it_was_made_for_and_says_what_to_do(kafka: str, prefix: str) -> None:
    """Only a broker adds partitions, and tells a group so."""
    make_topics(kafka, {f"{prefix}{name}": 1 for name in ("events", "state", "out")})

    def published() -> int:
        return len(read_all(kafka, f"{prefix}out")[0])

    async def run(first: int, *, add: bool) -> str | None:
        stage = stage_for_one(kafka, prefix, Totals(prefix))
        async with running(stage):
            if add:
                add_partitions(kafka, f"{prefix}events", 3)
                await stage.app.consumer.refresh()
            await until(lambda: {1, 2} <= stage.lanes.keys() and stage.settled)
            assert [type(stage.lanes[number]) is StalledLane for number in range(3)] == [False, True, True]
            produce(kafka, f"{prefix}events", [b"1000"], 2)
            produce(kafka, f"{prefix}events", numbers(first, first + 5))
            await until(lambda: published() == first + 5)
            assert stage.failure is None
            return StageHealth(stage, lambda: ()).unready()

    for said in (asyncio.run(run(0, add=True)), asyncio.run(run(5, add=False))):
        assert said is not None and said.count("has 3 partitions, but this deployment was made for 1") == 1
        assert f"{prefix}events[1], {prefix}events[2]" in said and "messages of partitions 1 to 2 are not read" in said
        assert "glasstream topics expand --set topics.events=3" in said
    assert read_all(kafka, f"{prefix}out")[0] == sums(10)


def test_all_topics_are_expanded_by_one_command_or_none_is(kafka: str, prefix: str) -> None:
    """Only a broker adds partitions."""
    given = [f"broker={kafka}", f"prefix={prefix}", "topics.requests=2"]
    two, four = load(assignments=[*given, "topics.events=2"]), load(assignments=[*given, "topics.events=4"])
    with pytest.raises(TopicError, match="create them first"):
        expand(four)
    create(two)
    assert expand(two) == []
    add_partitions(kafka, f"{prefix}events", 4)
    with pytest.raises(TopicError, match=rf"{prefix}events has 4 instead of 2"):
        expand(two)
    lines = expand(four)
    assert f"{prefix}progress.learner: 2 partitions before, 4 now" in lines
    assert not any(line.startswith(f"{prefix}events:") for line in lines)
    assert verify(four) == [] and expand(four) == []


@pytest.mark.slow
def test_a_deployment_survives_more_partitions_and_reads_them_once_all_are_expanded(
    deploy: Callable[..., Deployment], tmp_path: Path
) -> None:
    deployment = deploy("model.name=linear", "topics.events=2", "topics.requests=2", "publish.every=50")
    (port,) = free_ports(1)
    (name,) = {
        topic.full_name(deployment.settings.prefix)
        for topic in deployment.settings.all_topics
        if topic.name == "events"
    }

    def rows(count: int) -> bytes:
        return orjson.dumps(
            [{"x": {"a": number % 13, "b": number % 7}, "y": number % 13 > 6} for number in range(count)]
        )

    def readiness() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10.0) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()
        except OSError as error:
            return repr(error)

    deployment.start("aggregator")
    deployment.start("explainer")
    deployment.start("learner", GLASSTREAM_HEALTH_PORT=str(port))
    deployment.send(rows(200), key=b"s", partition=1)
    wait_for("200 rows", lambda: deployment.aggregated("s") >= 200)
    add_partitions(deployment.settings.broker or "", name, 4)
    wait_for("the reason", lambda: "has 4 partitions, but this deployment was made for 2" in readiness())
    deployment.send(rows(200), key=b"s", partition=1)
    wait_for("400 rows", lambda: deployment.aggregated("s") >= 400)
    produce(deployment.settings.broker or "", name, [rows(200)], 3, key=b"u")  # its producer knows of two partitions
    for worker in list(deployment.workers):
        assert deployment.stop(worker) == 0, deployment.log(worker)

    wider = replace(deployment.settings, epoch=1, topics=replace(deployment.settings.topics, events=4))
    expand(wider)
    after = Deployment(wider, tmp_path)
    try:
        after.start_all()
        wait_for("200 rows of the new partition", lambda: after.aggregated("u") >= 200)
    finally:
        after.end()
