"""Models that learn in blocks: everything is as if River had learned the events one by one."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import linear_model

from glasstream.base.errors import NotCompilable
from glasstream.events.message import Message, Position
from glasstream.flow.learner.checkpoint import opened
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream.models import stream_model
from glasstream_topics.events_dead import Reason
from tests.models.online.conftest import ordered_categories
from tests.support.examples import examples, some
from tests.support.learner import Collected, as_sent, learn, message, same, settings
from tests.support.learner_checkpoints import checkpoint_of

KEY = b"a key of sixteen bytes"
TREES = ["plain_tree", "adaptive_tree", "small_forest"]
REGRESSORS = ["tree_of_models", "tree_of_means", "adaptive_tree_of_models", "forest_of_models"]
LINEAR = {
    "linear": ["model.name=linear", "model.task=classification"],
    "one_vs_rest": ["model.name=linear", "model.task=classification", "model.many_classes=true"],
    "regression": ["model.name=linear", "model.task=regression"],
}
every_model = pytest.mark.parametrize(
    "factory",
    some(["adaptive_tree", "tree_of_models", "one_vs_rest"], [*TREES, *REGRESSORS, *LINEAR], pytest.mark.slow),
)
every_tree = pytest.mark.parametrize("factory", TREES)


UNLABELLED = ("explain.methods=ipfi,ipdp", "explain.unlabelled=true")


def chosen(factory: str, *more: str) -> Settings:
    task = "regression" if factory in REGRESSORS else "classification"
    model = LINEAR.get(factory, [f"model.name=tests.support.eager:{factory}", f"model.task={task}"])
    return settings(*model, "labels.window=60", *more)


@contextmanager
def staying_in_river() -> Iterator[None]:
    def stays(model: Any) -> None:
        raise NotCompilable("it stays in River")

    with pytest.MonkeyPatch.context() as patch, ordered_categories():
        patch.setattr(stream_model, "take", stays)
        yield


def in_river(log: Sequence[Message], given: Settings) -> Collected:
    """Return what is published if the model stays in River."""
    with staying_in_river():
        return learn(log, 1, given)


def bits(snapshots: Sequence[tuple[int, Any]]) -> list[Any]:
    return [
        (version, meta, {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()})
        for version, (meta, arrays) in snapshots
    ]


def equal(mine: Collected, rivers: Collected) -> None:
    same(mine, rivers)
    assert mine.draws == rivers.draws
    assert bits(mine.snapshots) == bits(rivers.snapshots)


def with_number(event: dict[str, Any], texts: bool) -> dict[str, Any]:
    """Give an event a number as target, and no text if a linear model cannot calculate with it."""
    x, y = dict(event.get("x", {})), event.get("y")
    if not texts:
        x.pop("day", None)
    made = {**event, "x": x} if "x" in event else {**event}
    return {**made, "y": "abc".index(y) + (x.get("f1") or 0.0)} if isinstance(y, str) else made


def packed(seed: int, factory: str) -> list[Message]:
    source, content = random.Random(seed), list(as_sent(seed))
    if factory in REGRESSORS:
        content = [with_number(event, factory == "tree_of_means") for event in content]
    if factory == "regression":
        numbers = random.Random(seed)
        for event in content:
            if isinstance(event.get("y"), str):
                event["y"] = numbers.choice([ord(event["y"]) - 97.0, round(numbers.gauss(0, 3), 3), 7])
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
    log = packed(seed, factory)
    rivers = in_river(log, chosen(factory))
    assert len(rivers.predictions) > 100 and len(rivers.snapshots) > 2
    equal(learn(log, 10**9, chosen(factory)), rivers)


@every_model
@given(
    seed=st.integers(0, 10**6),
    most=st.integers(1, 70),
    cut_every=st.integers(1, 20),
    more=st.sampled_from([(), UNLABELLED]),
)
@examples(8)
def test_the_size_of_blocks_changes_nothing(
    factory: str, seed: int, most: int, cut_every: int, more: tuple[str, ...]
) -> None:
    log, given = packed(seed, factory), chosen(factory, *more)
    learner, collected, stops = PartitionLearner(0, given), Collected(), 0
    learner.block_events = most
    for one in log:
        for _ in learner.consume(one):
            stops += 1
            if stops % cut_every == 0:
                collected.take(learner)
    collected.take(learner)
    equal(collected, learn(log, 10**9, given))


@every_model
@given(seed=st.integers(0, 10**6), share=st.floats(0.1, 1))
@examples(8)
def test_a_successor_goes_on_from_a_checkpoint_at_any_stop(factory: str, seed: int, share: float) -> None:
    log = packed(seed, factory)
    first, before = PartitionLearner(0, chosen(factory)), Collected()
    stop, stops = int(share * 30), 0
    at: Position | None = None
    for one in log:
        for stream in first.consume(one):
            stops += 1
            if stops >= stop and stream.state.rows and at is None:
                before.take(first)
                at, checkpoint = first.position, checkpoint_of(first, at_rest=True)
                predicted = len(before.predictions)
    before.take(first)
    assert at is not None
    second, after = PartitionLearner(0, chosen(factory), first_offset=at.offset), Collected()
    second.resume("s", opened(checkpoint, second.settings, key=None), at)
    for one in log[at.offset :]:
        for _ in second.consume(one):
            pass
    after.take(second)
    assert after.predictions == before.predictions[predicted:]
    assert after.rows.items() <= before.rows.items()
    newer = [version for version, _ in after.snapshots[1:]]
    assert bits(after.snapshots[1:]) == bits([one for one in before.snapshots if one[0] in newer])


@every_model
def test_a_checkpoint_of_a_model_in_river_is_taken_over(factory: str) -> None:
    log = packed(5, factory)
    middle = len(log) // 2
    rivers = in_river(log, chosen(factory))
    with staying_in_river():
        first = PartitionLearner(0, chosen(factory))
        for one in log[:middle]:
            list(first.consume(one))
        first.cut()
        checkpoint = checkpoint_of(first, at_rest=True, key=KEY)
        predicted = len(first.outbox.predictions)
    second, after = PartitionLearner(0, chosen(factory), first_offset=middle), Collected()
    with ordered_categories():
        second.resume("s", opened(checkpoint, second.settings, key=KEY), Position(middle, 0))
    assert second.streams["s"].learner.least_block is not None
    for one in log[middle:]:
        list(second.consume(one))
    after.take(second)
    assert after.predictions == rivers.predictions[predicted:]


def test_blocks_are_as_long_as_they_may_be() -> None:
    """Blocks end where a snapshot is due, where a request is full and where a message ends, and nowhere else."""
    log = [message(n, [{"x": {"a": k / 7, "b": k % 3}, "y": "ab"[k % 2]} for k in range(100)]) for n in range(3)]
    given = ["model.name=tree", "snapshot.doubling=64", "snapshot.cadence=250"]
    for more, wanted in (
        ([], [1, 2, 4, 8, 16, 32, 64, 100, 200, 250, 300]),
        (["block.rows=70"], [1, 2, 4, 8, 16, 32, 64, 100, 134, 200, 204, 250, 300]),
    ):
        learner = PartitionLearner(0, settings(*given, *more))
        assert [stream.state.rows for one in log for stream in learner.consume(one)] == wanted


@every_tree
def test_an_event_whose_votes_are_not_finite_is_rejected_and_not_learned(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The density of each feature is a number, and their product is none."""
    monkeypatch.setattr("tests.support.eager.SPLITS", {"grace_period": 10_000, "leaf_prediction": "nb"})
    tiny = [{"x": {f"f{place}": 1e-150 * (n % 3) for place in range(9)}, "y": "ab"[n % 2]} for n in range(60)]
    odd = {"x": dict.fromkeys(tiny[0]["x"], 1.15e4), "y": "a"}
    log = [message(0, tiny), message(1, [*tiny[:9], odd, *tiny[:20], odd, {**odd, "y": None}, *tiny[20:]])]
    rivers = in_river(log, chosen(factory))
    assert [[index for index, _ in found] for found in rivers.dead] == [[9, 30, 31]]
    equal(learn(log, 10**9, chosen(factory)), rivers)


