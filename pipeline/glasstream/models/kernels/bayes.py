"""River's Gaussian naive Bayes, compiled."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Self

import numpy as np

from glasstream.jit import kernel
from glasstream.models.compiler.slots import ABSENT, Slots
from glasstream.models.contract.arrays import Array, as_rows, read_matrices, require, require_range, sealed
from glasstream.models.contract.compiled import texts
from glasstream.models.contract.labels import Labels
from glasstream.models.contract.predictor import CLASSIFICATION, NO_LABEL, Floats, Output, Task
from glasstream.models.kernels import normalise

_RULE: Final = normalise.RULES["as they are"]
_FIELDS: Final = (("column", "i4", 1), ("prior", "f8", 1), ("centre", "f8", 2), ("sigma", "f8", 2))
_LEAST: Final = 1e-9
"""Number that river.naive_bayes.gaussian adds to a density before it takes the logarithm."""
_SQRT_TAU: Final = math.sqrt(math.tau)


@kernel
def gaussian_bayes(rows: Floats, prior: Floats, centre: Floats, sigma: Floats, scores: Floats) -> None:
    """Fill `scores` float64[n, c] with the probabilities of c classes for `rows` float64[n, >= d].

    `prior` float64[c] is logarithmic. `centre` and `sigma`, float64[c, d], describe normal distributions. A sigma of 0
    means that there is no density: the class has seen no value of the feature, or only one.
    """
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


class GaussianBayes:
    """A Gaussian naive Bayes as arrays.

    Parameters
    ----------
    features, classes
        Features and classes; see `Predictor`.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1 for a key that is not reported.
    prior, centre, sigma
        Arguments of `gaussian_bayes`.
    """

    form: ClassVar[str] = "gaussian bayes"
    task: Task = CLASSIFICATION
    compiled = True

    def __init__(
        self,
        features: tuple[str, ...],
        classes: tuple[str, ...],
        column: object,
        prior: object,
        centre: object,
        sigma: object,
    ) -> None:
        self.features = features
        self.classes = classes
        self._column = sealed(column, np.int32)
        self._prior, self._centre, self._sigma = (sealed(one, np.float64) for one in (prior, centre, sigma))

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._column.size))
        gaussian_bayes(rows, self._prior, self._centre, self._sigma, scores)
        values = np.zeros((len(rows), len(self.classes)))
        labels = np.full(len(rows), NO_LABEL, np.int64)
        normalise.normalise(scores, _RULE, self._column, values, labels)
        return Output(values, labels)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        arrays = {"column": self._column, "prior": self._prior, "centre": self._centre, "sigma": self._sigma}
        return {"features": self.features, "classes": self.classes}, arrays

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        column, prior, centre, sigma = read_matrices(arrays, _FIELDS)
        shape = (column.size, len(features))
        require(prior.size == column.size, "a prior for each class")
        require(centre.shape == sigma.shape == shape, f"densities of {shape[0]} classes over {shape[1]} features")
        require_range(column, -1, len(classes), "columns")
        return cls(features, classes, column, prior, centre, sigma)


def compile_gaussian_bayes(model: Any, slots: Slots, labels: Labels) -> GaussianBayes:
    """Return the predictor of a GaussianNB.

    Raises
    ------
    NotCompilable
        The model's input includes text.
    """
    slots.all_numeric("a Gaussian naive Bayes")
    total = sum(model.class_counts.values())
    centre = np.zeros((len(model.class_counts), len(slots.names)))
    sigma = np.zeros(centre.shape)
    for row, key in enumerate(model.class_counts):
        for name, gaussian in model.gaussians.get(key, {}).items():  # indexing would add to the model
            slot = slots.slot(name)
            variance = gaussian._var
            freedom = variance.mean.n - variance.ddof
            if slot != ABSENT and freedom > 0 and variance._S / freedom > 0.0:
                centre[row, slot], sigma[row, slot] = variance.mean._mean, math.sqrt(variance._S / freedom)
    prior = [math.log(count / total) for count in model.class_counts.values()]
    return GaussianBayes(slots.names, labels.classes, labels.columns(model.class_counts), prior, centre, sigma)
