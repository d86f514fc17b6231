"""Mean decrease in impurity against hand calculation, and what River's nodes hold."""

from math import log2
from typing import Any

import numpy as np
import pytest
from river import compose, ensemble, forest, linear_model, preprocessing, stats, tree
from river.tree.isoup_tree_regressor import ISOUPTreeRegressor
from river.tree.nodes.branch import DTBranch, NominalMultiwayBranch, NumericBinaryBranch
from river.tree.nodes.htc_nodes import LeafMajorityClass
from river.tree.nodes.htr_nodes import LeafMean

from glasstream.base.errors import ModelError
from glasstream_lab.mdi import mean_decrease_impurity


def leaf(depth: int, **weights: float) -> LeafMajorityClass:
    return LeafMajorityClass(dict(weights), depth, None)


def small_classifier() -> tree.HoeffdingTreeClassifier:
    """a at the root: {no: 30, yes: 10} to the left; to the right b: {no: 5, yes: 15} and {yes: 40}."""
    model = tree.HoeffdingTreeClassifier()
    right = NumericBinaryBranch({}, "b", 0.5, 1, leaf(2, no=5.0, yes=15.0), leaf(2, yes=40.0))
    model._root = NumericBinaryBranch({"no": 1.0}, "a", 2.0, 0, leaf(1, no=30.0, yes=10.0), right)
    return model


def small_regressor() -> tree.HoeffdingTreeRegressor:
    """c: [1, 2, 3], [10, 12] and nothing."""
    model = tree.HoeffdingTreeRegressor()
    leaves = []
    for values in ([1.0, 2.0, 3.0], [10.0, 12.0], []):
        var = stats.Var()
        for value in values:
            var.update(value)
        leaves.append(LeafMean(var, 1, None))
    model._root = NominalMultiwayBranch(stats.Var(), "c", ["x", "y", "z"], 0, *leaves)
    return model


def test_gini_by_hand() -> None:
    root, left, right, middle = 100 * (1 - 0.35**2 - 0.65**2), 15.0, 60 * (1 - (5 / 60) ** 2 - (55 / 60) ** 2), 7.5
    wanted = {"a": (root - left - right) / 100, "b": (right - middle) / 100}
    assert mean_decrease_impurity(small_classifier(), normalised=False) == pytest.approx(wanted, abs=1e-12)
    assert wanted == pytest.approx({"a": 0.2133333333, "b": 0.0166666667})


def test_entropy_by_hand() -> None:
    def bits(*weights: float) -> float:
        return -sum(weight * log2(weight / sum(weights)) for weight in weights)

    wanted = {
        "a": (bits(35, 65) - bits(30, 10) - bits(5, 55)) / 100,
        "b": (bits(5, 55) - bits(5, 15)) / 100,
    }
    found = mean_decrease_impurity(small_classifier(), impurity="entropy", normalised=False)
    assert found == pytest.approx(wanted, abs=1e-12)


def test_variance_by_hand() -> None:
    assert mean_decrease_impurity(small_regressor(), normalised=False) == pytest.approx({"c": 19.44}, abs=1e-12)


def test_normalised_values_sum_to_one() -> None:
    raw = mean_decrease_impurity(small_classifier(), normalised=False)
    found = mean_decrease_impurity(small_classifier())
    assert found == pytest.approx({feature: value / sum(raw.values()) for feature, value in raw.items()})
    assert sum(found.values()) == pytest.approx(1.0, abs=1e-12)


def test_a_forest_is_the_mean_of_its_trees_that_have_learned() -> None:
    model = ensemble.BaggingClassifier(tree.HoeffdingTreeClassifier(), n_models=3)
    other = tree.HoeffdingTreeClassifier()
    other._root = leaf(0, no=5.0, yes=5.0)
    model.data = [small_classifier(), other, tree.HoeffdingTreeClassifier()]
    single = mean_decrease_impurity(small_classifier(), normalised=False)
    found = mean_decrease_impurity(model, normalised=False)
    assert found == pytest.approx({feature: value / 2 for feature, value in single.items()}, abs=1e-15)


