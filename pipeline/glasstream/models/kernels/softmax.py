"""River's softmax regression, compiled."""

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
_FIELDS: Final = (("column", "i4", 1), ("weight", "f8", 2), ("known", "b1", 2))


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


class SoftmaxPredictor:
    """A softmax regression as arrays.

    Parameters
    ----------
    features, classes
        Features and classes; see `Predictor`.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1 for a key that is not reported.
    weight, known
        float64[c, d], bool[c, d]: the weights, and whether each of them exists.
    """

    form: ClassVar[str] = "softmax"
    task: Task = CLASSIFICATION
    compiled = True

    def __init__(
        self, features: tuple[str, ...], classes: tuple[str, ...], column: object, weight: object, known: object
    ) -> None:
        self.features = features
        self.classes = classes
        self._column = sealed(column, np.int32)
        self._weight = sealed(weight, np.float64)
        self._known = sealed(known, np.bool_)

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.empty((len(rows), self._column.size))
        softmax(rows, self._weight, self._known, scores)
        values = np.zeros((len(rows), len(self.classes)))
        labels = np.full(len(rows), NO_LABEL, np.int64)
        normalise.normalise(scores, _RULE, self._column, values, labels)
        return Output(values, labels)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        arrays = {"column": self._column, "weight": self._weight, "known": self._known}
        return {"features": self.features, "classes": self.classes}, arrays

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        column, weight, known = read_matrices(arrays, _FIELDS)
        shape = (column.size, len(features))
        require(weight.shape == known.shape == shape, f"weights of {shape[0]} classes over {shape[1]} features")
        require_range(column, -1, len(classes), "columns")
        return cls(features, classes, column, weight, known)


def compile_softmax(model: Any, slots: Slots, labels: Labels) -> SoftmaxPredictor:
    """Compile a SoftmaxRegression.

    Raises
    ------
    NotCompilable
        The model's input includes text.
    """
    slots.all_numeric("a softmax regression")
    weight = np.zeros((len(model.weights), len(slots.names)))
    known = np.zeros(weight.shape, np.bool_)
    for row, weights in enumerate(model.weights.values()):
        for name, factor in weights.items():
            slot = slots.slot(name)
            if slot != ABSENT:
                weight[row, slot], known[row, slot] = factor, True
    return SoftmaxPredictor(slots.names, labels.classes, labels.columns(model.weights), weight, known)
