"""A model for every family that is compiled, every form and every transformer: small ones that learn fast.

`test_registers` fails as long as one has no example here; whatever walks through EXAMPLES has then met them all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from river import compose, drift, ensemble, forest, linear_model, multiclass, naive_bayes, preprocessing, tree

from glasstream.models.river.implicit import ImplicitRegression


@dataclass(frozen=True)
class Example:
    """A River model and what it can be given.

    Attributes
    ----------
    make
        Makes it.
    classification
        Its task.
    text
        It takes text features; others are put behind `encoded`.
    binary
        It takes boolean targets only.
    selects
        It raises where a feature of these is absent.
    """

    make: Callable[[], Any]
    classification: bool = True
    text: bool = True
    binary: bool = False
    selects: tuple[str, ...] = ()


def numbers() -> Any:
    return compose.SelectType(float, bool)


def encoded() -> Any:
    """Return a common transformer that turns all features into numbers."""
    return (compose.SelectType(str) | preprocessing.OneHotEncoder()) + (numbers() | preprocessing.StandardScaler())


def scaled(model: Any) -> Any:
    return preprocessing.StandardScaler() | model


def _tree(**settings: Any) -> Any:
    return tree.HoeffdingTreeClassifier(**{"grace_period": 25, "delta": 0.05, **settings})


def _adaptive_tree() -> Any:
    return tree.HoeffdingAdaptiveTreeClassifier(
        seed=7, grace_period=25, delta=0.1, drift_detector=drift.ADWIN(0.3, clock=4), drift_window_threshold=500
    )


def _regression_tree(leaf_prediction: str = "adaptive") -> Any:
    return tree.HoeffdingTreeRegressor(grace_period=25, delta=0.05, leaf_prediction=leaf_prediction)


def _leaves(classification: bool, kind: str) -> dict[str, Example]:
    """The trees and forests, with leaves that predict in one of River's ways."""
    settings = {"leaf_prediction": kind, "grace_period": 25, "delta": 0.1}
    seeded = {**settings, "seed": 7}
    makers: dict[str, Callable[[], Any]] = (
        {
            "tree": lambda: tree.HoeffdingTreeClassifier(**settings),
            "adaptive tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(**seeded),
            "forest": lambda: forest.ARFClassifier(n_models=3, **seeded),
        }
        if classification
        else {
            "regression tree": lambda: tree.HoeffdingTreeRegressor(**settings),
            "adaptive regression tree": lambda: tree.HoeffdingAdaptiveTreeRegressor(**seeded),
            "regression forest": lambda: forest.ARFRegressor(n_models=3, **seeded),
        }
    )
    text = classification or kind == "mean"
    return {f"{name}, {kind}": Example(make, classification, text=text) for name, make in makers.items()}


def _selected() -> Any:
    """Scaled twice and once as it is: of three features of one name the first counts."""
    minimum = compose.Select("size", "weight") | preprocessing.MinMaxScaler()
    return minimum + (numbers() | preprocessing.StandardScaler() | preprocessing.MaxAbsScaler()) + numbers()


