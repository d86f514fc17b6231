"""Predictions as numbers, for attributions, which explain the class that was predicted; and what hinders these."""

from typing import Final

import numpy as np

from glasstream.flow.learner.make_model import Model
from glasstream.models.onnx.model import FixedModel
from glasstream.models.predictors.kernels.games import HasGame
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.stream_model import Prediction, Predictions

Answer = tuple[int, float]
"""Number of the predicted class and its probability; 0 and the predicted number for a regression."""
NO_ANSWER: Final[Answer] = (-1, 0.0)
_SHOWN: Final = 5
"""Largest number of classes in a message."""


def answer_of(model: Model | None, prediction: Prediction) -> Answer:
    """Return the prediction for an event."""
    label, probabilities, value = prediction
    if value is not None:
        return 0, value
    if model is None or label not in model.classes or not probabilities:
        return NO_ANSWER
    return model.classes[label], probabilities.get(label, 0.0)


def answers_of(model: Model, found: Predictions) -> list[Answer]:
    """Return the predictions for the events of a block."""
    if not found.names:
        return [(0, value) for value in found.values.tolist()]
    if found.sequence is None:
        return [NO_ANSWER] * len(found)
    numbers = np.array([*(model.classes.get(name, -1) for name in found.names), -1])[found.labels]
    return list(zip(numbers.tolist(), found.values[np.arange(len(found)), found.labels].tolist(), strict=True))


def unknown_output(output: str | None, model: Model | None) -> str | None:
    """Return a message if only predictions of a class are explained that the model does not know, otherwise None."""
    if output is None or model is None or output in model.classes:
        return None
    none = f"got {output!r}; no prediction is explained"
    if not model.classes:
        return f"attributions.output: expected no class for a regression, {none}"
    if isinstance(model, FixedModel):
        known = ", ".join(map(repr, list(model.classes)[:_SHOWN]))
        more = f" and {len(model.classes) - _SHOWN} more" if len(model.classes) > _SHOWN else ""
        return f"attributions.output: expected a class of the model ({known}{more}), {none}"
    return f"attributions.output: expected a class of the stream, {none} before it occurs"


def slow_attributions(predictor: Predictor, width: int) -> str | None:
    """Return a message if the predictions of a model of `width` features are explained slowly, otherwise None."""
    if isinstance(predictor, HasGame) and predictor.game(np.full((1, width), np.nan)) is not None:
        return None
    return (
        "attributions of this model are computed from its answers for mixtures of rows, which is slow, because it is "
        "no sum of trees or terms (a forest of regression that answers the median of its trees is none); "
        "attributions.share below 1 explains fewer events, and an ARFRegressor with aggregation_method='mean' is fast"
    )
