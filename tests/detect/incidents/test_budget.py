"""The budget: how often a series that does not change exceeds its limit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from glasstream.base.draws import stream_key
from glasstream.detect.incidents import betting
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.series import Name, Series


@pytest.mark.parametrize("bet", range(betting.VALUE_BETS))
def test_a_bet_on_a_uniform_rank_is_fair(bet: int) -> None:
    ranks = (np.arange(200_000) + 0.5) / 200_000
    factors = np.array([betting.factor_of(bet, rank) for rank in ranks])
    assert abs(factors.mean() - 1.0) < 1e-4
    assert factors.min() > 0.0


def _correlated(draws: np.random.Generator, rows: int, rho: float) -> np.ndarray:
    noise = draws.normal(size=rows)
    for row in range(1, rows):
        noise[row] = rho * noise[row - 1] + np.sqrt(1.0 - rho**2) * noise[row]
    return noise


EVENTS = np.zeros((8_000, 2), np.int64)
KINDS = {
    "normal": lambda draws, n: draws.normal(size=n),
    "heavy": lambda draws, n: draws.standard_cauchy(size=n),
    "ties": lambda draws, n: draws.integers(0, 5, size=n).astype(float),
    "rare": lambda draws, n: (draws.random(n) < 0.01).astype(float),
    "constant": lambda draws, n: np.ones(n),
    "like their neighbours": lambda draws, n: _correlated(draws, n, 0.9),
    "slowly changing noise": lambda draws, n: 0.5 * _correlated(draws, n, 0.9) + draws.normal(size=n),
    "almost the same": lambda draws, n: np.random.default_rng(1).normal(size=n) + 0.1 * draws.exponential(size=n),
    "gaps": lambda draws, n: np.where(draws.random(n) < 0.2, np.nan, draws.normal(size=n)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_values_that_do_not_change_keep_the_budget(kind: str) -> None:
    """The budget of features and labels is 0.6 of the whole. The count of alarms is compared with a Poisson law."""
    budget, rows, streams = 50.0, 5_000, 60
    alarms = 0
    for number in range(streams):
        draws, series, key = np.random.default_rng(number), Series(budget), stream_key(number, kind)
        series.widen([0, 0])
        values = np.column_stack([KINDS[kind](draws, rows) for _ in range(3)])
        done = 0
        while done < rows:
            stop = min(rows, done + series.until_due)
            part = values[done:stop]
            fed, over = series.feed(done, part, np.zeros_like(part), EVENTS[done:stop], key, (), learn=True)
            done += fed
            if over is not None:
                alarms += 1
                series.forget_bets()
    expected = 0.6 * budget * rows * streams / 100_000
    assert alarms <= stats.poisson.ppf(0.999, expected)


def test_levels_that_do_not_rise_keep_the_budget() -> None:
    """Losses of several shapes, with a mean that falls or stays, also of rows that depend on their neighbours. Their
    budget is a quarter of the whole.
    """
    budget, rows, streams = 50.0, 8_000, 90
    shapes = (
        lambda draws: draws.exponential(size=rows),
        lambda draws: (draws.random(rows) < 0.1).astype(float),
        lambda draws: draws.lognormal(sigma=1.5, size=rows),
        lambda draws: draws.random(rows) * np.linspace(2.0, 1.0, rows),
        lambda draws: (draws.random(rows) < 0.97).astype(float),
        lambda draws: np.exp(0.5 * _correlated(draws, rows, 0.6)),
    )
    alarms = 0
    for number in range(streams):
        draws, series, key = np.random.default_rng(number), Series(budget), stream_key(number, "loss")
        levels = shapes[number % len(shapes)](draws)[:, np.newaxis]
        done = 0
        while done < rows:
            stop = min(rows, done + series.until_due)
            part = levels[done:stop]
            fed, over = series.feed(done, np.zeros_like(part), part, EVENTS[done:stop], key, (), learn=True)
            done += fed
            if over is not None:
                alarms += 1
                series.forget_bets()
    expected = 0.25 * budget * rows * streams / 100_000
    assert alarms <= stats.poisson.ppf(0.999, expected)


VALUES = st.one_of(st.floats(allow_infinity=False), st.sampled_from([0.0, -0.0, 1.0, 2.0, np.nan]))


@given(st.lists(VALUES, max_size=40), st.lists(st.integers(-3, 3), max_size=betting.EDGES, unique=True))
def test_bins_are_the_same_in_both_forms(values: list[float], edges: list[int]) -> None:
    known = np.zeros(betting.EDGES)
    known[: len(edges)] = sorted(edges)
    nothing = np.zeros(betting.BINS)
    histogram = Histogram(known[: len(edges)], nothing, nothing, nothing, 1)
    array = np.array(values, dtype=np.float64)
    assert histogram.bins(array).tolist() == [betting.bin_of(value, known, len(edges)) for value in values]


@given(st.lists(st.floats(0.0, 1e120), min_size=betting.SCALES, max_size=betting.SCALES), st.integers(1, 10**9))
def test_a_block_has_at_most_fifty_rows(squares: list[float], rows: int) -> None:
    assert 1 <= betting.block_rows(rows, np.inf, np.array([squares]), 0, 0, betting.SCALES) <= 50


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("share", [0.2, 1.0])
def test_a_block_has_the_autocorrelation_time_of_its_series(rho: float, share: float) -> None:
    """A share of the variance follows a first-order process; the rest is noise. The ranks are those of normal values,
    whose correlations are 6 / pi arcsin(r / 2).
    """
    rows, lags = 20_000, np.arange(1, 400)
    times = []
    for number in range(5):
        draws, series = np.random.default_rng(number), Series(0.5)
        values = np.sqrt(share) * _correlated(draws, rows, rho) + np.sqrt(1.0 - share) * draws.normal(size=rows)
        done, events = 0, np.zeros((rows, 2), np.int64)
        while done < rows:
            stop = min(rows, done + series.until_due)
            part = values[done:stop, np.newaxis]
            fed, _ = series.feed(done, part, np.zeros_like(part), events[done:stop], stream_key(1, "s"), (), learn=True)
            done += fed
        times.append(series.histogram(Name("label", 0)).block)
    true = 1.0 + 2.0 * float((6.0 / np.pi * np.arcsin(share * rho**lags / 2.0)).sum())
    assert 0.75 * true <= np.mean(times) <= 1.35 * true + 0.8
