"""The smallest changes that are noticed: their parts against slow references, and the whole against the detector."""

import copy
from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.detect.incidents import betting, detectable
from glasstream.detect.incidents.detectable import HORIZONS, Smallest, smallest, would_notice
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.series import Name
from glasstream.detect.incidents.watch import IncidentWatch, Rows

BEFORE = 3_000
STREAMS, RUNS = 3, 4
INTEGRALS = detectable.integrals_of_gains()
FINE = 10_000
LOGARITHMS = np.log(
    [[betting.factor_of(bet, (place + 0.5) / FINE) for place in range(FINE)] for bet in range(betting.VALUE_BETS)]
)
Values = np.ndarray
KINDS: dict[str, Callable[[np.random.Generator, int], Values]] = {
    "normal": lambda draws, n: draws.normal(size=n),
    "four values": lambda draws, n: draws.integers(0, 4, size=n).astype(float),
    "mostly zero": lambda draws, n: np.where(draws.random(n) < 0.8, 0.0, draws.exponential(size=n)),
}


@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=8).filter(any),
    st.lists(st.integers(0, 9), min_size=8, max_size=8),
    st.sampled_from([0.05, 0.3, 1.0]),
)
def test_the_gain_of_a_row_is_the_mean_logarithm_of_the_factor_of_its_rank(
    some: list[int], others: list[int], counted: float
) -> None:
    before, after = np.array(some, float), np.array(others[: len(some)], float) + 1.0
    before, after = before / before.sum(), after / after.sum()
    mixed = (1.0 - counted) * before + counted * after
    ends = np.cumsum(mixed)
    for bet in range(betting.VALUE_BETS):
        expected = 0.0
        for end, width, share in zip(ends, mixed, after, strict=True):
            ranks = end - width + width * (np.arange(2_000) + 0.5) / 2_000
            expected += share * float(LOGARITHMS[bet, np.minimum(FINE - 1, ranks * FINE).astype(int)].mean())
        assert detectable.gain(INTEGRALS, bet, before, after, counted) == pytest.approx(expected, abs=0.02)


@given(st.floats(-40.0, 40.0), st.integers(2, betting.EDGES), st.booleans())
def test_a_shift_moves_the_shares_of_bins_like_values(step: float, used: int, on_edges: bool) -> None:
    edges = np.cumsum(1.0 + np.arange(used) % 3)
    values = np.linspace(edges[0], edges[-1], 20_001)[1:-1]
    values = np.concatenate([values, edges, [np.nan] * 500]) if on_edges else values
    nothing = np.zeros(betting.BINS)
    before = Histogram(
        edges, np.bincount(Histogram(edges, *[nothing] * 3, 1).bins(values), minlength=betting.BINS), *[nothing] * 2, 1
    )
    padded, after = np.zeros(betting.EDGES), np.empty(betting.BINS)
    padded[:used] = edges
    detectable.shift(before.shares, padded, used, step, after)
    assert after.sum() == pytest.approx(1.0)
    assert np.cumsum(after) == pytest.approx(np.cumsum(before.shares_of(values + step)), abs=2e-3)


@cache
def _watch(kind: str, stream: int) -> IncidentWatch:
    draws, watch = np.random.default_rng(stream), IncidentWatch("s", 0, stream, 0.5)
    assert not list(watch.update(_rows(KINDS[kind](draws, BEFORE), draws, 0)))
    return watch


def _rows(values: Values, draws: np.random.Generator, first: int) -> Rows:
    """Return rows with two more features and labels that stay as they are."""
    n = len(values)
    inputs = np.column_stack([values, draws.normal(size=(n, 2))])
    seqs = np.arange(first, first + n)
    return Rows(
        first, seqs, [], ["x", "y", "z"], [0] * 3, inputs, draws.normal(size=n), [], np.zeros(n), "squared", None
    )


def _smallest(watch: IncidentWatch, rows: int) -> Smallest:
    name = Name("input", 0)
    need = float(np.log(watch.series.need(name)))
    return smallest(watch.series.histogram(name), need, rows, numbers=True, integrals=INTEGRALS)


def _changed(change: str, values: Values, size: float, draws: np.random.Generator) -> Values:
    hit = draws.random(len(values)) < size
    ordinary = np.sort(values)[int(0.82 * len(values))] if (values == 0.0).mean() > 0.5 else np.median(values)
    return {
        "missing": lambda: np.where(hit, np.nan, values),
        "beyond": lambda: np.where(hit, 1e6, values),
        "one former value": lambda: np.where(hit, ordinary, values),
        "up": lambda: values + size,
        "down": lambda: values - size,
    }[change]()


