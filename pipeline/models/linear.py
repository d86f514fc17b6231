"""River's linear models, one against the rest of them, and a StandardScaler before either, compiled."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import numpy as np
from river import compose, linear_model, multiclass, optim, preprocessing

from pipeline.errors import NotCompilable
from pipeline.models import conclude
from pipeline.models.arrays import Array, as_rows, require, require_range, sealed
from pipeline.models.form import choice, texts
from pipeline.models.labels import Labels
from pipeline.models.linear_forms import (
    EXPONENTIAL,
    IDENTITY,
    SIGMOID,
    Forms,
    evaluate,
    evaluate_built_up,
    evaluate_replaced,
)
from pipeline.models.means import IDENTITY_LOSSES
from pipeline.models.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Integers, Output, Task
from pipeline.models.slots import ABSENT, Slots
from pipeline.models.variant_rows import BuiltUpRows, ReplacedRows

LINKS: Final = {
    "identity": (IDENTITY, ""),
    "exponential": (EXPONENTIAL, ""),
    "binary": (SIGMOID, "as they are"),
    "one vs rest": (SIGMOID, "shares or equal"),
}
"""What is made of each linear form, and of all of them where they are classes (one of `conclude.RULES`)."""

_LOGISTIC_LOSSES: Final = frozenset({optim.losses.Log, optim.losses.Hinge, optim.losses.BinaryFocalLoss})

_FIELDS: Final = (
    ("outer", "f8", 2),
    ("inner", "f8", 3),
    ("weight", "f8", 2),
    ("known", "b1", 2),
    ("intercept", "f8", 1),
)


class LinearPredictor:
    """A linear model as arrays.

    Parameters
    ----------
    features, classes
        As `Predictor` has them.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1; empty for regression.
    forms
        The linear forms.
    link
        One of LINKS.
    """

    form: ClassVar[str] = "linear"
    compiled = True

    def __init__(
        self, features: tuple[str, ...], classes: tuple[str, ...], column: object, forms: Forms, link: str
    ) -> None:
        self.features = features
        self.classes = classes
        self.task: Task = CLASSIFICATION if LINKS[link][1] else REGRESSION
        self._column = sealed(column, np.int32)
        self._forms = Forms(*(sealed(getattr(forms, name), dtype) for name, dtype, _ in _FIELDS))
        self._link = link

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._forms.intercept.size))
        evaluate(self._forms, rows, LINKS[self._link][0], scores)
        return self._concluded(scores)

    def _concluded(self, scores: Floats) -> Output:
        labels = np.full(len(scores), NO_LABEL, np.int64)
        if self.task == REGRESSION:
            return Output(scores, labels)
        if self._link == "binary":
            scores = np.column_stack([1.0 - scores, scores])  # River's keys are False and True, in this order
        values = np.zeros((len(scores), len(self.classes)))
        conclude.conclude(scores, conclude.RULES[LINKS[self._link][1]], self._column, values, labels)
        return Output(values, labels)

    def replaced(self, rows: Floats, values: Floats) -> tuple[Output, Output]:
        """As `pipeline.explain.variants.replaced`."""
        known, forms = len(self.features), self._forms.intercept.size
        given = ReplacedRows.of(rows, values, known)
        row_scores, scores = np.empty((len(rows), forms)), np.empty((*given.values.shape, forms))
        link, terms = LINKS[self._link][0], np.empty(known)
        evaluate_replaced(self._forms, given.rows, given.values, link, terms, row_scores, scores)
        return self._concluded(row_scores), self._concluded(given.asked(scores))

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Output:
        """As `pipeline.explain.variants.built_up`."""
        known, forms = len(self.features), self._forms.intercept.size
        given = BuiltUpRows.of(rows, order, background, known)
        scores = np.empty((given.variants, forms))
        link, terms, mixed = LINKS[self._link][0], np.empty(known), np.empty(known)
        evaluate_built_up(self._forms, given.rows, given.order, given.background, link, terms, mixed, scores)
        return self._concluded(scores)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"features": self.features, "classes": self.classes, "link": self._link}
        return meta, {"column": self._column} | {name: getattr(self._forms, name) for name, _, _ in _FIELDS}

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        link = choice(meta, "link", tuple(LINKS))
        fields = (*_FIELDS, ("column", "i4", 1))
        for name, dtype, dimensions in fields:
            fits = name in arrays and arrays[name].dtype == np.dtype(dtype) and arrays[name].ndim == dimensions
            require(fits, f"an array {name!r} as {dtype} of {dimensions} dimensions")
        forms = Forms(*(arrays[name] for name, _, _ in _FIELDS))
        column = arrays["column"]
        m, d = forms.intercept.size, len(features)
        require(forms.outer.shape == (2, d) and forms.inner.shape == (m, 2, d), f"scaling of {m} forms, {d} features")
        require(forms.weight.shape == forms.known.shape == (m, d), f"weights of {m} forms over {d} features")
        require_range(column, -1, len(classes), "columns")
        expected = {"identity": 0, "exponential": 0, "binary": 2, "one vs rest": m}[link]
        require(column.size == expected and (m == 1 or link == "one vs rest"), f"as many forms as {link!r} has")
        return cls(features, classes, column, forms, link)


def compile_linear(model: Any, outer: Any | None, slots: Slots, labels: Labels | None) -> LinearPredictor:
    """The predictor of a linear model or one-vs-rest of them, behind the StandardScaler `outer` if there is one.

    Raises
    ------
    NotCompilable
        A loss, a scaler or an inner model has no compiled form, or the model is given text.
    """
    slots.all_numeric("a linear model")
    if type(model) is linear_model.LinearRegression:
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
    forms = _forms(split, outer, slots)
    classes = labels.classes if labels is not None else ()
    return LinearPredictor(slots.names, classes, labels.columns(keys) if labels is not None else [], forms, link)


def split_scaler(model: Any) -> tuple[Any | None, Any]:
    """The StandardScaler before a model, or None, and the model.

    Raises
    ------
    NotCompilable
        Something else stands before it.
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


def _forms(split: list[tuple[Any | None, Any]], outer: Any | None, slots: Slots) -> Forms:
    m, d = len(split), len(slots.names)
    inner = np.empty((m, 2, d))
    weight = np.zeros((m, d))
    known = np.zeros((m, d), np.bool_)
    for row, (scaler, model) in enumerate(split):
        inner[row] = _scaling(scaler, slots)
        for name, factor in model.weights.items():
            slot = slots.slot(name)
            if slot != ABSENT:
                weight[row, slot], known[row, slot] = factor, True
    intercept = np.array([model.intercept for _, model in split], np.float64)
    return Forms(_scaling(outer, slots), inner, weight, known, intercept)


def _scaling(scaler: Any | None, slots: Slots) -> Array:
    """float64[2, d]: what is subtracted from a feature and what it is divided by; 0 there makes it 0."""
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
