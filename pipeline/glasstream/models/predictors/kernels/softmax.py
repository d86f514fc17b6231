"""Softmax regression as arrays, equal to River's."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import Array, FlagMatrix, NumberMatrix, as_rows, require
from glasstream.models.predictors.kernels.games import CACHE_BYTES, SOFTMAX, AdditiveGame
from glasstream.models.predictors.kernels.tables import TablePredictor
from glasstream.models.predictors.predictor import Floats, Output


class Weights(NamedTuple):
    """float64[c, d], bool[c, d]: the weights of c linear forms, and whether each of them exists."""

    weight: NumberMatrix
    known: FlagMatrix


@kernel
def softmax(rows: Floats, weight: Floats, known: Array, scores: Floats) -> None:
    """Fill `scores` float64[n, c] with the softmax of c linear forms of `rows` float64[n, >= d].

    `weight`, `known` [c, d]: a form ignores a feature that it does not know.
    """
    classes, width = weight.shape
    for i in range(rows.shape[0]):
        largest = -np.inf
        for c in range(classes):
            dot = 0.0
            for j in range(width):
                x = rows[i, j]
                if x == x and known[c, j]:
                    dot += x * weight[c, j]
            scores[i, c] = dot
            largest = max(largest, dot)
        total = 0.0
        for c in range(classes):
            scores[i, c] = math.exp(scores[i, c] - largest)
            total += scores[i, c]
        for c in range(classes):
            scores[i, c] /= total


class SoftmaxPredictor(TablePredictor):
    """A softmax regression as arrays; see `Weights`."""

    form: ClassVar[str] = "softmax"
    Tables = Weights

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._column.size))
        softmax(rows, *self._tables, scores)
        return self._classified(scores)

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> AdditiveGame:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`."""
        weight = np.zeros((len(self.features), len(self.classes)))
        reported = self._column >= 0
        weight[:, self._column[reported]] = np.where(self._tables.known, self._tables.weight, 0.0)[reported].T
        known = len(self.features)

        def terms(rows: Floats) -> Floats:
            x = as_rows(rows, known)[:, :known]
            return np.asarray(np.where(np.isnan(x), 0.0, x)[:, :, np.newaxis] * weight)

        return AdditiveGame(terms, np.zeros(len(self.classes)), SOFTMAX, background)

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes, column, tables = cls._read(meta, arrays)
        shape = (column.size, len(features))
        fits = tables.weight.shape == tables.known.shape == shape
        require(fits, f"weights of {shape[0]} classes over {shape[1]} features")
        return cls(features, classes, column, tables)
