"""Embedding and path distance (003, equations 6 to 8 and 15; row 10: the inequality)."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.distances import _absolute_integral, embedding_distances, path_distances
from glasstream.detect.gbmap.map import BoostedMap
from tests.support.examples import some
from tests.support.gbmap_examples import generator, plain_embedding, random_map

UNITS = ("softplus", "relu", "linear")


def walked(map: BoostedMap, start: np.ndarray, end: np.ndarray, steps: int = 200_000) -> float:
    """The path distance by equation 15 on a fine grid: less than the true one by about a step's second order."""
    t = np.linspace(0, 1, steps + 1)[:, None]
    f = plain_embedding(map, t * end + (1 - t) * start).sum(axis=1)
    return float(np.abs(np.diff(f)).sum())


def assert_row_10(map: BoostedMap, rows: np.ndarray, others: np.ndarray) -> None:
    change = np.abs(map.boosted(rows) - map.boosted(others))
    path, apart = path_distances(map, rows, others), embedding_distances(map, rows, others)
    assert (change <= path + 1e-9 * (1 + path)).all()
    assert (path <= apart + 1e-9 * (1 + apart)).all()


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("beta", [0.1, 1.0, 20.0, 1e6])
def test_row_10_the_inequality_holds_on_random_pairs(unit: str, beta: float) -> None:
    for seed in range(5):
        map = random_map(20, 4, seed, unit, beta)  # type: ignore[arg-type]
        draws = generator(seed + 100)
        for scale in (1e-6, 1.0, 100.0):
            assert_row_10(map, draws.normal(size=(40, 4)) * scale, draws.normal(size=(40, 4)) * scale)


def adversarial() -> dict[str, tuple[BoostedMap, np.ndarray, np.ndarray]]:
    """Maps and pairs that are hard: cancelling learners, kinks at the ends, hyperplanes along the segment."""
    made = random_map(6, 3, 1)
    draws = generator(2)
    left, right = draws.normal(size=(10, 3)), draws.normal(size=(10, 3))
    twice = {name: np.repeat(getattr(made, name), 2, axis=0) for name in ("weights", "constants", "offsets")}
    cancel = replace(made, **twice, signs=np.tile([1.0, -1.0], 6))
    nearly = replace(cancel, constants=cancel.constants + np.tile([0.0, 1e-7], 6))
    ends = replace(made, constants=-(made.weights * left[0]).sum(axis=1))
    along = replace(made, constants=np.zeros(6), weights=np.tile([0.0, 0.0, 1.0], (6, 1)))
    flat = np.concatenate((left[:, :2], np.zeros((10, 1))), axis=1)
    return {
        "learners that cancel": (cancel, left, right),
        "learners that nearly cancel": (nearly, left, right),
        "all hyperplanes through one end": (ends, np.repeat(left[:1], 10, axis=0), right),
        "all hyperplanes along the segment": (along, flat, flat[::-1].copy()),
        "equal rows": (made, left, left),
        "rows very far apart": (made, left * 1e6, right * -1e6),
        "rows very near each other": (made, left, left + 1e-9 * right),
        "no slope": (replace(made, weights=np.zeros((6, 3))), left, right),
    }


@pytest.mark.parametrize("unit", ["softplus", "relu"])
@pytest.mark.parametrize("name", adversarial())
def test_row_10_the_inequality_holds_on_adversarial_pairs(unit: str, name: str) -> None:
    map, rows, others = adversarial()[name]
    assert_row_10(replace(map, unit=unit), rows, others)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("unit", "beta"),
    some([("softplus", 5.0), ("relu", 1.0)], product(["softplus", "relu"], [1.0, 5.0, 30.0]), pytest.mark.slow),
)
def test_the_path_distance_is_the_total_variation_along_the_segment(unit: str, beta: float) -> None:
    """On so fine a grid the reference is short by far less than 1e-9."""
    turning = 0
    for seed in range(6):
        draws = generator(seed + 50)
        signs = np.tile([1.0, -1.0, 1.0, 1.0], 2) if seed % 2 else np.ones(8)
        map = replace(random_map(8, 3, seed, unit, beta), signs=signs)  # type: ignore[arg-type]
        left, right = draws.normal(size=(1, 3)), draws.normal(size=(1, 3))
        found, expected = path_distances(map, left, right)[0], walked(map, left, right)
        turning += found > np.abs(map.boosted(left) - map.boosted(right))[0] + 1e-3
        slack = 1e-9 * (1 + expected) + (2e-4 if unit == "relu" else 0)  # the grid misses the tip of a kink
        assert abs(found - expected) <= slack
    assert turning >= 3  # most of these paths go up and down