CLASSIFIERS = {
    "tree": Example(_tree),
    "tree of majorities": Example(lambda: _tree(leaf_prediction="mc")),
    "adaptive tree": Example(_adaptive_tree),
    "tree that splits at once": Example(
        lambda: tree.ExtremelyFastDecisionTreeClassifier(grace_period=25, delta=0.05, min_samples_reevaluate=25)
    ),
    "bag of trees that split at once": Example(
        lambda: ensemble.BaggingClassifier(
            tree.ExtremelyFastDecisionTreeClassifier(grace_period=25, delta=0.05, leaf_prediction="mc"), 3, seed=7
        )
    ),
    "forest": Example(lambda: forest.ARFClassifier(n_models=3, seed=7, grace_period=25)),
    "Mondrian forest": Example(lambda: forest.AMFClassifier(n_estimators=3, seed=7), text=False),
    "Mondrian forest without aggregation": Example(
        lambda: scaled(forest.AMFClassifier(n_estimators=3, seed=7, use_aggregation=False, max_nodes=50)), text=False
    ),
    "bag of trees": Example(lambda: ensemble.BaggingClassifier(_tree(), 3, seed=7)),
    "bag of adaptive trees": Example(lambda: ensemble.BaggingClassifier(_adaptive_tree(), 3, seed=7)),
    "watched bag of trees": Example(lambda: ensemble.ADWINBaggingClassifier(_tree(), 3, seed=7)),
    "leveraging bag of trees": Example(lambda: ensemble.LeveragingBaggingClassifier(_tree(), 3, w=2, seed=7)),
    "bag of scaled softmax": Example(
        lambda: ensemble.BaggingClassifier(scaled(linear_model.SoftmaxRegression()), 3, seed=7), text=False
    ),
    "patches of trees": Example(lambda: ensemble.SRPClassifier(_tree(), n_models=3, lam=2, seed=7)),
    "patches of naive Bayes": Example(
        lambda: ensemble.SRPClassifier(naive_bayes.GaussianNB(), n_models=3, lam=2, seed=7), text=False
    ),
    "naive Bayes": Example(naive_bayes.GaussianNB, text=False),
    "softmax": Example(lambda: scaled(linear_model.SoftmaxRegression()), text=False),
    "logistic": Example(lambda: scaled(linear_model.LogisticRegression()), text=False, binary=True),
    "logistic on extremes": Example(
        lambda: preprocessing.MinMaxScaler() | linear_model.LogisticRegression(), text=False, binary=True
    ),
    "perceptron": Example(lambda: scaled(linear_model.Perceptron()), text=False, binary=True),
    "passive-aggressive": Example(lambda: scaled(linear_model.PAClassifier()), text=False, binary=True),
    "large margin": Example(lambda: scaled(linear_model.ALMAClassifier()), text=False, binary=True),
    "one vs rest, logistic": Example(
        lambda: multiclass.OneVsRestClassifier(scaled(linear_model.LogisticRegression())), text=False
    ),
    "one vs rest, trees": Example(lambda: multiclass.OneVsRestClassifier(_tree())),
    "one vs rest, passive-aggressive": Example(
        lambda: multiclass.OneVsRestClassifier(scaled(linear_model.PAClassifier())), text=False
    ),
    "encoded softmax": Example(lambda: encoded() | linear_model.SoftmaxRegression()),
    "encoded naive Bayes": Example(
        lambda: (
            (compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)) + numbers()
            | naive_bayes.GaussianNB()
        )
    ),
    "numbered tree": Example(
        lambda: (compose.SelectType(str) | preprocessing.OrdinalEncoder()) + (compose.SelectType(float)) | _tree()
    ),
    "everything encoded": Example(
        lambda: compose.Discard("late", "size", "weight") | preprocessing.OneHotEncoder() | _tree()
    ),
    "binarized tree": Example(lambda: preprocessing.Binarizer(0.5) | _tree()),
    "text beside scaled numbers": Example(
        lambda: compose.SelectType(str) + (numbers() | preprocessing.StandardScaler(with_std=False)) | _tree()
    ),
    "selected": Example(lambda: _selected() | naive_bayes.GaussianNB(), text=False, selects=("size", "weight")),
}
REGRESSORS = {
    "regression tree": Example(_regression_tree, False, text=False),
    "regression tree of means": Example(lambda: _regression_tree("mean"), False),
    "adaptive regression tree": Example(
        lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=7, grace_period=25, delta=0.1), False, text=False
    ),
    "regression forest": Example(lambda: forest.ARFRegressor(n_models=3, seed=7, grace_period=25), False, text=False),
    "Mondrian regression forest": Example(
        lambda: scaled(forest.AMFRegressor(n_estimators=3, seed=7)), False, text=False
    ),
    "bag of regression trees": Example(lambda: ensemble.BaggingRegressor(_regression_tree("mean"), 3, seed=7), False),
    "bag of scaled lines": Example(
        lambda: ensemble.BaggingRegressor(scaled(linear_model.LinearRegression()), 3, seed=7), False, text=False
    ),
    "patches of regression trees": Example(
        lambda: ensemble.SRPRegressor(_regression_tree("mean"), n_models=3, lam=2, seed=7, disable_weighted_vote=False),
        False,
    ),
    "patches of scaled lines": Example(
        lambda: ensemble.SRPRegressor(
            scaled(linear_model.LinearRegression()), n_models=3, lam=2, seed=7, aggregation_method="median"
        ),
        False,
        text=False,
    ),
    "line": Example(lambda: scaled(linear_model.LinearRegression()), False, text=False),
    "implicit line": Example(lambda: scaled(ImplicitRegression()), False, text=False),
    "implicit line on raw values": Example(ImplicitRegression, False, text=False),
    "line on extremes": Example(
        lambda: preprocessing.MaxAbsScaler() | linear_model.LinearRegression(), False, text=False
    ),
    "passive-aggressive line": Example(lambda: scaled(linear_model.PARegressor(C=0.1)), False, text=False),
    "encoded line": Example(lambda: encoded() | linear_model.LinearRegression(), False),
    "encoded regression tree": Example(lambda: encoded() | _regression_tree(), False),
}
EXAMPLES = CLASSIFIERS | REGRESSORS
LEAVES = {
    name: example
    for classification, kinds in ((True, ("mc", "nb")), (False, ("mean", "model")))
    for kind in kinds
    for name, example in _leaves(classification, kind).items()
}
"""Trees and forests with leaves of the kinds that are not the default, adaptive; those are in EXAMPLES."""


def parts(model: Any) -> Iterator[Any]:
    """The model and every model and transformer in it."""
    yield model
    if isinstance(model, compose.Pipeline):
        inside = list(model.steps.values())
    elif isinstance(model, compose.TransformerUnion):
        inside = list(model.transformers.values())
    elif isinstance(model, multiclass.OneVsRestClassifier):
        inside = [model.classifier]
    else:
        inside = [model.model] if hasattr(model, "model") else []
    for one in inside:
        yield from parts(one)
