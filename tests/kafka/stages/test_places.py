"""A producer that puts the id of a user into the key: streams of few events give up their places, by the log alone."""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.limits import IngestLimits
from glasstream.events.message import Message
from glasstream.events.places import TURNS, Places
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import MOST_STREAMS
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.learner import LearnerTask
from glasstream_topics import events, predictions, progress_learner
from glasstream_topics.events_dead import Reason
from tests.support.examples import examples
from tests.support.logs import event
from tests.support.pipeline_in_memory import CRASHES, Pipeline
from tests.support.pipeline_settings import PUBLIC, WATCHED, settings

FEW = ("limits.streams=3", "topics.events=1", "topics.requests=2")
"""A stream is idle after 30 messages, and keeps its place from 10 events on (`explain.reservoir`)."""
Sent = tuple[bytes | None, bytes | None]


def log(junk: int, each: int = 2) -> list[Sent]:
    """Users with a few events each; among them streams that are meant, of which `late` begins at the end."""
    values: list[Sent] = []
    for number in range(junk):
        made = [event(each * number + place) for place in range(each)]
        values.append((b"user-%d" % number, orjson.dumps(made)))
        if number % 3 == 1:
            values.append((b"meant", orjson.dumps([event(number + place) for place in range(3)])))
    values += [(b"late", orjson.dumps([event(number + place) for place in range(4)])) for number in range(40)]
    values.append((b"user-0", orjson.dumps(event(0))))
    return [*values, (b"meant", events.FLUSH), (b"late", events.FLUSH)]


@pytest.mark.parametrize("more", [(), WATCHED, ("checkpoint.seconds=0",), ("model.name=tree",)], ids=str)
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_whatever_happens_the_same_streams_have_places(more: tuple[str, ...], seed: int) -> None:
    pipeline = Pipeline(settings(*more, *FEW), seed).run(log(120), faults=20)
    found, expected = pipeline.published(*PUBLIC), pipeline.expected(*PUBLIC)
    assert found == expected
    assert {("importance", "meant"), ("importance", "late"), ("predictions", "user-0")} <= found.keys()
    first, again = (predictions.decode(value).epoch for value in found["predictions", "user-0"][::2])
    assert first == 0 < again, "expected the stream that comes back in a later epoch"
    newest = pipeline.log.partitions["progress.learner", 0].newest()
    restored = progress_learner.restore(newest)
    assert len(restored.streams) == 3 and restored.streams.keys() >= {"meant", "late"}
    kept = {key for key in pipeline.log.partitions["checkpoints", 0].newest() if b"/".join(key.split(b"/")[:-3])}
    assert {key.rsplit(b"/", 3)[0].decode() for key in kept} <= restored.streams.keys()


@pytest.mark.parametrize("stage", ["learner", "novelty"])
@pytest.mark.parametrize("point", CRASHES)
def test_a_worker_that_dies_at_any_point_knows_which_streams_have_places(stage: str, point: str) -> None:
    pipeline = Pipeline(settings(*WATCHED, *FEW), explainers=1)

    async def play() -> None:
        for key, value in log(60):
            pipeline.log.send(key, value)
            await pipeline.step()
            pipeline.kill(stage, 0, point)
        await pipeline.finish()

    pipeline.drive(play)
    assert pipeline.published(*PUBLIC) == pipeline.expected(*PUBLIC)


def _messages(values: list[Sent]) -> Iterator[Message]:
    return (Message("events", 0, offset, key, value) for offset, (key, value) in enumerate(values))


def test_learner_and_novelty_detector_give_places_to_the_same_streams() -> None:
    chosen = settings(*FEW)
    learner, detector = PartitionLearner(0, chosen), PartitionDetector(chosen)
    for message in _messages(log(120)):
        for _ in learner.consume(message):
            pass
        for _ in detector.consume(message):
            pass
        assert learner.streams.keys() == detector.streams.keys() and learner.begins_in == detector.begins_in
    assert learner.gave_up == len(detector.forgotten) > 5


