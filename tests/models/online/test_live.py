"""Laws of live models of every family: taking over, giving back, checkpoints, blocks and rows."""

import math
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, forest, metrics, tree
from river.tree.splitter import ExhaustiveSplitter

from glasstream.base.errors import FrameError, ModelError, NotCompilable
from glasstream.models.online import checkpoint, layout
from glasstream.models.online import parameters as supported
from glasstream.models.online.layout import USED
from glasstream.models.online.live import TOO_WIDE, Columns, LiveModel
from glasstream.models.online.tree import tree_block
from glasstream.models.river import parameters as of_river
from glasstream.models.river.live import take, to_river
from glasstream_topics import frames
from tests.models.online.conftest import every
from tests.support.equality import Event, blocks, check_equal, check_same, learn_live, learn_river
from tests.support.examples import examples
from tests.support.learning_streams import made_streams
from tests.support.live_models import MODELS, resealed

every_family = every(MODELS)


@every_family
@given(events=made_streams(), share=st.floats(0, 1))
@examples(25)
def test_a_river_model_that_has_learned_is_taken_over(
    make: Callable[[], Any], events: list[Event], share: float
) -> None:
    river, cut = make(), int(share * len(events))
    learn_river(river, events[:cut])
    live = take(river)
    check_equal(to_river(live), river)
    check_same(live, river, events[cut:])


@every_family
@given(events=made_streams(), share=st.floats(0, 1))
@examples(25)
def test_river_goes_on_where_a_live_model_was(make: Callable[[], Any], events: list[Event], share: float) -> None:
    river, cut = make(), int(share * len(events))
    live = take(make())
    learn_river(river, events[:cut])
    learn_live(live, events[:cut])
    again = to_river(live)
    assert learn_river(again, events[cut:]) == learn_river(river, events[cut:])
    check_equal(again, river)


@every_family
@given(events=made_streams(), share=st.floats(0, 1))
@examples(25)
def test_a_checkpoint_goes_on_with_the_same_bits(make: Callable[[], Any], events: list[Event], share: float) -> None:
    cut = int(share * len(events))
    live = take(make())
    learn_live(live, events[:cut])
    data = live.to_bytes()
    successor = LiveModel.from_bytes(data)
    assert successor.to_bytes() == data
    check_equal(to_river(successor), to_river(live))
    assert learn_live(successor, events[cut:]) == learn_live(live, events[cut:])
    assert successor.to_bytes() == live.to_bytes()


@every_family
@given(events=made_streams(most=150), most=st.integers(1, 40))
@examples(15)
def test_the_size_of_blocks_changes_nothing(make: Callable[[], Any], events: list[Event], most: int) -> None:
    one, other, by_row = take(make()), take(make()), take(make())
    said = learn_live(one, events)
    assert learn_live(other, events, most) == said
    for (x, y), (pairs, _) in zip(events, said, strict=True):
        assert list(by_row.predict_proba_one(x).items()) == pairs
        by_row.learn_one(x, y)
    assert one.to_bytes() == other.to_bytes()
    check_equal(to_river(by_row), to_river(one))


@every_family
@given(events=made_streams(most=150), seed=st.integers(0, 1000))
@examples(15)
def test_late_labels_and_events_without_labels(make: Callable[[], Any], events: list[Event], seed: int) -> None:
    live, river, source = take(make()), make(), random.Random(seed)
    for x, y in events:
        if source.random() < 0.7:
            assert list(live.predict_proba_one(x).items()) == list(river.predict_proba_one(x).items())
        if source.random() < 0.7:
            live.learn_one(x, y)
            river.learn_one(x, y)
    check_equal(to_river(live), river)


def test_many_features_that_come_at_once_have_room() -> None:
    live, river = take(tree.HoeffdingTreeClassifier()), tree.HoeffdingTreeClassifier()
    events: list[Event] = [({"a": float(n), "b": 1.0, "c": 2.0}, "xy"[n % 2]) for n in range(5)]
    events.append(({"a": 1.0} | {f"f{place}": float(place % 7) for place in range(900)}, "x"))
    check_same(live, river, events)
    assert live.pool.control[USED] <= live.pool.F.size


def test_arrays_of_any_layout_are_learned_by_the_same_machine_code() -> None:
    columns = Columns(("a", "b"), np.arange(6.0).reshape(3, 2))
    lives = [take(tree.HoeffdingTreeClassifier()) for _ in range(2)]
    for live in lives:
        labels = live.numbers_of(["y", "n", "y"])
    lives[0].learn_block(columns, labels, np.ones(3))
    compiled = len(tree_block.signatures)
    spread = np.zeros(6, np.int32)
    spread[::2] = labels
    weights = np.ones(3)
    for array in (columns.values, weights):
        array.setflags(write=False)
    lives[1].learn_block(Columns(("a", "b"), np.asfortranarray(columns.values)), spread[::2], weights)
    lives[1].predict_block(columns)
    assert lives[0].to_bytes() == lives[1].to_bytes()
    assert len(tree_block.signatures) == compiled


