"""Data that is odd or cannot be used: a documented result or a clear error."""

from dataclasses import replace

import numpy as np
import pytest

from glasstream.base.errors import FrameError, InputError, ModelError
from glasstream.detect.gbmap.distances import path_distances
from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.indicator import DriftIndicator
from glasstream.detect.gbmap.neighbours import Neighbours
from glasstream.detect.gbmap.settings import GbmapSettings
from glasstream_lab.gbmap.difference import fit_difference
from tests.support.gbmap_examples import classes, cosines, generator

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
    with pytest.raises(InputError, match="expected rows to fit, got none: 0 of 0 rows are held out"):
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


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": "5"}, "expected beta > 0 and finite, got '5'"),
        ({"ridge": None}, "expected ridge >= 0 and finite, got None"),
        ({"tol": "x"}, "expected tol > 0 and finite, got 'x'"),
        ({"held_out": "x"}, "expected held_out >= 0 and < 1, got 'x'"),
        ({"n_learners": 2.0}, "expected n_learners as a whole number of 1 or more, got 2.0"),
        ({"max_iter": True}, "expected max_iter as a whole number of 1 or more, got True"),
        ({"n_starts": -1}, "expected n_starts as a whole number of 0 or more, got -1"),
        ({"categories": 3}, "expected categories as column indices of X, got 3"),
        ({"categories": ["a"]}, r"expected categories as column indices of X, got \['a'\]"),
        ({"categories": [True]}, r"expected categories as column indices of X, got \[True\]"),
        ({"categories": [7]}, "expected categorical columns from 0 to 1"),
        ({"f0": [1, 2]}, r"expected f0 as a number, a function of rows or None, got \[1, 2\]"),
        ({"f0": np.inf}, "expected the initial model to give 40 finite numbers"),
        ({"f0": lambda x: x}, "expected the initial model to give 40 finite numbers"),
        ({"random_state": 1.5}, "expected random_state as a whole number, a RandomState or None, got 1.5"),
        ({"random_state": np.random.default_rng(0)}, "expected random_state as a whole number"),
    ],
)
def test_parameters_that_cannot_be_used_are_value_errors_that_name_them(parameters: dict, message: str) -> None:
    x = np.arange(80.0).reshape(40, 2)
    for estimator, y in ((GBMAPRegressor, x[:, 0]), (GBMAPClassifier, x[:, 0] > 9)):
        with pytest.raises(ValueError, match=message):
            estimator(**parameters).fit(x, y)


def test_whole_numbers_of_numpy_are_whole_numbers() -> None:
    x = np.arange(80.0).reshape(40, 2)
    plain = GBMAPRegressor(n_learners=2, max_iter=5).fit(x, x[:, 0]).to_bytes()
    assert GBMAPRegressor(n_learners=np.int64(2), max_iter=np.int32(5)).fit(x, x[:, 0]).to_bytes() == plain


def test_numbers_that_squares_cannot_hold_are_refused() -> None:
    made = fit_map(np.arange(40.0).reshape(20, 2), np.arange(20.0), GbmapSettings(learners=2)).map
    far = np.array([[0.0, -2e100]])
    for asked in (lambda: path_distances(made, -far, far), lambda: made.predict(far), lambda: made.embed(far)):
        with pytest.raises(
            InputError, match=r"expected numbers within ±1e\+100 in .*, got .*2e\+100 in row 0, column 1"
        ):
            asked()
    edge = np.full((1, 2), 1e100)
    assert np.isfinite(path_distances(made, edge, -edge)).all() and np.isfinite(made.predict(edge)).all()
    with pytest.raises(ValueError, match=r"expected targets within ±1e\+100, got 1e\+101 in row 3"):
        GBMAPRegressor().fit(np.arange(20.0)[:, None], np.where(np.arange(20) == 3, 1e101, 0.0))


def test_what_is_no_stored_estimator_is_a_frame_error() -> None:
    for data in ("abc", None):
        with pytest.raises(FrameError, match="expected the bytes of a stored estimator"):
            GBMAPRegressor.from_bytes(data)  # type: ignore[arg-type]


def test_a_number_of_neighbours_is_a_whole_one() -> None:
    points = np.arange(40.0).reshape(20, 2)
    made = fit_map(points, np.arange(20.0), GbmapSettings(learners=2)).map
    for k in (0, 21, 2.5, "a", None):
        with pytest.raises(InputError, match="expected k from 1 to the 20 reference points"):
            Neighbours.of(points, "euclidean").nearest(points, k)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="expected k from 1 to the 20 reference rows"):
            DriftIndicator.of(made, points, np.arange(20.0), k=k)  # type: ignore[arg-type]


def test_the_model_that_gives_no_numbers_is_named() -> None:
    rows = np.arange(40.0).reshape(20, 2)
    with pytest.raises(ModelError, match="expected the model after to give 20 finite numbers"):
        fit_difference(lambda x: x[:, 0], lambda x: x[:, 0] * np.nan, rows)
