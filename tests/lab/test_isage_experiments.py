"""Streams of known concepts, and the experiments of the iSAGE paper."""

from itertools import pairwise

import numpy as np
import pytest

from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream_lab.papers.experiment import Request
from glasstream_lab.papers.ipfi_laws import Sum
from glasstream_lab.papers.ipfi_truth import LabellingFunction
from glasstream_lab.papers.isage_conditional import EXACT, Conditional
from glasstream_lab.papers.isage_mdi import BLOCK, EVERY, Mdi, in_common
from glasstream_lab.papers.isage_mdi import compare as compare_with_mdi
from glasstream_lab.papers.isage_static import Static, compare, explained
from glasstream_lab.papers.isage_truth import INNER, LOSS, RESERVOIR, Truth, _held, _incremental, _known, errors
from glasstream_lab.papers.registry import experiment
from glasstream_lab.papers.streams import HYPERPLANES, generated, switches, switching


def test_switches_go_to_every_other_concept_as_often_as_asked() -> None:
    concept = switches(4, 200_000, 0.02, seed=3)
    before, after = concept[:-1][np.diff(concept) != 0], concept[1:][np.diff(concept) != 0]
    assert len(before) == pytest.approx(4_000, rel=0.05)
    counts = np.zeros((4, 4))
    np.add.at(counts, (before, after), 1)
    assert np.all(counts.diagonal() == 0)
    assert counts[~np.eye(4, dtype=bool)] == pytest.approx(4_000 / 12, rel=0.2)


def test_a_switching_stream_takes_each_event_from_its_concept() -> None:
    sources = [(np.full((50, 2), float(k)) + np.arange(50)[:, None] / 100, np.full(50, k)) for k in range(3)]
    stream = switching(sources, switches(3, 50, 0.2, seed=1))
    assert np.array_equal(stream.targets, stream.concept)
    assert np.array_equal(np.floor(stream.rows[:, 0]), stream.concept) and np.all(np.diff(stream.rows[:, 0] % 1) > 0)
    segments = stream.segments()
    assert [own.start for _, own in segments[1:]] == [own.stop for _, own in segments[:-1]]
    assert segments[0][1].start == 0 and segments[-1][1].stop == 50 and len(segments) > 3
    assert all(np.all(stream.concept[own] == concept) for concept, own in segments)
    assert all(one != other for (one, _), (other, _) in pairwise(segments))


def test_the_hyperplane_turns_around_the_effect_of_both_features() -> None:
    for plane, signs in zip(HYPERPLANES, ((1, -1), (-1, 1)), strict=True):
        rows, classes = plane.events(20_000, seed=1)
        assert rows.mean(axis=0) == pytest.approx(plane.means, rel=0.01)
        apart = rows[classes == 1].mean(axis=0) - rows[classes == 0].mean(axis=0)
        assert 0.4 < classes.mean() < 0.7 and np.array_equal(np.sign(apart), signs)


def test_window_values_hold_until_the_next_window() -> None:
    held = _held([np.array([1.0]), np.array([2.0])], 3, 4, 8)[:, 0]
    assert np.isnan(held[:3]).all() and held[3:].tolist() == [1.0, 1.0, 1.0, 2.0, 2.0]


def test_the_measures_are_sums_over_features_and_means_over_events() -> None:
    truth = np.array([[4.0, 3.0, 2.0, 1.0], [4.0, 3.0, 2.0, 1.0]])
    found = truth + np.array([[1.0, 0.0, 0.0, 0.0], [0.0, 0.0, -2.0, 0.0]])
    assert errors(found, truth) == {"MAE": 1.5, "MSE": 2.5, "P@3": pytest.approx(5 / 6)}


def test_values_along_a_stream_are_those_of_the_estimator() -> None:
    known = _known(1, 600, 50, 400)
    stream = switching(known.sources, switches(6, 400, 0.01, seed=2))
    found = _incremental(known.predictors, stream, 99, seed=5)
    sage = IncrementalSAGE(loss=LOSS, alpha=0.02, inner=INNER, reservoir=RESERVOIR, corrected=False, seed=5)
    for number, (concept, row, target) in enumerate(zip(stream.concept, stream.rows, stream.targets, strict=True)):
        sage.explain_block(known.predictors[concept], row[None], np.array([float(target)]))
        if number in (RESERVOIR, 399):
            assert found[number] == pytest.approx(sage.aggregator.smoothing.value)
    assert np.isnan(found[:RESERVOIR]).all() and np.isfinite(found[RESERVOIR:]).all()


