"""The factor of values in another unit is estimated, and its interval holds the true one."""

import numpy as np
import pytest

from glasstream.base.draws import stream_key
from glasstream.detect.incidents.betting import BINS, EDGES
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.scaling import factor_of
from glasstream.detect.incidents.series import Name, Series

ROWS = 3_000
SHAPES = {
    "normal": lambda draws, n: draws.normal(20.0, 5.0, size=n),
    "skewed": lambda draws, n: draws.exponential(size=n),
    "whole numbers": lambda draws, n: draws.binomial(16, 0.5, size=n).astype(float),
    "shares": lambda draws, n: np.round(draws.beta(2.0, 5.0, size=n), 2),
}


def before(values: np.ndarray) -> Histogram:
    """Return the histogram that the watch keeps of values."""
    series, done = Series(0.5), 0
    while done < len(values):
        part = values[done : done + series.until_due, np.newaxis]
        events = np.zeros((len(part), 2), np.int64)
        done += series.feed(done, part, np.zeros_like(part), events, stream_key(1, "s"), (), learn=True)[0]
    return series.histogram(Name("label", 0))


@pytest.mark.parametrize("factor", [60.0, 1.0 / 60.0, -1.0, 1_000.0, 1e-6, -0.25, 10.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_holds_the_factor_and_the_estimate_is_near(shape: str, factor: float) -> None:
    found = []
    for seed in range(10):
        draws = np.random.default_rng(seed)
        values = SHAPES[shape](draws, ROWS + 150)
        found.append(factor_of(before(values[:ROWS]), factor * values[ROWS:]))
    estimates = [one for one in found if one is not None]
    assert len(estimates) >= 9
    assert sum(one.low <= factor <= one.high for one in estimates) >= len(estimates) - 1
    assert abs(np.median([one.value for one in estimates]) / factor - 1.0) < 0.1
    if shape == "whole numbers":
        assert {one.value for one in estimates} == {float(f"{factor:.3g}")}  # nothing else gives such numbers


@pytest.mark.parametrize("factor", [1.0, 1.2, 0.8])
def test_values_of_the_same_unit_have_no_factor(factor: float) -> None:
    draws = np.random.default_rng(1)
    values = SHAPES["normal"](draws, ROWS + 150)
    assert factor_of(before(values[:ROWS]), factor * values[ROWS:]) is None


def test_few_independent_rows_name_no_factor() -> None:
    """A warm week after a cold one is no other unit."""
    draws = np.random.default_rng(1)
    week = np.repeat(np.abs(draws.normal(5.0, 3.0, size=ROWS // 150 + 1)), 150)
    values = np.abs(week + draws.normal(0.0, 0.5, size=len(week)))
    known = before(values[:ROWS])
    assert known.block > 20
    assert factor_of(known, 3.3 * values[ROWS : ROWS + 150]) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_season_that_adds_about_as_much_to_all_values_is_no_factor(seed: int) -> None:
    """A spring after a winter: few days cannot tell whether the spread has grown like the mean."""
    draws = np.random.default_rng(seed)
    days = np.repeat(draws.normal(0.2, 0.05, size=ROWS // 24 + 25), 24)
    values = np.abs(days + draws.normal(0.0, 0.02, size=len(days)))
    known = before(values[:ROWS])
    assert known.block > 10
    assert factor_of(known, 0.4 + 1.5 * values[ROWS:]) is None


def test_another_shape_has_no_factor() -> None:
    draws = np.random.default_rng(1)
    assert factor_of(before(draws.exponential(size=ROWS)), draws.normal(20.0, 1.0, size=600)) is None


@pytest.mark.parametrize(("factor", "block", "told"), [(5.0, 1, True), (5.0, 50, False), (60.0, 25, True)])
def test_a_factor_that_a_season_may_have_is_told_only_by_enough_independent_rows(
    factor: float, block: int, told: bool
) -> None:
    draws = np.random.default_rng(1)
    values = draws.normal(20.0, 3.0, size=4_000)
    edges = np.quantile(values[:300], np.linspace(0.0, 1.0, EDGES), method="nearest")
    nothing = np.zeros(BINS)
    before = Histogram(edges, nothing, nothing, nothing, block)
    before = before._replace(counts=np.bincount(before.bins(values), minlength=BINS).astype(float))
    assert (factor_of(before, factor * draws.normal(20.0, 3.0, size=600)) is not None) is told