def test_with_relu_the_path_distance_is_exact() -> None:
    """f = |t - 1/4| + |t - 3/4| written with four learners, from 0 to 1: down by 1/2, level, up by 1/2."""
    map = BoostedMap(
        weights=np.array([[1.0], [-1.0], [1.0], [-1.0]]),
        constants=np.array([-0.25, 0.25, -0.75, 0.75]),
        offsets=np.zeros(4),
        signs=np.ones(4),
        unit="relu",
        beta=1.0,
        loss="quadratic",
    )
    assert path_distances(map, [[0.0]], [[1.0]])[0] == 1.0
    assert map.boosted([[0.0]])[0] == map.boosted([[1.0]])[0] == 1.0
    assert embedding_distances(map, [[0.0]], [[1.0]])[0] == 2.0


@pytest.mark.parametrize(("unit", "beta"), [("softplus", 20.0), ("softplus", 300.0), ("softplus", 1e5), ("relu", 1.0)])
def test_a_fall_amid_the_segment_is_found_though_f_rises_at_both_ends(unit: str, beta: float) -> None:
    """Slopes 1, -1 and 1, which change at 0.35 and 0.65."""
    map = BoostedMap(
        weights=np.array([[1.0], [2.0], [2.0]]),
        constants=np.array([5.0, -0.7, -1.3]),
        offsets=np.zeros(3),
        signs=np.array([1.0, -1.0, 1.0]),
        unit=unit,  # type: ignore[arg-type]
        beta=beta,
        loss="quadratic",
    )
    found = path_distances(map, [[0.0]], [[1.0]])[0]
    assert found == pytest.approx(walked(map, np.zeros(1), np.ones(1)), abs=1e-9 if beta < 1e3 else 1e-4)
    assert found == pytest.approx(1.0, abs=4 / beta if unit == "softplus" else 1e-12)
    assert np.abs(map.boosted([[1.0]]) - map.boosted([[0.0]])) < 0.5


def test_the_integral_of_a_polynomials_absolute_value_counts_both_sides_of_its_zeros() -> None:
    special = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [-0.1, 0.0, 1.0], [1e-30, 1.0, 1.0], [0.1, 0.5, 1e-9]]
    for c0, c1, c2 in (*generator(20).normal(size=(200, 3)), *np.array(special)):
        whole = np.polynomial.Polynomial([c0, c1, c2]).integ()
        zeros = np.polynomial.Polynomial([c0, c1, c2]).roots() if c1 or c2 else np.empty(0)
        within = np.sort(zeros[np.isreal(zeros)].real)
        ends = [-0.7, *within[np.abs(within) < 0.7], 0.7]
        expected = np.abs(np.diff(whole(np.array(ends)))).sum()
        assert _absolute_integral(c0, c1, c2, 0.7) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("unit", UNITS)
def test_on_a_monotone_segment_the_path_distance_is_the_change_of_f(unit: str) -> None:
    map = replace(random_map(8, 3, 4, unit), signs=np.ones(8), weights=np.abs(generator(5).normal(size=(8, 3))))  # type: ignore[arg-type]
    left = generator(6).normal(size=(30, 3))
    right = left + generator(7).uniform(size=(30, 3))
    change = map.boosted(right) - map.boosted(left)
    assert path_distances(map, left, right) == pytest.approx(change, rel=1e-9, abs=1e-9)
    assert embedding_distances(map, left, right) == pytest.approx(change, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("unit", UNITS)
def test_distances_are_those_of_a_semimetric(unit: str) -> None:
    map = random_map(8, 3, 8, unit)  # type: ignore[arg-type]
    a, b, c = generator(9).normal(size=(3, 50, 3))
    for distances in (embedding_distances, path_distances):
        assert distances(map, a, b) == pytest.approx(distances(map, b, a), rel=1e-9, abs=1e-9)
        assert (distances(map, a, a) == 0).all()
    direct, around = embedding_distances(map, a, c), embedding_distances(map, a, b) + embedding_distances(map, b, c)
    assert (direct <= around + 1e-12 * (1 + around)).all()


def test_an_initial_model_has_no_part_in_the_distances() -> None:
    map = random_map(5, 3, 10)
    steep = replace(map, initial=lambda rows: 1e3 * rows[:, 0])
    a, b = generator(11).normal(size=(2, 20, 3))
    assert path_distances(steep, a, b).tobytes() == path_distances(map, a, b).tobytes()
    assert embedding_distances(steep, a, b).tobytes() == embedding_distances(map, a, b).tobytes()


def test_a_pair_has_the_same_distance_whatever_pairs_stand_beside_it() -> None:
    map = random_map(5, 3, 12)
    a, b = generator(13).normal(size=(2, 60, 3))
    for distances in (embedding_distances, path_distances):
        whole = distances(map, a, b)
        assert distances(map, a[7:31], b[7:31]).tobytes() == whole[7:31].tobytes()


def test_rows_without_partners_are_refused() -> None:
    with pytest.raises(InputError, match="expected as many rows as other rows, got 3 and 4"):
        path_distances(random_map(2, 3), np.zeros((3, 3)), np.zeros((4, 3)))
