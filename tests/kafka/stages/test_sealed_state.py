"""With an HMAC key, aggregator and novelty detector resume only from states that a holder of the key has saved."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from glasstream.base.errors import StateError
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.novelty import NoveltyTask
from glasstream.models.codec.authentication import Key
from glasstream_topics import frames, progress_aggregator, progress_novelty
from glasstream_topics.progress import PARTITION_KEY
from tests.support.forged_states import SETTINGS as AGGREGATOR
from tests.support.forged_states import committed
from tests.support.novelty_states import LOG, SETTINGS, Broker
from tests.support.sealed_states import NEW, OLD, State, aggregated, novelty_task, watched


def aggregator(key: Key | None, state: State) -> AggregatorTask:
    task = AggregatorTask(0, AGGREGATOR, key=key)
    task.restore(dict(state), 0, 10)
    return task


def novelty(key: Key | None, state: State) -> NoveltyTask:
    task = novelty_task(key)
    task.restore(state, 0, len(LOG))
    return task


STAGES: dict[str, tuple[Callable[[Key | None], State], Callable[[Key | None, State], Any], bytes]] = {
    "aggregator": (aggregated, aggregator, b"\xffstate/"),
    "novelty": (watched, novelty, b"\xffanchor/"),
}


@pytest.fixture(params=STAGES)
def stage(request: pytest.FixtureRequest) -> Any:
    return STAGES[request.param]


def test_a_sealed_state_is_restored_with_its_key_only(stage: Any) -> None:
    save, restore, _ = stage
    state = save(OLD)
    restore(OLD, state)
    restore((NEW, OLD), state)
    with pytest.raises(StateError, match=r"cannot open the state of stream '\w+': .* its HMAC does not match"):
        restore(NEW, state)
    with pytest.raises(StateError, match="needs a key, there is none"):
        restore(None, state)


def test_a_plain_state_is_refused_where_there_is_a_key_with_a_way_out(stage: Any) -> None:
    save, restore, _ = stage
    state = save(None)
    restore(None, state)
    with pytest.raises(StateError, match=r"saved without an HMAC key, .* unset GLASSTREAM_HMAC_KEY .*--set epoch=N"):
        restore(OLD, state)


def test_nothing_of_a_state_is_decoded_before_its_seal_is_verified(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save, restore, _ = stage
    state = save(OLD)
    decoded: list[str] = []
    decode = frames.decode

    def spy(data: Any, kind: str, version: int) -> Any:
        decoded.append(kind)
        return decode(data, kind, version)

    monkeypatch.setattr(frames, "decode", spy)
    with pytest.raises(StateError, match="HMAC"):
        restore(NEW, state)
    assert set(decoded) <= {"aggregator-state-chunk", "novelty-anchor-chunk"}


def test_a_state_under_another_name_is_refused(stage: Any) -> None:
    """A seal holds for one stream at one place."""
    save, restore, prefix = stage
    state = save(OLD)
    other = {
        key.replace(prefix, prefix + b"other ") if key.startswith(prefix) else key: value
        for key, value in state.items()
    }
    for key, value in state.items():
        if key != PARTITION_KEY and not key.startswith(prefix):
            del other[key]
            other[b"other " + key] = value.replace(b'"stream":"' + key, b'"stream":"other ' + key)
    with pytest.raises(StateError, match="expected a body sealed for it, got one sealed for stream"):
        restore(OLD, other)


def test_a_state_that_an_older_key_has_sealed_is_sealed_again() -> None:
    task = aggregator((NEW, OLD), aggregated(OLD))
    assert committed(task), "although no row has come"
    again = aggregator((NEW, OLD), aggregated((NEW, OLD)))
    assert not again.collect()
    aggregator(NEW, committed(aggregator((NEW, OLD), aggregated(OLD))))


def test_an_anchor_that_an_older_key_has_sealed_is_sealed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("glasstream.kafka.stages.novelty.perf_counter", lambda: now)
    state = watched(OLD)
    anchored = {name for name, one in progress_novelty.restore(dict(state)).streams.items() if one.anchor >= 0}
    task, broker = novelty((NEW, OLD), state), Broker(state=dict(state))
    for message in LOG[task.core.position.offset : 60]:
        asyncio.run(task.feed([message]))
    for _ in range(4 * len(anchored)):
        now += 2 * SETTINGS.checkpoint.patience
        broker.commit(task)
    novelty(NEW, broker.state)


def test_the_parts_of_a_state_are_bounded() -> None:
    state = aggregated(None)
    part = next(key for key in state if key.startswith(b"\xffstate/"))
    with pytest.raises(StateError, match="expected a chunk from 0 to"):
        aggregator(None, {**state, part.replace(b"/0", b"/%d" % 2**62): state[part]})
    assert progress_aggregator.restore(dict(state)).chunks("s") == 1
