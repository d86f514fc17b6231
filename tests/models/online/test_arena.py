"""The arena of a live model: an event takes no more words than `demand` says, and nothing is written beyond the end."""

import random
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, forest, tree

from glasstream.base.errors import FrameError, ModelError
from glasstream.models.online import checkpoint
from glasstream.models.online import layout as L
from glasstream.models.online.arena import demand, reserve, take
from glasstream.models.online.live import Columns, LiveModel, LiveRegressor
from glasstream.models.online.twister import poisson
from glasstream.models.river.live import take as take_over
from glasstream_topics import frames
from tests.support import adaptive_regressors, adaptive_trees, forest_regressors, forests, tree_regressors, trees
from tests.support.equality import blocks
from tests.support.examples import examples
from tests.support.learning_streams import numbers_only

CALM = {"drift_detector": drift.NoDrift(), "warning_detector": drift.NoDrift()}
MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: tree.HoeffdingTreeClassifier(**trees.EAGER, nominal_attributes=["n0", "n3"]),
    "adaptive": lambda: adaptive_trees.adaptive_tree(adaptive_trees.RESTLESS),
    "forest": lambda: forest.ARFClassifier(**forests.RESTLESS),
    "forest of all features": lambda: forest.ARFClassifier(**{**forests.RESTLESS, **CALM}, max_features=None),
    "tree regressor": lambda: tree.HoeffdingTreeRegressor(**tree_regressors.EAGER),
    "tree regressor of means": lambda: tree.HoeffdingTreeRegressor(
        **tree_regressors.EAGER, leaf_prediction="mean", nominal_attributes=["n0", "n3"]
    ),
    "adaptive regressor": lambda: tree.HoeffdingAdaptiveTreeRegressor(**adaptive_regressors.RESTLESS),
    "forest regressor": lambda: forest.ARFRegressor(**forest_regressors.RESTLESS),
    "forest regressor of all features": lambda: forest.ARFRegressor(
        **{**forest_regressors.RESTLESS, **CALM}, max_features=None
    ),
}
Live = LiveModel | LiveRegressor


def learn(live: Live, x: dict[str, Any], y: int) -> None:
    """Learn one event, and check that it has taken no more words than there were, nor than `demand` promised."""
    ((columns, _),) = blocks([(x, y)])
    live._rows(columns)  # meets the features, so that the pool is the one that learns
    if isinstance(live, LiveModel):
        live.numbers_of([f"y{y}"])
    before = live.pool
    used, most = int(before.control[L.USED]), demand(before, len(x))
    live.learn_one(x, float(y) if isinstance(live, LiveRegressor) else f"y{y}")
    after = live.pool
    assert after.control[L.USED] <= after.F.size
    if after.F is before.F:
        assert after.control[L.USED] - used <= most


def hostile(source: random.Random, events: int) -> Iterator[tuple[dict[str, Any], int]]:
    """Make events of which some have many features and some one, whose features and classes come and go."""
    width = source.choice((3, 12, 40))
    rare = source.random() < 0.5
    for number in range(events):
        first = source.choice((0, 0, 0, number % 60))
        few = source.random() < 0.3
        names = [*range(first, first + (1 if few else width))]
        if source.random() < 0.1:
            source.shuffle(names)
        x: dict[str, Any] = {}
        for place in names:
            if source.random() < 0.9:
                x[f"n{place}"] = source.choice((source.gauss(0, 1), float(source.randrange(3))))
            if place % 4 == 0:
                x[f"t{place}"] = f"c{source.randrange(source.choice((2, 40)))}"
        classes = 2 if rare and number % 50 else 2 + number // 8
        yield x, source.randrange(classes) if number % 50 == 0 or not rare else 0


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@given(seed=st.integers(0, 2**32))
@examples(12)
def test_an_event_takes_no_more_than_its_demand(make: Callable[[], Any], seed: int) -> None:
    source = random.Random(seed)
    live: Live = take_over(make())
    for x, y in hostile(source, 150):
        if source.random() < 0.08:
            live = type(live).from_bytes(live.to_bytes())
        if not live.takes_text:
            ((x, _),) = numbers_only([(x, y)])
        if x:
            learn(live, x, y)


