"""Reference models for GBMAP's scores: a linear model and gradient boosting, on the same encoded rows.

This needs scikit-learn. The error without it names the install command.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

import numpy as np
import numpy.typing as npt

from glasstream.gbmap.encoding import Encoding
from glasstream.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.gbmap.rows import Floats

# After the estimators, which say what to install where scikit-learn is missing.
from sklearn.base import ClassifierMixin  # type: ignore[import-untyped]  # isort: skip
from sklearn.ensemble import (  # type: ignore[import-untyped]  # isort: skip
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge  # type: ignore[import-untyped]  # isort: skip

Contestant = Literal["gbmap", "linear", "boosting"]

CONTESTANTS: Final[tuple[Contestant, ...]] = ("gbmap", "linear", "boosting")
_ITERATIONS: Final = 1_000
"""Of logistic regression: the default, 100, does not suffice on every data set."""


def name_of(contestant: Contestant, classification: bool) -> str:
    """Return the readable name of a contestant.

    >>> name_of("linear", True), name_of("linear", False)
    ('logistic regression', 'ridge regression')
    """
    if contestant == "linear":
        return "logistic regression" if classification else "ridge regression"
    return "GBMAP" if contestant == "gbmap" else "gradient boosting"


@dataclass(slots=True)
class Fitted:
    """A model that has been fitted and the encoding of its rows, learned from the same rows."""

    model: Any
    encoding: Encoding | None
    """None: the model has one of its own."""

    def score(self, rows: Floats, targets: Floats) -> float:
        """R² of a regression, the accuracy of a classification."""
        return float(self.model.score(self._encoded(rows), targets))

    def staged_scores(self, rows: Floats, targets: Floats) -> Floats:
        """The score with the first 1, 2, ... learners or trees, float64[stages]; a linear model has one stage."""
        if not hasattr(self.model, "staged_predict"):
            return np.array([self.score(rows, targets)])
        stages = self.model.staged_predict(self._encoded(rows))
        if isinstance(self.model, ClassifierMixin):
            return np.array([np.mean(stage == targets) for stage in stages])
        about = np.square(targets - targets.mean()).sum()
        return np.array([1.0 - np.square(targets - stage).sum() / about for stage in stages])

    def predict(self, rows: Floats) -> npt.NDArray[Any]:
        """A value or a class of each row."""
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
        """Fit one.

        Parameters
        ----------
        rows
            float64[n, d], NaN where a value is missing, categories as codes.
        targets
            float64[n]; of a classification whole numbers.
        parameters
            Of the estimator; what is not named has its default.
        seed
            Of the starts of GBMAP, and of the rows by which boosting with more than 200,000 of them cuts the features
            into bins.

        Raises
        ------
        ValueError
            As of the estimators.
        """
        given = dict(parameters or {})
        if contestant == "gbmap":
            kind = GBMAPClassifier if classification else GBMAPRegressor
            return cls(kind(categories=categorical, random_state=seed, **given).fit(rows, targets), None)
        if contestant == "linear":
            model = LogisticRegression(max_iter=_ITERATIONS, **given) if classification else Ridge(**given)
        else:
            boosting = HistGradientBoostingClassifier if classification else HistGradientBoostingRegressor
            model = boosting(early_stopping=False, random_state=seed, **given)
        encoding = Encoding.learn(rows, categorical)
        return cls(model.fit(encoding.encode(rows), targets), encoding)
