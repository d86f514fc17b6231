"""A novelty detector can resume from what it has committed, after any commit. The tests use no Kafka."""

import asyncio
import random
from typing import Any

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import LostInputError, StateError
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.novelty import NoveltyTask
from glasstream_topics import events, progress_novelty
from glasstream_topics.progress import PARTITION_KEY
from tests.support.novelty_logs import BASE, mixed, packed
from tests.support.novelty_states import LOG, SETTINGS, Broker, Inline


def partition(settings: Settings = SETTINGS) -> NoveltyTask:
    fitter: Any = Inline()
    return NoveltyTask(0, settings, fitter)


def run(broker: Broker, chance: random.Random | None, every: float) -> int:
    """Feed the log, commit now and then, and be killed now and then; how often."""
    kills, done = 0, False
    while not done:
        stage = partition()
        begin = stage.restore(broker.state, 0, len(LOG))
        for message in LOG[begin:]:
            asyncio.run(stage.feed([message]))
            if chance is None or chance.random() < every:
                broker.commit(stage)
            if chance is not None and chance.random() < 0.05:
                kills += 1
                break
        else:
            broker.commit(stage)
            done = True
    return kills


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_killed_anywhere_it_says_the_same(seed: int) -> None:
    whole, broken = Broker(), Broker()
    assert run(whole, None, 1.0) == 0 and len(whole.records) > 300
    assert run(broken, random.Random(seed), 0.5) > 3
    assert broken.records == whole.records


def test_what_is_read_again_is_bounded_by_the_anchors() -> None:
    broker, stage = Broker(), partition()
    stage.restore({}, 0, len(LOG))
    for message in LOG:
        asyncio.run(stage.feed([message]))
        broker.commit(stage)
    restored = progress_novelty.restore(broker.state)
    assert restored.partition is not None and restored.partition.offset == len(LOG)
    anchored = {name for name in restored.streams if restored.anchor(name) is not None}
    assert {"a", "b", "late"} <= anchored <= {"a", "b", "idle", "late"}
    behind = sum(one.seqs - max(0, one.anchor) for one in restored.streams.values())
    assert behind <= 70 * 4 + 23


def test_other_settings_are_refused_and_a_new_epoch_begins_where_they_end() -> None:
    broker = Broker()
    run(broker, None, 1.0)
    other = [*BASE, "novelty.window=80", "novelty.anchor=10"]
    with pytest.raises(StateError, match=r"novelty\.window: was 60, is 80"):
        partition(load(assignments=other)).restore(broker.state, 0, len(LOG))
    with pytest.raises(StateError, match=r"expected a new epoch above 1, .* got 1; .* --set epoch=2"):
        partition(load(assignments=[*other, "worker.new_epoch=1"])).restore(broker.state, 0, len(LOG))
    anew = partition(load(assignments=[*other, "epoch=2"]))
    assert anew.restore(broker.state, 0, len(LOG)) == len(LOG)
    assert (anew.settings.epoch, anew.core.streams) == (2, {})
    broker.commit(anew)
    assert list(broker.state) == [PARTITION_KEY], "nothing of the epoch before is kept"
    for message in LOG[:30]:
        asyncio.run(anew.feed([Message("events", 0, len(LOG) + message.offset, message.key, message.value)]))
        broker.commit(anew)
    again = partition(load(assignments=[*other, "worker.new_epoch=2"]))
    assert again.restore(broker.state, 0, 2 * len(LOG)) >= len(LOG)
    assert again.settings.epoch == 2


def pairs(count: int, size: int, key: bytes) -> list[tuple[bytes | None, bytes | None]]:
    return [(one.key, one.value) for one in packed(mixed(count), size, key)]


RARE = [
    *pairs(20, 20, b"few"),
    *pairs(110, 23, b"map"),
    (b"unlabelled", orjson.dumps([{"id": n, "x": {"a": n}} for n in range(5)])),
    (b"rejected", orjson.dumps({"x": {"a": 1}, "y": 0.5})),
    (b"unknown", orjson.dumps({"id": "nobody", "y": True})),
    *pairs(60, 30, b"reset"),
    (b"reset", events.RESET),
]
"""Streams that send a little and then nothing for long."""
KEYS = [key for key in dict.fromkeys(key for key, _ in RARE) if key]
BY_TIME = (*BASE, "model.task=classification", "novelty.anchor=1000000")


@pytest.mark.parametrize("times", [1, 3])
def test_after_retention_every_stream_goes_on(times: int) -> None:
    """Restarted where nothing is kept any more of what came before; by their number no anchor was due."""
    settings = load(assignments=[*BY_TIME, "checkpoint.seconds=1e-9"])
    later = [one for parts in zip(*(pairs(170, 23, key) for key in KEYS), strict=True) for one in parts]
    log = [Message("events", 0, offset, key, value) for offset, (key, value) in enumerate([*RARE, *later])]
    whole, broken = Broker(), Broker()
    for broker, restarts in ((whole, 0), (broken, times)):
        stage = partition(settings)
        stage.restore({}, 0, 0)
        for message in log:
            if message.offset == len(RARE):
                for _ in KEYS:  # one at a time
                    broker.commit(stage)
                for _ in range(restarts):
                    stage = partition(settings)
                    assert stage.restore(broker.state, len(RARE), len(RARE)) == len(RARE)
                    broker.commit(stage)
            asyncio.run(stage.feed([message]))
            broker.commit(stage)
    assert broken.records == whole.records
    assert {key for key, _ in whole.records} == {*KEYS}
    epochs = {name: one.epoch for name, one in progress_novelty.restore(broken.state).streams.items()}
    assert epochs == {key.decode(): int(key == b"reset") for key in KEYS}


def test_an_anchor_comes_by_time_for_who_waits_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("glasstream.kafka.stages.novelty.perf_counter", lambda: now)
    stage = partition(load(assignments=[*BY_TIME, "checkpoint.seconds=30"]))
    stage.restore({}, 0, 0)
    broker = Broker()
    for offset, (key, value) in enumerate(RARE):
        asyncio.run(stage.feed([Message("events", 0, offset, key, value)]))
        broker.commit(stage)
    anchored = []
    for at in (299.0, 300.0, 300.0, 300.0, 300.0, 300.0, 9000.0):
        now = at
        broker.commit(stage)
        streams = progress_novelty.restore(broker.state).streams.values()
        anchored.append(sum(one.anchor >= 0 for one in streams))
    assert anchored == [0, 1, 2, 3, 3, 3, 3], "few, map, unlabelled; the others have used nothing"


def test_state_that_cannot_be_gone_on_from_is_refused() -> None:
    broker = Broker()
    run(broker, None, 1.0)
    with pytest.raises(LostInputError, match="the topic ends at 3"):
        partition().restore(broker.state, 0, 3)
    with pytest.raises(LostInputError, match="lengthen the retention"):
        partition().restore(broker.state, len(LOG), len(LOG))
    part = next(key for key in broker.state if key.startswith(b"\xffanchor/"))
    broken = {key: value for key, value in broker.state.items() if key != part}
    with pytest.raises(StateError, match="not whole"):
        partition().restore(broken, 0, len(LOG))
    with pytest.raises(StateError, match="release"):
        partition().restore({**broker.state, b"a": b"{}"}, 0, len(LOG))
