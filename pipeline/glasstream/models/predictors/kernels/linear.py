"""Linear models as arrays, also one-vs-rest and with scaling before them."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import numpy as np

from glasstream.models.predictors.arrays import Array, as_rows, require, sealed
from glasstream.models.predictors.compiled import choice
from glasstream.models.predictors.kernels import linear_forms
from glasstream.models.predictors.kernels.games import CACHE_BYTES, IDENTITY, LOG, LOGIT, AdditiveGame
from glasstream.models.predictors.kernels.linear_forms import Forms
from glasstream.models.predictors.kernels.tables import TablePredictor
from glasstream.models.predictors.kernels.variant_rows import built_up_count, requested, sealed_variants
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Integers, Output
from glasstream_topics.attributions import Link

LINKS: Final = {
    "identity": (linear_forms.IDENTITY, ""),
    "exponential": (linear_forms.EXPONENTIAL, ""),
    "binary": (linear_forms.SIGMOID, "as they are"),
    "one vs rest": (linear_forms.SIGMOID, "shares or equal"),
}
"""Transformations of the scores of linear forms: of each form for itself, or of all of them as classes (one of
`normalise.RULES`).
"""


class LinearPredictor(TablePredictor):
    """A linear model as arrays.

    Parameters
    ----------
    features, classes, column, tables
        Linear forms as `Forms`; see `TablePredictor`.
    link
        One of LINKS.
    """

    form: ClassVar[str] = "linear"
    Tables = Forms

    def __init__(
        self, features: tuple[str, ...], classes: tuple[str, ...], column: object, tables: Forms, link: str
    ) -> None:
        super().__init__(features, classes, column, tables)
        self.task = CLASSIFICATION if LINKS[link][1] else REGRESSION
        self._link = link

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._tables.intercept.size))
        linear_forms.evaluate(self._tables, rows, LINKS[self._link][0], scores)
        return self._normalised(scores)

    def _normalised(self, scores: Floats) -> Output:
        if self.task == REGRESSION:
            return Output.of_numbers(scores)
        if self._link == "binary":
            scores = np.column_stack([1.0 - scores, scores])  # River's keys are False and True, in this order
        return self._classified(scores, LINKS[self._link][1])

    def replaced(self, rows: Floats, values: Floats) -> tuple[Output, Output]:
        """Evaluate replaced rows; see `glasstream.explain.variants.replaced`."""
        known, forms = len(self.features), self._tables.intercept.size
        width = values.shape[2]
        rows, values, _ = sealed_variants(rows, values, known)
        row_scores, scores = np.empty((len(rows), forms)), np.empty((*values.shape, forms))
        link, terms = LINKS[self._link][0], np.empty(known)
        linear_forms.evaluate_replaced(self._tables, rows, values, link, terms, row_scores, scores)
        return self._normalised(row_scores), self._normalised(requested(scores, width))

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Output:
        """Evaluate built-up rows; see `glasstream.explain.variants.built_up`."""
        known, forms = len(self.features), self._tables.intercept.size
        rows, background, _ = sealed_variants(rows, background, known)
        order = sealed(order, np.int64)
        scores = np.empty((built_up_count(order, background), forms))
        link, scratch = LINKS[self._link][0], np.empty((2, known))
        linear_forms.evaluate_built_up(self._tables, rows, order, background, link, scratch, scores)
        return self._normalised(scores)

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> AdditiveGame | None:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`.

        None for one-vs-rest, whose probabilities have no scale on which features add up.
        """
        links: dict[str, Link] = {"identity": IDENTITY, "exponential": LOG, "binary": LOGIT}
        link = links.get(self._link)
        if link is None:
            return None
        sign = np.ones(1)
        if self._link == "binary":  # River's keys are False and True, in this order
            sign, reported = np.zeros(len(self.classes)), self._column >= 0
            sign[self._column[reported]] = np.array([-1.0, 1.0])[reported]
        known = len(self.features)

        def terms(rows: Floats) -> Floats:
            rows = as_rows(rows, known)
            made = np.empty((len(rows), known, self._tables.intercept.size))
            linear_forms.terms(self._tables, rows, made)
            return np.asarray(made * sign)

        return AdditiveGame(terms, sign * self._tables.intercept, link, background)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta, arrays = super().pack()
        return meta | {"link": self._link}, arrays

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes, column, forms = cls._read(meta, arrays)
        link = choice(meta, "link", tuple(LINKS))
        m, d = forms.intercept.size, len(features)
        require(forms.outer.shape == (2, d) and forms.inner.shape == (m, 2, d), f"scaling of {m} forms, {d} features")
        require(forms.weight.shape == forms.known.shape == (m, d), f"weights of {m} forms over {d} features")
        expected = {"identity": 0, "exponential": 0, "binary": 2, "one vs rest": m}[link]
        require(column.size == expected and (m == 1 or link == "one vs rest"), f"as many forms as {link!r} has")
        return cls(features, classes, column, forms, link)
