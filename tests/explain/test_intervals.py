"""Intervals that tell the truth (row 7 of the table of numbers anyone can check), and the closed forms in them."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.base.draws import stream_key
from glasstream.base.errors import FrameError
from glasstream.explain import intervals
from glasstream.explain.overlap import INDEPENDENT, Overlap
from glasstream.explain.sampling.reservoir import Reservoir
from glasstream.explain.smoothing import MEAN_PRODUCT, MEAN_SQUARE, MEMORY, PRODUCT, SQUARE, Smoothing

ALPHA = 0.01
RUNS, AT_A_TIME = 500, 50


def normals(seed: int, *shape: int) -> np.ndarray:
    return np.random.Generator(np.random.PCG64(seed)).normal(size=shape)


def coverages(sampling: str, size: int, rows: list[int], weights: tuple[float, float] = (1.0, 1.0)) -> list[float]:
    """How often the interval of f = a z_s + b z_r holds the truth, 0, after so many explained rows.

    Every column is a run: its z are its own, and so are the rows that it draws; only what leaves the reservoir is the
    same for the `AT_A_TIME` columns of one reservoir.
    """
    held = np.zeros(len(rows))
    for part in range(RUNS // AT_A_TIME):
        z = normals(part, size + rows[-1], AT_A_TIME)
        drawn = Reservoir.empty(size, sampling, stream_key(part, "row 7")).pass_through(z, 0, size, 1)[:, 0]
        values = weights[0] * z[size:] + weights[1] * drawn
        smoothing = Smoothing.empty(ALPHA, Overlap.of(sampling, size))
        for place, (begin, end) in enumerate(pairwise([0, *rows])):
            smoothing.update(values[begin:end])
            low, high = intervals.normal(smoothing)
            held[place] += ((low <= 0) & (high >= 0)).sum()
    return (held / RUNS).tolist()


@pytest.mark.parametrize("size", [20, 100, 1_000])
def test_row_7_the_interval_holds_the_truth_as_often_as_it_says(size: int) -> None:
    covered = coverages("geometric", size, [1_000, 3_000, 10_000])
    print(f"\ncoverage of the 95 % interval, L = {size}: {covered}")
    assert np.abs(np.array(covered) - 0.95).max() <= 0.03


@pytest.mark.parametrize("weights", [(1.0, 0.0), (1.0, -1.0), (0.3, 1.0)])
def test_so_it_does_for_contributions_that_overlap_less_or_more(weights: tuple[float, float]) -> None:
    """Less overlap than half of what is possible: wider than need be, until enough rows tell."""
    covered = coverages("geometric", 100, [3_000, 10_000], weights)
    assert min(covered) >= 0.92 and covered[0] <= 0.99 and covered[1] <= 0.985, covered


@pytest.mark.parametrize("size", [20, 100])
def test_and_for_a_window(size: int) -> None:
    covered = coverages("window", size, [1_000, 3_000, 10_000])
    assert np.abs(np.array(covered) - 0.95).max() <= 0.04, covered


def test_under_uniform_sampling_it_is_wide_enough() -> None:
    assert min(coverages("uniform", 100, [1_000, 10_000])) >= 0.95
    assert min(coverages("uniform", 1_000, [1_000, 3_000], (1.0, 0.0))) >= 0.93


@given(st.integers(1, 40), st.floats(0.001, 0.9), st.floats(0.0, 0.99))
def test_the_sum_of_products_equals_the_double_sum(n: int, alpha: float, rho: float) -> None:
    smoothing = Smoothing.empty(alpha)
    smoothing.update(np.zeros((n, 1)))
    weights = (1 - alpha) ** np.arange(n - 1, -1, -1.0)
    weights /= weights.sum()
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    brute = (np.outer(weights, weights) * np.where(apart == 0, 1.0, rho**apart)).sum()
    assert intervals._sum_of_products(smoothing, rho) == pytest.approx(brute, rel=1e-8)


def test_the_sum_of_products_where_its_formula_is_0_over_0() -> None:
    smoothing = Smoothing.empty(0.01)
    smoothing.update(np.zeros((500, 1)))
    at, near = (intervals._sum_of_products(smoothing, rho) for rho in (0.99, 0.99 + 1e-6))
    assert at == pytest.approx(near, rel=1e-3)


def kept_means(alpha: float, decay: float, n: int) -> np.ndarray:
    """The matrices (2, n, n) M with v' M v = the kept means of e * echo and of e², by running unit vectors through.

    Both are quadratic in v, so the value at v = e_i + e_j gives the entry (i, j).
    """
    pairs = [(i, j) for i in range(n) for j in range(i, n)]
    values = np.zeros((n, len(pairs)))
    for column, (i, j) in enumerate(pairs):
        values[i, column] += 1
        values[j, column] += 1
    smoothing = Smoothing.empty(alpha, Overlap(decay, most=1.0))
    smoothing.update(values)
    found = np.zeros((2, n, n))
    for column, (i, j) in enumerate(pairs):
        found[:, i, j] = smoothing.dependence[[PRODUCT, SQUARE], column]
    alone = np.array([np.diag(one) / 4 for one in found])
    for i, j in pairs:
        found[:, j, i] = found[:, i, j] = (found[:, i, j] - alone[:, i] - alone[:, j]) / 2 if i != j else alone[:, i]
    return found


@pytest.mark.parametrize(("alpha", "decay"), [(0.3, 0.5), (0.05, 0.9), (0.9, 0.99)])
def test_what_is_expected_of_the_kept_means_is_their_expectation(alpha: float, decay: float) -> None:
    n = 40
    quadratic = kept_means(alpha, decay, n)
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    smoothing = Smoothing.empty(alpha, Overlap(decay, most=1.0))
    smoothing.update(np.zeros((n, 1)))
    for kind, covariance in enumerate((np.eye(n), decay**apart)):
        wanted = (quadratic * covariance).sum(axis=(1, 2))
        assert smoothing.expected[kind, [MEAN_PRODUCT, MEAN_SQUARE]] == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def test_the_share_is_found() -> None:
    """f = z_s + z_r with L = 20: share · variance = p / (1-p) · ((1-p) V + C), V = C = 1, variance 2."""
    z = normals(1, 40_020, 50)
    drawn = Reservoir.empty(20, "geometric", stream_key(1, "s")).pass_through(z, 0, 20, 1)[:, 0]
    smoothing = Smoothing.empty(0.001, Overlap.of("geometric", 20))
    smoothing.update(z[20:] + drawn)
    assert intervals.share(smoothing).mean() == pytest.approx((0.95 + 1) / 19 / 2, rel=0.05)


@given(
    st.floats(0.001, 1.0), st.integers(0, 60), st.integers(1, 5), st.sampled_from(["geometric", "window", "uniform"])
)
def test_an_interval_is_finite_and_around_the_value_whatever_comes(
    alpha: float, n: int, size: int, sampling: str
) -> None:
    smoothing = Smoothing.empty(alpha, Overlap.of(sampling, size, draws=3))
    values = normals(n, n, 3)
    values[:, 1] = 7.0
    values[:, 2] = np.cumsum(values[:, 2]) * 1e6
    smoothing.update(values)
    interval = intervals.normal(smoothing)
    if interval is None:
        weights = (1 - alpha) ** np.arange(n)
        assert n == 0 or weights.sum() ** 2 / (weights**2).sum() < intervals.FEWEST
        return
    assert np.isfinite(interval.low).all() and np.isfinite(interval.high).all()
    assert (interval.low <= smoothing.value).all() and (smoothing.value <= interval.high).all()
    assert interval.low[1] == pytest.approx(7.0) and interval.high[1] == pytest.approx(7.0)


def test_overlap_makes_intervals_wider_and_never_narrower() -> None:
    values = np.cumsum(normals(3, 2_000, 4), axis=0) * 0.01 + normals(4, 2_000, 4)
    widths = []
    for overlap in (INDEPENDENT, Overlap.of("geometric", 100), Overlap.of("geometric", 100, draws=5)):
        smoothing = Smoothing.empty(ALPHA, overlap)
        smoothing.update(values)
        low, high = intervals.normal(smoothing)
        widths.append(high - low)
    assert (widths[0] < widths[1]).all() and (widths[1] < widths[2]).all()


def test_how_rows_are_cut_changes_no_bit_of_an_interval_and_state_goes_on() -> None:
    values = normals(5, 700, 4)
    values[:200, 3] = 0.0
    overlap = Overlap.of("geometric", 50)
    whole, parts = Smoothing.empty(ALPHA, overlap), Smoothing.empty(ALPHA, overlap)
    whole.update(values)
    for a, b in ((0, 1), (1, 150), (150, 420), (420, 700)):
        parts.update(values[a:b, : 3 if b <= 200 else 4])
        parts = Smoothing.restore(ALPHA, overlap, parts.count, parts.arrays())
    for one, other in zip(intervals.normal(whole), intervals.normal(parts), strict=True):
        assert one.tobytes() == other.tobytes()


def test_the_memory_of_the_dependence_is_longer_than_that_of_the_value() -> None:
    smoothing = Smoothing.empty(0.1)
    smoothing.update(np.concatenate([normals(6, 500, 1), np.zeros((300, 1))]))
    assert smoothing.variance[0] < 1e-9
    assert smoothing.dependence[SQUARE, 0] > 0.3 * (1 - 0.1 / MEMORY) ** 300


def test_states_that_do_not_fit_are_refused() -> None:
    smoothing = Smoothing.empty(0.1)
    smoothing.update(np.ones((3, 2)))
    arrays = smoothing.arrays()
    with pytest.raises(FrameError, match="expected an array 'weight', got raw"):
        Smoothing.restore(0.1, INDEPENDENT, 3, {"raw": arrays["raw"]})
    with pytest.raises(FrameError, match=r"expected 'spread' as f8\[d=2\], got f8\[1\]"):
        Smoothing.restore(0.1, INDEPENDENT, 3, arrays | {"spread": np.zeros(1)})
