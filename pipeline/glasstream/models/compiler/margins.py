"""River's perceptron, passive-aggressive and large-margin models, compiled."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glasstream.models.compiler.slots import ABSENT, Slots
from glasstream.models.contract.labels import Labels
from glasstream.models.kernels.linear import LinearPredictor
from glasstream.models.kernels.linear_forms import Forms


def compile_margin_classifier(model: Any, slots: Slots, labels: Labels) -> LinearPredictor:
    """Compile a Perceptron, PAClassifier or ALMAClassifier: the sigmoid of a linear form, with the keys False and True.

    Raises
    ------
    NotCompilable
        The model's input includes text.
    """
    weights, intercept = (model.w, 0.0) if hasattr(model, "w") else (model.weights, model.intercept)
    forms = _forms(weights, intercept, slots)
    return LinearPredictor(slots.names, labels.classes, labels.columns([False, True]), forms, "binary")


def compile_margin_regressor(model: Any, slots: Slots) -> LinearPredictor:
    """Compile a PARegressor: a linear form; errors are those of `compile_margin_classifier`."""
    return LinearPredictor(slots.names, (), [], _forms(model.weights, model.intercept, slots), "identity")


def _forms(weights: Mapping[Any, float], intercept: float, slots: Slots) -> Forms:
    slots.all_numeric("a linear model")
    width = len(slots.names)
    as_it_is = np.stack([np.zeros(width), np.ones(width)])
    weight = np.zeros((1, width))
    known = np.zeros((1, width), np.bool_)
    for name, factor in weights.items():
        slot = slots.slot(name)
        if slot != ABSENT:
            weight[0, slot], known[0, slot] = factor, True
    return Forms(as_it_is, as_it_is[None], weight, known, np.array([intercept], np.float64))
