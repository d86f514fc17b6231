"""Baselines beside a model: equal to a slow count over the same events, in any window."""

from collections import Counter
from math import log
from statistics import fmean

import numpy as np
import pytest
from river import metrics

from glasstream.detect.baselines import ROLLING, Baselines, CompactBaselines, Standing

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
    every = [Baselines(recent)] if recent is None else [Baselines(recent), CompactBaselines(recent)]
    for count, pair in enumerate(pairs, 1):
        expected = slow(pairs[:count], recent)
        for baselines in every:
            baselines.add(*pair)
            found = baselines.standing()
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


def drawn(count: int, classes: str, seed: int = 5) -> list[tuple[str, str, dict[str, float]]]:
    """Predictions, labels and probabilities, many of them equal; the first class is frequent."""
    draws = np.random.Generator(np.random.PCG64(seed))
    events = []
    for _ in range(count):
        shares = draws.integers(1, 6, len(classes)) * np.linspace(3, 1, len(classes))
        probabilities = dict(zip(classes, (shares / shares.sum()).round(2).tolist(), strict=True))
        target = classes[min(int(draws.exponential()), len(classes) - 1)]
        events.append((max(probabilities, key=lambda name: probabilities[name]), target, probabilities))
    return events


@pytest.mark.parametrize("recent", [None, 50])
def test_numbers_of_two_classes_are_those_of_river(recent: int | None) -> None:
    """River has the ROC AUC of a window, exact as long as no two scores are equal, balanced accuracy and log loss."""
    events = [
        (prediction, target, {"a": shares["a"] - place * 1e-9, "b": shares["b"] + place * 1e-9})
        for place, (prediction, target, shares) in enumerate(drawn(ROLLING + 200, "ab"))
    ]
    baselines = Baselines(recent)
    auc = metrics.RollingROCAUC(window_size=recent or ROLLING, pos_val=True)
    for place, (prediction, target, probabilities) in enumerate(events):
        baselines.add(prediction, target, probabilities)
        if place:
            auc.update(target == "b", probabilities["b"])
        if place in (30, 49, 50, 51, 400, len(events) - 1):
            standing = baselines.standing()
            assert standing is not None and standing.roc_auc == pytest.approx(auc.get(), abs=1e-12)
            window = events[1 : place + 1][-(recent or place) :]
            balanced, log_loss = metrics.BalancedAccuracy(), metrics.LogLoss()
            for said, right, shares in window:
                balanced.update(right, said)
                log_loss.update(right == "b", shares["b"])
            assert (standing.balanced, standing.log_loss) == pytest.approx((balanced.get(), log_loss.get()))
            assert standing.log_loss_events == len(window)


def test_equal_scores_count_half_in_the_area_under_the_curve() -> None:
    events = drawn(400, "ab")
    baselines = Baselines()
    for event in events:
        baselines.add(*event)
    scores = [[shares["b"] for _, target, shares in events[1:] if target == name] for name in "ab"]
    pairs = [float(high > low) + 0.5 * (high == low) for low in scores[0] for high in scores[1]]
    standing = baselines.standing()
    assert 0.5 in pairs and standing is not None and standing.roc_auc == pytest.approx(fmean(pairs), abs=1e-12)


def test_kappas_are_0_for_their_baseline_and_1_for_no_error() -> None:
    labels = [target for _, target, _ in drawn(300, "abc")]
    frequent = max(set(labels[1:]), key=labels[1:].count)
    forecasts = {
        "frequent": [frequent] * 300,
        "previous": ["a", *labels[:-1]],
        "right": labels,
    }
    standings = {}
    for name, predictions in forecasts.items():
        baselines = Baselines()
        for prediction, target in zip(predictions, labels, strict=True):
            baselines.add(prediction, target)
        standings[name] = baselines.standing()
    assert standings["frequent"].kappa_m == 0.0 and standings["frequent"].balanced == pytest.approx(1 / 3)
    assert standings["previous"].kappa_temporal == 0.0
    assert (standings["right"].kappa_m, standings["right"].kappa_temporal, standings["right"].balanced) == (1, 1, 1)
    one = Baselines()
    for _ in range(3):
        one.add("a", "a")
    alone = one.standing()
    assert alone is not None and alone.kappa_m is None and alone.kappa_temporal is None


def test_probabilities_that_a_record_does_not_name_are_left_out_and_counted() -> None:
    baselines = Baselines()
    for probabilities, cut in (({"a": 1.0}, True), ({"a": 0.5}, True), ({"b": 0.25}, True), ({"b": 0.25}, True)):
        baselines.add("a", "a", probabilities, cut=cut)
    standing = baselines.standing()
    assert standing is not None and (standing.events, standing.log_loss_events) == (3, 1)
    assert standing.log_loss == pytest.approx(-log(0.5))
    baselines.add("a", "new", {"a": 1.0})  # a class that the model did not know
    standing = baselines.standing()
    assert standing is not None and standing.log_loss == pytest.approx((-log(0.5) - log(1e-15)) / 2)


def test_three_classes_or_one_have_no_area_under_the_curve() -> None:
    for classes in ("abc", "a"):
        baselines = Baselines()
        for prediction, target, probabilities in drawn(50, classes):
            baselines.add(prediction, target, probabilities)
        standing = baselines.standing()
        assert standing is not None and standing.roc_auc is None and standing.log_loss is not None
