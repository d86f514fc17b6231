"""Baselines beside a model: equal to a slow count over the same events, in any window."""

from collections import Counter
from statistics import fmean

import numpy as np
import pytest

from glasstream.consume.baselines import Baselines, Standing

Pairs = list[tuple[str | float | None, str | float | None]]


def slow(pairs: Pairs, recent: int | None) -> Standing | None:
    """Return the standing from its definition, over a list of all events."""
    labelled = [(prediction, target) for prediction, target in pairs if target is not None]
    rows = [
        (place, prediction, target)
        for place, (prediction, target) in enumerate(labelled)
        if place > 0 and prediction is not None
    ][-(recent or len(pairs)) :]
    if not rows:
        return None
    targets = [target for _, target in labelled]
    if isinstance(rows[0][2], str):
        counts = Counter(str(target) for _, _, target in rows)
        name = max(counts, key=lambda name: (counts[name], name))
        right = fmean(prediction == target for _, prediction, target in rows)
        same = fmean(targets[place - 1] == target for place, _, target in rows)
        return Standing(len(rows), right, counts[name] / len(rows), same, name)
    error = fmean(abs(prediction - target) for _, prediction, target in rows)
    mean = fmean(abs(fmean(targets[:place]) - target) for place, _, target in rows)
    before = fmean(abs(targets[place - 1] - target) for place, _, target in rows)
    return Standing(len(rows), error, mean, before, None)


@pytest.mark.parametrize("recent", [None, 1, 7, 1_000])
@pytest.mark.parametrize("numbers", [False, True])
def test_the_standing_is_that_of_a_slow_count(recent: int | None, numbers: bool) -> None:
    draws = np.random.Generator(np.random.PCG64(3))

    def one() -> str | float | None:
        value = int(draws.integers(5))
        return None if value == 0 else value * 1.5 if numbers else "abcd"[value - 1]

    pairs: Pairs = [(one(), one()) for _ in range(300)]
    baselines = Baselines(recent)
    for count, pair in enumerate(pairs, 1):
        baselines.add(*pair)
        expected, found = slow(pairs[:count], recent), baselines.standing()
        assert (found is None) is (expected is None)
        if found is not None and expected is not None:
            assert (found.events, found.most_frequent) == (expected.events, expected.most_frequent)
            shown = found.model, found.constant, found.no_change
            assert shown == pytest.approx((expected.model, expected.constant, expected.no_change))


@pytest.mark.parametrize("unit", [1.0, 1e60])
def test_a_large_number_that_has_left_the_window_leaves_no_trace(unit: float) -> None:
    baselines = Baselines(2)
    for number in (1e300, -1e300, unit, unit, unit, unit):
        baselines.add(0.0, number)
    standing = baselines.standing()
    assert standing is not None and (standing.model, standing.no_change) == (unit, 0.0)


def test_a_model_beats_the_baselines_only_if_it_is_better_than_both() -> None:
    assert not Standing(10, 0.9, 0.9, 0.1, "no").beaten and Standing(10, 0.91, 0.9, 0.1, "no").beaten
    assert not Standing(10, 0.5, 0.9, 0.4, None).beaten and Standing(10, 0.3, 0.9, 0.4, None).beaten
