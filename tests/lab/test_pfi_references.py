"""Batch PFI, exact PFI and expected iPFI: row 1 of the numbers anyone can check, and each against the other."""

from itertools import permutations

import numpy as np
import pytest

from glasstream.base.errors import SettingsError
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream_lab.batch_pfi import batch_pfi
from glasstream_lab.exact_pfi import exact_pfi, expected_ipfi
from tests.support.function_predictor import FunctionPredictor

RANDOM = np.random.Generator(np.random.PCG64(2))


def f(x: np.ndarray) -> np.ndarray:
    return np.sin(x[:, 0]) * x[:, 1] + 0.5 * x[:, 1]


PREDICTOR = FunctionPredictor(f, 3)
X = RANDOM.normal(size=(60, 3))
Y = f(X) + RANDOM.normal(size=60)


def test_row_1_all_permutations_times_n_over_n_minus_1_equal_switch_minus_orig() -> None:
    x, y = X[:6], Y[:6]
    every = batch_pfi(PREDICTOR, "absolute", x, y, permutations=np.array(list(permutations(range(6)))))
    exact = exact_pfi(PREDICTOR, "absolute", x, y)
    original = np.abs(f(x) - y).mean()
    for j in range(3):
        switched = 0.0
        for n in range(6):
            for m in range(6):
                if m != n:
                    row = x[n].copy()
                    row[j] = x[m, j]
                    switched += abs(f(row[None])[0] - y[n]) / 30
        assert exact[j] == pytest.approx(switched - original, abs=1e-12)
        assert every[j] == pytest.approx(switched - original, abs=1e-12)
    assert exact[2] == 0.0


def test_drawn_permutations_are_unbiased_and_drawn_for_each_feature() -> None:
    few = np.array([batch_pfi(PREDICTOR, "squared", X, Y, permutations=10, seed=seed) for seed in range(40)])
    error = few.std(axis=0) / np.sqrt(40)
    assert (np.abs(few.mean(axis=0) - exact_pfi(PREDICTOR, "squared", X, Y)) <= 4 * error + 1e-12).all()
    twins = np.repeat(RANDOM.normal(size=(50, 1)), 2, axis=1)
    alike = batch_pfi(FunctionPredictor(lambda x: x[:, 0] + x[:, 1], 2), "squared", twins, np.zeros(50))
    assert alike[0] != alike[1]


def test_draws_go_on_where_the_first_permutation_says() -> None:
    whole = batch_pfi(PREDICTOR, "squared", X, Y, permutations=6)
    first = batch_pfi(PREDICTOR, "squared", X, Y, permutations=2)
    rest = batch_pfi(PREDICTOR, "squared", X, Y, permutations=4, first_permutation=2)
    assert whole == pytest.approx((2 * first + 4 * rest) / 6, rel=1e-12)


@pytest.mark.parametrize("sampling", ["geometric", "uniform", "window"])
def test_the_mean_of_many_realisations_is_the_expected_ipfi(sampling: str) -> None:
    settings = {"alpha": 0.1, "sampling": sampling, "reservoir": 8, "start": 5}
    expected = expected_ipfi(PREDICTOR, "squared", X, Y, **settings)
    runs = []
    for seed in range(300):
        pfi = IncrementalPFI(loss="squared", seed=seed, **settings)
        pfi.explain_block(PREDICTOR, X, Y)
        runs.append(pfi.smoothing.value)
    error = np.std(runs, axis=0) / np.sqrt(300)
    assert (np.abs(np.mean(runs, axis=0) - expected) <= 4 * error + 1e-12).all()
    assert expected[1] > 0.5 and expected[2] == 0.0


def test_the_expected_ipfi_of_one_explained_row_is_the_mean_over_the_rows_before_it() -> None:
    expected = expected_ipfi(PREDICTOR, "squared", X[:11], Y[:11], alpha=0.3, reservoir=10)
    wanted = 0.0
    for r in range(10):
        row = X[10].copy()
        row[1] = X[r, 1]
        wanted += ((f(row[None])[0] - Y[10]) ** 2 - (f(X[10:11])[0] - Y[10]) ** 2) / 10
    assert expected[1] == pytest.approx(wanted, abs=1e-12)


def test_too_little_data_is_refused() -> None:
    with pytest.raises(SettingsError, match="2 rows"):
        batch_pfi(PREDICTOR, "squared", X[:1], Y[:1])
    with pytest.raises(SettingsError, match="1 permutation"):
        batch_pfi(PREDICTOR, "squared", X, Y, permutations=0)
    with pytest.raises(SettingsError, match="2 rows"):
        exact_pfi(PREDICTOR, "squared", X[:1], Y[:1])
    with pytest.raises(SettingsError, match="start from 1"):
        expected_ipfi(PREDICTOR, "squared", X, Y, alpha=0.1, reservoir=60)
