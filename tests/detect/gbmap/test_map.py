"""The values of a fitted map for a row (003, equations 1, 2 and 5; row 10: the decomposition)."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from glasstream.base.errors import InputError, ModelError
from glasstream.detect.gbmap.attributions import local_attributions
from glasstream.detect.gbmap.map import BoostedMap
from tests.support.gbmap_examples import generator, plain_embedding, random_map

UNITS = ("softplus", "relu", "linear")


@pytest.mark.parametrize("unit", UNITS)
def test_the_embedding_is_that_of_equation_5(unit: str) -> None:
    map = random_map(7, 4, 1, unit)  # type: ignore[arg-type]
    rows = generator(2).normal(size=(50, 4)) * 3
    assert map.embed(rows) == pytest.approx(plain_embedding(map, rows), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("unit", UNITS)
def test_row_10_the_prediction_is_the_initial_model_and_the_sum_of_the_embedding(unit: str) -> None:
    map = replace(random_map(20, 6, 3, unit), initial=lambda rows: rows[:, 0] ** 2)  # type: ignore[arg-type]
    rows = generator(4).normal(size=(100, 6)) * 10
    parts = rows[:, 0] ** 2 + map.embed(rows).sum(axis=1)
    assert np.abs(map.predict(rows) - parts).max() <= 1e-9 * (1 + np.abs(parts).max())
    assert map.boosted(rows) == pytest.approx(map.embed(rows).sum(axis=1), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("unit", UNITS)
def test_a_row_has_the_same_bits_whatever_rows_stand_beside_it(unit: str) -> None:
    map = random_map(9, 5, 5, unit)  # type: ignore[arg-type]
    rows = generator(6).normal(size=(301, 5))
    whole = (map.embed(rows), map.predict(rows), map.gradients(rows), map.probabilities(rows), map.active(rows))
    backwards = np.asfortranarray(rows[::-1])
    for start, end in ((0, 1), (17, 18), (3, 200), (300, 301)):
        part = rows[start:end]
        found = (map.embed(part), map.predict(part), map.gradients(part), map.probabilities(part), map.active(part))
        for one, all_rows in zip(found, whole, strict=True):
            assert one.tobytes() == all_rows[start:end].tobytes()
    assert map.embed(backwards)[::-1].tobytes() == whole[0].tobytes()


@pytest.mark.parametrize("unit", UNITS)
def test_local_attributions_are_the_gradient_by_finite_differences(unit: str) -> None:
    map = random_map(6, 4, 7, unit, beta=2.0)  # type: ignore[arg-type]
    rows = generator(8).normal(size=(40, 4))
    found, step = local_attributions(map, rows), 1e-6
    for k in range(4):
        move = step * np.eye(4)[k]
        differences = (map.boosted(rows + move) - map.boosted(rows - move)) / (2 * step)
        assert found[:, k] == pytest.approx(differences, abs=1e-7)


def test_a_row_is_active_where_its_projection_is_positive() -> None:
    map = random_map(5, 3, 9)
    rows = generator(10).normal(size=(60, 3))
    assert (map.active(rows) == (rows @ map.weights.T + map.constants > 0)).all()


@pytest.mark.parametrize("unit", UNITS)
def test_a_rescaled_map_gives_the_same_in_other_units(unit: str) -> None:
    map = replace(random_map(6, 3, 11, unit), initial=0.5)  # type: ignore[arg-type]
    rows = generator(12).normal(size=(60, 3))
    other = map.rescaled(40.0, -3.0)
    assert other.predict(rows) == pytest.approx(40 * map.predict(rows) - 3, rel=1e-12, abs=1e-11)
    assert other.embed(rows) == pytest.approx(40 * map.embed(rows), rel=1e-12, abs=1e-11)


def test_probabilities_are_the_sigmoid_of_the_score() -> None:
    map = random_map(4, 3, 13, loss="logistic")
    rows = generator(14).normal(size=(60, 3))
    assert map.probabilities(rows) == pytest.approx(1 / (1 + np.exp(-map.predict(rows))), rel=1e-13)


def test_a_pickled_map_gives_the_same_bits() -> None:
    map, rows = random_map(4, 3, 13), generator(14).normal(size=(60, 3))
    again = pickle.loads(pickle.dumps(map))  # noqa: S301 - what was pickled in this line
    assert again.embed(rows).tobytes() == map.embed(rows).tobytes()


def test_rows_that_are_not_finite_are_refused_with_their_place() -> None:
    rows = np.zeros((5, 3))
    rows[3, 1] = np.nan
    with pytest.raises(InputError, match="nan in row 3, column 1; encode missing values first"):
        random_map(2, 3).predict(rows)


def test_rows_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match=r"float64\[n, 3\], got an array of shape \(5, 4\)"):
        random_map(2, 3).embed(np.zeros((5, 4)))


def test_an_initial_model_that_gives_no_number_for_a_row_is_refused() -> None:
    for bad in (lambda rows: rows, lambda rows: np.full(len(rows), np.nan)):
        with pytest.raises(ModelError, match="expected the initial model to give 5 finite numbers"):
            replace(random_map(2, 3), initial=bad).predict(np.zeros((5, 3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"signs": np.array([1.0, 0.5])}, "signs of -1 and"),
        ({"signs": np.array([1.0, np.nan])}, "signs of -1 and"),
        ({"offsets": np.zeros(3)}, "weights"),
        ({"weights": np.zeros((3, 3))}, "weights"),
        ({"weights": np.full((2, 3), np.inf)}, "finite"),
        ({"beta": 0.0}, "beta above 0"),
        ({"unit": "tanh"}, "a unit of"),
    ],
)
def test_a_map_of_arrays_that_do_not_fit_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        replace(random_map(2, 3), **change)  # type: ignore[arg-type]


def test_the_arrays_of_a_map_cannot_be_changed() -> None:
    map: BoostedMap = random_map(2, 3)
    with pytest.raises(ValueError, match="read-only"):
        map.weights[0, 0] = 1.0
