"""A reset mark through the stages: whoever is killed, and when, the records are those of the plain loop."""

import asyncio
import math
import random
from itertools import count, product

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import StateError
from glasstream.events.message import Message
from glasstream_topics import checkpoints, contributions, events, progress_learner, snapshots
from tests.support.examples import some
from tests.support.logs import event
from tests.support.reset_cluster import SETTINGS, Cluster, S, T, packed, reference


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no load of the machine decide when a state is saved, and where in a message a learner pauses: nowhere."""
    ticks = count()
    monkeypatch.setattr("glasstream.kafka.stages.checkpoints.perf_counter", lambda: 1e-5 * next(ticks))
    monkeypatch.setattr("glasstream.kafka.stages.learner._YIELD_SECONDS", math.inf)


def both(first: int, end: int) -> list[tuple[bytes, bytes]]:
    return [one for pair in zip(packed(first, end), packed(first, end, T), strict=True) for one in pair]


FLUSHES = [(S, events.FLUSH), (T, events.FLUSH)]
LOG = [*both(0, 96), (S, events.RESET), *both(96, 192), *FLUSHES]
MARK = 16


EXPECTED = reference(LOG)


def test_the_stages_say_what_the_plain_loop_says_and_end_what_nobody_needs() -> None:
    cluster = Cluster(LOG)
    asyncio.run(cluster.run())
    assert dict(cluster.published) == EXPECTED
    assert [orjson.loads(one)["epoch"] for one in EXPECTED["predictions", "s"]] == [0] * 96 + [1] * 96
    assert {orjson.loads(one)["epoch"] for one in EXPECTED["predictions", "t"]} == {0}
    learned = progress_learner.restore(cluster.state["progress.learner"]).streams
    assert {name: (one.epoch, one.seqs, one.first_offset) for name, one in learned.items()} == {
        "s": (1, 96, MARK + 1), "t": (0, 192, 1),
    }  # fmt: skip
    for topic, parse in (("snapshots", snapshots.Key), ("checkpoints", checkpoints.Key)):
        kept = {parse.decode(key).identity[:2] for key in cluster.state[topic]}
        assert kept == {("s", 1), ("t", 0)}, topic
    assert cluster.over == cluster.damage == 0


@pytest.mark.parametrize(
    ("lost", "seconds"),
    some([(False, "0.000001"), (True, "0")], product([False, True], ["0.000001", "0"]), pytest.mark.slow),
)
def test_whoever_is_killed_has_a_successor_that_goes_on_exactly(lost: bool, seconds: str) -> None:
    """With checkpoints and without, at every commit; those around the mark are among them."""
    settings = load(assignments=[*SETTINGS, f"checkpoint.seconds={seconds}"])
    whole = Cluster(LOG, settings)
    asyncio.run(whole.run())
    assert whole.commits > 10
    for commit in range(1 + lost, whole.commits + 1, 2):
        cluster = Cluster(LOG, settings)
        asyncio.run(cluster.run(kill_learner=commit, kill_aggregator=commit, lost=lost))
        assert dict(cluster.published) == EXPECTED, commit
        kept = {snapshots.Key.decode(key).identity[:2] for key in cluster.state["snapshots"]}
        assert kept == {("s", 1), ("t", 0)}, commit


@pytest.mark.parametrize("commit", range(1, 5))
def test_a_state_saved_at_the_mark_restores_no_snapshot_of_the_ended_epoch(
    commit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The successor finds an aggregator that has left the epoch, and ends it before it has sent anything."""
    cluster = Cluster(LOG[:MARK], load(assignments=[*SETTINGS, "checkpoint.seconds=0.000001"]))
    monkeypatch.setattr("glasstream.kafka.stages.checkpoints.perf_counter", lambda: cluster.turns)
    asyncio.run(cluster.run())
    saved = {checkpoints.Key.decode(key).identity for key in cluster.state["checkpoints"]}
    assert {("s", 0, 96), ("t", 0, 96)} <= saved, "at rest"
    cluster.log = LOG
    asyncio.run(cluster.run(kill_learner=cluster.commits + commit, lost=True))
    assert dict(cluster.published) == EXPECTED
    kept = {snapshots.Key.decode(key).identity[:2] for key in cluster.state["snapshots"]}
    assert kept == {("s", 1), ("t", 0)}


def test_learners_of_several_streams_do_not_wait_for_the_newest_snapshots_of_others() -> None:
    """Waiting for the aggregator ends a snapshot only where its stream has a newer one, even if that is too much."""
    cluster = Cluster(LOG, load(assignments=[*SETTINGS, "limits.snapshot_bytes=1"]))
    asyncio.run(asyncio.wait_for(cluster.run(), 120))
    assert dict(cluster.published) == EXPECTED


