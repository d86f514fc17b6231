"""A compiled predictor says what River says, to 1e-9, at every moment of the learning and on every row."""

import pytest
from river import compose, drift, forest, linear_model, multiclass, optim, preprocessing, tree

from tests.support.examples import some

MOMENTS = 12
QUICK_CLASSIFIERS = [
    "forest of majorities", "adaptive tree that changes", "tree of naive Bayes", "binary tree", "small tree",
]  # fmt: skip
QUICK_REGRESSORS = ["forest of models", "adaptive tree that changes", "tree of intervals", "scaled linear"]


def _linear(model):
    return compose.Pipeline(preprocessing.StandardScaler(), model)


CLASSIFIERS = {
    "forest": lambda: forest.ARFClassifier(n_models=10, seed=7),
    "forest of majorities": lambda: forest.ARFClassifier(n_models=3, seed=7, leaf_prediction="mc"),
    "forest of equals": lambda: forest.ARFClassifier(
        n_models=3, seed=7, leaf_prediction="nb", nb_threshold=20, disable_weighted_vote=True
    ),
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=7),
    "adaptive tree that changes": lambda: tree.HoeffdingAdaptiveTreeClassifier(
        seed=7, grace_period=20, delta=0.2, drift_detector=drift.ADWIN(0.3, clock=4), drift_window_threshold=2000
    ),
    "adaptive tree of majorities": lambda: tree.HoeffdingAdaptiveTreeClassifier(
        seed=7, grace_period=50, delta=0.01, leaf_prediction="mc"
    ),
    "adaptive tree of naive Bayes": lambda: tree.HoeffdingAdaptiveTreeClassifier(
        seed=7, grace_period=50, delta=0.01, leaf_prediction="nb", nb_threshold=40
    ),
    "tree": lambda: tree.HoeffdingTreeClassifier(grace_period=50, delta=0.01),
    "tree of majorities": lambda: tree.HoeffdingTreeClassifier(grace_period=50, delta=0.01, leaf_prediction="mc"),
    "tree of naive Bayes": lambda: tree.HoeffdingTreeClassifier(grace_period=50, delta=0.01, leaf_prediction="nb"),
    "tree of exhaustive splits": lambda: tree.HoeffdingTreeClassifier(
        grace_period=50, delta=0.01, splitter=tree.splitter.ExhaustiveSplitter()
    ),
    "binary tree": lambda: tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2, binary_split=True),
    "small tree": lambda: tree.HoeffdingTreeClassifier(
        grace_period=50, delta=0.01, max_size=0.02, memory_estimate_period=200
    ),
}
REGRESSORS = {
    "forest": lambda: forest.ARFRegressor(n_models=10, seed=7),
    "forest of models": lambda: forest.ARFRegressor(n_models=4, seed=7, leaf_prediction="model"),
    "forest by its mean": lambda: forest.ARFRegressor(n_models=9, seed=7, aggregation_method="mean"),
    "forest by its weighted mean": lambda: forest.ARFRegressor(
        n_models=3, seed=7, aggregation_method="mean", disable_weighted_vote=False
    ),
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=7),
    "adaptive tree that changes": lambda: tree.HoeffdingAdaptiveTreeRegressor(
        seed=7, grace_period=20, delta=0.2, drift_detector=drift.ADWIN(0.3, clock=4), drift_window_threshold=2000
    ),
    "tree": lambda: tree.HoeffdingTreeRegressor(grace_period=50, delta=0.01),
    "tree of models": lambda: tree.HoeffdingTreeRegressor(grace_period=50, delta=0.01, leaf_prediction="model"),
    "tree of intervals": lambda: tree.HoeffdingTreeRegressor(
        grace_period=50,
        delta=0.01,
        leaf_prediction="mean",
        splitter=tree.splitter.QOSplitter(radius=0.5, allow_multiway_splits=True),
    ),
    "scaled linear": lambda: _linear(linear_model.LinearRegression()),
}
TEXT_REGRESSORS = {
    "forest": lambda: forest.ARFRegressor(n_models=4, seed=7, leaf_prediction="mean"),
    "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(
        seed=7,
        grace_period=20,
        delta=0.2,
        leaf_prediction="mean",
        drift_detector=drift.ADWIN(0.3, clock=4),
        drift_window_threshold=2000,
    ),
    "tree": lambda: tree.HoeffdingTreeRegressor(grace_period=50, delta=0.01, leaf_prediction="mean"),
    "binary tree": lambda: tree.HoeffdingTreeRegressor(
        grace_period=50, delta=0.01, leaf_prediction="mean", binary_split=True
    ),
}
LINEAR = {
    "scaled": lambda: _linear(linear_model.LogisticRegression()),
    "scaled without deviation": lambda: compose.Pipeline(
        preprocessing.StandardScaler(with_std=False), linear_model.LogisticRegression(optimizer=optim.SGD(1e-6))
    ),
    "bare": lambda: linear_model.LogisticRegression(optimizer=optim.SGD(1e-6), loss=optim.losses.Hinge()),
}
MANY = {
    "over pipelines": lambda: multiclass.OneVsRestClassifier(_linear(linear_model.LogisticRegression())),
    "behind a scaler": lambda: _linear(multiclass.OneVsRestClassifier(linear_model.LogisticRegression(l2=0.01))),
}


