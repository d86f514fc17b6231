"""Laws of live regressors of every family: taking over, giving back, checkpoints, blocks and rows, snapshots."""

import math
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import forest, linear_model, preprocessing, stats, tree
from river.forest.adaptive_random_forest import BaseTreeRegressor
from river.tree.splitter import GaussianSplitter, QOSplitter

from glasstream.base.errors import FrameError, ModelError, NotCompilable
from glasstream.base.jit import kernel
from glasstream.events.features import FeatureTable
from glasstream.models.online import checkpoint, layout
from glasstream.models.online.arena import demand
from glasstream.models.online.layout import MOST_CATEGORIES, MOST_CLASSES, MOST_ENTRIES, MOST_SLOTS, Pool
from glasstream.models.online.live import Columns, LiveModel, LiveRegressor
from glasstream.models.online.parameters import OF_TREES_OF_FOREST, SPLITS
from glasstream.models.river.compile import compile_model
from glasstream.models.river.live import read_trees, take, to_river
from glasstream.models.river.parameters import plain
from glasstream_topics import frames
from tests.support.equality import Event, blocks, check_equal, check_same, learn_live, learn_river
from tests.support.examples import examples
from tests.support.learning_streams import made_numbers
from tests.support.live_models import resealed
from tests.support.regressors import REGRESSORS
from tests.support.snapshot_bits import bits

every_family = pytest.mark.parametrize("make", REGRESSORS.values(), ids=REGRESSORS)


def drawn(data: st.DataObject, make: Callable[[], Any], most: int = 300) -> list[Event]:
    events: list[Event] = data.draw(made_numbers(most=most, texts=make().leaf_prediction == "mean"))
    return events


@every_family
@given(data=st.data(), share=st.floats(0, 1))
@examples(25)
def test_a_river_model_that_has_learned_is_taken_over(
    make: Callable[[], Any], data: st.DataObject, share: float
) -> None:
    events, river = drawn(data, make), make()
    cut = int(share * len(events))
    learn_river(river, events[:cut])
    live = take(river)
    check_equal(to_river(live), river)
    check_same(live, river, events[cut:])


@every_family
@given(data=st.data(), share=st.floats(0, 1))
@examples(25)
def test_river_goes_on_where_a_live_model_was(make: Callable[[], Any], data: st.DataObject, share: float) -> None:
    events, river, live = drawn(data, make), make(), take(make())
    cut = int(share * len(events))
    learn_river(river, events[:cut])
    learn_live(live, events[:cut])
    again = to_river(live)
    assert learn_river(again, events[cut:]) == learn_river(river, events[cut:])
    check_equal(again, river)


@every_family
@given(data=st.data(), share=st.floats(0, 1), most=st.integers(1, 40))
@examples(25)
def test_a_checkpoint_goes_on_with_the_same_bits(
    make: Callable[[], Any], data: st.DataObject, share: float, most: int
) -> None:
    events, live = drawn(data, make), take(make())
    cut = int(share * len(events))
    learn_live(live, events[:cut])
    written = live.to_bytes()
    successor = LiveRegressor.from_bytes(written)
    assert successor.to_bytes() == written
    check_equal(to_river(successor), to_river(live))
    assert learn_live(successor, events[cut:], most) == learn_live(live, events[cut:])
    assert successor.to_bytes() == live.to_bytes()
    with pytest.raises(FrameError, match="LiveModel"):
        LiveModel.from_bytes(written)


@every_family
@given(data=st.data(), seed=st.integers(0, 1000))
@examples(15)
def test_rows_weights_late_and_missing_targets(make: Callable[[], Any], data: st.DataObject, seed: int) -> None:
    live, river, source = take(make()), make(), random.Random(seed)
    for x, y in drawn(data, make, 150):
        if source.random() < 0.7:
            assert live.predict_one(x) == river.predict_one(x)
        if source.random() < 0.7:
            w = source.randint(1, 4)
            live.learn_one(x, y, w=w)
            river.learn_one(x, y, w=w)
    check_equal(to_river(live), river)


