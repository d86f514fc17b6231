"""What incidents advise: the table in the documents, and how much of a rise is recovered."""

import numpy as np
import pytest

from glasstream.detect.incidents.advice import advise, of_model
from glasstream.detect.incidents.losses import RUN, WINDOW, Losses
from glasstream.detect.incidents.series import Name
from glasstream.detect.incidents.verdict import Judgement, Rule
from glasstream.detect.incidents.watch import IncidentWatch
from glasstream_topics.incidents import ACTIONS, Affected
from tests.support.incident_streams import Change, changed, data_moved, model_replaced, scaled


def judgement(verdict: str, *features: Affected, worse: bool = True, rule: Rule = "unknown") -> Judgement:
    moved = [Name("loss", 0)] if worse else [Name("input", 0)]
    return Judgement(verdict, 0.9, [], list(features), [], moved, [0.0], rule)


BROKEN, MOVED = Affected("a", "constant"), Affected("b", "shifted")


@pytest.mark.parametrize(
    ("of", "status", "recovered", "labelled", "learns", "rows", "action"),
    [
        (judgement("data_moved", MOVED, worse=False), "normal", None, True, False, 2_100, "retrain"),
        (judgement("data_moved", MOVED, worse=False), "open", None, True, False, 150, "none"),
        (judgement("data_moved", MOVED, worse=False), "normal", None, True, True, 2_100, "none"),
        (judgement("feature_broken", BROKEN, MOVED), "open", None, True, True, 150, "fix_input"),
        (judgement("feature_broken", BROKEN), "open", None, False, True, 150, "fix_input"),
        (judgement("feature_broken", BROKEN), "over", None, True, True, 900, "none"),
        (judgement("concept_moved", Affected("a", None)), "open", None, True, True, 150, "fix_input"),
        (judgement("data_moved", MOVED, worse=False), "open", None, True, True, 150, "none"),
        (judgement("data_moved", MOVED, worse=False), "open", None, False, True, 150, "wait"),
        (judgement("data_moved", MOVED), "normal", 0.1, True, True, 2_100, "wait"),
        (judgement("labels_shifted", rule="same"), "normal", 0.1, True, False, 2_100, "none"),
        (judgement("concept_moved"), "open", 0.1, True, True, 150, "wait"),
        (judgement("concept_moved"), "normal", 0.6, True, True, 2_100, "wait"),
        (judgement("concept_moved"), "normal", 0.4, True, True, 2_100, "reset"),
        (judgement("concept_moved"), "normal", None, True, True, 2_100, "reset"),
        (judgement("concept_moved"), "open", None, True, False, 150, "retrain"),
        (judgement("model_replaced"), "normal", 0.4, True, True, 2_100, "retrain"),
        (judgement("model_replaced"), "over", 1.0, True, True, 2_100, "none"),
    ],
)
def test_the_table(
    of: Judgement, status: str, recovered: float | None, labelled: bool, learns: bool, rows: int, action: str
) -> None:
    advice = advise(of, status, recovered, (0.1, 0.2), labelled=labelled, learns=learns, rows=rows)
    assert (advice.action, advice.recovered) == (action, recovered)
    assert advice.features == (["a"] if action == "fix_input" else [])
    assert advice.action in ACTIONS


@pytest.mark.parametrize("losses", [(0.1, 0.109), (None, 0.2), (0.1, None)])
def test_a_loss_that_is_hardly_higher_needs_no_other_model(losses: tuple[float | None, float | None]) -> None:
    moved = judgement("data_moved", MOVED, worse=False)
    assert advise(moved, "normal", None, losses, labelled=True, learns=False, rows=2_100).action == "none"


def test_a_pushed_model_that_is_worse_is_to_be_replaced() -> None:
    means = ((0.1, 0.2), (0.1, 0.101), (0.2, 0.1), (0.1, None))
    assert [of_model(one).action for one in means] == ["retrain", "none", "none", "wait"]


@pytest.mark.parametrize("seed", range(5))
def test_what_is_recovered_is_the_fall_from_the_worst_window(seed: int) -> None:
    draws = np.random.default_rng(seed)
    row, losses = int(draws.integers(100, 400)), draws.random(2_000)
    losses[400:900] += 1.0
    kept = Losses()
    kept.add(0, losses)
    first = -(-row // RUN) * RUN
    means = [losses[begin : begin + WINDOW * RUN].mean() for begin in range(first, len(losses) - WINDOW * RUN + 1, RUN)]
    expected = (max(means) - means[-1]) / (max(means) - 0.2)
    assert kept.recovered(row, 0.2) == pytest.approx(expected)
    assert kept.recovered(row, 2.0) is kept.recovered(row, None) is kept.recovered(1_990, 0.2) is None


def test_nothing_is_recovered_of_a_rise_that_lasts() -> None:
    found = []
    for seed in range(40):
        kept = Losses()
        kept.add(0, np.random.default_rng(seed).normal(1.3, 1.0, 2_200))
        found.append(kept.recovered(0, 1.0))
    assert found.count(None) >= 36


@pytest.mark.parametrize(
    ("change", "action"), [(scaled, "fix_input"), (data_moved, "none"), (model_replaced, "retrain")]
)
def test_each_incident_has_an_advice(change: Change, action: str) -> None:
    found = list(IncidentWatch("s", 0, 7, 0.5).update(changed(change, 1).rows()))
    assert found[0].advice is not None and found[0].advice.action == action


def test_a_model_that_does_not_learn_is_to_be_replaced() -> None:
    found = list(IncidentWatch("s", 0, 7, 0.5, learns=False).update(changed(model_replaced, 1).rows()))
    assert found[0].advice is not None and found[0].advice.action == "retrain"
