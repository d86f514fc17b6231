"""Parameters of River's trees and forests as JSON has them, and back."""

from collections.abc import Mapping
from typing import Any, Final

from river import drift, forest, linear_model, metrics, optim, tree
from river.tree.splitter import EBSTSplitter, GaussianSplitter, TEBSTSplitter

from glasstream.base.errors import NotCompilable
from glasstream.models.online import layout as L
from glasstream.models.online import parameters as supported

FAMILIES: Final[Mapping[type, int]] = {
    tree.HoeffdingTreeClassifier: L.TREE_FAMILY,
    tree.HoeffdingAdaptiveTreeClassifier: L.ADAPTIVE_FAMILY,
    forest.ARFClassifier: L.FOREST_FAMILY,
    tree.HoeffdingTreeRegressor: L.TREE_REGRESSOR,
    tree.HoeffdingAdaptiveTreeRegressor: L.ADAPTIVE_REGRESSOR,
    forest.ARFRegressor: L.FOREST_REGRESSOR,
}
_METRICS: Final = {"Accuracy": metrics.Accuracy, "MSE": metrics.MSE}


def read(model: Any) -> supported.Parameters:
    """Return the parameters of a River model.

    Raises
    ------
    NotCompilable
        The model is of no family of ours, or a parameter has a value that is not supported.
    """
    family = FAMILIES.get(type(model))
    if family is None:
        names = ", ".join(one.__name__ for one in FAMILIES)
        raise NotCompilable(f"compiled code learns {names}, and no {type(model).__name__}")
    parameters = {name: plain(getattr(model, name)) for name in supported.OF[family]}
    supported.check(family, parameters)
    return parameters


def plain(value: Any) -> Any:
    """Return the value of a parameter as JSON has it; what is not supported comes back as it is."""
    if type(value) is drift.ADWIN:
        return [getattr(value, name) for name in supported.ADWIN]
    if type(value) is drift.NoDrift:
        return None
    if type(value) is GaussianSplitter:
        return value.n_splits
    if type(value) is TEBSTSplitter and value._root is None:
        return value.digits
    if type(value) is EBSTSplitter and value._root is None:
        return supported.EVERY_DIGIT
    if type(value) is linear_model.LinearRegression and is_untrained(value):
        return rates(value)
    if type(value) is metrics.Accuracy and value.cm.n_samples == 0:
        return "Accuracy"
    if type(value) is metrics.MSE and value._mean.n == 0:
        return "MSE"
    if isinstance(value, list | tuple | set | frozenset):
        return list(value) if isinstance(value, list) else sorted(value, key=repr)
    return value


def is_plain(model: linear_model.LinearRegression) -> bool:
    """Return whether kernels learn a linear regression: SGD on the squared loss with constant rates, and no penalty."""
    constant = optim.schedulers.Constant
    return (
        type(model.optimizer) is optim.SGD
        and type(model.loss) is optim.losses.Squared
        and type(model.optimizer.lr) is type(model.intercept_lr) is constant
        and type(model.initializer) is optim.initializers.Zeros
        and model.l1 == model.l2 == 0
    )


def is_untrained(model: linear_model.LinearRegression) -> bool:
    """Return whether kernels learn a linear regression, and it has learned nothing yet."""
    learned = model.weights or model.optimizer.n_iterations or model.intercept != model.intercept_init
    return is_plain(model) and not learned


def rates(model: linear_model.LinearRegression) -> list[Any]:
    """Return the parameters of a leaf model as JSON has them."""
    rate, intercept_rate = model.optimizer.lr.learning_rate, model.intercept_lr.learning_rate
    return [rate, model.intercept_init, intercept_rate, model.clip_gradient]


def linear_regression(values: list[Any]) -> linear_model.LinearRegression:
    """Return a new leaf model with these parameters."""
    rate, intercept, intercept_rate, clip = values
    return linear_model.LinearRegression(
        optim.SGD(rate), intercept_init=intercept, intercept_lr=intercept_rate, clip_gradient=clip
    )


def search_tree(digits: int) -> EBSTSplitter:
    """Return a new splitter of a regressor."""
    return EBSTSplitter() if digits == supported.EVERY_DIGIT else TEBSTSplitter(digits)


def river_arguments(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return what River's constructor is called with."""
    arguments = dict(parameters)
    if "leaf_model" in arguments:
        if arguments["splitter"] is not None:
            arguments["splitter"] = search_tree(arguments["splitter"])
        if arguments["leaf_model"] is not None:
            arguments["leaf_model"] = linear_regression(arguments["leaf_model"])
    elif arguments["splitter"] is not None:
        arguments["splitter"] = GaussianSplitter(arguments["splitter"])
    for name in ("drift_detector", "warning_detector"):
        if name in arguments:
            arguments[name] = adwin(arguments[name])
    if "metric" in arguments:
        arguments["metric"] = _METRICS[arguments["metric"]]()
    return arguments


def adwin(values: list[Any] | None) -> Any:
    """Return a new detector with these parameters."""
    return drift.NoDrift() if values is None else drift.ADWIN(**dict(zip(supported.ADWIN, values, strict=True)))
