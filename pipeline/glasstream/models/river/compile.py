"""Compile River models to predictors made of arrays."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from river import base, compose, ensemble, forest, linear_model, multiclass, naive_bayes, preprocessing, tree

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.events.features import FeatureTable
from glasstream.models.predictors.compiled import Compiled
from glasstream.models.predictors.kernels.transform import Transformed
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import Slots
from glasstream.models.river import bayes, ensembles, hoeffding, linear_models, mondrian
from glasstream.models.river.ensembles import Keys, PartCompiler, merged
from glasstream.models.river.implicit import ImplicitRegression
from glasstream.models.river.transformers import compile_transformers


def compile_model(
    model: Any, table: FeatureTable, labels: Mapping[Any, str] | None, *, given: Sequence[bool] | None = None
) -> Compiled:
    """Return the arrays of `model` as it is now; what it learns later does not change them.

    The models of FAMILIES can be compiled, with any parameters unless a message says otherwise. A model may stand alone
    or at the end of a pipeline of `transformers.TRANSFORMERS` and unions of them. Types are compared exactly: a
    subclass may predict differently.

    The predictor equals River to 1e-9, with these exceptions. If River itself raises (an adaptive leaf without
    statistics, numbers that overflow, a row without a selected feature) or returns NaN (a linear model behind a
    MinMaxScaler that has not seen a feature), the predictor returns some answer or none.

    Parameters
    ----------
    model
        A River model.
    table
        The stream's features as of now.
    labels
        The text of each River class key, in the order of the predictor's classes; None for regression.
    given
        For each slot of `table`, whether the feature is an input of the model; None makes all of them inputs. The
        predictor ignores the others.

    Raises
    ------
    NotCompilable
        The model has no compiled form; the message says why. Use `GenericPredictor` for it.
    ModelError
        `labels` does not fit the model's task.
    """
    _, last = _split(model)
    if isinstance(last, base.Classifier | base.Regressor) and isinstance(last, base.Classifier) == (labels is None):
        raise ModelError(
            f"{type(last).__name__}: expected labels for a classifier and none for a regressor, got {labels}"
        )
    return _PARTS.compile(model, Slots.of(table, given), None if labels is None else Labels(labels))


@dataclass(frozen=True, slots=True)
class Family:
    """The compiler of River models of one exact type.

    Attributes
    ----------
    compile
        Function from (model, slots, labels, parts) to arrays.
    keys
        Function from (model, parts) to the keys of `PartCompiler.keys`; None for regressors.
    """

    compile: Callable[[Any, Slots, Any, PartCompiler], Compiled]
    keys: Callable[[Any, PartCompiler], Keys] | None = None


class _Parts:
    """Compiles any model of FAMILIES, with or without transformers."""

    def compile(self, model: Any, slots: Slots, labels: Labels | None) -> Compiled:
        transformers, last = _split(model)
        family = _family(last)
        if not transformers:
            return family.compile(last, slots, labels, self)
        if _are_scaled_forms(transformers, last):
            return linear_models.compile_linear(last, transformers[0], slots, labels)
        steps, inner = compile_transformers(transformers, slots)
        return Transformed(slots.names, steps, family.compile(last, inner, labels, self))

    def keys(self, model: Any) -> Keys:
        _, last = _split(model)
        keys = _family(last).keys
        if keys is None:
            raise NotCompilable(f"{type(last).__name__} stands where a classifier is expected")
        return keys(last, self)


_PARTS: Final = _Parts()


def _split(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers before a model, and the model."""
    if type(model) is not compose.Pipeline or not model.steps:
        return [], model
    *before, last = model.steps.values()
    more, last = _split(last)
    return [*before, *more], last


def _family(model: Any) -> Family:
    kind = type(model)
    if kind not in FAMILIES:
        raise NotCompilable(
            f"{kind.__name__} has no compiled form (exact types only; subclasses may predict otherwise)"
        )
    return FAMILIES[kind]


def _are_scaled_forms(transformers: list[Any], last: Any) -> bool:
    """Return whether one scaler stands before linear forms that can scale by themselves."""
    scaler = transformers[0]
    simple = len(transformers) == 1 and type(scaler) is preprocessing.StandardScaler and scaler.window_size is None
    return simple and (type(last) in _SCALING or _are_forms(last))


