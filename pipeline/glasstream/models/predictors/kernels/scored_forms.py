"""Linear forms of an ONNX file (LinearClassifier, LinearRegressor)."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel
from glasstream.models.predictors.arrays import NumberMatrix, Numbers, as_rows, require
from glasstream.models.predictors.kernels.games import CACHE_BYTES, IDENTITY, AdditiveGame
from glasstream.models.predictors.kernels.scored import Scored
from glasstream.models.predictors.predictor import Floats, Output


class WeightedSums(NamedTuple):
    """The arrays of c linear forms over d slots; their numbers are float32.

    Attributes
    ----------
    weight
        float64[c, d]
    intercept
        float64[c]
    """

    weight: NumberMatrix
    intercept: Numbers


@bare_kernel
def add_up(rows: Floats, tables: WeightedSums, scores: Floats) -> None:
    """Fill `scores` float64[n, c] with the sums for `rows` float64[n, >= d], rounded to float32.

    onnxruntime adds in float32, in an order that depends on the processor. The sum here is that of the float32 inputs
    in float64. An absent feature makes a score NaN, as there.
    """
    weight, intercept = tables
    for i in range(rows.shape[0]):
        for c in range(weight.shape[0]):
            total = 0.0
            for j in range(weight.shape[1]):
                total += np.float64(np.float32(rows[i, j])) * weight[c, j]
            scores[i, c] = np.float32(total + intercept[c])


class ScoredForms(Scored):
    """Linear forms with a score each; parameters are those of `Scored`."""

    form: ClassVar[str] = "scored forms"
    Tables = WeightedSums

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._scores))
        add_up(rows, self._tables, scores)
        return self._answered(scores)

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> AdditiveGame | None:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`.

        Its answers are not rounded to float32.
        """
        scale = self._scale()
        if scale is None:
            return None
        link, score, sign = scale
        weight, known = sign * self._tables.weight.T[:, score], len(self.features)
        offset = np.where(sign > 0, 0.0, 1.0 if link == IDENTITY else 0.0)

        def terms(rows: Floats) -> Floats:
            single = as_rows(rows, known)[:, :known].astype(np.float32).astype(np.float64)
            return np.asarray(single[:, :, np.newaxis] * weight)

        return AdditiveGame(terms, offset + sign * self._tables.intercept[score], link, background)

    @classmethod
    def _check(cls, tables: Any, features: int, scores: int) -> None:
        require(tables.weight.shape == (scores, features), "a weight for each score and feature")
        require(tables.intercept.size == scores, "an intercept for each score")
