"""GBMAP and the models that its scores are compared with, on the same encoded rows and the same splits.

This needs scikit-learn. The error without it names the install command.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.detect.gbmap.rows import Floats

# Imported after the estimators, whose error names the install command if scikit-learn is missing.
from sklearn.base import ClassifierMixin  # type: ignore[import-untyped]  # isort: skip
from sklearn.ensemble import (  # type: ignore[import-untyped]  # isort: skip
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge  # type: ignore[import-untyped]  # isort: skip

Contestant = Literal["gbmap", "linear", "least squares", "boosting"]

CONTESTANTS: Final[tuple[Contestant, ...]] = ("gbmap", "linear", "boosting")
"""Contestants of any task. Least squares, which is ridge regression without a penalty, only predicts numbers."""
TEST_SHARE: Final = 0.25
"""Share of the rows that a split keeps for the test."""
_ITERATIONS: Final = 1_000
"""Iterations of logistic regression. The default, 100, does not suffice on every data set."""

Integers = npt.NDArray[np.int64]


def parted(count: int, split: int, seed: int, share: float = TEST_SHARE) -> tuple[Integers, Integers]:
    """Return the indices of the training rows and of the test rows, each in random order."""
    order = np.random.Generator(np.random.PCG64([seed, split, 0])).permutation(count)
    kept = max(1, round(share * count))
    return order[kept:], order[:kept]


def name_of(contestant: Contestant, classification: bool) -> str:
    """Return the readable name of a contestant.

    >>> name_of("linear", True), name_of("linear", False)
    ('logistic regression', 'ridge regression')
    """
    if contestant == "linear":
        return "logistic regression" if classification else "ridge regression"
    return {"gbmap": "GBMAP", "boosting": "gradient boosting"}.get(contestant, contestant)


@dataclass(slots=True)
class Fitted:
    """Fitted model and the encoding learned from the same rows."""

    model: Any
    encoding: Encoding | None
    """Encoding of the rows; None if the model has its own."""

    def score(self, rows: Floats, targets: Floats) -> float:
        """Return R² for a regression, accuracy for a classification."""
        return float(self.model.score(self._encoded(rows), targets))

    def staged_scores(self, rows: Floats, targets: Floats) -> Floats:
        """Return float64[stages], scores with the first 1, 2, ... learners or trees; one for a linear model."""
        if not hasattr(self.model, "staged_predict"):
            return np.array([self.score(rows, targets)])
        stages = self.model.staged_predict(self._encoded(rows))
        if isinstance(self.model, ClassifierMixin):
            return np.array([np.mean(stage == targets) for stage in stages])
        about = np.square(targets - targets.mean()).sum()
        return np.array([1.0 - np.square(targets - stage).sum() / about for stage in stages])

    def predict(self, rows: Floats) -> npt.NDArray[Any]:
        """Return a value or a class for each row."""
        return np.asarray(self.model.predict(self._encoded(rows)))

    def _encoded(self, rows: Floats) -> Floats:
        return rows if self.encoding is None else self.encoding.encode(rows)

    @classmethod
    def of(
        cls,
        contestant: Contestant,
        rows: Floats,
        targets: Floats,
        *,
        classification: bool,
        categorical: tuple[int, ...] = (),
        parameters: Mapping[str, Any] | None = None,
        seed: int = 0,
    ) -> Self:
        """Fit a contestant.

        Parameters
        ----------
        contestant
            Model to fit.
        rows
            float64[n, d], NaN where a value is missing, categories as codes.
        targets
            float64[n]; whole numbers for a classification.
        classification
            Whether the targets are classes.
        categorical
            Columns that hold categories.
        parameters
            Parameters of the estimator. Others keep their defaults.
        seed
            Random seed of GBMAP's starting points. Boosting with more than 200,000 rows also uses it to sample the rows
            that define the bins of the features.

        Raises
        ------
        ValueError
            The estimator rejects its parameters or data.
        """
        given = dict(parameters or {})
        if contestant == "gbmap":
            kind = GBMAPClassifier if classification else GBMAPRegressor
            return cls(kind(categories=categorical, random_state=seed, **given).fit(rows, targets), None)
        if contestant == "linear":
            model = LogisticRegression(max_iter=_ITERATIONS, **given) if classification else Ridge(**given)
        elif contestant == "least squares":
            model = LinearRegression(**given)
        else:
            boosting = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
            model = boosting(early_stopping=False, random_state=seed, **given)
        encoding = Encoding.learn(rows, categorical)
        return cls(model.fit(encoding.encode(rows), targets), encoding)
