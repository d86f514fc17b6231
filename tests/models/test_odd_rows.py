"""Rows that no stream has, made by hypothesis: extreme numbers, absent features, categories never seen."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import compose, forest, linear_model, multiclass, preprocessing, tree

NUMBER = st.one_of(st.floats(-12, 12), st.sampled_from([0.0, -0.0, 5.0, 1e-300, -1e6, 1e9]))
TEXT = st.sampled_from(["red", "green", "blue", "grey", "t0", "t1", "t9", "never seen", ""])
NUMERIC = {"size": NUMBER, "weight": NUMBER, "open": st.booleans(), "late": NUMBER, "never seen": NUMBER}
ROWS = st.lists(st.fixed_dictionaries({}, optional=NUMERIC | {"colour": TEXT, "town": TEXT}), min_size=1, max_size=8)
NUMERIC_ROWS = st.lists(st.fixed_dictionaries({}, optional=NUMERIC), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def learned(watch, odd):
    """Models after a stream; their tables grow no more, so examples do not depend on each other."""

    def learn(model, classification, text=True):
        watched = watch(model, classification)
        for x, y in odd(700, regression=not classification, text=text):
            watched.learn(x, y)
        return watched

    return {
        "forest": learn(forest.ARFClassifier(n_models=4, seed=3, grace_period=20), True),
        "tree": learn(tree.HoeffdingAdaptiveTreeClassifier(seed=3, grace_period=20, delta=0.2), True),
        "regression forest": learn(forest.ARFRegressor(n_models=4, seed=3, leaf_prediction="mean"), False),
        "numeric regression forest": learn(forest.ARFRegressor(n_models=4, seed=3), False, text=False),
        "linear": learn(preprocessing.StandardScaler() | linear_model.LinearRegression(), False, text=False),
        "one vs rest": learn(
            multiclass.OneVsRestClassifier(
                compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression())
            ),
            True,
            text=False,
        ),
    }


@pytest.mark.parametrize("name", ["forest", "tree", "regression forest"])
@settings(max_examples=60)
@given(xs=ROWS)
def test_trees_say_what_river_says(name, learned, xs):
    learned[name].check(xs)


@pytest.mark.parametrize("name", ["numeric regression forest", "linear", "one vs rest"])
@settings(max_examples=60)
@given(xs=NUMERIC_ROWS)
def test_numeric_models_say_what_river_says(name, learned, xs):
    learned[name].check(xs)


@pytest.mark.parametrize("name", ["forest", "tree", "regression forest", "linear", "one vs rest"])
@settings(max_examples=30)
@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=30))
def test_no_number_in_any_slot_breaks_a_predictor(name, learned, values):
    """Codes below 0, beyond every category or not whole, infinities: the category is unseen, the result has a form."""
    predictor = learned[name].compiled()
    width = len(predictor.features)
    rows = np.resize(np.array(values), (4, width))
    said = predictor.evaluate(rows)
    assert said.values.shape == (4, max(len(predictor.classes), 1))
    assert np.all(said.labels < max(len(predictor.classes), 1))
