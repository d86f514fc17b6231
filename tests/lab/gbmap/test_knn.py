"""Nearest neighbours by the embedding distance as estimators."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline

from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream_lab.gbmap.knn import GBMAPNeighborsClassifier, GBMAPNeighborsRegressor
from tests.support.gbmap_examples import classes, cosines, generator


def test_predictions_are_those_of_scikit_learn_on_the_embedding() -> None:
    x, y = cosines(200, 3, 1)
    queries = generator(9).normal(size=(50, 3))
    map = GBMAPRegressor(n_learners=5)
    theirs = make_pipeline(map, KNeighborsRegressor(7, metric="manhattan")).fit(x, y)
    ours = GBMAPNeighborsRegressor(map, n_neighbors=7).fit(x, y)
    assert ours.predict(queries) == pytest.approx(theirs.predict(queries), rel=1e-12)


def test_classes_are_those_of_scikit_learn_on_the_embedding() -> None:
    x, y = classes(200, 3, 1)
    queries = generator(9).normal(size=(50, 3))
    names = np.where(y > 0, "up", "down")
    map = GBMAPClassifier(n_learners=5)
    theirs = make_pipeline(map, KNeighborsClassifier(6, metric="manhattan")).fit(x, names)
    ours = GBMAPNeighborsClassifier(map, n_neighbors=6).fit(x, names)
    assert np.array_equal(ours.predict_proba(queries), theirs.predict_proba(queries))
    assert np.array_equal(ours.predict(queries), theirs.predict(queries))


def test_features_that_do_not_matter_do_not_change_the_neighbours() -> None:
    """The reason for the distance: the Euclidean one drowns in noise."""
    x, y = cosines(600, 2, 3)
    noisy = np.column_stack((x, generator(5).normal(size=(600, 20))))
    train, test = slice(0, 400), slice(400, 600)
    ours = GBMAPNeighborsRegressor(GBMAPRegressor(ridge=0.01)).fit(noisy[train], y[train])
    plain = KNeighborsRegressor(10).fit(noisy[train], y[train])
    assert ours.score(noisy[test], y[test]) > plain.score(noisy[test], y[test]) + 0.2


@pytest.mark.parametrize("count", [0, 31, 2.5])
def test_more_neighbours_than_rows_are_refused(count: float) -> None:
    x, y = cosines(30, 2)
    with pytest.raises(ValueError, match=f"expected n_neighbors from 1 to the 30 rows, got {count}"):
        GBMAPNeighborsRegressor(n_neighbors=count).fit(x, y)  # type: ignore[arg-type]