@given(events=made_streams(most=150), seed=st.integers(0, 1000))
@examples(15)
def test_weights_of_events(events: list[Event], seed: int) -> None:
    source = random.Random(seed)
    for name in ("tree", "adaptive"):
        live, river = take(MODELS[name]()), MODELS[name]()
        for x, y in events:
            w = float(source.randint(1, 4))
            live.learn_one(x, y, w=w)
            river.learn_one(x, y, w=w)
        check_equal(to_river(live), river)


@every_family
@given(events=made_streams(most=120), seed=st.integers(0, 2**32))
@examples(60)
def test_damaged_checkpoints_are_refused_or_harmless(make: Callable[[], Any], events: list[Event], seed: int) -> None:
    live, source = take(make()), random.Random(seed)
    learn_live(live, events[: len(events) // 2])
    data = live.to_bytes()
    for _ in range(20):
        forged = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 8))):
            place = source.randrange(len(forged) // 8) * 8
            word = source.choice((0, 1, 2, 3, 7, 24, 100, -1, 2**31, 2**62, source.getrandbits(63)))
            forged[place : place + 8] = word.to_bytes(8, "little", signed=True)
        with pytest.raises(FrameError):
            LiveModel.from_bytes(bytes(forged) if bytes(forged) != data else data[:-1])
        try:
            successor = LiveModel.from_bytes(resealed(bytes(forged)))
        except FrameError:
            continue
        with suppress(ModelError):  # a forged kind of a feature does not fit the events
            for columns, labels in blocks(events[len(events) // 2 :]):
                successor.predict_learn_block(columns, successor.numbers_of(labels))
        with suppress(FrameError):
            LiveModel.from_bytes(successor.to_bytes())


@every_family
def test_cut_checkpoints_are_refused(make: Callable[[], Any]) -> None:
    live = take(make())
    learn_live(live, [({"a": float(n % 7), "t": "xyz"[n % 3]}, "yn"[n % 2]) for n in range(100)])
    data = live.to_bytes()
    for length in range(0, len(data), 13):
        with pytest.raises(FrameError):
            LiveModel.from_bytes(data[:length])


def wide_forest() -> LiveModel:
    """A forest of one tree, in which a leaf knows many classes, one many features, and one many categories."""
    live = take(
        forest.ARFClassifier(
            n_models=1, grace_period=30, max_features=None, split_criterion="gini", delta=1e-7, tau=0.0,
            warning_detector=drift.NoDrift(), drift_detector=drift.NoDrift(), seed=1,
        )
    )  # fmt: skip
    learn_live(live, [({"leaf": "cfk"[n % 3], **dict.fromkeys(FEATURES, "x")}, "cfk"[n % 3]) for n in range(90)])
    learn_live(live, [({"leaf": "k", "t0": f"category {n}"}, "k") for n in range(len(FEATURES))])
    learn_live(live, [({"leaf": "c"}, f"class {n}") for n in range(len(FEATURES))])
    return live


FEATURES = [f"t{n}" for n in range(120)]


def test_a_checkpoint_with_too_many_trees_refuses_events_before_memory_is_allocated() -> None:
    """What the trees hold does not grow, but the room for the next event is a product of the stated sizes."""
    frame = frames.decode(wide_forest().to_bytes(), checkpoint.KIND, checkpoint.VERSION)

    def forged(models: int) -> bytes:
        meta, arrays = dict(frame.meta), dict(frame.arrays)
        meta["parameters"] = {**meta["parameters"], "n_models": models}
        before = arrays["tree"]
        arrays["tree"] = np.zeros((2 * models, layout.TREE), np.int64)
        arrays["tree"][0] = before[0]
        arrays["tree"][:models, layout.EXISTS] = 1
        arrays["confusion"] = np.repeat(arrays["confusion"], models, axis=0)
        for name in ("seen", "scores"):
            arrays[name] = np.repeat(arrays[name][:1], 2 * models, axis=0)
        return frames.encode(checkpoint.KIND, checkpoint.VERSION, meta, arrays)

    sound = LiveModel.from_bytes(forged(1))
    sound.learn_one({"leaf": "c"}, "c")
    wide = LiveModel.from_bytes(forged(100))
    words = wide.pool.F.size
    with pytest.raises(ModelError, match=r"limits\.categories"):
        wide.learn_one({"leaf": "c"}, "c")
    assert wide.pool.F.size == words


def test_a_model_that_grows_too_wide_refuses_events_and_says_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint can still be read: otherwise a worker that restarts could not go on with its other streams."""
    live = LiveModel.from_bytes(wide_forest().to_bytes())
    monkeypatch.setattr(layout, "MOST_DEMAND", 2**20)
    for _ in range(2):
        data = live.to_bytes()
        with pytest.raises(ModelError, match=r"limits\.categories"):
            live.learn_one({"leaf": "c"}, "c")
        with pytest.raises(ModelError, match=r"limits\.categories"):
            live.predict_proba_one({"leaf": "c"})
        assert live.to_bytes() == data
        live = LiveModel.from_bytes(data)


def test_only_the_events_that_are_too_wide_are_refused_in_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    live = take(tree.HoeffdingTreeClassifier())
    learn_live(live, [({"a": float(n)}, "yn"[n % 2]) for n in range(20)])
    labels = live.numbers_of(["y"] * 3)
    names = ["a", *FEATURES]
    values = np.full((3, len(names)), np.nan)
    values[:, 0] = 1.0
    monkeypatch.setattr(layout, "MOST_DEMAND", 2_000)
    before = live.to_bytes()
    assert live.predict_learn_block(Columns(names, values), labels).labels.tolist() == [TOO_WIDE] * 3
    after = LiveModel.from_bytes(live.to_bytes())
    assert after.pool.control[USED] == LiveModel.from_bytes(before).pool.control[USED], "nothing was learned"


# --- What stays with River, and what is refused -----------------------------------------------------------------------
@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (tree.ExtremelyFastDecisionTreeClassifier(), "ExtremelyFastDecisionTreeClassifier"),
        (tree.HoeffdingTreeClassifier(splitter=ExhaustiveSplitter()), "splitter: expected GaussianSplitter"),
        (tree.HoeffdingTreeClassifier(max_size=1.0), "max_size"),
        (tree.HoeffdingTreeClassifier(remove_poor_attrs=True), "remove_poor_attrs"),
        (tree.HoeffdingTreeClassifier(stop_mem_management=True), "stop_mem_management"),
        (tree.HoeffdingTreeClassifier(nominal_attributes=[1]), "nominal_attributes"),
        (tree.HoeffdingAdaptiveTreeClassifier(), "classes: expected them in order"),
        (forest.ARFClassifier(metric=metrics.F1()), "metric: expected Accuracy"),
        (forest.ARFClassifier(drift_detector=drift.KSWIN()), "drift_detector: expected ADWIN or NoDrift"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_supported_is_named(model: Any, reason: str) -> None:
    with pytest.raises(NotCompilable, match=reason):
        take(model)


EXTREMES = (
    *(sign * 2**power + more for sign in (-1, 1) for power in (0, 31, 53, 63, 70) for more in (-1, 0, 1)),
    *(64, 100, 10_000, -1e300, 1e-300, 0.5, 1.0, 1e300, math.inf, math.nan, None, False, True, "a"),
)
"""Values of a parameter at which types and bounds end."""


@pytest.mark.parametrize("kind", of_river.FAMILIES, ids=lambda kind: kind.__name__)
def test_river_builds_a_model_of_all_parameters_that_a_state_may_have(kind: Any) -> None:
    parameters, allowed = of_river.read(kind()), supported.OF[of_river.FAMILIES[kind]]
    for name, default in parameters.items():
        parts = range(len(default)) if isinstance(default, list) else ()
        of_parts = [[*default[:part], one, *default[part + 1 :]] for part in parts for one in EXTREMES]
        for value in filter(allowed[name][0], (*EXTREMES, *of_parts)):
            kind(**of_river.river_arguments({**parameters, name: value}))


def test_a_model_that_has_learned_what_is_not_supported_stays_with_river() -> None:
    by_number = tree.HoeffdingTreeClassifier()
    by_number.learn_one({1: 2.0}, "y")
    mixed = tree.HoeffdingTreeClassifier()
    mixed.learn_one({"a": 2.0}, "y")
    mixed.learn_one({"a": 2.0}, 1)
    for model, reason in ((by_number, "names of features"), (mixed, "classes to be all texts")):
        with pytest.raises(NotCompilable, match=reason):
            take(model)


@every_family
def test_blocks_of_another_form_are_refused_and_change_nothing(make: Callable[[], Any]) -> None:
    live = take(make())
    learn_live(live, [({"a": 1.0, "t": "x"}, "y"), ({"a": 2.0, "t": "z"}, "n")])
    learn_live(live, [({"t": "z"}, "n")])
    data = live.to_bytes()
    good = np.zeros((1, 1))
    none = np.array([-1])
    for columns, labels, weights in (
        (Columns(("a",), np.array([[math.inf]])), none, None),
        (Columns(("a",), np.array([[1e200]])), none, None),
        (Columns(("a", "a"), np.zeros((1, 2))), none, None),
        (Columns(("a",), np.zeros((1, 2))), none, None),
        (Columns(("a",), good), np.array([2]), None),
        (Columns(("a",), good), np.array([-2]), None),
        (Columns(("a",), good), np.array([0, 0]), None),
        (Columns(("a",), good), np.array([0]), np.array([0.5])),
        (Columns(("t",), good), none, None),
        (Columns(("t",), np.array([[3.0]]), {"t": ("x",)}), none, None),
        (Columns(("new", "t"), np.zeros((1, 2))), none, None),
        (Columns(("new",), good), np.array([2]), None),
        (Columns(("t", "a"), np.zeros((1, 2)), {"t": ("new",), "a": ("x",)}), none, None),
        (Columns(("t", "u"), np.array([[0.0, 2.0]]), {"t": ("new",), "u": ("x",)}), none, None),
    ):
        with pytest.raises(ModelError):
            live.predict_learn_block(columns, labels, weights)
        assert live.to_bytes() == data
