"""Which of two models is better: closed form, validity at every row for many kinds of streams, and cuts."""

from collections.abc import Callable
from itertools import pairwise
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import gammainc, gammaln

from glasstream.base.errors import InputError
from glasstream.detect.comparison import Comparison, boundary, log_evidence
from tests.support.examples import examples, some

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats, Floats]
"""Losses of two models, and the expectation of each difference given the rows before it."""

ALPHA = 0.05
ROWS = 2_000
C = 9 / 8
RHO = 100 / (2 * log(40) + log(1 + 2 * log(40)))


def by_definition(first: Floats, second: Floats) -> tuple[Floats, Floats]:
    """Return the sums and variations after each row, one row after the other."""
    total, variation, sums, variations = 0.0, 0.0, [], []
    for row, difference in enumerate((first - second).tolist()):
        mean = total / row if row else 0.0
        variation += (difference - min(max(mean, 1 - C), C - 1)) ** 2
        total += difference
        sums.append(total)
        variations.append(variation)
    return np.array(sums), np.array(variations)


def difficulties(draws: np.random.Generator, kind: str) -> Floats:
    """Return the expected loss of each row, in [0.1, 0.9]."""
    if kind == "steady":
        return np.full(ROWS, 0.3)
    if kind == "drifting":
        return np.where(np.arange(ROWS) < ROWS // 3, 0.15, np.linspace(0.8, 0.3, ROWS))
    level, levels, noise = 0.0, [], draws.normal(size=ROWS)
    for row in range(ROWS):
        level = 0.98 * level + 0.2 * noise[row]
        levels.append(level)
    return 0.1 + 0.8 / (1.0 + np.exp(-np.array(levels)))


def equal_models(draws: np.random.Generator, kind: str) -> Pair:
    """Return exchangeable losses."""
    if kind == "rarely different":
        losses = draws.random((2, ROWS)) < 0.01
        return losses[0].astype(float), losses[1].astype(float), np.zeros(ROWS)
    if kind == "all or nothing":
        first = draws.integers(2, size=ROWS).astype(float)
        return first, 1.0 - first, np.zeros(ROWS)
    expected = difficulties(draws, kind)
    if kind == "autocorrelated":
        brier = np.clip(expected + draws.uniform(-0.1, 0.1, (2, ROWS)), 0.0, 1.0)
        return brier[0], brier[1], np.zeros(ROWS)
    errors = draws.random((2, ROWS)) < expected
    return errors[0].astype(float), errors[1].astype(float), np.zeros(ROWS)


def different_models(draws: np.random.Generator, kind: str) -> Pair:
    """Return losses whose expected difference is known on every row."""
    expected = difficulties(draws, kind)
    gaps = {
        "steady": np.full(ROWS, 0.3),
        "drifting": np.where(np.arange(ROWS) < ROWS // 2, 0.1, -0.1),
        "autocorrelated": 0.2 * (difficulties(draws, kind) - 0.5),
    }[kind]
    errors = draws.random((2, ROWS)) < np.array([expected + gaps / 2, expected - gaps / 2]).clip(0.0, 1.0)
    return errors[0].astype(float), errors[1].astype(float), gaps


def crossed(make: Callable[[np.random.Generator, str], Pair], kind: str, runs: int) -> float:
    """Return the share of runs in which the interval misses the mean expected difference at any row."""
    misses = 0
    for seed in range(runs):
        first, second, expected = make(np.random.default_rng(seed), kind)
        sums, variations = by_definition(first, second)
        misses += bool((log_evidence(np.abs(sums - np.cumsum(expected)), variations) >= log(2 / ALPHA)).any())
    return misses / runs


def slack(runs: int) -> float:
    """Return three standard errors of a share of `ALPHA`."""
    return 3 * (ALPHA * (1 - ALPHA) / runs) ** 0.5


@pytest.mark.parametrize("runs", some([100], [100, 1_000], pytest.mark.slow))
@pytest.mark.parametrize("kind", ["steady", "drifting", "autocorrelated", "rarely different", "all or nothing"])
def test_of_equal_models_neither_is_ever_better_except_at_the_stated_rate(kind: str, runs: int) -> None:
    assert crossed(equal_models, kind, runs) <= ALPHA + slack(runs)


@pytest.mark.parametrize("runs", some([100], [100, 1_000], pytest.mark.slow))
@pytest.mark.parametrize("kind", ["steady", "drifting", "autocorrelated"])
def test_the_interval_holds_the_mean_difference_at_all_rows_together(kind: str, runs: int) -> None:
    assert crossed(different_models, kind, runs) <= ALPHA + slack(runs)


def test_the_closed_form_is_the_mean_over_the_bets() -> None:
    r = RHO / C**2

    def bet(rate: float, total: float, variation: float) -> float:
        left = 1 - C * rate
        density = C * r**r * left ** (r - 1) * exp(-r * left) / (exp(gammaln(r)) * gammainc(r, r))
        return density * exp(rate * total - (-log(left) - C * rate) / C**2 * variation)

    for total, variation in [(0.0, 0.0), (1.0, 0.5), (-3.0, 2.0), (40.0, 30.0), (-40.0, 30.0), (90.0, 700.0)]:
        mean, _ = quad(bet, 0.0, 1 / C, (total, variation), epsabs=0.0, epsrel=1e-10, limit=500)
        found = log_evidence(np.array([total]), np.array([variation]))[0]
        assert found == pytest.approx(log(mean), abs=1e-7), (total, variation)


def test_evidence_rises_with_the_sum_and_falls_with_the_variation_without_a_jump() -> None:
    sums = np.linspace(-3_000.0, 3_000.0, 6_001)
    for variation in (0.0, 1.0, 300.0, 1e5):
        evidence = log_evidence(sums, np.full(len(sums), variation))
        assert np.isfinite(evidence).all()
        steps = np.diff(evidence)
        assert (steps > 0.0).all()
        assert steps.max() <= 1 / C + 1e-9  # no bet is larger than 1/c
        assert (log_evidence(sums, np.full(len(sums), variation + 1.0)) < evidence).all()


@pytest.mark.parametrize("kind", ["steady", "drifting", "autocorrelated"])
def test_the_statement_after_each_row_is_that_of_its_definition(kind: str) -> None:
    first, second, _ = different_models(np.random.default_rng(5), kind)
    comparison, better, since = Comparison(ALPHA), 0, 0
    sums, variations = by_definition(first, second)
    for row in range(600):
        comparison.add(first[row : row + 1], second[row : row + 1])
        reach = boundary(variations[row], ALPHA)
        before, better = better, 0 if abs(sums[row]) < reach else 2 if sums[row] > 0 else 1
        since = since if better == before else row + 1
        standing = comparison.standing()
        assert (standing.better, standing.since) == (better, since if better else None)
        assert (standing.better != 0) == (not standing.low < 0 < standing.high)
        assert standing.rows == row + 1
        assert standing.first == pytest.approx(first[: row + 1].mean())
        assert standing.second == pytest.approx(second[: row + 1].mean())
        assert standing.difference == pytest.approx(sums[row] / (row + 1))
        assert standing.visible == pytest.approx(min(1.0, reach / (row + 1)))
        assert standing.low == pytest.approx(max(-1.0, (sums[row] - reach) / (row + 1)))
        assert standing.high == pytest.approx(min(1.0, (sums[row] + reach) / (row + 1)))


@given(st.lists(st.integers(0, ROWS), max_size=20), st.sampled_from(["steady", "drifting", "autocorrelated"]))
@examples(100)
def test_how_rows_are_cut_changes_nothing(cuts: list[int], kind: str) -> None:
    first, second, _ = different_models(np.random.default_rng(2), kind)
    whole, parts = Comparison(ALPHA), Comparison(ALPHA)
    whole.add(first, second)
    places = [0, *sorted(cuts), ROWS]
    for begin, end in pairwise(places):
        parts.add(first[begin:end], second[begin:end])
    assert parts == whole
    assert parts.standing() == whole.standing()


def test_swapped_models_swap_the_statement() -> None:
    first, second, _ = different_models(np.random.default_rng(3), "steady")
    one, other = Comparison(ALPHA), Comparison(ALPHA)
    one.add(first, second)
    other.add(second, first)
    a, b = one.standing(), other.standing()
    assert (a.better, b.better, a.since) == (2, 1, b.since)
    assert (a.first, a.difference, a.low, a.high) == (b.second, -b.difference, -b.high, -b.low)
    assert a.log_evidence == b.log_evidence > log(2 / ALPHA)


def test_losses_and_levels_out_of_range_are_refused() -> None:
    comparison = Comparison()
    with pytest.raises(InputError, match="at least one row"):
        comparison.standing()
    for wrong in (1.5, -0.5, float("nan")):
        with pytest.raises(InputError, match=r"losses: expected numbers in \[0, 1\]"):
            comparison.add(np.array([0.5, wrong]), np.array([0.5, 0.5]))
    with pytest.raises(InputError, match="as many of both models"):
        comparison.add(np.zeros(2), np.zeros(3))
    with pytest.raises(InputError, match="alpha"):
        Comparison(1.0)
    assert comparison == Comparison()