@pytest.mark.parametrize("name", some(QUICK_CLASSIFIERS, CLASSIFIERS, pytest.mark.slow))
def test_classifiers_on_categories_missing_and_unseen_values(name, watch, follow, odd):
    follow(watch(CLASSIFIERS[name](), True), odd(1_200), MOMENTS)


@pytest.mark.parametrize("name", some(["adaptive tree", "binary tree"], TEXT_REGRESSORS, pytest.mark.slow))
def test_regressors_on_categories_missing_and_unseen_values(name, watch, follow, odd):
    follow(watch(TEXT_REGRESSORS[name](), False), odd(1_200, regression=True), MOMENTS)


@pytest.mark.parametrize("name", some(QUICK_REGRESSORS, REGRESSORS, pytest.mark.slow))
def test_regressors_on_missing_values(name, watch, follow, odd):
    follow(watch(REGRESSORS[name](), False), odd(800, regression=True, text=False), MOMENTS)


@pytest.mark.parametrize("name", MANY)
def test_one_vs_rest(name, watch, follow, odd):
    follow(watch(MANY[name](), True), odd(1_500, text=False), MOMENTS)


@pytest.mark.parametrize("name", LINEAR)
def test_linear_classifiers(name, watch, follow, agrawal):
    events = [(x, bool(y)) for x, y in agrawal(1_500)]
    watched = watch(LINEAR[name](), True)
    watched.labels = {False: "no", True: "yes"}
    follow(watched, events, MOMENTS)


def test_a_classifier_on_agrawal(watch, follow, agrawal):
    follow(watch(CLASSIFIERS["tree"](), True), agrawal(1_500), MOMENTS)


def test_a_classifier_on_elec2(watch, follow, elec2):
    follow(watch(CLASSIFIERS["tree"](), True), elec2(1_500), MOMENTS)


def test_a_regressor_on_bike_hourly(watch, follow, bike_hourly):
    follow(watch(REGRESSORS["tree"](), False), bike_hourly(1_000), MOMENTS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["forest", "adaptive tree"])
@pytest.mark.parametrize("stream", ["elec2", "agrawal", "odd"])
def test_classifiers_for_long(name, stream, watch, follow, request):
    follow(watch(CLASSIFIERS[name](), True), request.getfixturevalue(stream)(3_000), MOMENTS)


@pytest.mark.long
def test_scaled_linear_on_elec2_for_long(watch, follow, elec2):
    watched = watch(LINEAR["scaled"](), True)
    watched.labels = {False: "DOWN", True: "UP"}
    follow(watched, [(x, y == "UP") for x, y in elec2(5_000)], MOMENTS)


@pytest.mark.long
@pytest.mark.parametrize("name", ["forest", "adaptive tree", "scaled linear"])
def test_regressors_on_bike_hourly_for_long(name, watch, follow, bike_hourly):
    follow(watch(REGRESSORS[name](), False), bike_hourly(2_000), MOMENTS)


@pytest.mark.long
@pytest.mark.parametrize("name", TEXT_REGRESSORS)
def test_regressors_on_categories_for_long(name, watch, follow, odd):
    follow(watch(TEXT_REGRESSORS[name](), False), odd(4_000, regression=True), MOMENTS)