def test_a_leaf_that_has_forgotten_its_features_has_room_for_those_of_the_event() -> None:
    """Its subset has 300 features. After a restart only the event says how many words the leaf may take."""
    live = take_over(forest.ARFClassifier(n_models=3, seed=1, max_features=None))
    names = [f"f{place:03}" for place in range(300)]
    X = np.random.default_rng(0).normal(size=(400, len(names)))
    labels = live.numbers_of(["b" if event == 100 else "a" for event in range(400)])
    live.learn_block(Columns(names, X), labels)
    live.learn_block(Columns(("z",), np.ones((200, 1))), np.zeros(200, np.int64))
    roots = live.pool.tree[:3, L.ROOT]
    assert np.all(live.pool.I[roots + L.SUBSET_SIZE] == 300)
    assert np.all(live.pool.I[roots + L.KIND] == L.LEAF) and np.all(live.pool.I[roots + L.SLOTS] == 0)
    successor = LiveModel.from_bytes(live.to_bytes())
    for _ in range(50):
        learn(successor, {names[0]: 0.5}, 0)


def test_a_forged_subset_takes_no_more_than_the_event_has() -> None:
    live = take_over(forest.ARFClassifier(n_models=3, seed=1, max_features=None, **CALM))
    wide = {f"f{place:03}": 1.0 for place in range(500)}
    live.learn_one(wide, "y0")
    successor = LiveModel.from_bytes(live.to_bytes())
    for _ in range(30):
        learn(successor, {"f000": 1.0}, 0)


@pytest.mark.parametrize(("size", "words"), [(20, 13), (20, 2**62), (8, 1)])
def test_words_beyond_the_end_are_refused(size: int, words: int) -> None:
    control = np.array([8], np.int64)
    with pytest.raises(ModelError, match="the arena of a live model is full"):
        reserve(control, size, words)
    assert control[0] == 8
    assert reserve(control, size, size - 8) == 8
    assert control[0] == size


def test_a_model_whose_arena_is_full_raises_and_learns_on() -> None:
    """An event that takes more than its demand is an error of the kernels: here one that says that there is room."""
    live = take_over(tree.HoeffdingTreeClassifier(**trees.EAGER))
    learn(live, {"a": 1.0}, 0)
    pool = live.pool
    with pytest.raises(ModelError, match="the arena of a live model is full"):
        take(pool, pool.F.size)
    for number in range(100):
        learn(live, {"a": float(number % 7)}, number % 2)
    assert LiveModel.from_bytes(live.to_bytes()).to_bytes() == live.to_bytes()


# --- Random generators ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("first", [0, 1, 0x7FFFFFFF])
def test_a_generator_that_is_stuck_at_zero_is_refused(first: int) -> None:
    live = take_over(forest.ARFClassifier(n_models=2, seed=1))
    live.learn_one({f"f{place}": 1.0 for place in range(40)}, "y0")
    frame = frames.decode(live.to_bytes(), checkpoint.KIND, checkpoint.VERSION)
    twister = np.zeros_like(frame.arrays["twister"])
    twister[0] = first
    data = frames.encode(checkpoint.KIND, checkpoint.VERSION, frame.meta, {**frame.arrays, "twister": twister})
    with pytest.raises(FrameError, match="a random generator that is not stuck"):
        LiveModel.from_bytes(data)
    twister[0] = 0x80000000
    data = frames.encode(checkpoint.KIND, checkpoint.VERSION, frame.meta, {**frame.arrays, "twister": twister})
    assert LiveModel.from_bytes(data).pool.tree[0, L.EXISTS] == 1


def test_a_generator_that_never_draws_another_number_ends_with_an_error() -> None:
    twister, position = np.zeros(624, np.uint32), np.zeros(1, np.int64)
    with pytest.raises(ModelError, match="random generator"):
        poisson(twister, position, -1.0)


def test_a_forest_without_resampling_learns_nothing_as_in_river() -> None:
    """With `lambda_value` 0, River draws -1, a weight that no event can have."""
    live, river = (make(n_models=2, seed=1, lambda_value=0) for make in (_taken, forest.ARFClassifier))
    for number, _ in pairwise(range(40)):
        for model in (live, river):
            model.learn_one({"a": float(number % 3)}, "xy"[number % 2])
    assert live.predict_proba_one({"a": 1.0}) == river.predict_proba_one({"a": 1.0})


def _taken(**parameters: Any) -> Any:
    return take_over(forest.ARFClassifier(**parameters))
