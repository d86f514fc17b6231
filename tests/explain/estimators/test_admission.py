"""Estimators accept, refuse and leave out what the pipeline accepts, refuses and leaves out, with the same messages."""

import json
import math
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import dummy, linear_model, naive_bayes, tree

from glasstream import IncrementalPDP, IncrementalPFI, IncrementalSAGE
from glasstream.base.errors import ModelError
from glasstream.events.admission import Admission, Task
from glasstream.events.decode import decode
from glasstream.events.features import FeatureTable
from glasstream.events.limits import IngestLimits
from glasstream.explain.estimators.live_model import LiveModel
from tests.support.examples import examples

LIMITS = IngestLimits(features=4, categories=3, text=12, classes=3, label_bytes=8)
HUGE = 10**400
NUMBERS = (0, -1, 3, 2.5, -0.0, 1e60, 1.01e60, -1e300, 2**63, 2**64, 10**59, 10**61, HUGE, -HUGE, math.nan, math.inf)
TEXTS = ("", "red", "blue", "ü", "\x00", "a text that is too long", "UP", "1", "true", "\U0001f600")
names = st.sampled_from(("a", "b", "c", "d", "e", "f", "", "ü", "a name that is too long"))
values = st.one_of(
    st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.booleans(), st.none(), st.sampled_from(([], [1], {}, {"a": 1}))
)
events = st.lists(st.tuples(st.dictionaries(names, values, max_size=5), values), max_size=40)


class Pipeline:
    """What the learner does with an event before a model sees it."""

    def __init__(self, task: Task) -> None:
        self.admission = Admission(task, limits=LIMITS)
        self.table = FeatureTable(LIMITS)
        self.remarks: list[str] = []

    def judge(self, x: Any, y: Any) -> tuple[str, Any]:
        decoded = decode(message(x, y), LIMITS.message_bytes)
        if decoded.rejected:
            return "refused", decoded.rejected[0].detail
        ((_, event),) = decoded.events
        accepted = self.admission.admit(event)
        if isinstance(accepted, tuple):
            return "refused", accepted[1]
        if accepted.target is None:
            return "unlabelled", None
        row, _ = self.table.encode(event.x)
        self.remarks += self.table.remarks
        self.table.remarks.clear()
        return "accepted", ([*map(repr, map(float, row))], accepted.target)


def message(x: Any, y: Any) -> bytes:
    """Return an event as JSON. NaN stands for a missing value there, which JSON calls null."""
    text = json.dumps({"x": _absent(x), "y": _absent(y)})
    return text.encode()


def _absent(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _absent(one) for name, one in value.items()}
    return None if isinstance(value, float) and math.isnan(value) else value


def judged(live: LiveModel, x: Any, y: Any, remarks: list[str]) -> tuple[str, Any]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            row, target = live.event(x, y)
        except ModelError as error:
            return ("unlabelled", None) if "labelled events only" in str(error) else ("refused", str(error))
    remarks += [str(one.message) for one in said]
    named = live.classes[int(target)] if live.classes else target
    return "accepted", ([*map(repr, row[0].tolist())], named)


@pytest.mark.parametrize("task", Task)
@given(stream=events)
@examples(200)
def test_estimators_judge_events_as_the_pipeline_does(task: Task, stream: list[tuple[dict[str, Any], Any]]) -> None:
    pipeline, remarks = Pipeline(task), list[str]()
    live = LiveModel(dummy.NoChangeClassifier(), task.value, limits=LIMITS)
    for x, y in stream:
        outcome = pipeline.judge(x, y)
        verdict = judged(live, x, y, remarks)
        if not any(isinstance(value, float) and math.isinf(value) for value in (*x.values(), y)):
            assert verdict == outcome
        else:  # JSON has no infinity, so the pipeline calls the message no JSON
            assert verdict[0] == outcome[0] == "refused"
    assert remarks == pipeline.remarks
    assert live.names == tuple(pipeline.table.names) and live.classes == tuple(pipeline.admission.classes)
    again = LiveModel(dummy.NoChangeClassifier(), task.value, limits=LIMITS)
    again.restore(json.loads(json.dumps(live.state())))
    for x, y in stream:
        assert judged(again, x, y, remarks) == judged(live, x, y, remarks)


@pytest.mark.parametrize("estimator", [IncrementalPFI, IncrementalSAGE, IncrementalPDP])
def test_a_missing_label_is_refused_and_changes_nothing(estimator: Any) -> None:
    model = tree.HoeffdingTreeClassifier()
    one, other = estimator(model, alpha=0.05), estimator(model, alpha=0.05)
    for number in range(200):
        x, y = {"a": float(number % 7)}, int(number % 7 > 3)
        if number in (10, 20):
            for missing in (math.nan, None, np.float64("nan")):
                if estimator is IncrementalPDP:  # its curves need no label
                    continue
                with pytest.raises(ModelError, match="labelled events only"):
                    one.explain_one(x, missing)
        assert one.explain_one(x, y) == other.explain_one(x, y)
        model.learn_one(x, y)
    assert one.live.classes == ("0", "1")


def test_effects_without_a_label_take_nan_for_a_missing_one() -> None:
    model = naive_bayes.GaussianNB()
    model.learn_one({"a": 1.0}, "x")
    for label in (None, math.nan):
        pdp = IncrementalPDP(model)
        pdp.explain_one({"a": 1.0}, label)
        assert pdp.live.classes == ("x",)


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        ({"a": HUGE}, 1, "expected numbers within ±1e\\+60, got a larger one in 'a'"),
        ({"a": math.inf}, 1, "expected numbers within ±1e\\+60, got a larger one in 'a'"),
        ({"a": 1}, HUGE, "an integer beyond it"),
        ({"a": 1}, math.inf, "a number within ±1e\\+60"),
        ({"a": 1}, True, "a number within"),
        ({}, 1, "at least one feature"),
        ([1], 1, "an object of features"),
        ({"a": "\ud800"}, 1, "in Unicode"),
        ({"\ud800": 1.0}, 1, "in Unicode"),
    ],
)
def test_what_no_event_can_be_is_refused(x: Any, y: Any, expected: str) -> None:
    pfi = IncrementalPFI(linear_model.LinearRegression())
    with pytest.raises(ModelError, match=expected):
        pfi.explain_one(x, y)
    assert pfi.rows == 0 and pfi.live is not None and pfi.live.names == ()


def test_features_beyond_the_limits_are_left_out_with_a_warning() -> None:
    model = linear_model.LogisticRegression()
    pfi = IncrementalPFI(model)
    with pytest.warns(UserWarning, match=r"feature 'f2000' is left out.*beyond 2,000 features \(limits.features\)"):
        pfi.explain_one({f"f{place}": 1.0 for place in range(2_001)}, True)
    wider = IncrementalPFI(LiveModel(model, limits=IngestLimits(features=3_000)))
    wider.explain_one({f"f{place}": 1.0 for place in range(2_001)}, True)
    assert len(wider.names) == 2_001


def test_texts_and_numbers_of_numpy_and_of_enumerations_are_those_of_python() -> None:
    live = LiveModel(tree.HoeffdingTreeClassifier())
    row, _ = live.event({"a": np.int32(3), "b": np.str_("x"), "c": np.bool_(True)}, np.str_("y"))
    assert row.tolist() == [[3.0, 0.0, 1.0]] and live.target("y") == 0.0
