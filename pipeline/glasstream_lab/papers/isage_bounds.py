"""The laws of iSAGE: expectation, variance and bounds (Muschalik, Fumagalli et al. 2023, Theorems 3.2 and 3.3).

Model and data are those of `ipfi_laws`, so every constant is known. The order of the two features is random, and r is
the mean of m background values, which has the variance 1/m. With u = x_1 - r, the contribution of x_1 is u² + 2 e u if
it is second. If it is first, the contribution is (x_1 + x_2 + e)² - (x_2 + e - r)². The mean of the two means, 1 + 1/m
and 1 - 1/m, is the SAGE value 1 for every m.
"""

from typing import ClassVar, Final

import numpy as np

from glasstream.explain.estimators.incremental import IncrementalImportance
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream_lab.papers.ipfi_laws import RESERVOIR, RUNS, Laws

INNER: Final = 5


class Bounds(Laws):
    """Theorems 3.2 and 3.3 of the paper on data with known constants."""

    name = "isage-bounds"
    paper = "iSAGE"
    shows = "Theorems 3.2 and 3.3"
    summary = "Compare the errors of iSAGE with its theorems."
    quick_omits = f"17 of 25 repetitions, each of which is {RUNS} streams"
    settings = (
        f"The theorems hold for every model; here it is linear, with reservoirs of {RESERVOIR:,} rows and m = {INNER}.",
        "The column of the paper has the numbers of the theorems. Bounds may be broken less often than they state.",
        "The mean prediction of Algorithm 1 contains the prediction of the event itself, which the theorems leave out. "
        "The expected bias accounts for it.",
    )
    importance: ClassVar = 1.0
    variance: ClassVar = (
        ((2 * (1 + 1 / INNER) ** 2 + 4 * (1 + 1 / INNER)) + (2 + 2 * (2 + 1 / INNER) ** 2)) / 2 + 1 / INNER**2
    )  # fmt: skip

    def estimator(self, alpha: float, seed: int, stream: str) -> IncrementalImportance:
        """Return the estimator of a stream."""
        return IncrementalSAGE(
            loss="squared", alpha=alpha, inner=INNER, reservoir=RESERVOIR, corrected=False, seed=seed, stream=stream
        )

    def bias(self, alpha: float, count: int) -> float:
        """Return the bias of the raw value after a number of explained events.

        The squared distance of a prediction, which has the variance 2, from a mean with the weights w that contains it
        is 2 (Σ w² + 1 - 2 w_n) on average. What is missing to 2 is missing in the contribution of the first feature.
        """
        shift = 0.0
        for n in range(1, 1 + count):
            weights = (1.0 - alpha) ** np.arange(n)
            weights /= weights.sum()
            shift += alpha * (1.0 - alpha) ** (count - n) * ((weights**2).sum() - 2.0 * weights[0])
        return super().bias(alpha, count) + float(shift)
