"""Staleness: a bound where the paper has one, and what makes the next snapshot due."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.explain import pfi as ipfi
from glasstream.flow.learner.staleness import MOST_ROWS, scale, staleness
from glasstream.flow.schedule import Schedule
from tests.support.examples import examples
from tests.support.function_predictor import FunctionPredictor

RANDOM = np.random.Generator(np.random.PCG64(3))
ROWS = RANDOM.normal(size=(MOST_ROWS, 4))


def voter(weights: np.ndarray) -> FunctionPredictor:
    """Two classes: the probability of the second rises with the weighted sum."""

    def probabilities(rows: np.ndarray) -> np.ndarray:
        second = 1.0 / (1.0 + np.exp(-(rows * weights).sum(axis=1)))
        return np.column_stack([1.0 - second, second])

    return FunctionPredictor(probabilities, 4, classes=("no", "yes"))


def line(weights: np.ndarray) -> FunctionPredictor:
    return FunctionPredictor(lambda rows: (rows * weights).sum(axis=1), 4)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize(("make", "loss"), [(voter, "zero_one"), (line, "absolute")])
def test_theorem_4_bounds_how_far_importances_are_apart(seed: int, make: object, loss: str) -> None:
    """On the rows it is measured on, whatever the targets are."""
    random = np.random.Generator(np.random.PCG64(seed))
    new, old = (make(random.normal(size=4)) for _ in range(2))  # type: ignore[operator]
    targets = random.integers(0, 2, MOST_ROWS).astype(float) if loss == "zero_one" else random.normal(size=MOST_ROWS)
    draws = np.roll(ROWS, -1, axis=0)[:, np.newaxis, :]
    apart = ipfi.contributions(new, loss, ROWS, targets, draws).mean(axis=0)
    apart -= ipfi.contributions(old, loss, ROWS, targets, draws).mean(axis=0)
    bound = staleness(new, old, loss, ROWS)
    assert bound is not None and 0 < np.abs(apart).max() <= bound + 1e-12


@pytest.mark.parametrize("loss", ["zero_one", "brier", "cross_entropy"])
def test_a_model_that_did_not_change_is_not_stale(loss: str) -> None:
    model = voter(np.array([1.0, -1.0, 0.0, 2.0]))
    assert staleness(model, model, loss, ROWS) == 0.0


def test_a_class_that_the_older_model_does_not_know_counts_as_changed() -> None:
    new = FunctionPredictor(lambda rows: np.tile([0.0, 0.0, 1.0], (len(rows), 1)), 4, classes=("a", "b", "c"))
    old = FunctionPredictor(lambda rows: np.tile([1.0, 0.0], (len(rows), 1)), 4, classes=("b", "a"))
    assert staleness(new, old, "zero_one", ROWS) == 2.0
    assert staleness(new, old, "brier", ROWS) == 2.0


def test_regression_is_measured_against_the_spread_of_its_predictions() -> None:
    small, large = line(np.ones(4)), line(np.full(4, 1000.0))
    assert scale(large, ROWS) == pytest.approx(1000.0 * scale(small, ROWS))
    assert scale(voter(np.ones(4)), ROWS) == 1.0
    assert scale(line(np.zeros(4)), ROWS) == 0.0


def test_nothing_to_measure_on_is_none() -> None:
    model = line(np.ones(4))
    assert staleness(model, model, "squared", np.empty((0, 4))) is None
    broken = FunctionPredictor(lambda rows: np.full(len(rows), np.nan), 4)
    assert staleness(broken, model, "squared", ROWS) is None


@given(st.lists(st.none() | st.floats(0, 10), min_size=1, max_size=60), st.integers(1, 64), st.integers(1, 200))
@examples(200)
def test_the_next_snapshot_is_after_this_one_and_no_later_than_announced(
    changes: list[float | None], doubling: int, cadence: int
) -> None:
    schedule = Schedule(doubling=doubling, cadence=cadence, target=0.1, shortest=20, longest=80)
    learned = before = 0
    for change in changes:
        due = schedule.after(learned, change, learned - before)
        assert learned < due <= schedule.latest(learned)
        before, learned = learned, due


def test_intervals_shrink_when_the_model_changes_and_grow_when_it_rests() -> None:
    schedule = Schedule(target=0.1, shortest=100)
    assert schedule.after(2_000, 0.5, 500) == 2_100
    assert schedule.after(2_000, 0.0, 200) == 2_400
    assert schedule.after(2_000, 0.0, 900) == 3_000
    assert schedule.after(2_000, None, 300) == 2_500
