"""The δ-bound (002, Theorem 3.3; row 7 of the table of numbers anyone can check)."""

from itertools import product

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.explain.bounds import bound, raw_bound
from glasstream.explain.sampling.reservoir import Reservoir
from glasstream.explain.smoothing import Smoothing

RUNS, AT_A_TIME = 500, 50
TRUTH = 1.0


def smoothed(alpha: float, values: np.ndarray) -> Smoothing:
    smoothing = Smoothing.empty(alpha)
    smoothing.update(values)
    return smoothing


def test_the_number_anyone_can_check() -> None:
    """σ = 1, δ = 0.1, α = 0.001, n = 1000: 0.104."""
    smoothing = smoothed(0.001, np.zeros((1_000, 1)))
    smoothing.spread[:] = smoothing.weight
    assert bound(smoothing, 0.1)[0] == pytest.approx(0.104, abs=5e-4)


def test_the_raw_bound_adds_the_bias_of_the_start() -> None:
    smoothing = smoothed(0.01, np.full((10, 1), -3.0))
    assert raw_bound(smoothing, 0.1)[0] == pytest.approx(0.99**10 * 3.0)
    assert abs(smoothing.raw[0] + 3.0) <= raw_bound(smoothing, 0.1)[0] + 1e-12
    assert bound(smoothing, 0.1)[0] == pytest.approx(0.0, abs=1e-6)


def test_the_raw_bound_of_a_known_value_is_the_form_of_the_paper_with_its_factor() -> None:
    smoothing = smoothed(0.01, np.random.Generator(np.random.PCG64(1)).normal(size=(100, 3)))
    q, truth = 0.99**100, np.array([1.0, -2.0, 0.0])
    wanted = q * np.abs(truth) + np.sqrt(smoothing.variance / 0.05 * 0.01 / 1.99 * (1 - q * q))
    assert raw_bound(smoothing, 0.05, truth) == pytest.approx(wanted, rel=1e-12)


def test_before_the_first_row_nothing_is_bounded() -> None:
    smoothing = smoothed(0.01, np.zeros((0, 2)))
    assert bound(smoothing, 0.1).tolist() == raw_bound(smoothing, 0.1).tolist() == [np.inf, np.inf]


@pytest.mark.parametrize("size", [20, 100, 1_000])
@pytest.mark.parametrize("rows", [50, 300, 1_500])
def test_row_7_the_bounds_miss_less_often_than_delta(size: int, rows: int) -> None:
    """f = 1 + z_s + z_r, which recurring rows make depend on each other."""
    misses = dict.fromkeys(product(("debiased", "raw", "raw of a known value"), (0.1, 0.05)), 0)
    for part in range(RUNS // AT_A_TIME):
        z = np.random.Generator(np.random.PCG64(part)).normal(size=(size + rows, AT_A_TIME))
        drawn = Reservoir.empty(size, "geometric", stream_key(part, "row 7")).pass_through(z, 0, size, 1)[:, 0]
        smoothing = smoothed(0.01, TRUTH + z[size:] + drawn)
        for delta in (0.1, 0.05):
            misses["debiased", delta] += int((np.abs(smoothing.value - TRUTH) > bound(smoothing, delta)).sum())
            for name, truth in (("raw", None), ("raw of a known value", np.full(AT_A_TIME, TRUTH))):
                misses[name, delta] += int((np.abs(smoothing.raw - TRUTH) > raw_bound(smoothing, delta, truth)).sum())
    print(f"\nL = {size}, n = {rows}: misses in {RUNS}: {misses}")
    for (_, delta), missed in misses.items():
        assert missed / RUNS < delta, misses
