"""Rows with replaced features: the short way says what `evaluate` says of the rows written out, to the last bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import drift, forest, linear_model, multiclass, preprocessing, tree

from pipeline.explain import variants

CHANGING = {"grace_period": 20, "delta": 0.2, "drift_detector": drift.ADWIN(0.3, clock=4)}
MODELS = {
    "forest": (lambda: forest.ARFClassifier(n_models=4, seed=3, grace_period=20), True, True),
    "forest of majorities": (lambda: forest.ARFClassifier(n_models=3, seed=7, leaf_prediction="mc"), True, True),
    "tree": (lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=3, drift_window_threshold=2000, **CHANGING), True, True),
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
    """Compiled from models that have learned; of each also its branches' thresholds, where answers change."""
    made = {}
    for name, (make, classification, text) in MODELS.items():
        watched = watch(make(), classification)
        for x, y in odd(900, regression=not classification, text=text):
            watched.learn(x, y)
        made[name] = watched.compiled()
    return made


def _numbers(data, predictor, shape):
    thresholds = predictor._branches.threshold.tolist() if hasattr(predictor, "_branches") else [0.0]
    pool = data.draw(st.lists(NUMBERS | st.sampled_from(thresholds or [0.0]), min_size=4, max_size=40))
    return np.resize(np.array(pool), shape)


def _equal(said, wanted):
    assert said.values.shape == wanted.values.shape
    assert said.values.tobytes() == wanted.values.tobytes()
    assert said.labels.tolist() == wanted.labels.tolist()


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=60, deadline=None)
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
@settings(max_examples=60, deadline=None)
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