def _are_forms(model: Any) -> bool:
    """Return whether a model is one-vs-rest over logistic regressions, each with at most a StandardScaler before it."""
    if type(model) is not multiclass.OneVsRestClassifier:
        return False
    try:
        members = [linear_models.split_scaler(member)[1] for member in model.classifiers.values()]
    except NotCompilable:
        return False
    return all(type(member) is linear_model.LogisticRegression for member in members)


_SCALING: Final = (linear_model.LinearRegression, linear_model.LogisticRegression, ImplicitRegression)


def _forms(model: Any, slots: Slots, labels: Labels | None, parts: PartCompiler) -> Compiled:
    return linear_models.compile_linear(model, None, slots, labels)


def _one_vs_rest(model: Any, slots: Slots, labels: Labels, parts: PartCompiler) -> Compiled:
    if _are_forms(model):
        return linear_models.compile_linear(model, None, slots, labels)
    return ensembles.compile_one_vs_rest(model, slots, labels, parts)


def _classifier(compile: Callable[[Any, Slots, Labels], Compiled], keys: Callable[[Any], Keys]) -> Family:
    """Return the family of a model that contains no other models."""
    return Family(lambda model, slots, labels, parts: compile(model, slots, labels), lambda model, parts: keys(model))


def _regressor(compile: Callable[[Any, Slots], Compiled]) -> Family:
    return Family(lambda model, slots, labels, parts: compile(model, slots))


def _false_and_true(model: Any, parts: PartCompiler | None = None) -> Keys:
    return [False, True]


def _sorted_classes(model: Any) -> Keys:
    return sorted(model.classes)


_BAG: Final = Family(ensembles.compile_bag, ensembles.bag_keys)
_MARGIN: Final = _classifier(linear_models.compile_margin_classifier, _false_and_true)

FAMILIES: Final[Mapping[type, Family]] = {
    ensemble.ADWINBaggingClassifier: _BAG,
    ensemble.BaggingClassifier: _BAG,
    ensemble.BaggingRegressor: Family(ensembles.compile_regressor_bag),
    ensemble.LeveragingBaggingClassifier: _BAG,
    ensemble.SRPClassifier: Family(ensembles.compile_patches, ensembles.patches_keys),
    ensemble.SRPRegressor: Family(ensembles.compile_regressor_patches),
    forest.AMFClassifier: _classifier(mondrian.compile_mondrian_classifier, lambda model: list(model._classes)),
    forest.AMFRegressor: _regressor(mondrian.compile_mondrian_regressor),
    forest.ARFClassifier: _classifier(
        hoeffding.compile_forest_classifier, lambda model: merged([_sorted_classes(one) for one in model])
    ),
    forest.ARFRegressor: _regressor(hoeffding.compile_forest_regressor),
    ImplicitRegression: Family(_forms),
    linear_model.ALMAClassifier: _MARGIN,
    linear_model.LinearRegression: Family(_forms),
    linear_model.LogisticRegression: Family(_forms, _false_and_true),
    linear_model.PAClassifier: _MARGIN,
    linear_model.PARegressor: _regressor(linear_models.compile_margin_regressor),
    linear_model.Perceptron: _MARGIN,
    linear_model.SoftmaxRegression: _classifier(linear_models.compile_softmax, lambda model: list(model.weights)),
    multiclass.OneVsRestClassifier: Family(_one_vs_rest, ensembles.one_vs_rest_keys),
    naive_bayes.GaussianNB: _classifier(bayes.compile_gaussian_bayes, lambda model: list(model.class_counts)),
    tree.ExtremelyFastDecisionTreeClassifier: _classifier(hoeffding.compile_tree_classifier, _sorted_classes),
    tree.HoeffdingAdaptiveTreeClassifier: _classifier(
        hoeffding.compile_adaptive_tree_classifier, lambda model: list(model.classes)
    ),
    tree.HoeffdingAdaptiveTreeRegressor: _regressor(hoeffding.compile_tree_regressor),
    tree.HoeffdingTreeClassifier: _classifier(hoeffding.compile_tree_classifier, _sorted_classes),
    tree.HoeffdingTreeRegressor: _regressor(hoeffding.compile_tree_regressor),
}
"""Families by exact type: a subclass may predict differently."""
