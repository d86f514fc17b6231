"""River's linear models, compiled, also one-vs-rest and with a StandardScaler before them."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from river import compose, linear_model, multiclass, optim, preprocessing

from glasstream.base.errors import NotCompilable
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.linear import LinearPredictor
from glasstream.models.predictors.kernels.linear_forms import Forms
from glasstream.models.predictors.kernels.softmax import SoftmaxPredictor
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import Slots
from glasstream.models.river.implicit import ImplicitRegression
from glasstream.models.river.means import IDENTITY_LOSSES

_LOGISTIC_LOSSES: Final = frozenset({optim.losses.Log, optim.losses.Hinge, optim.losses.BinaryFocalLoss})


def compile_linear(model: Any, outer: Any | None, slots: Slots, labels: Labels | None) -> LinearPredictor:
    """Return the predictor of a linear model or one-vs-rest of them, behind the StandardScaler `outer` if there is one.

    Raises
    ------
    NotCompilable
        A loss, a scaler or an inner model has no compiled form, or the model is given text.
    """
    slots.all_numeric("a linear model")
    if type(model) in (linear_model.LinearRegression, ImplicitRegression):
        link = "identity"
        if type(model.loss) is optim.losses.Poisson:
            link = "exponential"
        elif type(model.loss) not in IDENTITY_LOSSES:
            raise NotCompilable(f"LinearRegression with the loss {type(model.loss).__name__} has no compiled form")
        members, keys = [model], []
    elif type(model) is multiclass.OneVsRestClassifier:
        link, members, keys = "one vs rest", list(model.classifiers.values()), list(model.classifiers)
    else:
        link, members, keys = "binary", [model], [False, True]
    split = [split_scaler(member) for member in members]
    if link in ("binary", "one vs rest"):
        for _, member in split:
            if type(member) is not linear_model.LogisticRegression or type(member.loss) not in _LOGISTIC_LOSSES:
                loss = f" with the loss {type(member.loss).__name__}" if hasattr(member, "loss") else ""
                raise NotCompilable(f"a binary classifier {type(member).__name__}{loss} has no compiled form")
    linear = [member for _, member in split]
    weights, intercepts = [member.weights for member in linear], [member.intercept for member in linear]
    forms = _forms([scaler for scaler, _ in split], weights, intercepts, outer, slots)
    classes = labels.classes if labels is not None else ()
    return LinearPredictor(slots.names, classes, labels.columns(keys) if labels is not None else [], forms, link)


def split_scaler(model: Any) -> tuple[Any | None, Any]:
    """Return the StandardScaler before a model, or None, and the model.

    Raises
    ------
    NotCompilable
        Another transformer stands before the model.
    """
    if type(model) is not compose.Pipeline:
        return None, model
    *before, last = model.steps.values()
    if not before:
        return None, last
    scaler = before[0]
    if len(before) > 1 or type(scaler) is not preprocessing.StandardScaler or scaler.window_size is not None:
        steps = " | ".join(type(step).__name__ for step in before)
        raise NotCompilable(
            f"before {type(last).__name__} only one StandardScaler without window is known, not {steps}"
        )
    return scaler, last


def compile_softmax(model: Any, slots: Slots, labels: Labels) -> SoftmaxPredictor:
    """Compile a SoftmaxRegression.

    Raises
    ------
    NotCompilable
        The model's input includes text.
    """
    slots.all_numeric("a softmax regression")
    weights = slots.matrix(list(model.weights.values()))
    return SoftmaxPredictor(slots.names, labels.classes, labels.columns(model.weights), weights)


def compile_margin_classifier(model: Any, slots: Slots, labels: Labels) -> LinearPredictor:
    """Compile a Perceptron, PAClassifier or ALMAClassifier: the sigmoid of a linear form, with the keys False and True.

    Raises
    ------
    NotCompilable
        The model's input includes text.
    """
    weights, intercept = (model.w, 0.0) if hasattr(model, "w") else (model.weights, model.intercept)
    forms = _forms([None], [weights], [intercept], None, slots)
    return LinearPredictor(slots.names, labels.classes, labels.columns([False, True]), forms, "binary")


def compile_margin_regressor(model: Any, slots: Slots) -> LinearPredictor:
    """Compile a PARegressor: a linear form; errors are those of `compile_margin_classifier`."""
    return LinearPredictor(
        slots.names, (), [], _forms([None], [model.weights], [model.intercept], None, slots), "identity"
    )


def _forms(
    scalers: list[Any], weights: list[Mapping[Any, float]], intercepts: list[float], outer: Any | None, slots: Slots
) -> Forms:
    """Return linear forms, each with a StandardScaler before it or None, behind the scaler `outer` if there is one."""
    slots.all_numeric("a linear model")
    inner = np.reshape([_scaling(scaler, slots) for scaler in scalers], (len(scalers), 2, len(slots.names)))
    return Forms(_scaling(outer, slots), inner, *slots.matrix(weights), np.array(intercepts, np.float64))


def _scaling(scaler: Any | None, slots: Slots) -> Array:
    """Return float64[2, d]: what is subtracted from a feature, and its divisor; a divisor of 0 makes the feature 0."""
    scaling = np.zeros((2, len(slots.names)))
    if scaler is None or not scaler.with_std:
        scaling[1] = 1.0
    if scaler is None:
        return scaling
    for slot, name in enumerate(slots.names):
        scaling[0, slot] = scaler.means.get(name, 0.0)  # indexing the defaultdict would add to the model
        if scaler.with_std:
            variance = scaler.vars.get(name, 0.0)
            if variance < 0.0:
                raise NotCompilable(f"the scaler's variance of {name!r} is negative ({variance})")
            scaling[1, slot] = variance**0.5
    return scaling
