"""Data in flight fits what the embedded broker keeps of a partition, however wide the stream is."""

import asyncio
from collections import Counter

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.app.runner.prepare import for_embedded
from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.kafka.health import catalogue
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.explainer import ExplainerTask
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.models.codec import snapshot as codec
from glasstream_topics import contributions, requests, snapshots

KEPT = 5 * 1024 * 1024
KEY = b"a key of sixteen bytes"


def events(count: int, features: int, classes: int, end: int) -> list[bytes]:
    return [
        orjson.dumps(
            [
                {
                    "x": {f"f{j}": (i * 7919 + j * j) % 101 / 7 for j in range(features)},
                    "y": str(i * 13 % classes) if classes else i % 17 / 4,
                }
                for i in range(at, at + count)
            ]
        )
        for at in range(0, end, count)
    ]


@pytest.mark.parametrize(
    ("features", "classes", "more"),
    [(10, 10, ()), (16, 2, ()), (120, 0, ()), (21, 40, ("ipdp.points=50",)), (30, 2, ("isage.fresh=true",))],
)
def test_no_more_waits_for_a_stopped_aggregator_than_the_embedded_broker_keeps(
    features: int, classes: int, more: tuple[str, ...]
) -> None:
    settings = for_embedded(
        load(assignments=["model.name=linear", "explain.methods=ipfi,isage,ipdp", "topics.events=1", *more])
    )
    learner = LearnerTask(0, settings, KEY, AggregatorProgress(), lambda topic, number: {})
    sent: Counter[str] = Counter()
    models = snapshots.Assembler(2**26)

    async def run() -> None:
        async def feed() -> None:
            for offset, value in enumerate(events(50, features, classes, 6_000)):
                await learner.feed([Message("events", 0, offset, b"s", value)])

        feeding = asyncio.ensure_future(feed())
        while True:
            await asyncio.sleep(0.001)
            outputs = learner.collect()
            if not outputs and (learner._holding_back or feeding.done()):
                break
            for record in (*outputs.before, *outputs.records):
                topic = record.topic.removeprefix(settings.prefix)
                if topic == "snapshots":
                    models.add(record.key or b"", record.value)
                if topic in ("explain.requests", "snapshots"):
                    sent[topic] += len(record.value or b"")
                if topic == "explain.requests":
                    block = requests.decode(record.value or b"")
                    data = models.get(block.stream, block.epoch, block.version) or b""
                    answers = explain(block, None if block.refused else codec.decode(data, key=KEY))
                    sizes = [len(contributions.encode(answer)) for answer in answers]
                    assert max(*sizes, len(record.value or b"")) < 1_000_000
                    sent["contributions"] += sum(sizes)
                    sent["rows"] += block.count
        assert not feeding.done(), "the bound was not reached"
        feeding.cancel()

    asyncio.run(run())
    assert sent["rows"] > 20
    for topic in ("explain.requests", "contributions", "snapshots"):
        assert 0 < sent[topic] < 0.9 * KEPT, (topic, sent)


def test_rows_that_are_too_wide_are_answered_and_are_no_errors_of_the_model() -> None:
    settings = load(assignments=["model.name=linear", "topics.events=1"])
    learner = LearnerTask(0, settings, KEY, AggregatorProgress(), lambda topic, number: {})
    asyncio.run(learner.feed([Message("events", 0, 0, b"s", events(400, 3, 2, 400)[0])]))
    explainer = ExplainerTask(settings, KEY, AggregatorProgress())
    blocks = [
        requests.decode(record.value or b"")
        for record in learner.collect().records
        if record.topic.removeprefix(settings.prefix) == "explain.requests"
    ]
    assert blocks
    for block in blocks:
        value = requests.encode(requests.refused(block, "it is too wide"))
        (record,) = asyncio.run(explainer.handle(Message("explain.requests", 0, 0, b"s/1", value)))
        answer = contributions.decode(record.value or b"")
        assert (answer.kind, answer.reason, answer.count) == ("failed", "it is too wide", block.count)
    found = {sample.metric: sample.value for sample in explainer.samples()}
    assert found[catalogue.FAILED] == 0 and found[catalogue.EXPLAINED] == 0