@every_family
@given(data=st.data(), hidden=st.integers(1, 7))
@examples(25)
def test_snapshots_equal_what_is_compiled_of_the_river_model(
    make: Callable[[], Any], data: st.DataObject, hidden: int
) -> None:
    events, live, table = drawn(data, make), take(make()), FeatureTable()
    third = max(1, len(events) // 3)
    for first in range(0, len(events), third):
        part = events[first : first + third]
        learn_live(live, part)
        for x, _ in part:
            table.encode(x)
        for inputs in (None, [slot % hidden > 0 for slot in range(len(table))]):
            river = compile_model(to_river(live), table, None, given=inputs)
            assert bits(live.compiled(table, {}, given=inputs)) == bits(river)


@every_family
@given(data=st.data(), seed=st.integers(0, 2**32))
@examples(60)
def test_damaged_checkpoints_are_refused_or_harmless(make: Callable[[], Any], data: st.DataObject, seed: int) -> None:
    events, live, source = drawn(data, make, 120), take(make()), random.Random(seed)
    learn_live(live, events[: len(events) // 2])
    written = live.to_bytes()
    for _ in range(20):
        forged = bytearray(written)
        for _ in range(source.choice((1, 1, 2, 8))):
            place = source.randrange(len(forged) // 8) * 8
            word = source.choice((0, 1, 2, 3, 7, 24, 100, -1, 2**31, 2**62, source.getrandbits(63)))
            forged[place : place + 8] = word.to_bytes(8, "little", signed=True)
        try:
            successor = LiveRegressor.from_bytes(resealed(bytes(forged)))
        except FrameError:
            continue
        with suppress(ModelError):
            for columns, targets in blocks(events[len(events) // 2 :]):
                successor.predict_learn_numbers(columns, np.array(targets, np.float64))
        with suppress(FrameError):
            LiveRegressor.from_bytes(successor.to_bytes())


@every_family
def test_many_features_that_come_at_once_have_room(make: Callable[[], Any]) -> None:
    events: list[Event] = [({"a": float(n)}, float(n % 3)) for n in range(5)]
    for width in (3, 900):
        events.append(({"a": 1.0} | {f"f{place}": float(place % 7) for place in range(width)}, 1.0))
    check_same(take(make()), make(), events)


@kernel
def _demand(p: Pool, columns: int) -> int:
    return int(demand(p, columns))


@pytest.mark.parametrize(
    "model",
    [tree.HoeffdingTreeRegressor(), tree.HoeffdingTreeClassifier(), forest.ARFRegressor()],
    ids=lambda model: type(model).__name__,
)
def test_a_demand_beyond_every_memory_does_not_overflow(model: Any) -> None:
    """Many categories of one leaf and wide contents of another: their product is no 64-bit number."""
    _, pool = read_trees(model)
    pool.control[[MOST_CATEGORIES, MOST_CLASSES, MOST_ENTRIES, MOST_SLOTS]] = 2**40
    assert _demand(pool, 3) == 2**60


def test_a_regressor_of_which_an_event_needs_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    live = take(tree.HoeffdingTreeRegressor(nominal_attributes=["n"]))
    learn_live(live, [({"n": float(n)}, 0.0) for n in range(300)])
    learn_live(live, [({f"f{place}": 1.0 for place in range(300)}, 0.0)])
    data = live.to_bytes()
    LiveRegressor.from_bytes(data).learn_one({"n": 1.0}, 0.0)
    monkeypatch.setattr(layout, "MOST_DEMAND", 2**17)
    wide = LiveRegressor.from_bytes(data)
    for call in (lambda: wide.learn_one({"n": 1.0}, 0.0), lambda: wide.predict_one({"n": 1.0})):
        with pytest.raises(ModelError, match=r"limits\.categories"):
            call()
    assert wide.to_bytes() == data
    assert learn_live(live, [({f"g{place}": 1.0 for place in range(50_000)}, 0.0)])[0][1] == "None"
    arenas = [
        frames.decode(one, checkpoint.KIND, checkpoint.VERSION).arrays["arena"].tobytes()
        for one in (data, live.to_bytes())
    ]
    assert arenas[0] == arenas[1], "the event was not learned"


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (tree.HoeffdingTreeRegressor(splitter=QOSplitter()), "splitter: expected EBSTSplitter"),
        (tree.HoeffdingTreeRegressor(leaf_model=linear_model.PARegressor()), "leaf_model: expected an untrained"),
        (tree.HoeffdingTreeRegressor(leaf_model=linear_model.LinearRegression(l2=0.1)), "leaf_model"),
        (
            tree.HoeffdingTreeRegressor(leaf_model=preprocessing.StandardScaler() | linear_model.LinearRegression()),
            "leaf_model",
        ),
        (tree.HoeffdingTreeRegressor(remove_poor_attrs=True), "remove_poor_attrs"),
        (tree.SGTRegressor(), "SGTRegressor"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_supported_is_named(model: Any, reason: str) -> None:
    with pytest.raises(NotCompilable, match=reason):
        take(model)


def test_a_model_that_has_learned_what_is_not_supported_stays_with_river() -> None:
    model = tree.HoeffdingTreeRegressor()
    model.learn_one({"a": 2.0}, 1.0)
    model._root.stats = stats.Var(ddof=0)
    with pytest.raises(NotCompilable, match="ddof"):
        take(model)


def test_blocks_of_another_form_are_refused_and_change_nothing() -> None:
    live = take(tree.HoeffdingTreeRegressor())
    learn_live(live, [({"a": 1.0}, 2.0), ({"a": 2.0}, 3.0)])
    data, good, one = live.to_bytes(), np.zeros((1, 1)), np.zeros(1)
    for columns, targets, weights in (
        (Columns(("a",), np.array([[math.inf]])), one, None),
        (Columns(("a",), good), np.zeros(2), None),
        (Columns(("a",), good), np.array([math.inf]), None),
        (Columns(("a",), good), one, np.array([0.5])),
        (Columns(("t",), good, {"t": ("x",)}), one, None),
    ):
        with pytest.raises(ModelError):
            live.predict_learn_numbers(columns, targets, weights)
        assert live.to_bytes() == data


def test_an_event_whose_prediction_is_too_large_is_not_learned() -> None:
    live = take(tree.HoeffdingTreeRegressor(leaf_prediction="mean"))
    columns = Columns(("a",), np.zeros((4, 1)))
    answers = live.predict_learn_numbers(columns, np.array([5.0, 50.0, 1.0, math.nan]), within=20.0)
    assert answers.values.tolist() == [0.0, 5.0, 27.5, 27.5]
    assert answers.outcomes.tolist() == [0, 0, -2, -2]
    known = np.array([False, True, False, True])
    answers = live.predict_learn_numbers(columns, np.array([5.0, -25.0, 1.0, 7.0]), within=20.0, known=known)
    assert answers.values[[0, 2]].tolist() == [27.5, 10.0]
    assert answers.outcomes.tolist() == [-2, 0, 0, 0]


def test_the_defaults_of_parameters_are_those_of_river() -> None:
    trees = BaseTreeRegressor()
    assert {name: plain(getattr(trees, name)) for name in OF_TREES_OF_FOREST} == OF_TREES_OF_FOREST
    assert GaussianSplitter().n_splits == SPLITS
