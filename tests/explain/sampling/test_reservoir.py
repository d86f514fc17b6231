"""The laws of the reservoirs (004, Incremental Sampling; row 4 of the table of numbers anyone can check)."""

from itertools import pairwise

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.base.errors import SettingsError
from glasstream.explain.sampling.reservoir import Reservoir, Wanted, together


def drawn_times(sampling: str, size: int, rows: int, seed: int, draws: int = 1) -> np.ndarray:
    """Rows that hold their own number: what each row drew, (rows from `size` on, draws)."""
    reservoir = Reservoir.empty(size, sampling, stream_key(seed, "law"))
    times = np.arange(rows, dtype=float).reshape(-1, 1)
    return reservoir.pass_through(times, 0, size, draws)[:, :, 0]


@pytest.mark.parametrize("sampling", ["geometric", "uniform"])
def test_a_row_draws_only_from_rows_before_it(sampling: str) -> None:
    drawn = drawn_times(sampling, 10, 2_000, seed=1, draws=4)
    now = np.arange(10, 2_000).reshape(-1, 1)
    assert (drawn < now).all() and (drawn >= 0).all()


@pytest.mark.parametrize("sampling", ["geometric", "uniform"])
def test_how_rows_are_cut_into_blocks_changes_no_draw(sampling: str) -> None:
    whole = drawn_times(sampling, 20, 500, seed=2, draws=3)
    reservoir = Reservoir.empty(20, sampling, stream_key(2, "law"))
    times = np.arange(500, dtype=float).reshape(-1, 1)
    cuts = [0, 1, 7, 19, 20, 21, 60, 333, 499, 500]
    parts = [reservoir.pass_through(times[a:b], a, 20, 3)[:, :, 0] for a, b in pairwise(cuts)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_geometric_mean_age_is_the_size() -> None:
    size = 100
    drawn = drawn_times("geometric", size, 60_000, seed=3)[10 * size :, 0]
    now = np.arange(11 * size, 60_000)
    assert np.mean(now - drawn) == pytest.approx(size, rel=0.05)


def test_geometric_law_both_branches() -> None:
    """P(r at s) is p (1-p)^(s-r-1), and p (1-p)^(s-t0) for each of the first L rows."""
    size, s, runs = 5, 14, 40_000
    counts = np.zeros(s)
    for seed in range(runs // 50):
        drawn = drawn_times("geometric", size, s + 1, seed=1_000 + seed, draws=50)[-1]
        counts += np.bincount(drawn.astype(int), minlength=s)
    p = 1 / size
    law = np.array([p * (1 - p) ** (s - size) if r < size else p * (1 - p) ** (s - r - 1) for r in range(s)])
    assert law.sum() == pytest.approx(1.0)
    # the 50 draws of a run share a reservoir, so compare against the spread between runs, generously
    assert np.abs(counts / counts.sum() - law).max() < 0.02


def test_uniform_every_earlier_row_equally_likely() -> None:
    size, rows = 100, 3_000
    last = np.concatenate([drawn_times("uniform", size, rows, seed=seed)[-1] for seed in range(600)])
    share = np.histogram(last, bins=10, range=(0, rows - 1))[0] / len(last)
    standard_error = np.sqrt(0.1 * 0.9 / len(last))
    assert np.abs(share - 0.1).max() < 4 * standard_error


def test_a_feature_that_appears_is_absent_in_the_rows_held() -> None:
    reservoir = Reservoir.empty(3, "geometric", stream_key(1, "s"))
    reservoir.pass_through(np.ones((3, 1)), 0, 3, 1)
    draws = reservoir.pass_through(np.ones((1, 2)), 3, 3, 5)
    assert (draws[0, :, 0] == 1.0).all()
    assert np.isnan(draws[0, :, 1]).all()


def test_methods_that_share_draws_want_equally_many() -> None:
    assert together([Wanted(values=2), Wanted(rows=3, fresh=True), Wanted(), Wanted(values=2)]) == Wanted(2, 3, True)
    for one, other in ((Wanted(values=2), Wanted(values=1)), (Wanted(rows=2), Wanted(rows=2, fresh=True))):
        with pytest.raises(SettingsError, match="want equally many"):
            together([one, other])