@pytest.mark.parametrize(
    "model", [tree.HoeffdingTreeClassifier(), forest.ARFRegressor(), tree.HoeffdingTreeRegressor()]
)
def test_a_model_that_has_not_split_has_no_importances(model: Any) -> None:
    assert mean_decrease_impurity(model) == {}
    model.learn_one({"a": 1.0}, True)
    assert mean_decrease_impurity(model) == {}


FAMILIES: list[Any] = [
    tree.HoeffdingTreeClassifier(grace_period=50),
    tree.HoeffdingAdaptiveTreeClassifier(grace_period=50, seed=1),
    tree.ExtremelyFastDecisionTreeClassifier(grace_period=50),
    forest.ARFClassifier(n_models=3, grace_period=50, seed=1),
    ensemble.SRPClassifier(tree.HoeffdingTreeClassifier(grace_period=50), n_models=3, seed=1),
    ensemble.LeveragingBaggingClassifier(tree.HoeffdingTreeClassifier(grace_period=50), n_models=3, seed=1),
    compose.Pipeline(preprocessing.StandardScaler(), tree.HoeffdingTreeClassifier(grace_period=50)),
]


@pytest.mark.parametrize("model", FAMILIES, ids=lambda model: type(model).__name__)
def test_every_family_finds_the_feature_that_decides(model: Any) -> None:
    model = model.clone()
    rng = np.random.default_rng(2)
    for used, noise in rng.uniform(-1, 1, (600, 2)).tolist():
        model.learn_one({"used": used, "noise": noise}, used > 0.3)
    for impurity in ("gini", "entropy"):
        found = mean_decrease_impurity(model, impurity=impurity)  # type: ignore[arg-type]
        assert min(found.values()) >= 0.0
        assert sum(found.values()) == pytest.approx(1.0)
        assert found["used"] > 0.7


@pytest.mark.parametrize(
    "model",
    [tree.HoeffdingTreeRegressor(), tree.HoeffdingAdaptiveTreeRegressor(seed=1), forest.ARFRegressor(3, seed=1)],
)
def test_regression_finds_the_feature_with_the_larger_effect(model: Any) -> None:
    rng = np.random.default_rng(1)
    for a, b, c in rng.uniform(-1, 1, (1_200, 3)).tolist():
        model.learn_one({"a": a, "b": b, "c": c}, 3 * a + b)
    found = mean_decrease_impurity(model)
    assert found["a"] > 0.7
    assert found.get("b", 0.0) >= found.get("c", 0.0)


def test_what_rivers_branches_hold() -> None:
    """A plain tree's stay as they were at the split; an adaptive one's go on, one for each event."""
    plain, adaptive = tree.HoeffdingTreeClassifier(), tree.HoeffdingAdaptiveTreeClassifier(seed=1)
    events = [({"a": t * 7 % 100 / 100}, t * 7 % 100 < 50) for t in range(1_000)]
    held: dict[int, list[float]] = {0: [], 1: []}
    for x, y in events:
        for which, model in enumerate((plain, adaptive)):
            model.learn_one(x, y)
            if isinstance(model._root, DTBranch):
                held[which].append(sum(model._root.stats.values()))
    assert len(held[0]) > 500 and len(set(held[0])) == 1
    assert len(held[1]) > 500 and set(np.diff(held[1])) == {1.0}
    assert adaptive._root.total_weight - held[1][-1] > 100  # its leaves learn with bootstrap weights


def test_alternate_trees_do_not_count() -> None:
    model = tree.HoeffdingAdaptiveTreeClassifier(seed=1)
    for t in range(1_000):
        model.learn_one({"a": t * 7 % 100 / 100}, t * 7 % 100 < 50)
    before = mean_decrease_impurity(model, normalised=False)
    model._root._alternate_tree = small_classifier()._root
    assert mean_decrease_impurity(model, normalised=False) == before


def test_models_without_such_trees_are_refused() -> None:
    with pytest.raises(ModelError, match=r"expected a Hoeffding tree, .* got LogisticRegression"):
        mean_decrease_impurity(compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression()))
    several = ISOUPTreeRegressor()
    several.learn_one({"a": 1.0}, {"y": 1.0, "z": 2.0})
    with pytest.raises(ModelError, match="one target"):
        mean_decrease_impurity(several)
    with pytest.raises(ModelError, match="gini or entropy"):
        mean_decrease_impurity(small_classifier(), impurity="variance")  # type: ignore[arg-type]
