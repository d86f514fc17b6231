"""Gaussian naive Bayes as arrays, equal to River's."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import Array, NumberMatrix, Numbers, as_rows, require
from glasstream.models.predictors.kernels.tables import TablePredictor
from glasstream.models.predictors.predictor import Floats, Output

_LEAST: Final = 1e-9
"""Number that river.naive_bayes.gaussian adds to a density before it takes the logarithm."""
_SQRT_TAU: Final = math.sqrt(math.tau)


class Densities(NamedTuple):
    """The normal distributions of d features in each of c classes.

    Attributes
    ----------
    prior
        float64[c]: logarithms.
    centre, sigma
        float64[c, d]. A sigma of 0 means that there is no density: the class has seen no value of the feature, or only
        one.
    """

    prior: Numbers
    centre: NumberMatrix
    sigma: NumberMatrix


@kernel
def gaussian_bayes(rows: Floats, prior: Floats, centre: Floats, sigma: Floats, scores: Floats) -> None:
    """Fill `scores` float64[n, c] with the probabilities of c classes for `rows` float64[n, >= d]."""
    classes, width = centre.shape
    nothing = math.log(_LEAST)
    for i in range(rows.shape[0]):
        largest = -np.inf
        for c in range(classes):
            log = prior[c]
            for j in range(width):
                x = rows[i, j]
                if x == x:
                    if sigma[c, j] > 0.0:
                        z = (x - centre[c, j]) / sigma[c, j]
                        log += math.log(_LEAST + math.exp(-0.5 * z * z) / _SQRT_TAU / sigma[c, j])
                    else:
                        log += nothing
            scores[i, c] = log
            largest = max(largest, log)
        total = 0.0
        for c in range(classes):
            total += math.exp(scores[i, c] - largest)
        total = math.log(total) + largest
        for c in range(classes):
            scores[i, c] = math.exp(scores[i, c] - total)


class GaussianBayes(TablePredictor):
    """A Gaussian naive Bayes as arrays; see `Densities`."""

    form: ClassVar[str] = "gaussian bayes"
    Tables = Densities

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._column.size))
        gaussian_bayes(rows, *self._tables, scores)
        return self._classified(scores)

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes, column, tables = cls._read(meta, arrays)
        shape = (column.size, len(features))
        require(tables.prior.size == column.size, "a prior for each class")
        fits = tables.centre.shape == tables.sigma.shape == shape
        require(fits, f"densities of {shape[0]} classes over {shape[1]} features")
        return cls(features, classes, column, tables)
