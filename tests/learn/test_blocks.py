"""Trees and forests that learn in blocks: everything is as if River had learned the events one by one."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.errors import NotCompilable
from glasstream.ingest.message import Message, Position
from glasstream.learn.checkpoint import opened, sealed
from glasstream.learn.partition import PartitionLearner
from glasstream.models.live import stream_model
from glasstream.settings import Settings
from tests.examples import examples
from tests.learn.test_checkpoint import PLACE
from tests.learn.test_partition_learner import Collected, learn, message, same, settings
from tests.learning.conftest import compiled_only, ordered_categories

KEY = b"a key of sixteen bytes"
FACTORIES = ["plain_tree", "adaptive_tree", "small_forest"]
every_model = pytest.mark.parametrize("factory", FACTORIES)


def chosen(factory: str, *more: str) -> Settings:
    return settings(f"model.name=tests.learn.eager:{factory}", "model.task=classification", "labels.window=60", *more)


@contextmanager
def staying_in_river() -> Iterator[None]:
    def stays(model: Any) -> None:
        raise NotCompilable("it stays in River")

    with pytest.MonkeyPatch.context() as patch, ordered_categories():
        patch.setattr(stream_model, "take", stays)
        yield


def in_river(log: Sequence[Message], given: Settings) -> Collected:
    """What is published if the model stays in River."""
    with staying_in_river():
        return learn(log, 1, given)


def bits(snapshots: Sequence[tuple[int, Any]]) -> list[Any]:
    return [
        (version, meta, {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()})
        for version, (meta, arrays) in snapshots
    ]


def equal(mine: Collected, rivers: Collected) -> None:
    same(mine, rivers)
    assert bits(mine.snapshots) == bits(rivers.snapshots)


def events(seed: int, count: int = 160) -> Iterator[dict[str, Any]]:
    """Events as users send them: texts, gaps, features that come late or in another order, new classes, bad ones."""
    source = random.Random(seed)
    width = source.choice([3, 5, 90])
    gaps, oddities = source.choice([0.0, 0.3]), source.choice([0.0, 0.05])
    for number in range(count):
        x: dict[str, Any] = {f"f{place}": round(source.gauss(number // 80 * 2, 1), 2) for place in range(width)}
        x["day"] = source.choice(["mon", "tue", "wed", "thu", "fri"][: 2 + number // 40])
        x["open"] = source.random() < 0.5
        if number > 100:
            x["late"] = source.randrange(4)
        for name in list(x):
            if source.random() < gaps:
                x[name] = None
            elif source.random() < gaps:
                del x[name]
        if source.random() < oddities:
            x = dict(reversed(x.items()))
        above = (x.get("f0") or 0.0) > number // 80 * 2
        y: Any = "c" if number > 90 and x.get("day") == "mon" else "ab"[above]
        event: dict[str, Any] = {"id": number, "x": x or {"f0": 0.0}, "y": y}
        if source.random() < 0.1:
            del event["y"]
        if source.random() < oddities:
            event = source.choice(
                [{"id": number, "x": {}}, {**event, "y": 1.5}, {**event, "z": 0}, {"id": 10**6, "y": "a"}]
            )
        yield event
        if number > 5 and source.random() < 0.1:
            yield {"id": number - source.randrange(6), "y": "a"}


def packed(seed: int) -> list[Message]:
    source, content = random.Random(seed), list(events(seed))
    log = []
    while content:
        size = source.choice([1, 7, 50, 100])
        log.append(message(len(log), content[:size] if size > 1 else content[0]))
        del content[:size]
    return log


@every_model
@given(seed=st.integers(0, 10**6))
@examples(12)
def test_everything_is_published_as_if_river_had_learned(factory: str, seed: int) -> None:
    log = packed(seed)
    rivers = in_river(log, chosen(factory))
    assert len(rivers.predictions) > 100 and len(rivers.snapshots) > 5
    equal(learn(log, 10**9, chosen(factory)), rivers)


@every_model
@given(seed=st.integers(0, 10**6), most=st.integers(1, 70), cut_every=st.integers(1, 20))
@examples(8)
def test_the_size_of_blocks_changes_nothing(factory: str, seed: int, most: int, cut_every: int) -> None:
    log = packed(seed)
    learner, collected, stops = PartitionLearner(0, chosen(factory)), Collected(), 0
    learner.block_events = most
    for one in log:
        for _ in learner.consume(one):
            stops += 1
            if stops % cut_every == 0:
                collected.take(learner)
    collected.take(learner)
    equal(collected, learn(log, 10**9, chosen(factory)))


@every_model
@given(seed=st.integers(0, 10**6), share=st.floats(0.1, 1))
@examples(8)
def test_a_successor_goes_on_from_a_checkpoint_at_any_stop(factory: str, seed: int, share: float) -> None:
    log = packed(seed)
    first, before = PartitionLearner(0, chosen(factory)), Collected()
    stop, stops = int(share * 30), 0
    at: Position | None = None
    for one in log:
        for stream in first.consume(one):
            stops += 1
            if stops >= stop and stream.rows and at is None:
                before.take(first)
                at, checkpoint = first.position, sealed(first.state("s", at_rest=True), PLACE, key=KEY)
                predicted = len(before.predictions)
    before.take(first)
    assert at is not None
    second, after = PartitionLearner(0, chosen(factory), first_offset=at.offset), Collected()
    second.resume("s", opened(checkpoint, key=KEY), at)
    for one in log[at.offset :]:
        for _ in second.consume(one):
            pass
    after.take(second)
    assert after.predictions == before.predictions[predicted:]
    assert after.rows.items() <= before.rows.items()
    newer = [version for version, _ in after.snapshots[1:]]
    assert bits(after.snapshots[1:]) == bits([one for one in before.snapshots if one[0] in newer])


@compiled_only
@every_model
def test_a_checkpoint_of_a_model_in_river_is_taken_over(factory: str) -> None:
    log = packed(5)
    middle = len(log) // 2
    rivers = in_river(log, chosen(factory))
    with staying_in_river():
        first = PartitionLearner(0, chosen(factory))
        for one in log[:middle]:
            list(first.consume(one))
        first.cut()
        checkpoint = sealed(first.state("s", at_rest=True), PLACE, key=KEY)
        predicted = len(first.outbox.predictions)
    second, after = PartitionLearner(0, chosen(factory), first_offset=middle), Collected()
    with ordered_categories():
        second.resume("s", opened(checkpoint, key=KEY), Position(middle, 0))
    assert second.streams["s"].learner.takes_blocks
    for one in log[middle:]:
        list(second.consume(one))
    after.take(second)
    assert after.predictions == rivers.predictions[predicted:]


@compiled_only
def test_blocks_are_as_long_as_they_may_be() -> None:
    """Blocks end where a snapshot is due, where a request is full and where a message ends, and nowhere else."""
    log = [message(n, [{"x": {"a": k / 7, "b": k % 3}, "y": "ab"[k % 2]} for k in range(100)]) for n in range(3)]
    given = ["model.name=tree", "snapshot.doubling=64", "snapshot.cadence=250"]
    for more, wanted in (
        ([], [1, 2, 4, 8, 16, 32, 64, 100, 200, 250, 300]),
        (["block.rows=70"], [1, 2, 4, 8, 16, 32, 64, 100, 134, 200, 204, 250, 300]),
    ):
        learner = PartitionLearner(0, settings(*given, *more))
        assert [stream.rows for one in log for stream in learner.consume(one)] == wanted


@every_model
def test_an_event_whose_votes_are_not_finite_is_rejected_and_not_learned(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The density of each feature is a number, and their product is none."""
    monkeypatch.setattr("tests.learn.eager.SPLITS", {"grace_period": 10_000, "leaf_prediction": "nb"})
    tiny = [{"x": {f"f{place}": 1e-150 * (n % 3) for place in range(9)}, "y": "ab"[n % 2]} for n in range(60)]
    odd = {"x": dict.fromkeys(tiny[0]["x"], 1.15e4), "y": "a"}
    log = [message(0, tiny), message(1, [*tiny[:9], odd, *tiny[:20], odd, {**odd, "y": None}, *tiny[20:]])]
    rivers = in_river(log, chosen(factory))
    assert [[index for index, _ in found] for found in rivers.dead] == [[9, 30, 31]]
    equal(learn(log, 10**9, chosen(factory)), rivers)


@compiled_only
def test_why_a_model_stays_in_river_is_said_once() -> None:
    log = [message(n, {"x": {"a": n % 7}, "y": "ab"[n % 2]}) for n in range(30)]
    learner = PartitionLearner(0, settings("model.name=tests.learn.eager:plain_tree"))
    for one in log:
        list(learner.consume(one))
    assert not [line for line in learner.outbox.notices if "River" in line]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.learn.eager.SPLITS", {"stop_mem_management": True})
        learner = PartitionLearner(0, settings("model.name=tests.learn.eager:plain_tree"))
        for one in log:
            list(learner.consume(one))
    (line,) = [line for line in learner.outbox.notices if "River" in line]
    assert "stop_mem_management: expected False" in line
