"""A River model together with its task and the names of its classes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from river import base, compose, multiclass

from pipeline.errors import ModelRaised
from pipeline.ingest.admission import Task
from pipeline.models.catalogue import ModelFactory, RiverModel


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says of one event."""

    label: str | None
    """The predicted class; None for regression and where the model gives nothing."""
    probabilities: Mapping[str, float] | None
    """Per class that the model knows; None for regression or a model without probabilities."""
    value: float | None
    """The predicted number; None for classification."""

    @property
    def given(self) -> bool:
        """Whether the model said anything."""
        return self.label is not None or self.value is not None


class StreamModel:
    """Learns and predicts with class names in and out, whatever the River model wants inside.

    A model that takes more than two classes is given the class names. One that needs a boolean target is given False
    and True in order of first appearance; at a third class it is replaced by one-vs-rest over fresh clones of it.

    Parameters
    ----------
    factory
        Makes the River model.
    task
        What is predicted.
    many_classes
        It is known from the start that there will be more than two classes.
    """

    def __init__(self, factory: ModelFactory, task: Task, many_classes: bool = False) -> None:
        self.task = task
        self.river: RiverModel = factory(task)
        self.classes: dict[str, int] = {}
        """Class name to index, in order of first appearance among learned events."""
        self.replaced = False
        """One-vs-rest has taken the place of a binary model."""
        self._fresh: RiverModel | None = None
        if task is Task.CLASSIFICATION and not self.river._multiclass:
            self._fresh = self.river.clone()
            if many_classes:
                self._use_one_vs_rest()
        self._keys: dict[str, Any] = {}
        self._names: dict[Any, str] = {}
        self._use_proba = task is Task.CLASSIFICATION
        self._label_from_proba = self._use_proba and _default_predict_one(self.river)

    @property
    def labels(self) -> dict[Any, str] | None:
        """The River model's own class keys and the names they stand for; None for regression."""
        if self.task is Task.REGRESSION:
            return None
        if self._fresh is None:
            return {name: name for name in self.classes}
        return dict(self._names)

    def predict(self, x: Mapping[str, Any]) -> Prediction:
        """Predict one event.

        Raises
        ------
        ModelRaised
            The model raised, or its prediction is not a finite number.
        """
        try:
            return self._predict(x)
        except Exception as error:  # noqa: BLE001 - a model, a user's above all, may raise anything
            raise ModelRaised(f"predict: {type(error).__name__}: {error}") from error

    def learn(self, x: Mapping[str, Any], target: str | float) -> None:
        """Learn one labelled event.

        Raises
        ------
        ModelRaised
            The model raised.
        """
        try:
            self._learn(x, target)
        except Exception as error:  # noqa: BLE001 - as in predict
            raise ModelRaised(f"learn: {type(error).__name__}: {error}") from error

    def _predict(self, x: Mapping[str, Any]) -> Prediction:
        if self.task is Task.REGRESSION:
            value = self.river.predict_one(x)
            if value is None:
                return _NOTHING
            value = float(value)
            if not isfinite(value):
                raise ArithmeticError(
                    f"expected a finite prediction, got {value}; scale the features or the learning rate"
                )
            return Prediction(None, None, value)
        if not self._use_proba:
            return self._without_probabilities(x)
        try:
            scores = self.river.predict_proba_one(x)
        except NotImplementedError:  # River's sign for a classifier that only labels
            self._use_proba = False
            return self._without_probabilities(x)
        if self._fresh is not None:
            names = self._names
            scores = {names[key]: score for key, score in scores.items() if key in names}
        if not scores:
            return _NOTHING
        if not isfinite(sum(scores.values())):
            raise ArithmeticError(
                f"expected finite probabilities, got {scores}; scale the features or the learning rate"
            )
        if self._label_from_proba or self._fresh is not None:
            label = max(scores, key=scores.__getitem__)
        else:
            label = self.river.predict_one(x)
        return Prediction(label, scores, None)

    def _learn(self, x: Mapping[str, Any], target: str | float) -> None:
        if self.task is Task.REGRESSION:
            self.river.learn_one(x, target)
            return
        if target not in self.classes:
            self._new_class(target)  # type: ignore[arg-type]  # admission gives text for classification
        self.river.learn_one(x, self._keys[target] if self._fresh is not None else target)  # type: ignore[index]

    def _new_class(self, name: str) -> None:
        self.classes[name] = len(self.classes)
        if self._fresh is None:
            return
        if len(self.classes) == 3:
            self.replaced = True
            self._use_one_vs_rest()
            self._keys = {known: known for known in self.classes}
            self._names = {}
            return
        key = len(self.classes) == 2
        self._keys[name], self._names[key] = key, name

    def _use_one_vs_rest(self) -> None:
        self.river = multiclass.OneVsRestClassifier(self._fresh)
        self._fresh = None

    def _without_probabilities(self, x: Mapping[str, Any]) -> Prediction:
        key = self.river.predict_one(x)
        label = self._names.get(key) if self._fresh is not None else key
        return Prediction(label, None, None) if label is not None else _NOTHING


_NOTHING = Prediction(None, None, None)


def _default_predict_one(model: RiverModel) -> bool:
    """Whether the label is River's default: the first of the largest probabilities."""
    last = model._last_step if isinstance(model, compose.Pipeline) else model
    return type(last).predict_one is base.Classifier.predict_one
