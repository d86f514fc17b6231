"""Models that the streams of test_equals_river may not reach, built by hand, and models that are refused."""

import pickle

import numpy as np
import pytest
from river import (
    compose,
    drift,
    ensemble,
    forest,
    linear_model,
    multiclass,
    naive_bayes,
    neighbors,
    preprocessing,
    tree,
)
from river.tree.nodes.branch import DTBranch

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.events.features import FeatureTable
from glasstream.models.codec.warm_up import warm_up
from glasstream.models.predictors.kernels import (
    average,
    bayes,
    committee,
    linear_forms,
    mondrian,
    normalise,
    softmax,
    transform,
    walk,
)
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor


def _branches(node):
    if isinstance(node, DTBranch):
        yield node
        for child in node.children:
            yield from _branches(child)


def _with_alternates(watched, events):
    """Grow a tree, then an alternate beside each of its branches, trained on other rows."""
    for x, y in events:
        watched.learn(x, y)
    model = watched.model
    found = list(_branches(model._root))
    for number, branch in enumerate(found):
        branch._alternate_tree = model._new_leaf(parent=branch)
        for x, y in events[number :: len(found) + 3]:
            x = {name: value for name, value in x.items() if value is not None}
            branch._alternate_tree.learn_one(x, y, tree=model, parent=branch, parent_branch=0)
    return len(found)


@pytest.mark.parametrize("leaf_prediction", ["mc", "nb", "nba"])
def test_votes_of_alternate_leaves_count(leaf_prediction, watch, odd):
    events = odd(900)
    model = tree.HoeffdingAdaptiveTreeClassifier(
        seed=7, grace_period=30, delta=0.2, leaf_prediction=leaf_prediction, drift_detector=drift.NoDrift()
    )
    watched = watch(model, True)
    watched.model.grace_period = 30
    grown = _with_alternates(watched, events)
    assert grown >= 3
    model.grace_period = 10**9
    watched.check([x for x, _ in events[:200]] + [{}, {"size": 1.0}, {"town": "t1"}, {"colour": "never seen"}])


@pytest.mark.parametrize("leaf_prediction", ["mean", "model", "adaptive"])
def test_answers_of_alternate_leaves_count(leaf_prediction, watch, odd):
    events = odd(900, regression=True, text=leaf_prediction == "mean")
    model = tree.HoeffdingAdaptiveTreeRegressor(
        seed=7, grace_period=30, delta=0.2, leaf_prediction=leaf_prediction, drift_detector=drift.NoDrift()
    )
    watched = watch(model, False)
    assert _with_alternates(watched, events) >= 3
    rows = [x for x, _ in events[:200]] + [{}, {"size": 1.0}]
    watched.check(rows)


def test_alternates_reached_by_default_are_listed_twice_as_river_does(watch, odd):
    """A law of River 0.26.1, without which the two tests above would not see the rule break."""
    events = odd(900, regression=True)
    model = tree.HoeffdingAdaptiveTreeRegressor(
        seed=7, grace_period=30, delta=0.2, leaf_prediction="mean", drift_detector=drift.NoDrift()
    )
    _with_alternates(watch(model, False), events)
    reached = model._root.traverse({}, until_leaf=True)
    assert len(set(map(id, reached))) < len(reached)


def test_every_kind_of_branch_is_compared(watch, odd):
    kinds = set()
    for model, classification, text in (
        (tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2, binary_split=True), True, True),
        (tree.HoeffdingTreeRegressor(grace_period=50, delta=0.01, leaf_prediction="mean"), False, True),
        (
            tree.HoeffdingTreeRegressor(
                grace_period=50,
                delta=0.01,
                leaf_prediction="mean",
                splitter=tree.splitter.QOSplitter(radius=0.5, allow_multiway_splits=True),
            ),
            False,
            False,
        ),
    ):
        watched = watch(model, classification)
        events = odd(1_200, regression=not classification, text=text)
        for x, y in events:
            watched.learn(x, y)
        kinds |= set(watched.compiled()._branches.kind.tolist())
        watched.check([x for x, _ in events[-300:]] + [{}])
    assert kinds == {
        walk.LEAF,
        walk.NUMERIC_BINARY,
        walk.NOMINAL_BINARY,
        walk.NOMINAL_MULTIWAY,
        walk.NUMERIC_MULTIWAY,
    }


