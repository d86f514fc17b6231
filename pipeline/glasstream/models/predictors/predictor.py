"""The contract of predictors: from rows of numbers to probabilities and labels, or values."""

from dataclasses import dataclass
from typing import Final, Literal, Protocol, Self

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

Task = Literal["classification", "regression"]
CLASSIFICATION: Final = "classification"
REGRESSION: Final = "regression"

NO_LABEL: Final = -1
"""Label of a row for which the model returns nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """The predictions of a model for n rows.

    Attributes
    ----------
    values
        float64[n, k]. Classification: the probability of each of the predictor's k classes, as River's
        `predict_proba_one` returns it (0.0 for a class that its dict does not hold). Regression: k = 1, `predict_one`.
    labels
        int64[n]. Classification: index of River's `predict_one` in the predictor's classes. Ties are resolved as in
        River: the label is the first of the largest in the dict's own order. It is -1 if River returns nothing.
        Regression: all -1.
    """

    values: Floats
    labels: Integers

    @classmethod
    def of_numbers(cls, values: Floats) -> Self:
        """Return the predictions of a regression, float64[n, 1]."""
        return cls(values, np.full(len(values), NO_LABEL, np.int64))


class Predictor(Protocol):
    """A model frozen at one version of its learning.

    Contract, checked by `glasstream.models.predictors.checks.check_splits` and the tests of every implementation:

    - `evaluate` equals the River model that the predictor was made from, to 1e-9, on every row.
    - A row's result has the same bits whatever other rows the block has, in any order and in repeated calls.
    - A row is in slot order of the feature table with which the predictor was made: numbers as they are, booleans as
      1.0 and 0.0, texts as the code of their category, NaN for absent features. A shorter row lacks its last features.
      The predictor ignores columns beyond `features`: these features came later and were never learned. A code that the
      table did not have then is an unseen category.
    - `evaluate` does not change the rows.
    """

    @property
    def task(self) -> Task:
        """``"classification"`` or ``"regression"``."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names of the features in slot order."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Texts of the classes, the columns of `Output.values`; empty for regression."""

    @property
    def compiled(self) -> bool:
        """Whether machine code evaluates the rows without the GIL, instead of calls of River."""

    def evaluate(self, rows: Floats) -> Output:
        """Return the predictions of the model for `rows`, float64[n, d].

        Raises
        ------
        ModelError
            The rows are not a matrix, or the model itself raised. Compiled models do not raise.
        """
