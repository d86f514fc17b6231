"""Data that is odd or cannot be used: a documented result or a clear error."""

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.gbmap.encoding import Encoding
from pipeline.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from pipeline.gbmap.fit import fit_map
from pipeline.gbmap.indicator import DriftIndicator
from pipeline.gbmap.settings import GbmapSettings
from tests.gbmap.examples import classes, cosines, generator

QUICK = GbmapSettings(learners=3, iterations=50)


@pytest.mark.parametrize("constant", [0.0, 5.0, -1e6])
def test_a_constant_target_is_predicted_everywhere_near_the_data(constant: float) -> None:
    x = generator(1).normal(size=(50, 3))
    model = GBMAPRegressor(n_learners=3).fit(x, np.full(50, constant))
    assert model.predict(x) == pytest.approx(np.full(50, constant), rel=1e-12, abs=1e-12)
    fit = fit_map(x, np.full(50, 5.0), GbmapSettings(learners=3))
    assert fit.map.predict(x) == pytest.approx(np.full(50, 5.0), abs=0.05)


def test_a_target_of_zeros_gives_learners_that_are_zero_everywhere() -> None:
    x = generator(1).normal(size=(50, 3))
    for unit in ("softplus", "relu", "linear"):
        map = fit_map(x, np.zeros(50), GbmapSettings(learners=3, unit=unit)).map  # type: ignore[arg-type]
        assert not map.embed(100 * x).any()


def test_one_class_only_is_refused() -> None:
    x = generator(1).normal(size=(50, 3))
    with pytest.raises(InputError, match=r"expected rows of two classes, got one class only, \+1"):
        fit_map(x, np.ones(50), GbmapSettings(loss="logistic"))
    with pytest.raises(ValueError, match=r"got one class only, \['yes'\]"):
        GBMAPClassifier().fit(x, ["yes"] * 50)


def test_targets_of_a_classification_must_be_minus_and_plus_one() -> None:
    with pytest.raises(InputError, match=r"expected targets of -1 and \+1 for the logistic loss"):
        fit_map(np.zeros((4, 1)), [0.0, 1.0, 0.0, 1.0], GbmapSettings(loss="logistic"))


def test_more_features_than_rows_are_fitted() -> None:
    x, y = cosines(15, 60)
    fit = fit_map(x, y, QUICK)
    assert np.isfinite(fit.map.predict(x)).all()
    assert fit.losses[-1] < 0.5 * fit.losses[0]


def test_directions_that_no_row_shows_have_no_weight() -> None:
    x, y = cosines(15, 60)
    weights = fit_map(x, y, replace(QUICK, learners=8)).map.weights
    unseen = np.linalg.svd(x)[2][15:]
    assert np.abs(weights).max() > 0.1
    assert np.abs(unseen @ weights.T).max() < 1e-12


def test_one_row_is_fitted() -> None:
    assert fit_map([[1.0, 2.0]], [3.0], QUICK).map.predict([[1.0, 2.0]]) == pytest.approx([3.0], abs=0.05)


def test_no_rows_are_refused() -> None:
    with pytest.raises(InputError, match="expected at least 1 row to fit to, got 0"):
        fit_map(np.zeros((0, 2)), np.zeros(0), QUICK)


def test_duplicates_count_like_weights() -> None:
    """Each row twice is the same mean loss."""
    x, y = cosines(100, 3)
    settings = GbmapSettings(learners=1, unit="linear", tolerance=1e-10, iterations=500)  # its minimum is unique
    once = fit_map(x, y, settings).map.embed(x)
    twice = fit_map(np.tile(x, (2, 1)), np.tile(y, 2), settings).map.embed(x)
    assert twice == pytest.approx(once, abs=1e-5)


def test_duplicates_with_different_targets_are_predicted_by_their_mean() -> None:
    fit = fit_map(np.ones((10, 2)), np.arange(10.0), QUICK)
    assert fit.map.predict(np.ones((1, 2))) == pytest.approx([4.5], abs=0.05)


def test_duplicates_of_a_row_are_its_own_neighbours() -> None:
    x, y = np.repeat(cosines(30, 3)[0], 6, axis=0), np.repeat(np.arange(30.0), 6)
    indicator = DriftIndicator.of(fit_map(x, y, QUICK).map, x, y)
    assert indicator.supported(x).tolist() == y.tolist()


def test_a_column_that_was_constant_has_no_weight() -> None:
    x, y = cosines(200, 3)
    model = GBMAPRegressor(n_learners=5).fit(np.column_stack((x, np.full(200, 7.0))), y)
    assert not model.maps_[0].weights[:, 3].any()
    later = np.column_stack((x, np.full(200, -1e9)))
    assert model.predict(later).tobytes() == model.predict(np.column_stack((x, np.full(200, 7.0)))).tobytes()


def test_an_all_missing_column_is_never_looked_at() -> None:
    x, y = cosines(200, 3)
    missing = np.column_stack((x, np.full(200, np.nan)))
    model = GBMAPRegressor(n_learners=5).fit(missing, y)
    later = missing.copy()
    later[:, 3] = generator(1).normal(size=200) * 1e6
    assert model.predict(later).tobytes() == model.predict(missing).tobytes()


def test_a_missing_number_in_the_reference_counts_as_the_mean() -> None:
    x, y = cosines(200, 3)
    x[::3, 0] = np.nan
    filled = x.copy()
    filled[::3, 0] = np.nanmean(x[:, 0])
    model = GBMAPRegressor(n_learners=5).fit(x, y)
    assert model.predict(x) == pytest.approx(model.predict(filled), rel=1e-9, abs=1e-9)


def test_a_missing_number_is_refused_where_nothing_encodes_it() -> None:
    x, y = cosines(20, 3)
    x[4, 2] = np.nan
    with pytest.raises(InputError, match="nan in row 4, column 2; encode missing values first"):
        fit_map(x, y, QUICK)
    with pytest.raises(InputError, match="nan in row 4, column 2"):
        DriftIndicator.of(fit_map(np.nan_to_num(x), y, QUICK).map, x, y)
    with pytest.raises(ValueError, match="NaN"):
        GBMAPRegressor(scale=False).fit(x, y)


def test_a_missing_target_is_refused() -> None:
    x, y = cosines(20, 3)
    y[7] = np.nan
    with pytest.raises(InputError, match="expected finite targets, got nan in row 7; leave such rows out"):
        fit_map(x, y, QUICK)


def test_targets_of_another_number_than_the_rows_are_refused() -> None:
    with pytest.raises(InputError, match=r"expected targets as float64\[20\], one for each row, got shape \(19,\)"):
        fit_map(np.zeros((20, 3)), np.zeros(19), QUICK)


def test_rows_of_mixed_features_with_gaps_are_fitted_and_scored() -> None:
    x, y = classes(300, 3)
    table = np.column_stack((x, generator(1).integers(0, 4, size=300), np.full(300, np.nan)))
    table[::5, 1], table[::7, 3] = np.nan, np.nan
    rows = Encoding.learn(table, [3]).encode(table)
    map = fit_map(rows, y, GbmapSettings(learners=5, loss="logistic")).map
    assert np.isfinite(DriftIndicator.of(map, rows).indicator(rows)).all()
    assert ((map.predict(rows) > 0) == (y > 0)).mean() > 0.6
