"""Linear models as arrays, also one-vs-rest and with scaling before them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import numpy as np

from glasstream.models.contract.arrays import Array, as_rows, require, require_range, sealed
from glasstream.models.contract.compiled import choice, texts
from glasstream.models.contract.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Integers, Output, Task
from glasstream.models.kernels import normalise
from glasstream.models.kernels.linear_forms import (
    EXPONENTIAL,
    IDENTITY,
    SIGMOID,
    Forms,
    evaluate,
    evaluate_built_up,
    evaluate_replaced,
)
from glasstream.models.kernels.variant_rows import built_up_count, requested, sealed_variants

LINKS: Final = {
    "identity": (IDENTITY, ""),
    "exponential": (EXPONENTIAL, ""),
    "binary": (SIGMOID, "as they are"),
    "one vs rest": (SIGMOID, "shares or equal"),
}
"""Transformations of the scores of linear forms: of each form for itself, or of all of them as classes (one of
`normalise.RULES`).
"""

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
        Features and classes; see `Predictor`.
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
        return self._normalised(scores)

    def _normalised(self, scores: Floats) -> Output:
        labels = np.full(len(scores), NO_LABEL, np.int64)
        if self.task == REGRESSION:
            return Output(scores, labels)
        if self._link == "binary":
            scores = np.column_stack([1.0 - scores, scores])  # River's keys are False and True, in this order
        values = np.zeros((len(scores), len(self.classes)))
        normalise.normalise(scores, normalise.RULES[LINKS[self._link][1]], self._column, values, labels)
        return Output(values, labels)

    def replaced(self, rows: Floats, values: Floats) -> tuple[Output, Output]:
        """Evaluate replaced rows; see `glasstream.explain.variants.replaced`."""
        known, forms = len(self.features), self._forms.intercept.size
        width = values.shape[2]
        rows, values, _ = sealed_variants(rows, values, known)
        row_scores, scores = np.empty((len(rows), forms)), np.empty((*values.shape, forms))
        link, terms = LINKS[self._link][0], np.empty(known)
        evaluate_replaced(self._forms, rows, values, link, terms, row_scores, scores)
        return self._normalised(row_scores), self._normalised(requested(scores, width))

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Output:
        """Evaluate built-up rows; see `glasstream.explain.variants.built_up`."""
        known, forms = len(self.features), self._forms.intercept.size
        rows, background, _ = sealed_variants(rows, background, known)
        order = sealed(order, np.int64)
        scores = np.empty((built_up_count(order, background), forms))
        link, terms, mixed = LINKS[self._link][0], np.empty(known), np.empty(known)
        evaluate_built_up(self._forms, rows, order, background, link, terms, mixed, scores)
        return self._normalised(scores)

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
