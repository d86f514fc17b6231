"""Nearest neighbours by the embedding distance as scikit-learn estimators (Patron et al. 2024, 3.4 and 4.3).

A row's neighbours are those whose embedding is nearest in the L1 norm, so directions that do not matter to the target
do not matter to the distance. scikit-learn must be installed.
"""

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.detect.gbmap.neighbours import Neighbours
from glasstream.detect.gbmap.rows import Floats, is_whole

# Imported after the estimators, whose error names the install command if scikit-learn is missing.
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone  # type: ignore[import-untyped]  # isort: skip


class _Knn(BaseEstimator):
    """The common part of regressor and classifier."""

    _kind: type[GBMAPRegressor | GBMAPClassifier]
    gbmap_: Any
    neighbours_: Neighbours

    def __init__(self, gbmap: Any = None, *, n_neighbors: int = 10) -> None:
        self.gbmap = gbmap
        self.n_neighbors = n_neighbors

    def _fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> None:
        self.gbmap_ = (self._kind() if self.gbmap is None else clone(self.gbmap)).fit(X, y)
        embedded = self.gbmap_.transform(X)
        if not is_whole(self.n_neighbors) or not 1 <= self.n_neighbors <= len(embedded):
            raise ValueError(f"expected n_neighbors from 1 to the {len(embedded)} rows, got {self.n_neighbors!r}")
        self.neighbours_ = Neighbours.of(embedded, "manhattan")
        self.n_features_in_ = self.gbmap_.n_features_in_

    def _nearest(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        return self.neighbours_.nearest(self.gbmap_.transform(X), self.n_neighbors)[0]


class GBMAPNeighborsRegressor(RegressorMixin, _Knn):
    """Mean target of the nearest training rows by the embedding distance.

    Parameters
    ----------
    gbmap
        Estimator whose embedding is used. It is cloned and fitted; None is `GBMAPRegressor` with its defaults.
    n_neighbors
        Number of neighbours.

    Attributes
    ----------
    gbmap_
        The fitted estimator.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 200)[:, None]
    >>> model = GBMAPNeighborsRegressor(n_neighbors=5).fit(x, np.abs(x[:, 0]))
    >>> bool(model.score(x, np.abs(x[:, 0])) > 0.9)
    True
    """

    _kind = GBMAPRegressor

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit the map, and keep the embedding of the rows.

        Raises
        ------
        ValueError
            X, y or a parameter is invalid.
        """
        self._fit(X, y)
        self._targets = np.asarray(y, np.float64)
        return self

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return the mean target of each row's neighbours, float64[n]. Errors are those of `GBMAPRegressor`."""
        return np.asarray(self._targets[self._nearest(X)].mean(axis=1))


class GBMAPNeighborsClassifier(ClassifierMixin, _Knn):
    """Most frequent class of the nearest training rows by the embedding distance.

    Parameters and attributes are those of `GBMAPNeighborsRegressor`, with `GBMAPClassifier` as the estimator.
    """

    _kind = GBMAPClassifier

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit the map, and keep the embedding of the rows. Errors are those of `GBMAPNeighborsRegressor.fit`."""
        self._fit(X, y)
        self.classes_ = self.gbmap_.classes_
        self._codes = np.searchsorted(self.classes_, np.asarray(y))
        return self

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the share of each class among the neighbours, float64[n, k]."""
        found = self._codes[self._nearest(X)]
        return np.stack([np.mean(found == code, axis=1) for code in range(len(self.classes_))], axis=1)

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the most frequent class; of equally frequent ones, the first."""
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
