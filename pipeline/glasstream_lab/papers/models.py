"""Models of the experiments as predictors: fitted models of scikit-learn, and River models that learn a stream."""

from collections.abc import Sequence
from contextlib import suppress
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import NotCompilable
from glasstream.events.features import FeatureTable
from glasstream.models.online.live import Columns, LiveModel
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Output, Predictor, Task
from glasstream.models.river.compile import compile_model
from glasstream.models.river.live import take, to_river

Integers = NDArray[np.int64]


class ScikitLearnPredictor:
    """Fitted model of scikit-learn as a predictor.

    Parameters
    ----------
    model
        Classifier or regressor that was fitted on rows of `features`.
    features
        Names of the columns.
    """

    compiled = False

    def __init__(self, model: Any, features: Sequence[str]) -> None:
        self._model = model
        self.features = tuple(features)
        self.classes = tuple(str(one) for one in getattr(model, "classes_", ()))
        self.task: Task = CLASSIFICATION if self.classes else REGRESSION

    def evaluate(self, rows: Floats) -> Output:
        """Return the predictions for `rows`, float64[n, d]."""
        if not self.classes:
            return Output.of_numbers(np.asarray(self._model.predict(rows), np.float64)[:, None])
        values = np.asarray(self._model.predict_proba(rows), np.float64)
        return Output(values, values.argmax(axis=1))


class StreamLearner:
    """River tree or forest that learns a stream of numbers, with a predictor after each block.

    It learns in compiled code if `glasstream.models.river.live.take` takes the model over, or else in River. The
    results are the same.

    Parameters
    ----------
    model
        Classifier with a compiled predictor.
    features
        Names of the columns.
    classes
        Number of classes. The targets are the numbers 0, 1, 2, ...
    """

    def __init__(self, model: Any, features: Sequence[str], classes: int = 2) -> None:
        self._live: LiveModel | None = None
        self._river = model
        with suppress(NotCompilable):  # a model that the compiled code does not support
            self._live = take(model)
        self._names = tuple(features)
        self._table = FeatureTable()
        self._table.encode(dict.fromkeys(self._names, 0.0))
        self._labels = {number: str(number) for number in range(classes)}

    def learn(self, rows: Floats, targets: Integers) -> Integers:
        """Learn a block of events, one after the other; return what was predicted for each before, -1 for nothing."""
        if self._live is None:
            return np.array([*map(self._learn_in_river, rows.tolist(), targets.tolist())], np.int64)
        numbers = self._live.numbers_of(targets.tolist())
        answers = self._live.predict_learn_block(Columns(self._names, rows, {}), numbers)
        classes = np.array([*self._live.classes, -1])
        return np.asarray(classes[answers.labels], np.int64)

    def _learn_in_river(self, row: list[float], target: int) -> int:
        x = {name: value for name, value in zip(self._names, row, strict=True) if not isnan(value)}
        predicted = self._river.predict_one(x)
        self._river.learn_one(x, target)
        return -1 if predicted is None else int(predicted)

    def predictor(self) -> Predictor:
        """Return the model as of now; what it learns later does not change it."""
        if self._live is None:
            return compile_model(self._river, self._table, self._labels)
        return self._live.compiled(self._table, self._labels)

    def river(self) -> Any:
        """Return the model as of now as a River model, which must not learn."""
        return self._river if self._live is None else to_river(self._live)
