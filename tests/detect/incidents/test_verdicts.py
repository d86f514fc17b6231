"""A known change gets its verdict, its features, and its onset. A stream without a change gets no incident."""

import numpy as np
import pytest

from glasstream.detect.incidents.watch import IncidentWatch, Rows
from tests.support.incident_streams import (
    AT,
    Change,
    Stream,
    alive,
    changed,
    concept_moved,
    constant,
    data_moved,
    labels_shifted,
    missing,
    model_replaced,
    reasoning_moved,
    scaled,
    swapped,
    time_of,
    watched,
)

FIRST = 100 + AT
"""Row of the change."""

CASES = [
    (swapped, "feature_broken", {"a": "swapped", "b": "swapped"}, "a and b arrive swapped since row 3,"),
    (scaled, "feature_broken", {"b": "scaled"}, "b is multiplied by about 1"),
    (missing, "feature_broken", {"a": "missing"}, "a is often missing since row 3,"),
    (constant, "feature_broken", {"b": "constant"}, "b has only one value since row 3,"),
    (alive, "feature_alive", {"still": "alive"}, "still came alive since row 3,"),
    (data_moved, "data_moved", {"b": "shifted", "colour": "shifted"}, "moved since row 3,"),
    (concept_moved, "concept_moved", {}, "the labels follow another rule, or a is broken, since row 3,"),
    (labels_shifted, "labels_shifted", {"a": "shifted"}, "the shares of the labels changed since row 3,"),
    (
        model_replaced,
        "model_replaced",
        {},
        "the model got worse, or the labels changed in a way that no single feature shows, since row 3,",
    ),
    (reasoning_moved, "reasoning_moved", {"a": None, "b": None}, "the model relies differently on a and b"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("change", "verdict", "faults", "sentence"), CASES, ids=lambda case: getattr(case, "__name__", "")
)
def test_a_change_has_one_incident(
    change: Change, verdict: str, faults: dict[str, str | None], sentence: str, seed: int
) -> None:
    incidents = watched(changed(change, seed))
    assert {one.incident for one in incidents} == {1}
    last = [one for one in incidents if one.status == "open"][-1]
    assert last.verdict == verdict, last
    named = {one.feature: one.fault for one in last.features}
    assert faults.items() <= named.items()
    assert sentence in last.summary
    assert last.onset.earliest - 10 <= FIRST <= last.onset.latest + 10  # nine of ten intervals hold the row
    assert abs(last.onset.row - FIRST) < 60 or change is reasoning_moved
    assert incidents[0].row >= FIRST
    assert (last.onset.seq, last.onset.ts) == (last.onset.row, time_of(last.onset.row))
    assert ("UTC" in last.summary) == (last.onset.ts is not None)


@pytest.mark.parametrize("seed", range(3))
def test_a_swap_names_the_partner_and_a_scale_its_factor(seed: int) -> None:
    (swap, *_), (scale, *_) = (watched(changed(change, seed)) for change in (swapped, scaled))
    assert {one.feature: one.other for one in swap.features} == {"a": "b", "b": "a"}
    (b,) = scale.features
    assert b.factor is not None and b.factor_low is not None and b.factor_high is not None
    assert b.factor_low < 1_000.0 < b.factor_high < 4.0 * b.factor_low


@pytest.mark.parametrize("seed", range(20))
def test_no_change_has_no_incident(seed: int) -> None:
    assert watched(Stream(seed, 10_000)) == []


@pytest.mark.parametrize("budget", [1_000.0, 1e5, 1e300])
def test_a_budget_of_any_size_has_incidents_with_an_onset(budget: float) -> None:
    for one in watched(changed(swapped, 1), budget=budget):
        assert one.onset.earliest <= one.onset.row <= one.onset.latest <= one.row


@pytest.mark.parametrize("lasts", [300, 700])
def test_a_model_that_recovers_by_itself_has_no_incident(lasts: int) -> None:
    stream = Stream(1, 8_000)
    stream.loss[AT : AT + lasts] = np.where(stream.draws.random(lasts) < 0.6, 0.8, 0.1)
    assert watched(stream) == []


def test_a_model_that_is_as_bad_as_it_has_been_before_has_no_incident() -> None:
    """Its loss rises for good, but not beyond what 600 rows of it had on average after it had settled."""
    stream = Stream(1, 12_000)
    for at in (AT, AT + 4_000):
        stream.loss[at : at + 700] = np.where(stream.draws.random(700) < 0.6, 0.8, 0.1)
    stream.loss[11_000:] = np.where(stream.draws.random(1_000) < 0.4, 0.8, 0.1)
    assert watched(stream) == []


def test_a_model_that_gets_as_bad_as_it_was_when_it_began_has_an_incident() -> None:
    stream = Stream(1, 9_000)
    stream.loss[:1_200] = np.where(stream.draws.random(1_200) < 0.8, 0.8, 0.1)
    stream.loss[6_000:] = np.where(stream.draws.random(3_000) < 0.4, 0.8, 0.1)
    assert watched(stream)[0].verdict == "model_replaced"


def test_an_input_that_breaks_while_the_model_is_worse_is_found_at_once() -> None:
    stream = Stream(1, 8_000)
    stream.loss[AT:] = np.where(stream.draws.random(8_000 - AT) < 0.6, 0.8, 0.1)
    stream.inputs[AT + 500 :, 1] *= 1_000.0
    first, *_ = watched(stream)
    assert first.verdict == "feature_broken"
    assert abs(first.onset.row - FIRST - 500) < 60 and first.row < FIRST + 1_000


def test_an_incident_is_over_when_all_is_as_before() -> None:
    stream = Stream(1)
    stream.inputs[AT : AT + 700, 1] = 2.0
    *_, last = watched(stream)
    assert (last.status, last.verdict) == ("over", "feature_broken")


def test_a_change_that_lasts_becomes_normal_and_the_next_one_is_seen_against_it() -> None:
    stream = Stream(1, 9_000)
    stream.inputs[AT:, 1] += 20.0
    stream.inputs[7_000:, 1] -= 20.0
    incidents = watched(stream)
    assert [(one.incident, one.status) for one in incidents if one.status != "open"] == [(1, "normal")]
    assert [one.verdict for one in incidents if one.incident == 2] == ["data_moved"]
    second = next(one for one in incidents if one.incident == 2)
    assert abs(second.onset.row - 7_100) < 60


def test_the_rule_of_the_labels_that_became_normal_is_the_one_to_compare_with() -> None:
    stream = Stream(1, 9_000)
    stream.target[AT:] = 1.0 - stream.target[AT:]
    stream.loss[AT : AT + 1_000] = 0.9
    stream.loss[7_000:] = np.where(stream.draws.random(2_000) < 0.5, 0.8, 0.1)
    verdicts = {one.incident: one.verdict for one in watched(stream)}
    assert verdicts == {1: "concept_moved", 2: "model_replaced"}


def test_a_feature_that_moves_again_and_again_opens_no_third_incident() -> None:
    stream = Stream(1, 20_000)
    for at in range(AT, 20_000, 4_000):
        stream.inputs[at:, 1] += 30.0
    assert {one.incident for one in watched(stream)} == {1, 2}


def test_a_model_that_learns_raises_no_alarm() -> None:
    stream = Stream(2, 10_000)
    learning = 1.0 / (1.0 + stream.draws.random(10_000) * 0.1)
    stream.loss *= 1.0 + 2.0 * learning * (1.0 - (stream.rows().seqs / 10_100.0))
    stream.importance[:, 0] *= stream.rows().seqs / 10_100.0
    assert watched(stream) == []


def test_a_feature_that_was_always_missing_comes_alive() -> None:
    stream = Stream(1)
    stream.inputs[:AT, 4] = np.nan
    first, *_ = watched(stream)
    assert (first.verdict, [one.feature for one in first.features]) == ("feature_alive", ["still"])


def test_many_features_that_move_together_are_one_incident() -> None:
    draws = np.random.default_rng(1)
    inputs = draws.normal(size=(9_000, 60))
    inputs[AT:] += 2.0
    rows = Rows(
        0, np.arange(9_000), [], [f"f{j}" for j in range(60)], [0] * 60, inputs, draws.random(9_000), [],
        draws.random(9_000), "squared", None,
    )  # fmt: skip
    incidents = list(IncidentWatch("s", 0, 7, 0.5).update(rows))
    assert [(one.incident, one.status, one.verdict) for one in incidents] == [
        (1, "open", "data_moved"),
        (1, "normal", "data_moved"),
    ]
    assert len(incidents[0].evidence) == 20


@pytest.mark.parametrize("unit", [1e-300, 1e-30, 1e200])
def test_values_of_any_size_have_a_verdict(unit: float) -> None:
    stream = Stream(1)
    stream.inputs[:, 1] *= unit
    stream.inputs[AT:, 1] *= 1e90
    assert watched(stream)[0].verdict == "feature_broken"


def test_an_outlier_hides_no_rise_of_the_loss_and_makes_no_rule() -> None:
    stream = changed(model_replaced, 1)
    stream.loss[1_000] = 1e6
    stream.target = stream.inputs[:, 2] + stream.draws.normal(size=len(stream.target))
    stream.target[1_100] = 1e9
    rows = stream.rows()._replace(classes=[])
    first = next(IncidentWatch("s", 0, 7, 0.5).update(rows))
    assert first.verdict == "model_replaced" and FIRST < first.row < FIRST + 1_400


def test_inputs_that_move_with_another_rule_of_the_labels_are_not_said_to_hold() -> None:
    stream = changed(data_moved, 1)
    stream.target[AT:] = 1.0 - stream.target[AT:]
    stream.loss[AT:] = 0.9
    last = [one for one in watched(stream) if one.status == "open"][-1]
    assert last.verdict == "unclear"
    assert "concept_moved" in {one.verdict for one in last.alternatives}
    assert "whether the labels follow another rule is not known yet" in last.summary


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_a_region_that_change_without_a_loss_are_another_concept(seed: int) -> None:
    """The shares of the labels change, too. But shares alone would change the labels of all values alike."""
    stream = Stream(seed)
    stream.target[AT:][stream.inputs[AT:, 0] > 0.3] = 0.0
    last = [one for one in watched(stream) if one.status == "open"][-1]
    assert last.verdict == "concept_moved"


@pytest.mark.parametrize("seed", range(3))
def test_labels_that_become_rarer_whatever_the_inputs_are_no_other_concept(seed: int) -> None:
    """The loss rises as much as these labels cost before."""
    stream = Stream(seed)
    stream.target = (stream.draws.random(len(stream.target)) < 0.3).astype(float)
    stream.target[AT:] = (stream.draws.random(len(stream.target) - AT) < 0.6).astype(float)
    stream.loss = np.where(stream.target == 1.0, 0.8, 0.1) + 0.02 * stream.draws.random(len(stream.loss))
    last = [one for one in watched(stream) if one.status == "open"][-1]
    assert last.verdict == "labels_shifted" and last.loss_after > last.loss_before + 0.1


def test_a_regression_has_incidents() -> None:
    stream = changed(swapped, 1)
    stream.target = 10.0 * stream.inputs[:, 2] + stream.draws.normal(size=len(stream.target))
    stream.loss = stream.draws.exponential(1e6, size=len(stream.loss))
    incidents = watched(stream)
    assert [one.verdict for one in incidents if one.status == "open"] == ["feature_broken"]