CHANGES = {"missing": "outside", "beyond": "outside", "one former value": "inside", "up": "shift", "down": "shift"}


def _noticed(kind: str, change: str, part: float, rows: int) -> tuple[int, int]:
    """Return how many of the runs notice a part of the smallest change, and the number of runs."""
    noticed, runs = 0, 0
    for stream in range(STREAMS):
        size = getattr(_smallest(_watch(kind, stream), rows), CHANGES[change])
        for run in range(RUNS if np.isfinite(size) else 0):
            draws, watch = np.random.default_rng([stream, run]), copy.deepcopy(_watch(kind, stream))
            values = _changed(change, KINDS[kind](draws, rows), part * size, draws)
            found = watch.update(_rows(values, draws, BEFORE))
            noticed += any(one.feature == "x" for incident in found for one in incident.features)
            runs += 1
    return noticed, runs


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_change_of_the_stated_size_is_noticed_in_time_and_a_third_of_it_seldom(kind: str, change: str) -> None:
    noticed, runs = _noticed(kind, change, 1.0, HORIZONS[0])
    assert noticed >= runs / 2
    assert runs == (
        0 if (kind, CHANGES[change]) != ("normal", "shift") and CHANGES[change] == "shift" else STREAMS * RUNS
    )
    noticed, runs = _noticed(kind, change, 1.0 / 3.0, HORIZONS[0])
    assert noticed <= runs / 4


@pytest.mark.slow
@pytest.mark.parametrize("change", ["missing", "up"])
def test_so_it_is_in_the_long_run(change: str) -> None:
    noticed, runs = _noticed("normal", change, 1.0, HORIZONS[1])
    assert noticed >= runs / 2 > 0
    noticed, runs = _noticed("normal", change, 1.0 / 3.0, HORIZONS[1])
    assert noticed <= runs / 4


@pytest.mark.parametrize("kind", KINDS)
def test_more_rows_and_less_evidence_notice_smaller_changes(kind: str) -> None:
    before = _watch(kind, 0).series.histogram(Name("input", 0))
    for first, second in (((20.0, 1_000), (20.0, 10_000)), ((30.0, 10_000), (15.0, 10_000)), ((9.0, 200), (9.0, 500))):
        sizes, smaller = (
            np.array(smallest(before, *one, numbers=True, integrals=INTEGRALS)) for one in (first, second)
        )
        assert (np.isnan(sizes) | (smaller <= 1.03 * sizes)).all()
    assert np.isnan(smallest(before, 1e9, 10_000, numbers=True, integrals=INTEGRALS)).all()
    assert np.isnan(smallest(before, 15.0, 10_000, numbers=False, integrals=INTEGRALS).shift)


def test_a_series_of_few_or_equal_values_has_no_size_that_is_not_there() -> None:
    nothing, edges = np.zeros(betting.BINS), np.ones(1)
    assert np.isnan(
        smallest(Histogram(edges, nothing, nothing, nothing, 1), 15.0, 1_000, numbers=True, integrals=INTEGRALS)
    ).all()
    counts = nothing.copy()
    counts[2] = 2_000.0
    constant = smallest(Histogram(edges, counts, nothing, nothing, 1), 15.0, 1_000, numbers=True, integrals=INTEGRALS)
    assert 0.0 < constant.outside < 0.2 and np.isnan(constant.inside) and np.isnan(constant.shift)


def test_a_change_to_given_shares_is_noticed_from_the_smallest_size_on() -> None:
    """Both ask the same bets, one of them with the other bins as two."""
    name, rows = Name("input", 0), HORIZONS[0]
    for kind in KINDS:
        series = _watch(kind, 0).series
        before, need = series.histogram(name), float(np.log(series.need(name)))
        size = smallest(before, need, rows, numbers=True, integrals=INTEGRALS).outside
        for part, noticed in ((1.05, True), (0.9, False)):
            since = (1.0 - part * size) * before.shares
            since[2 * len(before.edges) + 1] += part * size
            missing = (1.0 - part * size) * before.shares
            missing[0] += part * size
            found = [would_notice(before, shares, need, rows, INTEGRALS) for shares in (since, missing)]
            assert all(found) is noticed
