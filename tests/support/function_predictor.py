"""A plain function of a row of numbers as a predictor."""

from collections.abc import Callable

import numpy as np

from glasstream.models.predictors.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Output


class FunctionPredictor:
    """`function` takes the rows float64[n, d] and gives values [n]; with classes, probabilities [n, k]."""

    compiled = False

    def __init__(self, function: Callable[[np.ndarray], np.ndarray], width: int, classes: tuple[str, ...] = ()) -> None:
        self.task = CLASSIFICATION if classes else REGRESSION
        self.features = tuple(f"x{j}" for j in range(width))
        self.classes = classes
        self.evaluated = 0
        self._function = function

    def evaluate(self, rows: np.ndarray) -> Output:
        self.evaluated += len(rows)
        values = np.asarray(self._function(rows), np.float64).reshape(len(rows), max(1, len(self.classes)))
        labels = values.argmax(axis=1) if self.classes else np.full(len(rows), NO_LABEL)
        return Output(values, labels.astype(np.int64))
