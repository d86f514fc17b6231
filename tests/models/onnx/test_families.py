"""Every kind of model that exporters write is explained as onnxruntime evaluates it, or the error says what to do."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from onnx import helper
from sklearn import compose, ensemble, multiclass, naive_bayes, neighbors, neural_network, preprocessing, svm
from sklearn import linear_model as linear
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from glasstream.base.errors import ModelError, ModelRaised
from glasstream.events.limits import IngestLimits
from glasstream.explain.losses import loss_one, losses
from glasstream.models.online.live import Columns
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.loading import Loaded, loaded
from glasstream.models.onnx.model import FixedModel
from tests.support.examples import some
from tests.support.onnx_exports import FEATURES, FRAME, NUMBER, THREE, TWO, X
from tests.support.onnx_graphs import model_of, numbers, output

POSITIVE = np.abs(X)
LABELS_ALONE = {"outputs": "label"}


def sk(model: Any, target: Any = TWO, x: Any = X, **options: Any) -> bytes:
    """Return the file of a model of scikit-learn after training."""
    from skl2onnx import to_onnx

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = model.fit(x) if target is None else model.fit(x, target)
        return bytes(to_onnx(fitted, x[:1], **options).SerializeToString())


_forest = ensemble.RandomForestClassifier
CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "AdaBoost": lambda: ensemble.AdaBoostClassifier(n_estimators=5, random_state=1),
    "Bagging": lambda: ensemble.BaggingClassifier(n_estimators=4, random_state=1),
    "BernoulliNB": naive_bayes.BernoulliNB,
    "CalibratedClassifierCV": lambda: CalibratedClassifierCV(svm.LinearSVC(random_state=1)),
    "ComplementNB": naive_bayes.ComplementNB,
    "ExtraTrees": lambda: ensemble.ExtraTreesClassifier(8, random_state=1),
    "GaussianNB": naive_bayes.GaussianNB,
    "GradientBoosting": lambda: ensemble.GradientBoostingClassifier(n_estimators=6),
    "GridSearchCV": lambda: GridSearchCV(_forest(5, random_state=1), {"max_depth": [2, 3]}, cv=2),
    "KNeighbors": lambda: neighbors.KNeighborsClassifier(3),
    "LinearDiscriminantAnalysis": LinearDiscriminantAnalysis,
    "LogisticRegressionCV": lambda: linear.LogisticRegressionCV(cv=2, use_legacy_attributes=False),
    "MLP": lambda: neural_network.MLPClassifier((6,), max_iter=60, random_state=1),
    "MultinomialNB": naive_bayes.MultinomialNB,
    "OneVsRest": lambda: multiclass.OneVsRestClassifier(linear.LogisticRegression()),
    "QuadraticDiscriminantAnalysis": QuadraticDiscriminantAnalysis,
    "RandomForest": lambda: _forest(8, random_state=1),
    "SGD, logistic": lambda: linear.SGDClassifier(loss="log_loss", random_state=1),
    "SVC with probabilities": lambda: svm.SVC(probability=True, random_state=1),
    "Stacking": lambda: ensemble.StackingClassifier([("a", linear.LogisticRegression()), ("b", _forest(4))], cv=2),
    "Voting": lambda: ensemble.VotingClassifier(
        [("a", linear.LogisticRegression()), ("b", _forest(4))], voting="soft", flatten_transform=False
    ),
    "polynomials": lambda: make_pipeline(preprocessing.PolynomialFeatures(2), linear.LogisticRegression(max_iter=500)),
    "bins": lambda: make_pipeline(preprocessing.KBinsDiscretizer(3, encode="onehot-dense"), _forest(4, random_state=1)),
    "quantiles": lambda: make_pipeline(preprocessing.PowerTransformer(), linear.LogisticRegression()),
    "a selection": lambda: make_pipeline(SelectKBest(k=2), linear.LogisticRegression()),
}
REGRESSORS: dict[str, Callable[[], Any]] = {
    "AdaBoost": lambda: ensemble.AdaBoostRegressor(n_estimators=4, random_state=1),
    "BayesianRidge": linear.BayesianRidge,
    "ExtraTrees": lambda: ensemble.ExtraTreesRegressor(6, random_state=1),
    "GaussianProcess": GaussianProcessRegressor,
    "GradientBoosting": lambda: ensemble.GradientBoostingRegressor(n_estimators=6),
    "Huber": linear.HuberRegressor,
    "KNeighbors": lambda: neighbors.KNeighborsRegressor(3),
    "Lasso": lambda: linear.Lasso(0.01),
    "LinearSVR": lambda: svm.LinearSVR(random_state=1),
    "MLP": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(6,), max_iter=60, random_state=1),
    "Poisson": linear.PoissonRegressor,
    "RandomForest": lambda: ensemble.RandomForestRegressor(6, random_state=1),
    "SVR": svm.SVR,
    "Voting": lambda: ensemble.VotingRegressor([("a", linear.Ridge()), ("b", linear.Lasso(0.1))]),
}


def model(data: bytes, *, features: str | None = FEATURES, **named: str) -> tuple[Loaded, FixedModel]:
    found = loaded(parse(data, features, named.get("classes"), named.get("outputs")))
    return found, FixedModel(found, IngestLimits())


def called(data: bytes, rows: Any) -> dict[str, Any]:
    """What onnxruntime itself returns for rows of one table, by the name of the output."""
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(None, {given.name: rows.astype(np.float32)}), strict=True))


def expect_equal(data: bytes, rows: Any, **named: str) -> None:
    """Compare the numbers and labels of a model with those of onnxruntime, and feed all rows as events."""
    found, fixed = model(data, **named)
    answers, wanted = found.predictor.evaluate(rows.astype(np.float64)), called(data, rows)
    file = found.file
    if file.classes:
        table = next((one for name, one in wanted.items() if name not in (file.label, "label", "output_label")), None)
        if isinstance(table, list):  # a dict of probabilities for each row
            table = [list(one.values()) for one in table]
        if file.table is not None:
            np.testing.assert_allclose(answers.values, np.asarray(table, np.float64), rtol=2e-5, atol=2e-6)
        labels = np.ravel(wanted[file.label]).tolist()
        assert [file.keys[place] for place in answers.labels.tolist()] == labels
    else:
        (table,) = [one for name, one in wanted.items() if name == file.table]
        np.testing.assert_allclose(answers.values[:, 0], np.ravel(table), rtol=2e-5, atol=2e-5)
    events = fixed.predict_and_learn(Columns(list(file.features), rows.astype(np.float64), {}), [None] * len(rows))
    assert not [one for one in events if isinstance(one, ModelRaised)]


@pytest.mark.parametrize("target", ["two", "three"])
@pytest.mark.parametrize("name", some(["RandomForest", "MLP", "GaussianNB"], CLASSIFIERS, pytest.mark.slow))
def test_classifiers(name: str, target: str) -> None:
    x = POSITIVE if name.endswith("NB") else X
    expect_equal(sk(CLASSIFIERS[name](), TWO if target == "two" else THREE, x), x[:80])


@pytest.mark.parametrize("name", some(["RandomForest", "SVR"], REGRESSORS, pytest.mark.slow))
def test_regressors(name: str) -> None:
    target = np.abs(NUMBER) + 0.1 if name == "Poisson" else NUMBER
    expect_equal(sk(REGRESSORS[name](), target), X[:80])


@pytest.mark.parametrize("options", [{}, {"zipmap": False}, {"zipmap": "columns"}], ids=["dicts", "table", "columns"])
@pytest.mark.parametrize("target", ["two", "three"])
def test_probabilities_are_the_same_however_they_are_exported(options: dict[str, Any], target: str) -> None:
    fitted = linear.LogisticRegression()
    y = TWO if target == "two" else THREE
    found, _ = model(sk(fitted, y, options=options))
    np.testing.assert_allclose(
        found.predictor.evaluate(X.astype(np.float64)).values, fitted.predict_proba(X), atol=1e-5
    )


ENCODERS: dict[str, Any] = {
    "default": preprocessing.OneHotEncoder(),
    "without the first": preprocessing.OneHotEncoder(drop="first"),
    "without the first of two": preprocessing.OneHotEncoder(drop="if_binary"),
    "unknown ignored": preprocessing.OneHotEncoder(handle_unknown="ignore"),
    "ordinal": preprocessing.OrdinalEncoder(),
    "target": preprocessing.TargetEncoder(cv=2, random_state=1),
}


@pytest.mark.parametrize("column", ["town", "visits", "pair"])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_model_that_knows_its_categories_only_is_accepted_and_predicts_them(name: str, column: str) -> None:
    """Its trial uses the categories that it knows. An unknown one is an event that it cannot take, and no more."""
    frame = pd.DataFrame({"a": FRAME["a"], "town": FRAME["town"], "visits": FRAME["visits"]})
    frame["pair"] = np.where(FRAME["a"] > 0, 3, 8).astype(np.int64)
    frame = frame[["a", column]]
    prepared = compose.make_column_transformer((ENCODERS[name], [column]), ("passthrough", ["a"]))
    fitted = make_pipeline(prepared, linear.LogisticRegression())
    data = sk(fitted, TWO, frame)
    if name == "target" and column == "town":
        pytest.skip("skl2onnx exports no TargetEncoder of texts that onnxruntime loads")
    _, fixed = model(data, features=None)
    events = [dict(zip(frame.columns, row, strict=True)) for row in frame[:40].itertuples(index=False)]
    for event, wanted in zip(events, fitted.predict_proba(frame[:40]).tolist(), strict=True):
        found = fixed.predict(event).probabilities
        assert found is not None and list(found.values()) == pytest.approx(wanted, abs=1e-5)


def net(width: int, last: str | None, classes: int) -> bytes:
    """A net as Keras and PyTorch export it: products, sums, and an activation, without labels."""
    source = np.random.default_rng(1)
    nodes = [
        helper.make_node("MatMul", ["x", "w0"], ["h0"]), helper.make_node("Add", ["h0", "b0"], ["h1"]),
        helper.make_node("Relu", ["h1"], ["h2"]), helper.make_node("Gemm", ["h2", "w1", "b1"], ["y0"]),
        helper.make_node(last or "Identity", ["y0"], ["y"]),
    ]  # fmt: skip
    constants = [
        numbers("w0", source.normal(size=(4, 5))), numbers("b0", source.normal(size=5)),
        numbers("w1", source.normal(size=(5, width))), numbers("b1", source.normal(size=width)),
    ]  # fmt: skip
    made = model_of(nodes, constants, columns=4, outputs=[output("y", shape=[None, width])])
    return bytes(made.SerializeToString())


def test_a_net_with_one_probability_is_a_classifier_once_its_classes_are_named() -> None:
    data = net(1, "Sigmoid", 2)
    found, fixed = model(data, classes="no,yes")
    second = np.ravel(called(data, X)["y"])
    answers = found.predictor.evaluate(X.astype(np.float64))
    np.testing.assert_allclose(answers.values, np.stack([1 - second, second], axis=1), atol=1e-7)
    assert answers.labels.tolist() == (second > 0.5).astype(int).tolist()
    assert fixed.predict(dict(zip("abcd", X[0].tolist(), strict=True))).label in ("no", "yes")
    assert model(data)[0].file.task.value == "regression"


def test_a_net_with_all_probabilities_is_a_classifier_once_its_classes_are_named() -> None:
    data = net(3, "Softmax", 3)
    found, _ = model(data, classes="low,middle,high")
    wanted = called(data, X)["y"]
    answers = found.predictor.evaluate(X.astype(np.float64))
    np.testing.assert_allclose(answers.values, wanted, atol=1e-7)
    assert answers.labels.tolist() == wanted.argmax(axis=1).tolist()
    with pytest.raises(ModelError, match=r"has 3; if they are probabilities of classes, list the classes"):
        model(data)
    with pytest.raises(ModelError, match=r"expected 3 names, one for each probability"):
        model(data, classes="low,high")


MEANINGS: dict[str, tuple[Callable[[], bytes], str, dict[str, str]]] = {
    "scores of support vectors": (lambda: sk(svm.SVC()), "got scores, such as", {"outputs": "output_label"}),
    "scores of a linear machine": (lambda: sk(svm.LinearSVC()), "expected 2 numbers for each row", LABELS_ALONE),
    "scores of a ridge": (lambda: sk(linear.RidgeClassifier()), "expected 2 numbers for each row", LABELS_ALONE),
    "scores of a perceptron": (lambda: sk(linear.Perceptron()), "got scores", {"outputs": "output_label"}),
    "raw scores": (
        lambda: sk(linear.LogisticRegression(), THREE, options={"raw_scores": True}), "got scores",
        {"outputs": "output_label"},
    ),
    "an outlier detector": (
        lambda: sk(ensemble.IsolationForest(n_estimators=6), None, target_opset={"": 17, "ai.onnx.ml": 3}),
        "as those of outlier detectors", {"outputs": "scores"},
    ),
    "one class": (lambda: sk(svm.OneClassSVM(), None), "as those of outlier detectors", {"outputs": "scores"}),
    "clusters": (
        lambda: sk(KMeans(3, n_init=1, random_state=1), None), "model.classes: expected the classes",
        {"outputs": "label", "classes": "one,two,three"},
    ),
    "a mixture": (
        lambda: sk(GaussianMixture(2, random_state=1), None), "model.classes: expected the classes",
        {"classes": "one,two"},
    ),
    "a deviation beside the mean": (
        lambda: sk(GaussianProcessRegressor(), NUMBER, options={GaussianProcessRegressor: {"return_std": True}}),
        "name those to use, such as model.outputs=GPmean", {"outputs": "GPmean"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MEANINGS)
def test_an_output_without_a_certain_meaning_is_refused_with_the_way_out(case: str) -> None:
    make, wanted, named = MEANINGS[case]
    data = make()
    with pytest.raises(ModelError, match=wanted):
        model(data)
    if "outputs" in named:
        with pytest.raises(ModelError, match=r"model\.outputs: expected some of .*, got nothing"):
            model(data, outputs="nothing")
    found, fixed = model(data, **named)
    events = fixed.predict_and_learn(Columns(list("abcd"), X[:40].astype(np.float64), {}), [None] * 40)
    assert not [one for one in events if isinstance(one, ModelRaised)]
    if found.file.label is not None:
        answers = found.predictor.evaluate(X[:40].astype(np.float64))
        wanted_labels = np.ravel(called(data, X[:40])[found.file.label]).tolist()
        assert [found.file.keys[place] for place in answers.labels.tolist()] == wanted_labels


@pytest.mark.parametrize("loss", ["zero_one", "brier", "cross_entropy"])
def test_a_label_without_probabilities_counts_as_certain_in_the_loss_too(loss: str) -> None:
    """Learner and explainer agree: the explainer gets 1 for the class of the label, and 0 for the others."""
    found, fixed = model(sk(svm.SVC()), outputs="output_label")
    rows = X[:40].astype(np.float64)
    answers = found.predictor.evaluate(rows)
    targets = np.where(np.arange(40) % 2, TWO[:40], 1 - TWO[:40])
    wanted = losses(loss, answers.values, answers.labels, targets.astype(np.float64)).tolist()
    predictions = fixed.predict_and_learn(Columns(list("abcd"), rows, {}), [None] * 40)
    pairs = zip(predictions, targets.tolist(), strict=True)
    assert [loss_one(loss, one.label, one.probabilities, 0.0, str(target)) for one, target in pairs] == wanted
    assert 0.0 in wanted and max(wanted) > 0.9


def test_the_metadata_may_name_the_outputs() -> None:
    made = onnx.load_model_from_string(sk(svm.SVC()))
    helper.set_model_props(made, {"outputs": "output_label", "features": FEATURES})
    found, _ = model(made.SerializeToString(), features=None)
    assert (found.file.label, found.file.table) == ("output_label", None)