@pytest.mark.slow
def test_isage_follows_switches_better_than_window_sage_of_equal_cost() -> None:
    task = {"scenario": "high", "seed": 3, "windows": [200], "rows": 400, "events": 4_000, "trained": 2_000}
    result = Truth().work(None, task)
    assert result["switches"] >= 1 and len(result["truth"]) == 40
    assert result["MAE iSAGE 200"] < result["MAE SW 1 200"] and result["ratio 200"] < 1.0
    assert result["MAE iSAGE 200"] < 0.5 and result["P@3 iSAGE 200"] > 0.5
    assert not Truth().rows([(task, result)])  # the paper has no window of 200 events


@pytest.mark.parametrize("name", ["ipfi-laws", "isage-bounds", pytest.param("ipdp-law", marks=pytest.mark.slow)])
def test_the_laws_hold_in_the_quick_form(name: str) -> None:
    one = experiment(name)
    results = [(task, one.work(None, task)) for task in one.tasks(Request(None, one.quick_repetitions, quick=True))]
    rows = one.rows(results)
    assert len(rows) >= 16
    assert not [row for row in rows if row.excess > 4.0]


def test_isage_agrees_with_batch_sage_on_average() -> None:
    draws = np.random.Generator(np.random.PCG64(1))
    rows = draws.normal(size=(4_000, 2)) * (1.0, 2.0)
    one = explained(Sum(), "squared", rows, rows.sum(axis=1) + draws.normal(size=4_000))
    results = [({"data": "bike_hourly"}, compare(one, "squared", seed)) for seed in range(8)]
    shown = Static().rows(results)
    assert [row.number for row in shown[:3]] == [f"bike_hourly, {name}, alpha 0.001" for name in ("x_2", "x_1", "sum")]
    assert all(row.excess < 4.0 for row in shown) and shown[2].paper == pytest.approx(5.0, rel=0.1)
    wrong = [({"data": "bike_hourly"}, result | {"batch": [0.0, 5.0]}) for _, result in results]
    assert max(row.excess for row in Static().rows(wrong)) > 4.0


def test_conditional_removal_takes_importance_from_a_feature_that_another_one_decides() -> None:
    task = {"data": "agrawal", "events": 2_000, "seed": 1}
    result = Conditional().work(None, task)
    marginal, conditional = result["marginal"], result["conditional"]
    assert sum(marginal.values()) == pytest.approx(1.0) and sum(conditional.values()) == pytest.approx(1.0)
    assert conditional["commission"] < 0.6 * marginal["commission"]
    rows = Conditional().rows([(task, result), (task, result)])
    compared = [row for row in rows if row.paper is not None]
    assert [row.number for row in compared] == ["agrawal, share of commission, conditional"]
    assert compared[0].ours == conditional["commission"]


def test_all_methods_find_the_feature_that_a_tree_relies_on() -> None:
    names, rows, targets = generated("agrawal", 0, 2 * EVERY, 3)  # the class depends on the age
    result = compare_with_mdi(names, rows, targets.astype(float), seed=1)
    assert EVERY % BLOCK == 0 and {len(lines) for lines in result["lines"].values()} == {2}
    for lines in result["lines"].values():
        assert np.argmax(lines[-1]) == names.index("age")
    assert all(row.paper == 2 and row.ours >= 1 for row in Mdi().rows([({}, result), ({}, result)]))
    other = np.array([1.0, 2.0, 3.0])
    assert in_common(other, -other) == 1


def test_the_exact_conditional_share_of_commission_is_not_zero() -> None:
    """The Brier score explained by a set of features is twice the variance of the label's probability given them."""
    names, salaries = ("age", "salary"), np.arange(20_000.0, 150_000.0, 50.0) + 25.0
    bands = LabellingFunction(names)
    labels = np.array(
        [bands.evaluate(np.column_stack((np.full(len(salaries), age), salaries))).labels for age in (30.0, 50.0, 70.0)]
    )
    paid = salaries < 75_000.0  # with a commission; its amount tells nothing more

    def explained(age: bool, salary: bool, commission: bool) -> float:
        given = labels if age else np.broadcast_to(labels.mean(axis=0), labels.shape)
        if not salary:
            parts = [paid, ~paid] if commission else [np.ones(len(paid), bool)]
            given = sum(np.outer(given[:, part].mean(axis=1), part) for part in parts)
        return float(np.var(given))

    alone = explained(age=False, salary=False, commission=True)
    with_age = explained(age=True, salary=False, commission=True) - explained(age=True, salary=False, commission=False)
    assert explained(age=False, salary=True, commission=True) == explained(age=False, salary=True, commission=False)
    whole = explained(age=True, salary=True, commission=True)
    assert (alone / 3 + with_age / 6) / whole == pytest.approx(EXACT, abs=0.0005)