def test_a_refused_stream_is_told_what_the_key_is_for() -> None:
    letters = [
        orjson.loads(record) for topic, record in Reference(settings(*FEW)).run(log(120)) if topic == "events.dead"
    ]
    assert Counter(one["reason"] for one in letters).keys() == {Reason.TOO_MANY_STREAMS}
    assert (
        "3 of these 3 streams have fewer than 10 events (explain.start), and all have 7 together: is the key the id"
        in letters[1]["detail"]
    )
    many = [(b"s%d" % (number % 4), orjson.dumps([event(number + k) for k in range(12)])) for number in range(40)]
    details = [
        orjson.loads(record)["detail"]
        for topic, record in Reference(settings(*FEW)).run(many)
        if topic == "events.dead"
    ]
    assert len(details) == 10 and not any("is the key" in one for one in details)
    assert all(
        "expected at most 3 streams on a partition (limits.streams), got one more, 's3'" in one for one in details
    )


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), max_size=120))
@examples(200)
def test_a_place_is_given_up_by_the_longest_idle_of_those_with_few_events(steps: list[tuple[int, int]]) -> None:
    """Against a plain reading of the rule, also after a restart at any moment."""
    limits = IngestLimits(streams=2)
    places = Places(limits, few=6)
    known: dict[str, tuple[int, int]] = {}
    for offset, (number, accepted) in enumerate(steps):
        name, offset = str(number), 7 * offset
        if number == 9:
            places = Places(limits, few=6)
            places.restart((name, *one) for name, one in reversed(known.items()))
        known[name] = offset, known.get(name, (0, 0))[1] + accepted
        places.note(name, *known[name])
        idle = [
            (newest, name)
            for name, (newest, count) in known.items()
            if count < 6 and offset + 1 - newest > TURNS * limits.streams
        ]
        assert places.idle(offset + 1) == min(idle, default=(0, None))[1]
        if idle:
            places.forget(min(idle)[1])
            del known[min(idle)[1]]
    total, small = sum(count for _, count in known.values()), sum(count < 6 for _, count in known.values())
    asks = f"{small} of these {len(known)} streams have fewer than 6 events (explain.start), and all have {total} "
    assert (asks in places.refusal("x")[1]) == (2 * small > len(known))


def _task(chosen: Settings) -> LearnerTask:
    task = LearnerTask(0, chosen, None, AggregatorProgress(), lambda topic, partition: {})
    task.restore({}, 0, 0)
    return task


def _fed(task: LearnerTask, values: list[Sent], first: int = 0) -> int:
    async def feed() -> None:
        for offset, (key, value) in enumerate(values, first):
            await task.feed([Message("events", 0, offset, key, value)])

    asyncio.run(feed())
    return first + len(values)


def test_a_commit_encodes_the_progress_of_the_streams_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A law of counts: with 400 idle streams a commit does what it does with 4."""
    encoded: Counter[str] = Counter()
    looked: Counter[str] = Counter()
    encode = progress_learner.encode

    def counted(record: progress_learner.LearnerPartitionProgress | progress_learner.LearnerStreamProgress):
        encoded[type(record).__name__] += 1
        return encode(record)

    monkeypatch.setattr(progress_learner, "encode", counted)
    work = {}
    for idle in (4, 400):
        task = _task(settings("topics.events=1", "limits.streams=1000", "checkpoint.seconds=0"))
        offset = _fed(task, [(b"idle-%d" % number, orjson.dumps(event(number))) for number in range(idle)])
        assert task.collect()
        for stream in task.core.streams.values():
            cut = stream.learner.cut
            name = stream.learner.stream
            monkeypatch.setattr(stream.learner, "cut", lambda cut=cut, name=name: (looked.update([name]), cut()))
        encoded.clear()
        looked.clear()
        for number in range(5):
            offset = _fed(task, [(b"idle-1", orjson.dumps(event(number)))], offset)
            outputs = task.collect()
            assert [record.key for record in outputs.progress[1:]] == [b"idle-1"]
            assert not task.collect().progress
        assert looked.keys() == {"idle-1"}
        work[idle] = encoded | looked
    assert work[4] == work[400]
    assert work[4]["LearnerPartitionProgress"] == work[4]["LearnerStreamProgress"] == 5


def test_metrics_name_the_largest_streams_and_count_the_others(caplog: pytest.LogCaptureFixture) -> None:
    task = _task(settings("model.name=linear", "topics.events=1", "limits.streams=250"))
    values = [(b"user-%d" % number, orjson.dumps(event(number))) for number in range(300)]
    values.append((b"user-7", orjson.dumps([event(1), event(2)])))
    with caplog.at_level(logging.INFO):
        _fed(task, values)
        task.collect()
    assert sum("classification, model linear" in line for line in caplog.messages) == 11
    samples = list(task.samples())
    named = {one.labels[0] for one in samples if one.metric is catalogue.EVENTS}
    assert len(named) == MOST_STREAMS and "user-7" in named
    assert [one.value for one in samples if one.metric is catalogue.STREAMS_LEFT_OUT] == [50]
    assert [one.value for one in samples if one.metric is catalogue.STREAMS] == [250]
    bounds = {one.labels[0]: one.value for one in samples if one.metric is catalogue.BOUND_HIT}
    assert bounds["limits.streams"] == 50 and bounds["limits.waiting_bytes"] == 0
    assert len(samples) < 15 * MOST_STREAMS
