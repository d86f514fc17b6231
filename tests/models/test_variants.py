"""Rows with replaced features: the short way says what `evaluate` says of the rows written out, to the last bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import drift, forest, linear_model, multiclass, preprocessing, tree
from river.tree.nodes.branch import DTBranch

from glasstream.explain import variants
from glasstream.models.predictors.kernels import leaf_sets
from glasstream.models.predictors.predictor import Output
from tests.support.examples import examples
from tests.support.random_trees import NUMBERS as TESTED
from tests.support.random_trees import random_trees

CHANGING = {"grace_period": 20, "delta": 0.2, "drift_detector": drift.ADWIN(0.3, clock=4)}
MODELS = {
    "forest": (lambda: forest.ARFClassifier(n_models=4, seed=3, grace_period=20), True, True),
    "forest of majorities": (lambda: forest.ARFClassifier(n_models=3, seed=7, leaf_prediction="mc"), True, True),
    "tree": (lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=3, drift_window_threshold=2000, **CHANGING), True, True),
    "tree with alternates": (
        lambda: tree.HoeffdingAdaptiveTreeClassifier(
            seed=7, grace_period=30, delta=0.2, leaf_prediction="nb", drift_detector=drift.NoDrift()
        ),
        True,
        True,
    ),
    "regression tree with alternates": (
        lambda: tree.HoeffdingAdaptiveTreeRegressor(
            seed=7, grace_period=30, delta=0.2, leaf_prediction="mean", drift_detector=drift.NoDrift()
        ),
        False,
        True,
    ),
    "binary tree": (lambda: tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2, binary_split=True), True, True),
    "large tree": (
        lambda: tree.HoeffdingTreeClassifier(grace_period=5, delta=0.9, tau=0.9, leaf_prediction="nb"),
        True,
        True,
    ),
    "numeric tree": (lambda: tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2), True, False),
    "regression forest": (lambda: forest.ARFRegressor(n_models=4, seed=3, grace_period=20), False, False),
    "regression forest by its mean": (
        lambda: forest.ARFRegressor(n_models=9, seed=7, grace_period=20, aggregation_method="mean"),
        False,
        False,
    ),
    "regression tree": (
        lambda: tree.HoeffdingAdaptiveTreeRegressor(
            seed=3, drift_window_threshold=2000, leaf_prediction="mean", **CHANGING
        ),
        False,
        True,
    ),
    "tree of intervals": (
        lambda: tree.HoeffdingTreeRegressor(
            grace_period=50,
            delta=0.01,
            leaf_prediction="mean",
            splitter=tree.splitter.QOSplitter(radius=0.5, allow_multiway_splits=True),
        ),
        False,
        False,
    ),
    "linear": (lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(), False, False),
    "one vs rest": (
        lambda: preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        True,
        False,
    ),
}
NUMBERS = st.one_of(
    st.floats(-12, 12),
    st.sampled_from([0.0, -0.0, 1.0, 2.0, 3.0, 5.0, 99.0, -1.0, 0.5, 1e9, -1e300, np.inf, -np.inf, np.nan]),
)


@pytest.fixture(scope="module")
def predictors(watch, odd):
    """Compiled from models that have learned."""
    made = {}
    for name, (make, classification, text) in MODELS.items():
        watched = watch(make(), classification)
        events = odd(900, regression=not classification, text=text)
        for x, y in events:
            watched.learn(x, y)
        if "alternates" in name:
            _grow_alternates(watched.model, events)
        made[name] = watched.compiled()
    return made


def _grow_alternates(model, events):
    """An alternate tree beside each branch, trained on other rows; some stay leaves, which River may list twice."""
    branches = [node for node in _nodes(model._root) if isinstance(node, DTBranch)]
    for number, branch in enumerate(branches):
        branch._alternate_tree = model._new_leaf(parent=branch)
        for x, y in events[number :: len(branches) + 3] if number % 2 else events[:5]:
            x = {name: value for name, value in x.items() if value is not None}
            branch._alternate_tree.learn_one(x, y, tree=model, parent=branch, parent_branch=0)


def _nodes(node):
    yield node
    for child in getattr(node, "children", ()):
        yield from _nodes(child)


def _numbers(data, predictor, shape):
    thresholds = predictor._branches.threshold.tolist() if hasattr(predictor, "_branches") else [0.0]
    pool = data.draw(st.lists(NUMBERS | st.sampled_from(thresholds or [0.0]), min_size=4, max_size=40))
    return np.resize(np.array(pool), shape)


def _equal(said, wanted):
    assert said.values.shape == wanted.values.shape
    assert said.values.tobytes() == wanted.values.tobytes()
    assert said.labels.tolist() == wanted.labels.tolist()


@pytest.mark.parametrize("name", MODELS)
@examples(60)
@given(data=st.data())
def test_replacing_a_feature_says_what_the_written_out_row_says(name, predictors, data):
    predictor = predictors[name]
    count, times = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 4))
    width = len(predictor.features) + data.draw(st.sampled_from([0, 0, 1, 3, -1, -3]))
    rows = _numbers(data, predictor, (count, width))
    values = _numbers(data, predictor, (count, times, width))
    said, wanted = variants.replaced(predictor, rows, values), variants.written_out_replaced(predictor, rows, values)
    _equal(said[0], wanted[0])
    _equal(said[1], wanted[1])


@pytest.mark.parametrize("name", MODELS)
@examples(60)
@given(data=st.data())
def test_building_rows_up_says_what_the_written_out_rows_say(name, predictors, data):
    predictor = predictors[name]
    count, inner = data.draw(st.integers(0, 4)), data.draw(st.integers(1, 4))
    width = len(predictor.features) + data.draw(st.sampled_from([0, 0, 1, 3, -1, -3]))
    each_step = data.draw(st.booleans())
    rows = _numbers(data, predictor, (count, width))
    background = _numbers(data, predictor, (count, width - 1 if each_step else 1, inner, width))
    order = np.array([data.draw(st.permutations(range(width))) for _ in range(count)], np.int64).reshape(count, width)
    said = variants.built_up(predictor, rows, order, background)
    _equal(said, variants.written_out_built_up(predictor, rows, order, background))


@pytest.mark.parametrize("features", [1, 2, 3, 9, 70])
def test_trees_that_no_learner_grew_say_what_the_written_out_rows_say(features):
    """Branches that no row can test, alternates below and beside each other, numbers on and beside the thresholds."""
    random = np.random.Generator(np.random.PCG64(features))
    short = 0
    for _ in range(60):
        predictor = random_trees(random, features)
        short += predictor._variants is not None
        width = max(1, features + int(random.integers(-1, 2)))
        numbers = np.where(random.random((4, 4, width)) < 0.3, random.normal(0, 2, (4, 4, width)), np.nan)
        numbers = np.where(random.random(numbers.shape) < 0.6, random.choice(TESTED, numbers.shape), numbers)
        rows, values = numbers[:, 0].copy(), numbers[:, 1:].copy()
        said, wanted = (
            variants.replaced(predictor, rows, values),
            variants.written_out_replaced(predictor, rows, values),
        )
        _equal(said[0], wanted[0])
        _equal(said[1], wanted[1])
        order = np.argsort(random.random((4, width)), axis=1)
        background = values[:, np.newaxis] if random.random() < 0.5 else np.repeat(values[:, np.newaxis], width - 1, 1)
        said = variants.built_up(predictor, rows, order, background)
        _equal(said, variants.written_out_built_up(predictor, rows, order, background))
    assert short == 60


@pytest.mark.parametrize("name", ["forest", "tree with alternates", "regression forest", "linear"])
def test_many_rows_say_what_they_say_alone(name, predictors):
    """More than are worked on at a time."""
    predictor = predictors[name]
    width = len(predictor.features)
    random = np.random.Generator(np.random.PCG64(1))
    rows, values = random.normal(0, 3, (900, width)).round(1), random.normal(0, 3, (900, 2, width)).round(1)
    order = np.argsort(random.random((900, width)), axis=1)
    whole, alone = variants.replaced(predictor, rows, values), variants.replaced(predictor, rows[77:78], values[77:78])
    _equal(alone[0], Output(whole[0].values[77:78], whole[0].labels[77:78]))
    part = slice(77 * 2 * width, 78 * 2 * width)
    _equal(alone[1], Output(whole[1].values[part], whole[1].labels[part]))
    _equal(whole[1], variants.written_out_replaced(predictor, rows, values)[1])
    background = values[:, np.newaxis]
    said = variants.built_up(predictor, rows, order, background)
    _equal(said, variants.written_out_built_up(predictor, rows, order, background))


def test_trees_go_the_short_way(predictors):
    """All but those with intervals of one width as cases; among them some whose leaves fill several words."""
    words = {}
    for name, predictor in predictors.items():
        if hasattr(predictor, "_branches"):
            assert (predictor._variants is None) == (name == "tree of intervals")
            words[name] = 0 if predictor._variants is None else max(predictor._variants.sets.words)
    assert words["large tree"] >= 3
    assert min(words.values()) == 0 and 1 in words.values()
    for name in ("tree with alternates", "regression tree with alternates"):
        leaves = predictors[name]._variants.sets.leaf
        assert len(set(leaves[leaves > 0])) < np.count_nonzero(leaves > 0)  # one is listed twice


def test_more_features_than_bits_in_a_word(watch):
    random = np.random.Generator(np.random.PCG64(2))
    watched = watch(tree.HoeffdingTreeClassifier(grace_period=20, delta=0.5, tau=0.5), True)
    rows = random.normal(size=(150, 130))
    for row in rows:
        watched.learn({f"x{f}": value for f, value in enumerate(row.tolist())}, bool(row[3] + row[67] + row[129] > 0))
    predictor = watched.compiled()
    said = variants.replaced(predictor, rows[:9], rows[9:18, np.newaxis])
    _equal(said[1], variants.written_out_replaced(predictor, rows[:9], rows[9:18, np.newaxis])[1])
    order = np.argsort(random.random((9, 130)), axis=1)
    background = rows[9:27].reshape(9, 1, 2, 130)
    said = variants.built_up(predictor, rows[:9], order, background)
    _equal(said, variants.written_out_built_up(predictor, rows[:9], order, background))


@pytest.mark.parametrize("make", [forest.ARFClassifier, forest.ARFRegressor, tree.HoeffdingTreeClassifier])
def test_a_model_that_has_learned_nothing(make, watch):
    watched = watch(make(), make is not forest.ARFRegressor)
    watched.rows([{"a": 1.0, "b": 2.0}])
    predictor = watched.compiled()
    rows, values = np.ones((3, 2)), np.zeros((3, 2, 2))
    _equal(variants.replaced(predictor, rows, values)[1], variants.written_out_replaced(predictor, rows, values)[1])
    order, background = np.tile([1, 0], (3, 1)), np.zeros((3, 1, 2, 2))
    said = variants.built_up(predictor, rows, order, background)
    _equal(said, variants.written_out_built_up(predictor, rows, order, background))


def test_forests_whose_sets_would_be_too_large_are_written_out(predictors, monkeypatch, watch, odd):
    monkeypatch.setattr(leaf_sets, "_LIMIT", 10)
    watched = watch(forest.ARFClassifier(n_models=2, seed=3, grace_period=20), True)
    for x, y in odd(300):
        watched.learn(x, y)
    predictor = watched.compiled()
    assert predictor._variants is None
    rows, values = np.zeros((2, 6)), np.ones((2, 1, 6))
    _equal(variants.replaced(predictor, rows, values)[1], variants.written_out_replaced(predictor, rows, values)[1])