def test_numbers_that_are_nominal(watch, odd):
    events = [({**x, "weight": float(int(x.get("weight", 0)))}, y) for x, y in odd(900)]
    watched = watch(
        tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2, nominal_attributes=["weight", "open"]), True
    )
    for x, y in events:
        watched.learn(x, y)
    watched.check([x for x, _ in events[-200:]] + [{"weight": 77.0}, {"weight": 2.5}, {}])


def test_leaves_that_gave_up_learning(watch, odd):
    watched = watch(forest.ARFClassifier(n_models=3, seed=1, max_depth=2, grace_period=20), True)
    events = odd(900)
    for x, y in events:
        watched.learn(x, y)
    leaves = [leaf for one in watched.model for leaf in (one._root.iter_leaves() if one._root else ())]
    assert any(not leaf.is_active() for leaf in leaves)
    watched.check([x for x, _ in events[-100:]])


def test_a_class_of_no_weight_votes_as_in_river(watch, odd):
    """River gives it a log vote of 0 and asks none of its features; it gives a class without statistics no vote."""
    watched = watch(tree.HoeffdingTreeClassifier(leaf_prediction="nb"), True)
    events = odd(150)
    for x, y in events:
        watched.learn(x, y)
    leaf = watched.model._root
    leaf.stats["middle"] = 0.0
    watched.check([x for x, _ in events[:40]])
    del leaf.stats["middle"]
    watched.check([x for x, _ in events[:40]])
    leaf.stats.update(dict.fromkeys(leaf.stats, 0.0))
    watched.check([x for x, _ in events[:40]])


def test_models_before_their_first_event(watch):
    """River's forests know no class then, trees answer 0.0, a linear model its prior."""
    for model in (forest.ARFClassifier(seed=1), tree.HoeffdingTreeClassifier(), tree.HoeffdingAdaptiveTreeClassifier()):
        predictor = compile_model(model, FeatureTable(), {})
        assert predictor.evaluate(np.zeros((2, 0))).labels.tolist() == [-1, -1]
    for model in (forest.ARFRegressor(seed=1), tree.HoeffdingTreeRegressor(), tree.HoeffdingAdaptiveTreeRegressor()):
        predictor = compile_model(model, FeatureTable(), None)
        assert predictor.evaluate(np.zeros((2, 0))).values.tolist() == [[0.0], [0.0]]
    unseen = compile_model(multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), FeatureTable(), {})
    assert unseen.evaluate(np.zeros((1, 0))).labels.tolist() == [-1]
    prior = compile_model(linear_model.LogisticRegression(), FeatureTable(), {True: "a", False: "b"})
    said = prior.evaluate(np.zeros((1, 0)))
    assert said.values.tolist() == [[0.5, 0.5]]
    assert said.labels.tolist() == [1], "a tie goes to River's first key, False"


def test_a_key_without_a_text_is_dropped():
    """A binary model that met one class: River's dict holds the other one all the same."""
    model = linear_model.LogisticRegression()
    table = FeatureTable()
    for _ in range(5):
        model.learn_one({"x": 1.0}, False)
    table.encode({"x": 1.0})
    assert model.predict_one({"x": -99.0}) is True
    said = compile_model(model, table, {False: "only"}).evaluate(np.array([[-99.0], [1.0]]))
    assert said.labels.tolist() == [0, 0]
    assert said.values.shape == (2, 1)


def test_ties_go_to_the_class_that_river_lists_first():
    model = forest.ARFClassifier(n_models=2, seed=1, leaf_prediction="mc", lambda_value=0)
    table = FeatureTable()
    for label in ("b", "a"):
        table.encode({"x": 1.0})
        model.learn_one({"x": 1.0}, label)
    for trees in model:  # no tree learned (lambda 0): give both the same doubt
        trees.learn_one({"x": 1.0}, "b")
        trees.learn_one({"x": 1.0}, "a")
    assert model.predict_one({"x": 1.0}) == "a", "each tree sorts its classes"
    said = compile_model(model, table, {"b": "b", "a": "a"}).evaluate(np.ones((1, 1)))
    assert said.labels.tolist() == [1]
    assert said.values.tolist() == [[0.5, 0.5]]


