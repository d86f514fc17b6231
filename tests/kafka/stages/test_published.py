"""The metrics that fresh workers publish. An alert cannot count a series that does not exist."""

import asyncio
from collections.abc import Iterable

import pytest

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.flow.notify_settings import NotifySettings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages import checkpoints as stage_checkpoints
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.learner import LearnerTask, samples
from glasstream.kafka.stages.notify import Notifier
from glasstream.kafka.stages.webhook import Webhook
from glasstream_topics import events
from glasstream_topics.events_dead import Reason
from tests.support.logs import messages

SETTINGS = ("model.name=linear", "model.task=classification", "explain.methods=ipfi")


def learner(number: int = 0, *more: str) -> LearnerTask:
    settings = load(assignments=[*SETTINGS, *more])
    return LearnerTask(number, settings, b"k" * 32, AggregatorProgress(), lambda topic, partition: {})


def told(published: Iterable[Sample]) -> dict[tuple[str, ...], float]:
    return {(metric.name, *labels): value for metric, value, labels in published}


def test_a_fresh_worker_publishes_its_counters_from_0_on() -> None:
    fresh = told(learner(3).samples())
    for reason in Reason:
        assert fresh["glasstream_dead_letters", reason, "3"] == 0
    bounds = {name[1]: value for name, value in fresh.items() if name[0] == "glasstream_bound_hits"}
    assert {"limits.streams", "limits.waiting_bytes"} < set(bounds) and set(bounds.values()) == {0}
    aggregator = told(AggregatorTask(3, load(assignments=SETTINGS)).samples())
    assert aggregator["glasstream_damaged_messages", "3"] == aggregator["glasstream_blocks_over", "3"] == 0
    assert aggregator["glasstream_records", "importance", "3"] == 0


def test_a_fresh_notifier_publishes_its_counters_from_0_on() -> None:
    fresh = told(Notifier(NotifySettings(), Webhook("https://hooks.example.org/a", 1.0)).samples())
    posts = {("glasstream_webhook_posts", outcome): 0 for outcome in ("ok", "refused", "failed")}
    assert fresh == {("glasstream_damaged_messages", ""): 0, ("glasstream_incidents_skipped",): 0, **posts}


def test_counters_are_those_of_one_partition() -> None:
    """A sum over the partitions of a worker would fall when one leaves it, which reads as a restart with new counts."""

    partitions = [learner(number) for number in (0, 1)]
    asyncio.run(partitions[0].feed([Message("events", 0, 0, b"s", b"no event")]))
    partitions[0].collect()
    both, one = told(samples(partitions)), told(samples(partitions[1:]))
    assert both["glasstream_dead_letters", Reason.WRONG_PARTITION, "0"] == 1
    assert one == {name: value for name, value in both.items() if name in one}


def test_the_age_of_a_checkpoint_that_was_never_made_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A learner of which no checkpoint succeeds must not look like one that makes none."""
    now = [1_000.0]
    monkeypatch.setattr(stage_checkpoints, "perf_counter", lambda: now[0])
    settings = load(assignments=SETTINGS)
    home = events.partition(b"s", settings.topics.events)
    partition = learner(home)
    for offset, value in enumerate(messages(0, 600)):
        asyncio.run(partition.feed([Message("events", home, offset, b"s", value)]))
    now[0] += 100.0
    found = {sample.metric: sample.value for sample in partition.samples()}
    assert found[catalogue.CHECKPOINTS] == 0
    assert found[catalogue.CHECKPOINT_AGE] == 100.0
