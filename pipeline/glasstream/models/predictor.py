"""What every predictor is: rows of numbers in, probabilities and labels or values out."""

from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

Task = Literal["classification", "regression"]
CLASSIFICATION: Final = "classification"
REGRESSION: Final = "regression"

NO_LABEL: Final = -1
"""The label of a row for which the model gives nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Output:
    """What a model says of n rows.

    Attributes
    ----------
    values
        float64[n, k]. Classification: the probability of each of the predictor's k classes, as River's
        `predict_proba_one` gives it (0.0 for a class that its dict does not hold). Regression: k = 1, `predict_one`.
    labels
        int64[n]. Classification: index into the predictor's classes of what River's `predict_one` returns, ties as
        there (the first of the largest in the dict's own order); -1 where River gives nothing. Regression: all -1.
    """

    values: Floats
    labels: Integers


class Predictor(Protocol):
    """A model frozen at one version of its learning.

    Contract, checked by `glasstream.models.checks.check_splits` and the tests of every implementation:

    - `evaluate` equals the River model that the predictor was made from, to 1e-9, on every row, however odd.
    - A row's result is the same bits whatever other rows stand beside it, in whatever order and how often asked.
    - A row is in slot order of the feature table the predictor was made with: numbers as they are, booleans as 1.0
      and 0.0, texts as their category's code, NaN where the feature is absent. A shorter row has its last features
      absent. What is beyond `features` came later and was never learned: it is ignored. A code that the table did not
      have then is an unseen category.
    - The rows are not changed.
    """

    @property
    def task(self) -> Task:
        """``"classification"`` or ``"regression"``."""

    @property
    def features(self) -> tuple[str, ...]:
        """Names in slot order."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Texts of the classes, the columns of `Output.values`; empty for regression."""

    @property
    def compiled(self) -> bool:
        """Whether rows are evaluated by machine code (the GIL is released then) and not by calling River."""

    def evaluate(self, rows: Floats) -> Output:
        """What the model says of `rows`, float64[n, d].

        Raises
        ------
        ModelError
            The rows are not a matrix, or the model itself raised (only one that is not compiled can).
        """