def test_features_that_the_model_is_not_given_are_ignored(watch, odd):
    table = FeatureTable(model_takes_text=False)
    watched = watch(compose.Pipeline(preprocessing.StandardScaler(), linear_model.LinearRegression()), False, table)
    events = odd(300, regression=True)
    for x, y in events:
        watched.learn(x, y)
    predictor = watched.compiled()
    rows = watched.rows([x for x, _ in events[:50]])
    other = rows.copy()
    other[:, table.names.index("colour")] = 1.0
    assert np.array_equal(predictor.evaluate(rows).values, predictor.evaluate(other).values)
    numeric = [{name: value for name, value in x.items() if not isinstance(value, str)} for x, _ in events[:50]]
    assert np.allclose(predictor.evaluate(rows).values, watched.river(numeric).values, rtol=0, atol=1e-9)


def test_features_that_no_row_has(watch, odd):
    """A tree that learned features which the table does not give it goes the common way, as River without them."""
    watched = watch(tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2), True)
    events = odd(900)
    for x, y in events:
        watched.learn(x, y)
    table = watched.table
    given = [name not in ("size", "colour", "town") for name in table.names]
    predictor = compile_model(watched.model, table, watched.labels, given=given)
    assert walk.UNTESTED in predictor._branches.kind
    rest = [{k: v for k, v in x.items() if k not in ("size", "colour", "town")} for x, _ in events[:100]]
    said, wanted = predictor.evaluate(watched.rows([x for x, _ in events[:100]])), watched.river(rest)
    assert np.allclose(said.values, wanted.values, rtol=0, atol=1e-12)
    assert said.labels.tolist() == wanted.labels.tolist()


def test_shorter_and_longer_rows(watch, odd):
    watched = watch(tree.HoeffdingTreeClassifier(grace_period=20, delta=0.2), True)
    for x, y in odd(600):
        watched.learn(x, y)
    predictor = watched.compiled()
    d = len(predictor.features)
    full = np.full((1, d), np.nan)
    full[0, 0] = 0.5
    said = predictor.evaluate(full)
    for rows in (full[:, :1], np.hstack([full, [[3.0, np.nan]]])):
        assert np.array_equal(predictor.evaluate(rows).values, said.values)
    with pytest.raises(ModelError, match="float64"):
        predictor.evaluate(full[0])


def test_compiling_and_evaluating_leave_the_model_as_it_was(watch, odd):
    """River's nominal splitters and scalers are defaultdicts that grow when they are read."""
    for model, text in (
        (forest.ARFClassifier(n_models=3, seed=1, grace_period=20), True),
        (multiclass.OneVsRestClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression()), False),
    ):
        watched = watch(model, True)
        for x, y in odd(300, text=text):
            watched.learn(x, y)
        watched.table.encode({"new": 1.0})
        before = pickle.dumps(model)
        watched.compiled().evaluate(np.zeros((3, len(watched.table))))
        assert pickle.dumps(model) == before


def test_a_predictor_does_not_learn_on(watch, odd):
    watched = watch(forest.ARFClassifier(n_models=3, seed=1, grace_period=20), True)
    events = odd(600)
    for x, y in events[:300]:
        watched.learn(x, y)
    predictor, rows = watched.compiled(), watched.rows([x for x, _ in events[:50]])
    before = predictor.evaluate(rows).values
    for x, y in events[300:]:
        watched.learn(x, y)
    assert np.array_equal(predictor.evaluate(rows).values, before)