def test_an_event_whose_predicted_number_is_too_large_is_rejected_and_not_learned() -> None:
    given = settings("model.name=tests.support.eager:steep", "model.task=regression")
    log = [message(n, [{"x": {"a": k % 7, "b": n}, "y": k * 1e9} for k in range(40)]) for n in range(3)]
    rivers = in_river(log, given)
    assert len(rivers.dead[-1]) > 10
    equal(learn(log, 10**9, given), rivers)


def test_a_linear_model_rejects_texts_event_by_event() -> None:
    """A text comes after the newest snapshot, so the model is still explained in compiled code."""
    given = settings("model.name=tests.support.eager:scaled", "snapshot.doubling=1", "snapshot.cadence=1000")
    events = [
        {"id": k, "x": {"a": k % 7} | ({"t": "x"} if k > 100 and k % 4 == 1 else {}), "y": "ab"[k % 2]}
        for k in range(200)
    ]
    blocks = learn([message(0, events[:100]), message(1, events[100:])], 10**9, given)
    alone = learn([message(k, event) for k, event in enumerate(events)], 10**9, given)
    assert [reason.value for _, reason in blocks.dead[0]] == ["model_error"] * 25
    assert blocks.predictions == alone.predictions
    assert blocks.rows == alone.rows


@pytest.mark.parametrize(("factory", "task"), [("scaled", "classification"), ("steep", "regression")])
def test_a_rejected_text_leaves_a_checkpoint_that_can_be_opened(factory: str, task: str) -> None:
    given = settings(f"model.name=tests.support.eager:{factory}", f"model.task={task}")
    number = task == "regression"
    events = [{"x": {"a": k % 7}, "y": k % 2 if number else "ab"[k % 2]} for k in range(40)]
    learner, collected = PartitionLearner(0, given), Collected()
    for one in [message(0, events), message(1, {"x": {"a": 1, "t": "x"}, "y": events[1]["y"]}), message(2, events)]:
        list(learner.consume(one))
        state = opened(checkpoint_of(learner, at_rest=True), given, key=None)
        assert state.learner.rows == learner.streams["s"].learner.state.rows
    collected.take(learner)
    assert [(None, Reason.MODEL_ERROR)] in collected.dead


