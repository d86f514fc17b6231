"""Turn the scores of River's class keys into probabilities and a label."""

from typing import Final

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.predictor import NO_LABEL, Floats, Integers, Output

_AS_THEY_ARE: Final = 0
_SHARES: Final = 1
_SCALED: Final = 2
_SHARES_OR_EQUAL: Final = 3

RULES: Final = {"as they are": _AS_THEY_ARE, "shares": _SHARES, "scaled": _SCALED, "shares or equal": _SHARES_OR_EQUAL}
"""Ways in which River normalises: not at all; by dividing by a positive total (ARFClassifier); by multiplying with the
inverse of a total that is not 0 (HoeffdingAdaptiveTreeClassifier); by dividing, with equal shares if the total is 0
(OneVsRestClassifier). They differ in the last bits.
"""


@kernel
def normalise(scores: Floats, rule: int, column: Array, values: Floats, labels: Integers) -> None:
    """Fill `values` float64[n, k] and `labels` int64[n], zero and -1 before, from `scores` float64[n, c].

    The c scores have the order of River's dict, so that the first class wins a tie, as in River. `column`
    int32[c] is the class of each, or -1 for a key that is not reported. Changes `scores`.
    """
    n_classes = column.size
    for i in range(scores.shape[0]):
        total = 0.0
        for c in range(n_classes):
            total += scores[i, c]
        if rule == _SHARES_OR_EQUAL and total == 0.0:
            for c in range(n_classes):
                scores[i, c] = 1.0 / n_classes
        elif rule == _SHARES_OR_EQUAL or (rule == _SHARES and total > 0.0):
            for c in range(n_classes):
                scores[i, c] = scores[i, c] / total
        elif rule == _SCALED and total != 0.0 and total == total:
            scale = 1.0 / total
            for c in range(n_classes):
                scores[i, c] = scores[i, c] * scale
        best = -1
        for c in range(n_classes):
            if column[c] >= 0:
                values[i, column[c]] = scores[i, c]
                if best < 0 or scores[i, c] > scores[i, best]:
                    best = c
        if best >= 0:
            labels[i] = column[best]


def classified(scores: Floats, rule: str, column: Array, classes: int) -> Output:
    """Return the predictions of a classifier with so many classes; arguments are those of `normalise`."""
    values = np.zeros((len(scores), classes))
    labels = np.full(len(scores), NO_LABEL, np.int64)
    normalise(scores, RULES[rule], column, values, labels)
    return Output(values, labels)
