"""Turn the float32 scores of a model from an ONNX file into what onnxruntime returns: probabilities and a label.

Scores and probabilities are float64 arrays whose numbers are float32: every operation rounds to float32, as in
onnxruntime. Where an exponential is involved, the result may differ from onnxruntime's in the last bit.
"""

import math
from typing import Final

import numpy as np

from glasstream.base.jit import inlined, kernel
from glasstream.models.predictors.predictor import NO_LABEL, Floats, Integers, Output

AS_THEY_ARE: Final = 0
LOGISTIC: Final = 1
SOFTMAX: Final = 2
TRANSFORMS: Final = {"none": AS_THEY_ARE, "logistic": LOGISTIC, "softmax": SOFTMAX}
"""What is applied to the scores of a row (`post_transform` in ONNX)."""

GREATEST: Final = 0
ABOVE_HALF: Final = 1
ABOVE_ZERO: Final = 2
LABELS: Final = {"greatest": GREATEST, "above half": ABOVE_HALF, "above zero": ABOVE_ZERO}
"""How a row's label follows from its scores. With ``greatest``, each class has a score. With the others, one score is
that of the second of two classes: with ``above half``, it is a probability, and with ``above zero``, a logit.
"""


@inlined
def _logistic(x: np.float32) -> np.float32:
    one = np.float32(1.0)
    value = one / (one + np.float32(math.exp(-abs(x))))
    return one - value if x < np.float32(0.0) else value


@kernel
def finish(scores: Floats, transform: int, label: int, shares: bool, values: Floats, labels: Integers) -> None:
    """Fill `values` float64[n, k] and `labels` int64[n] from `scores` float64[n, c].

    With `shares`, each probability is divided by the sum of the row's absolute values.
    """
    one = np.float32(1.0)
    count = values.shape[1]
    for i in range(scores.shape[0]):
        if label == GREATEST:
            best = 0
            for c in range(1, count):
                if scores[i, c] > scores[i, best]:
                    best = c
            labels[i] = best
            if transform == SOFTMAX:
                largest = scores[i, 0]
                for c in range(1, count):
                    largest = max(largest, scores[i, c])
                total = np.float32(0.0)
                for c in range(count):
                    power = np.float32(math.exp(np.float32(scores[i, c]) - np.float32(largest)))
                    total += power
                    values[i, c] = power
                for c in range(count):
                    values[i, c] = np.float32(values[i, c]) / total
            else:
                for c in range(count):
                    score = np.float32(scores[i, c])
                    values[i, c] = _logistic(score) if transform == LOGISTIC else score
        else:
            score = np.float32(scores[i, 0])
            if label == ABOVE_HALF:
                labels[i] = 1 if score > np.float32(0.5) else 0
                values[i, 0], values[i, 1] = one - score, score
            else:
                labels[i] = 1 if score > np.float32(0.0) else 0
                values[i, 0], values[i, 1] = _logistic(-score), _logistic(score)
        if shares:
            whole = np.float32(0.0)
            for c in range(count):
                whole += np.float32(abs(values[i, c]))
            if whole != np.float32(0.0):
                for c in range(count):
                    values[i, c] = np.float32(values[i, c]) / whole


def finished(scores: Floats, transform: str, label: str, shares: bool, classes: int) -> Output:
    """Return the predictions of a classifier with so many classes, or of a regressor (0 classes)."""
    if not classes:
        return Output.of_numbers(scores)
    values = np.zeros((len(scores), classes))
    labels = np.full(len(scores), NO_LABEL, np.int64)
    finish(scores, TRANSFORMS[transform], LABELS[label], shares, values, labels)
    return Output(values, labels)