def test_a_linear_model_learns_few_events_one_by_one() -> None:
    few = [{"x": {"a": k}, "y": "ab"[k % 2]} for k in range(3)]
    learner = PartitionLearner(0, settings("model.name=linear", "snapshot.doubling=1", "snapshot.cadence=1000"))
    log = [message(0, few), message(1, few), message(2, [*few] * 3)]
    assert [stream.state.rows for one in log for stream in learner.consume(one)] == [1, 2, 3, 4, 5, 6, 15]


def test_an_event_whose_prediction_by_a_tree_is_too_large_is_rejected_and_not_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tests.support.eager.SPLITS", {"grace_period": 10_000, "leaf_prediction": "model"})
    source = random.Random(3)
    wild = [{"x": {"a": source.choice((1e59, 1.0, -2.0)), "b": 1.0}, "y": source.gauss(0, 1)} for _ in range(80)]
    log = [message(0, wild[:40]), message(1, wild[40:])]
    rivers = in_river(log, chosen("tree_of_models"))
    assert sum(map(len, rivers.dead)) > 10
    equal(learn(log, 10**9, chosen("tree_of_models")), rivers)


def test_an_event_that_a_tree_cannot_learn_is_predicted_and_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leaf answers with its mean; the squared error of its linear model is beyond the largest float."""
    steep = {"grace_period": 10_000, "leaf_model": linear_model.LinearRegression(clip_gradient=1e300)}
    monkeypatch.setattr("tests.support.eager.SPLITS", steep)
    source = random.Random(3)
    wild = [{"x": {"a": source.choice((1e60, -1e59, 2.0)), "b": 1.0}, "y": source.gauss(0, 1)} for _ in range(80)]
    late = [{"id": place, "x": one["x"]} for place, one in enumerate(wild)]
    labels = [{"id": place, "y": one["y"]} for place, one in enumerate(wild)]
    for log in (
        [message(0, wild[:40]), message(1, wild[40:])],
        [message(0, late[:40]), message(1, [*labels[:20], *late[40:], *labels[20:]])],
    ):
        rivers = in_river(log, chosen("tree_of_models", "labels.window=80"))
        assert sum(map(len, rivers.dead)) > 10
        equal(learn(log, 10**9, chosen("tree_of_models", "labels.window=80")), rivers)


def test_texts_that_a_linear_model_cannot_calculate_with_are_rejected() -> None:
    log = [message(n, {"x": {"a": n % 7, "t": "u"}, "y": n % 5}) for n in range(30)]
    collected = learn(log, 10**9, chosen("tree_of_models"))
    assert sum(map(len, collected.dead)) == 30
    assert not collected.rows


def test_why_a_model_stays_in_river_is_said_once() -> None:
    log = [message(n, {"x": {"a": n % 7}, "y": "ab"[n % 2]}) for n in range(30)]
    learner = PartitionLearner(0, settings("model.name=tests.support.eager:plain_tree"))
    for one in log:
        list(learner.consume(one))
    assert not [line for line in learner.outbox.notices if "River" in line]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.eager.SPLITS", {"stop_mem_management": True})
        learner = PartitionLearner(0, settings("model.name=tests.support.eager:plain_tree"))
        for one in log:
            list(learner.consume(one))
    (line,) = [line for line in learner.outbox.notices if "River" in line]
    assert "stop_mem_management: expected False" in line


@pytest.mark.parametrize("factory", ["plain_tree", "tree_of_means"])
def test_events_that_need_too_much_memory_are_rejected_and_the_stream_goes_on(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts, classes and features whose product no memory can hold are the work of one producer."""
    monkeypatch.setattr("glasstream.models.online.layout.MOST_DEMAND", 300_000)
    monkeypatch.setattr("tests.support.eager.SPLITS", {"grace_period": 10_000})
    labels: list[Any] = [0.5, 1.5] if factory in REGRESSORS else ["a", "b"]
    events: list[dict[str, Any]] = []
    for k in range(1_200):
        label = {} if k % 50 == 7 else {"y": labels[k % 2]}
        events.append({"id": k, "x": {"a": k % 7, "t": f"text {k}"}, **label})
        if k % 50 == 37:
            events.append({"id": k - 30, "y": labels[0]})
    log = [message(n, events[100 * n : 100 * n + 100]) for n in range(13)]
    blocks = learn(log, 10**9, chosen(factory))
    assert {reason for found in blocks.dead for _, reason in found} == {Reason.MODEL_ERROR, Reason.UNKNOWN_ID}
    assert len(blocks.dead[-1]) > 10 and 100 < len(blocks.rows) < 1_100
    monkeypatch.setattr("glasstream.flow.learner.learner.StreamLearner.least_block", None)
    equal(blocks, learn(log, 10**9, chosen(factory)))
