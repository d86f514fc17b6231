"""Predictions as numbers, for attributions: they explain the class that was predicted."""

from typing import Final

import numpy as np

from glasstream.flow.learner.make_model import Model
from glasstream.models.stream_model import Prediction, Predictions

Answer = tuple[int, float]
"""Number of the predicted class and its probability; 0 and the predicted number for a regression."""
NO_ANSWER: Final[Answer] = (-1, 0.0)


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