def test_what_comes_late_of_an_epoch_that_has_ended_is_dropped_and_counted() -> None:
    cluster = Cluster(LOG)
    asyncio.run(cluster.run())
    read = [(contributions.decode(data), data) for data in cluster.contributions]
    old = [data for one, data in read if (one.stream, one.epoch) == ("s", 0)]
    aggregator, at = cluster.aggregator()

    async def again() -> None:
        for offset, data in enumerate(old, at):
            await aggregator.feed([Message("contributions", 0, offset, b"", data)])

    asyncio.run(again())
    outputs = aggregator.collect()
    assert outputs.records == [] and aggregator.core.over == len(old) > 3
    assert aggregator.core.streams["s"].next_row == 96


@pytest.mark.parametrize("seed", range(3))
def test_contributions_in_any_order_are_aggregated_alike(seed: int) -> None:
    """At the end of an epoch, the item of the reset mark may come before that of a flush mark at the same row."""
    log = [*packed(0, 96), (S, events.FLUSH), (S, events.RESET)]
    cluster = Cluster(log)
    asyncio.run(cluster.run())
    data = list(cluster.contributions)
    assert [contributions.decode(one).ends for one in data[-2:]] == [False, True]
    random.Random(seed).shuffle(data)
    other = Cluster(log, contributions=data)
    aggregator, _ = other.aggregator()

    async def feed() -> None:
        for offset, one in enumerate(data):
            await aggregator.feed([Message("contributions", 0, offset, b"", one)])

    asyncio.run(feed())
    other._take(aggregator.collect(), "progress.aggregator")
    assert other.published["importance", "s"] == cluster.published["importance", "s"]
    assert other.state["progress.aggregator"].keys() == cluster.state["progress.aggregator"].keys()
    assert aggregator.core.streams["s"].settings.epoch == 1 and aggregator.core.offset == len(data)
    again, at = other.aggregator()
    assert at == len(data) and again.core.streams["s"].next_row == 10


def test_epochs_apart_are_named_by_the_aggregator_sparsely_and_by_the_learner_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Only the aggregator is started in a later epoch: it drops what the explainers send it."""
    cluster = Cluster(LOG)
    asyncio.run(cluster.run())
    learner, sent = cluster.learner(), cluster.contributions
    learner.restore(cluster.state["progress.learner"], 0, len(LOG))
    assert learner.stalled() is None
    cluster.settings = load(assignments=[*SETTINGS, "epoch=3"])
    aggregator, at = cluster.aggregator()

    async def feed() -> None:
        for offset, data in enumerate(sent * 2, at):
            await aggregator.feed([Message("contributions", 0, offset, b"", data)])

    with caplog.at_level("WARNING"):
        asyncio.run(feed())
    assert aggregator.core.below == 2 * len(sent) > 10
    said = [line for line in caplog.messages if "this aggregator is in epoch 3" in line]
    assert len(said) == len(str(aggregator.core.below)) and "of epoch 0" in said[0] and "--set epoch=3" in said[0]
    cluster._take(aggregator.collect(), "progress.aggregator")
    reason = learner.stalled()
    assert reason is not None and "aggregator of partition 0 is in epoch 3, and this learner in epoch 0" in reason
    assert "--set epoch=3" in reason


def test_a_new_epoch_comes_after_those_that_marks_have_counted() -> None:
    cluster = Cluster(LOG)
    asyncio.run(cluster.run())
    cluster.settings = load(assignments=[*SETTINGS, "epoch=1"])
    with pytest.raises(StateError, match=r"expected a new epoch above 1, .*--set epoch=2"):
        cluster.learner().restore(cluster.state["progress.learner"], 0, len(LOG))
    cluster.settings = load(assignments=[*SETTINGS, "epoch=2"])
    learner = cluster.learner()
    assert learner.restore(cluster.state["progress.learner"], 0, len(LOG)) == len(LOG)
    assert learner.settings.epoch == 2 and not learner.core.streams


def test_labels_that_never_came_stay_counted() -> None:
    late = [{key: value for key, value in event(n).items() if key != "y"} for n in range(7)]
    log = [*packed(0, 24), (S, orjson.dumps(late)), (S, events.RESET), *packed(24, 36)]
    cluster = Cluster(log)
    asyncio.run(cluster.run())
    assert cluster.core.missed == {"s": 7} and cluster.core.streams["s"].learner.state.waiting.missed == 0
