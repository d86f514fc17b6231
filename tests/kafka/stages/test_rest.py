"""Streams that rest: a restart asks for no event that retention has removed, and changes nothing."""

import asyncio
import random

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import LostInputError, StateError
from glasstream.events.message import Message, Position
from glasstream.kafka.stages import checkpoints as stage_checkpoints
from glasstream.kafka.stages.aggregator_progress import ALL
from glasstream_topics import checkpoints, events
from tests.support.logs import event
from tests.support.reset_cluster import SETTINGS, Cluster, packed, reference


def unlabelled(first: int, end: int) -> bytes:
    return orjson.dumps([{name: value for name, value in event(n).items() if name != "y"} for n in range(first, end)])


RARE = [
    *packed(0, 3, b"begun"),
    *packed(0, 30, b"between"),
    (b"flushed", packed(0, 40)[0][1]),
    (b"flushed", events.FLUSH),
    (b"unlabelled", unlabelled(0, 5)),
    (b"rejected", orjson.dumps({"x": {"a": 1}, "y": 0.5})),
    (b"unknown", orjson.dumps({"id": "nobody", "y": True})),
    *packed(0, 36, b"reset"),
    (b"reset", events.RESET),
]
"""Streams that send a little and then nothing for long."""
BUSY = packed(0, 72, b"busy")
LATER = [
    (key, value)
    for parts in zip(*(packed(72, 108, key) for key in dict.fromkeys(key for key, _ in [*RARE, *BUSY])), strict=True)
    for key, value in parts
]
"""And then all of them go on."""
MODELS = {"compiled": "model.name=tree", "not compiled": "model.name=river.neighbors:KNNClassifier"}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_after_retention_every_stream_goes_on(model: str, times: int) -> None:
    """Restarted where nothing is kept any more of what came before, once or again and again."""
    more = MODELS[model]
    log = [*RARE, *BUSY]
    cluster = Cluster(log, load(assignments=[*SETTINGS, more]))
    asyncio.run(cluster.run())
    for _ in range(times):
        cluster.low = len(cluster.log)
        asyncio.run(cluster.run())
    cluster.log = [*log, *LATER, *((key, events.FLUSH) for key in dict.fromkeys(key for key, _ in log))]
    asyncio.run(cluster.run())
    assert dict(cluster.published) == reference(cluster.log, more)
    assert cluster.over == cluster.damage == 0


def test_checkpoints_are_in_memory_once_while_a_learner_takes_over() -> None:
    """A thousand wide streams have hundreds of megabytes of them."""
    cluster = Cluster(BUSY, load(assignments=SETTINGS))
    asyncio.run(cluster.run())
    records = dict(cluster.state["checkpoints"])
    end = Position(len(BUSY), 0)
    found = cluster.learner()._checkpoints.restore(records, {"busy": 0}, {"busy": ALL}, end)
    assert not records
    assert [checkpoint.state for checkpoint, _ in found.values()] == [b""]


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_killed_among_streams_that_rest_it_says_the_same(seed: int) -> None:
    chance = random.Random(seed)
    log = [*RARE, *BUSY, *LATER]
    chance.shuffle(log)
    whole = Cluster(log)
    asyncio.run(whole.run())
    expected = reference(log)
    assert dict(whole.published) == expected
    for commit in sorted(chance.sample(range(1, whole.commits), 6)):
        cluster = Cluster(log)
        asyncio.run(cluster.run(kill_learner=commit, kill_aggregator=commit, lost=bool(commit % 2)))
        assert dict(cluster.published) == expected, commit


def test_a_changed_stream_at_rest_gets_a_checkpoint_if_its_last_one_is_old(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000.0
    monkeypatch.setattr(stage_checkpoints, "perf_counter", lambda: now)
    cluster = Cluster(RARE, load(assignments=[*SETTINGS, "checkpoint.seconds=30"]))
    asyncio.run(cluster.run())
    learner = cluster.learner()
    learner.restore(cluster.state["progress.learner"], 0, len(RARE))
    for offset, (key, value) in enumerate(RARE):
        asyncio.run(learner.feed([Message("events", 0, offset, key, value)]))
    made = []
    for at in (1_000.0, 1_299.0, 1_300.0, 1_301.0, 1_302.0, 5_000.0, 6_000.0, 7_000.0, 8_000.0, 9_000.0, 10_000.0):
        now = at
        made.append(sorted({checkpoints.Key.decode(one.key or b"").stream for one in learner.collect().apart}))
    assert made[:2] == [[], []] and all(len(one) == 1 for one in made[2:8]) and made[8:] == [[], [], []]
    assert {name for one in made for name in one} == {key.decode() for key, _ in RARE} - {"reset"}


@pytest.mark.parametrize("model", MODELS)
def test_the_key_is_changed_through_restarts(model: str) -> None:
    """First the new key beside the old one, then alone; the streams that rest are sealed anew too."""
    old, new = b"the old key, long enough", b"the new key, long enough"
    more = MODELS[model]
    cluster = Cluster([*RARE, *BUSY], load(assignments=[*SETTINGS, more]), key=old)
    asyncio.run(cluster.run())
    cluster.key = (new, old)
    cluster.log += LATER[: len(LATER) // 2]
    cluster.low = len([*RARE, *BUSY])
    asyncio.run(cluster.run())
    cluster.key = new
    cluster.log = [*RARE, *BUSY, *LATER]
    asyncio.run(cluster.run())
    assert dict(cluster.published) == reference(cluster.log, more)
    cluster.key = old
    with pytest.raises(StateError, match="its HMAC does not match"):
        asyncio.run(cluster.run())


def test_with_a_new_key_checkpoints_of_streams_that_do_not_change_are_sealed_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old, new = b"the old key, long enough", b"the new key, long enough"
    cluster = Cluster(packed(0, 40, b"rests"), key=old)
    asyncio.run(cluster.run())
    now = 1e6
    monkeypatch.setattr(stage_checkpoints, "perf_counter", lambda: now)
    for key, count in ((old, 0), ((old, new), 0), ((new, old), 1), (new, 0)):
        cluster.key = key
        learner = cluster.learner()
        start = learner.restore(cluster.state["progress.learner"], 0, len(cluster.log))
        for offset in range(start, len(cluster.log)):
            asyncio.run(learner.feed([Message("events", 0, offset, *cluster.log[offset])]))
        written = []
        for _ in range(3):
            outputs = learner.collect()
            cluster._take(outputs, "progress.learner")
            written += [one for one in outputs.apart if one.topic.endswith("checkpoints") and one.value is not None]
            now += 1_000.0
        assert len(written) == count, key


def test_without_checkpoints_what_retention_has_removed_is_told() -> None:
    cluster = Cluster(RARE, load(assignments=[*SETTINGS, "checkpoint.seconds=0"]))
    asyncio.run(cluster.run())
    with pytest.raises(LostInputError, match="lengthen the retention"):
        cluster.learner().restore(cluster.state["progress.learner"], len(RARE), len(RARE))
