"""A predictor that calls any River model itself, row by row. It is slow."""

import pickle
from collections.abc import Mapping, Sequence
from copy import copy, deepcopy
from math import isnan
from typing import Any

import numpy as np

from glasstream.base.errors import ModelError
from glasstream.events.features import FeatureTable, Kind
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Output, Task
from glasstream.models.river.catalogue import label_from_votes
from glasstream.models.river.imputers import Imputed, imputed


class GenericPredictor:
    """A predictor that passes each row to a River model as the dict it was made from.

    Numbers are passed as float, booleans as bool, texts as str, and absent features are left out. If the model has an
    imputer, absent features that it imputes are passed as None (`glasstream.models.river.imputers`). A category that
    the table did not have when the predictor was made is passed as a reserved text that no stream can hold.

    If a regressor returns nothing, the result is NaN.

    A predictor in the learner shares the model and therefore predicts with its current state. A predictor from a
    snapshot has its own model. It holds the GIL.

    Parameters
    ----------
    model
        A River classifier or regressor, or a pipeline that ends in one.
    table, labels, given
        Arguments of `compile_model`.
    """

    compiled = False
    _imputed: Imputed | None = None
    """None, too, for predictors that were pickled before there was this attribute."""

    def __init__(
        self, model: Any, table: FeatureTable, labels: Mapping[Any, str] | None, *, given: Sequence[bool] | None = None
    ) -> None:
        self.task: Task = REGRESSION if labels is None else CLASSIFICATION
        self.features = tuple(table.names)
        self._labels = Labels(labels) if labels is not None else None
        self.classes = self._labels.classes if self._labels is not None else ()
        self._model = model
        self._imputed = imputed(model)
        self._inputs = [
            (slot, name, kind, tuple(categories))
            for slot, (name, kind, categories) in enumerate(
                zip(table.names, table.kinds, table.categories, strict=True)
            )
            if given is None or given[slot]
        ]
        # River's default label is the first of the largest probabilities; calling `predict_one` would evaluate twice.
        self._label_from_votes = label_from_votes(model)
        self._has_votes = True

    def evaluate(self, rows: Floats) -> Output:
        rows = np.asarray(rows, np.float64)
        if rows.ndim != 2:
            raise ModelError(f"expected rows as float64[n, d], got an array of shape {rows.shape}")
        values = np.zeros((len(rows), 1 if self._labels is None else len(self.classes)))
        labels = np.full(len(rows), NO_LABEL, np.int64)
        numbers = self._all_numbers(rows.shape[1])
        whole = np.logical_not(np.isnan(rows).any(axis=1)).tolist()
        for i, (row, complete) in enumerate(zip(rows.tolist(), whole, strict=True)):
            x = dict(zip(numbers, row, strict=True)) if complete and numbers else self._event(row)
            if self._imputed is not None:
                self._imputed.fill(x, (name for _, name, _, _ in self._inputs))
            try:
                if self._labels is None:
                    value = self._model.predict_one(x)
                    values[i, 0] = np.nan if value is None else value
                else:
                    labels[i] = self._classify(x, values[i], self._labels)
            except Exception as error:
                raise ModelError(f"the model raised {type(error).__name__}: {error}; on {x}") from error
        return Output(values, labels)

    def extended(
        self, names: Sequence[str], kinds: Sequence[int], new_categories: Mapping[int, tuple[int, Sequence[str]]]
    ) -> "GenericPredictor":
        """Return the same model with features and categories that came after the predictor was made.

        Parameters
        ----------
        names, kinds
            Names and kinds of all slots now.
        new_categories
            For each slot, the first new code, and the texts from it on.
        """
        if len(names) <= len(self.features) and not new_categories:
            return self
        later = copy(self)
        given_all = not self.features or len(self._inputs) == len(self.features)
        inputs = {slot: (slot, name, kind, categories) for slot, name, kind, categories in self._inputs}
        for slot in range(len(self.features), len(names)):
            kind = Kind(kinds[slot])
            if given_all or kind is not Kind.TEXT:
                inputs[slot] = (slot, names[slot], kind, ())
        for slot, (first, texts) in new_categories.items():
            if slot in inputs:
                _, name, kind, categories = inputs[slot]
                inputs[slot] = (slot, name, kind, (*categories[:first], *texts))
        later._inputs = [inputs[slot] for slot in sorted(inputs)]
        later.features = tuple(names)
        return later

    def pickled(self) -> bytes:
        """Return the predictor as a pickle; trust it only under an authentic seal.

        Raises
        ------
        ModelError
            The model cannot be pickled.
        """
        try:
            return pickle.dumps(self, protocol=5)
        except Exception as error:
            raise self._cannot_travel("pickled", error) from error

    def copied(self) -> "GenericPredictor":
        """Return a predictor with a copy of the model.

        Raises
        ------
        ModelError
            The model cannot be copied.
        """
        try:
            return deepcopy(self)
        except Exception as error:
            raise self._cannot_travel("copied", error) from error

    def _cannot_travel(self, done: str, error: Exception) -> ModelError:
        return ModelError(
            f"{type(self._model).__name__} cannot be {done} ({type(error).__name__}: {error}), so it cannot travel to "
            "the explainers; define its parts at the top level of a module that they can import"
        )

    def _all_numbers(self, width: int) -> tuple[str, ...]:
        """Return the names of the columns if each of them is an input and a number, else an empty result."""
        plain = len(self._inputs) == width and all(
            slot == place and kind is Kind.NUMBER for place, (slot, _, kind, _) in enumerate(self._inputs)
        )
        return tuple(name for _, name, _, _ in self._inputs) if plain else ()

    def _event(self, row: list[float]) -> dict[str, Any]:
        x: dict[str, Any] = {}
        for slot, name, kind, categories in self._inputs:
            value = row[slot] if slot < len(row) else np.nan
            if isnan(value):
                continue
            if kind is Kind.NUMBER:
                x[name] = value
            elif kind is Kind.BOOLEAN:
                x[name] = bool(value)
            elif 0 <= value < len(categories) and value.is_integer():
                x[name] = categories[int(value)]
            else:
                x[name] = f"\0unseen {value}"
        return x

    def _classify(self, x: dict[str, Any], values: Floats, labels: Labels) -> int:
        """Write the probabilities of one event to `values`, and return its label."""
        votes: dict[Any, float] = {}
        if self._has_votes:
            try:
                votes = self._model.predict_proba_one(x)
            except NotImplementedError:  # River's way to say that a classifier knows labels only
                self._has_votes = False
        columns = {key: labels.column(key) for key in votes}
        reported = {column: votes[key] for key, column in columns.items() if column != NO_LABEL}
        for column, vote in reported.items():
            values[column] = vote
        if self._has_votes and self._label_from_votes:
            return max(reported, key=reported.__getitem__, default=NO_LABEL)
        key = self._model.predict_one(x)
        label = NO_LABEL if key is None else labels.column(key)
        if not self._has_votes and label != NO_LABEL:
            values[label] = 1.0
        return label
