"""The laws of the reservoirs (row 4 of the table of numbers anyone can check; 004, equation 5 and Lemma 1)."""

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.explain.sampling.reservoir import SAMPLINGS, Reservoir, Wanted
from glasstream_lab.exact_pfi import collision_probability, sampling_distribution


def drawn_at(sampling: str, size: int, row: int, runs: int) -> np.ndarray:
    """(runs,) which row was drawn by row number `row`, each run with a reservoir of its own."""
    times = np.arange(row + 1, dtype=float).reshape(-1, 1)
    found = np.empty(runs, np.int64)
    for run in range(runs):
        reservoir = Reservoir.empty(size, sampling, stream_key(run, "law"))
        found[run] = reservoir.pass_through(times, 0, row, 1)[0, 0, 0]
    return found


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("row", [3, 5, 6, 14])
def test_row_4_draws_follow_their_law(sampling: str, row: int) -> None:
    """χ² over all rows: for geometric sampling on both branches, the first L rows and the later ones."""
    runs = 6_000
    distribution = sampling_distribution(sampling, 5, row)
    counts = np.bincount(drawn_at(sampling, 5, row, runs), minlength=row)
    possible = distribution > 0
    assert distribution.sum() == pytest.approx(1.0, abs=1e-12) and counts[~possible].sum() == 0
    chi_squared = ((counts - runs * distribution)[possible] ** 2 / (runs * distribution[possible])).sum()
    freedom = possible.sum() - 1
    assert chi_squared < freedom + 3.5 * np.sqrt(2 * freedom) + 4  # above the 99.9 % quantile for 2 to 13


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("size", [1, 2, 10, 100])
def test_row_4_two_draws_meet_as_often_as_lemma_1_says(sampling: str, size: int) -> None:
    for row in (1, size, size + 1, size + 2, 3 * size + 5, 20 * size):
        exact = float((sampling_distribution(sampling, size, row) ** 2).sum())
        assert collision_probability(sampling, size, row) == pytest.approx(exact, rel=1e-12, abs=1e-12)


def test_a_window_holds_the_last_rows_and_nothing_else() -> None:
    times = np.arange(500, dtype=float).reshape(-1, 1)
    drawn = Reservoir.empty(7, "window", stream_key(1, "law")).pass_through(times, 0, 7, 40)[:, :, 0]
    age = np.arange(7, 500)[:, None] - drawn
    assert age.min() == 1 and age.max() == 7
    assert np.abs(np.bincount(age.astype(int).ravel(), minlength=8)[1:] / age.size - 1 / 7).max() < 0.01


def test_a_set_draws_the_rows_that_the_feature_of_its_number_would() -> None:
    rows = np.random.Generator(np.random.PCG64(1)).normal(size=(60, 3))
    for_features = Reservoir.empty(9, "geometric", stream_key(1, "s")).pass_through(rows, 0, 9, 2)
    for_sets = Reservoir.empty(9, "geometric", stream_key(1, "s")).serve(rows, 0, 9, Wanted(values=2, sets=3)).sets
    assert for_sets.shape == (51, 2, 3, 3)
    assert (for_features == for_sets[:, :, [0, 1, 2], [0, 1, 2]]).all()
    assert (for_sets[:, :, :, :, None] == rows[:, 0]).any(axis=-1)[..., 0].all(), "whole rows of the stream"