def test_one_specialisation_serves_learner_and_explainer(watch, odd):
    """numba compiles anew for arrays that are writable; 0.3 s in the middle of a stream."""
    warm_up()
    kernels = (
        walk.classify,
        walk.regress,
        normalise.normalise,
        average.average,
        linear_forms.evaluate,
        softmax.softmax,
        bayes.gaussian_bayes,
        transform.transform,
        committee.count_votes,
        mondrian.aggregate,
    )
    for model, classification, text in (
        (tree.HoeffdingTreeClassifier(), True, True),
        (tree.HoeffdingTreeRegressor(leaf_prediction="mean"), False, True),
        (linear_model.LinearRegression(), False, False),
        (multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), True, False),
        (multiclass.OneVsRestClassifier(tree.HoeffdingTreeClassifier()), True, True),
        (linear_model.SoftmaxRegression(), True, False),
        (forest.AMFRegressor(n_estimators=2, seed=1), False, False),
        (preprocessing.MinMaxScaler() | naive_bayes.GaussianNB(), True, False),
    ):
        watched = watch(model, classification)
        for x, y in odd(50, regression=not classification, text=text):
            watched.learn(x, y)
        predictor = compile_model(model, watched.table, watched.labels if classification else None)
        rows = watched.rows([{"size": 1.0}] * 4)
        locked = rows.copy()
        locked.flags.writeable = False
        for which in (predictor, watched.compiled()):
            for given in (rows, locked, np.asfortranarray(rows), rows[::2], rows.astype(np.float32)):
                which.evaluate(given)
    assert [len(kernel.signatures) for kernel in kernels] == [1] * len(kernels)


class _OwnTree(tree.HoeffdingTreeClassifier):
    pass


class _OwnLogistic(linear_model.LogisticRegression):
    pass


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (_OwnTree(), "exact types"),
        (_OwnLogistic(), "exact types"),
        (multiclass.OneVsRestClassifier(_OwnLogistic()), "_OwnLogistic"),
        (ensemble.BaggingClassifier(_OwnTree(), 2), "_OwnTree"),
        (ensemble.SRPClassifier(_OwnTree(), n_models=2, seed=1), "_OwnTree"),
        (ensemble.AdaBoostClassifier(tree.HoeffdingTreeClassifier(), 2, seed=1), "AdaBoostClassifier"),
        (tree.SGTClassifier(), "SGTClassifier"),
        (neighbors.KNNClassifier(), "KNNClassifier"),
        (naive_bayes.BernoulliNB(), "BernoulliNB"),
        (tree.HoeffdingTreeClassifier(splitter=tree.splitter.HistogramSplitter()), "HistogramSplitter"),
        (preprocessing.Normalizer() | linear_model.LogisticRegression(), "transformer Normalizer"),
        (preprocessing.OneHotEncoder(drop_first=True) | linear_model.LogisticRegression(), "drop_first"),
        (preprocessing.OneHotEncoder(drop_zeros=True) | linear_model.LogisticRegression(), "drop_zeros"),
        (preprocessing.OrdinalEncoder(unknown_value=None) | tree.HoeffdingTreeClassifier(), "unknown_value None"),
        (preprocessing.Binarizer(dtype=str) | tree.HoeffdingTreeClassifier(), "Binarizer"),
        ((lambda x: x) | preprocessing.StandardScaler() | linear_model.LogisticRegression(), "FuncTransformer"),
    ],
)
def test_what_has_no_compiled_form_says_why_and_is_served_by_river(model, why):
    table, labels = FeatureTable(), {False: "no", True: "yes"}
    table.encode({"x": 1.0})
    for label in (False, True):
        model.learn_one({"x": 1.0}, label)
    with pytest.raises(NotCompilable, match=why):
        compile_model(model, table, labels)
    said = GenericPredictor(model, table, labels).evaluate(np.array([[1.0], [2.0]])).values.tolist()
    wanted = [model.predict_proba_one({"x": x}) for x in (1.0, 2.0)]
    assert said == [[votes.get(key, 0.0) for key in labels] for votes in wanted]


def test_leaf_models_and_text_that_have_no_compiled_form():
    table = FeatureTable()
    table.encode({"x": 1.0, "word": "a"})
    own = tree.HoeffdingTreeRegressor(leaf_model=linear_model.PARegressor())
    with pytest.raises(NotCompilable, match="PARegressor"):
        compile_model(own, table, None)
    with pytest.raises(NotCompilable, match="'word', which is a text feature"):
        compile_model(linear_model.LinearRegression(), table, None)
    compile_model(linear_model.LinearRegression(), table, None, given=[True, False])


def test_labels_must_fit_the_task():
    table = FeatureTable()
    with pytest.raises(ModelError, match="expected labels"):
        compile_model(forest.ARFClassifier(), table, None)
    with pytest.raises(ModelError, match="expected labels"):
        compile_model(forest.ARFRegressor(), table, {})
    with pytest.raises(ModelError, match="another text"):
        compile_model(tree.HoeffdingTreeClassifier(), table, {1: "a", 2: "a"})
