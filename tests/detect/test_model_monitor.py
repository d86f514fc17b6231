"""A monitor in a program finds what the pipeline finds."""

import pickle
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import orjson
import pytest
from river import linear_model

from glasstream.app.configuration import load
from glasstream.base.errors import ModelError, SettingsError
from glasstream.detect.drift.settings import DriftSettings
from glasstream.detect.incidents.series import CALIBRATION
from glasstream.detect.model_monitor import DriftAlarm, ModelMonitor
from glasstream.events.admission import Task
from glasstream.explain.estimators.explained_model import ExplainedModel
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import CustomLoss
from glasstream.flow.reference import Reference
from glasstream.models.river.catalogue import model_factory
from glasstream_topics import drift, incidents, watching
from tests.support.examples import some

ROWS, AT = 3_200, 2_000
Event = tuple[dict[str, Any], Any]


def stream(kind: str, rows: int = ROWS) -> Iterator[Event]:
    """Events whose label depends on `a` and on the colour; from event `AT` on, `a` is broken or the rule is another."""
    draws = np.random.default_rng(1)
    for row in range(rows):
        a, b = draws.normal(size=2).tolist()
        colour = ("red", "green", "blue")[int(draws.integers(3))]
        slope = 1.0 if kind == "sensor" or row < AT else -3.0 if kind == "number" else -1.0
        score = slope * a + (colour == "red") + 0.2 * draws.normal()
        x: dict[str, Any] = {"a": 0.25 if kind == "sensor" and row >= AT else a, "b": b}
        if kind != "rule":
            x["colour"] = colour
        if row > 500:
            x["late"] = b * b
        yield x, float(score) if kind == "number" else bool(score > 0.4)


def monitor_of(model: Any, **given: Any) -> ModelMonitor:
    return ModelMonitor(
        IncrementalPFI(LiveModel(model, snapshot_every=1), seed=7, stream="s"), seed=7, stream="s", **given
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", some(["rule"], ["sensor", "rule", "number"]))
def test_a_monitor_finds_the_incidents_and_alarms_of_the_pipeline(kind: str) -> None:
    """The pipeline takes a snapshot for each row here, so both explain with the same models."""
    task = Task.REGRESSION if kind == "number" else Task.CLASSIFICATION
    settings = load(assignments=(
        "seed=7", "model.name=tree", f"model.task={task}", "explain.methods=ipfi",
        "snapshot.doubling=1", "snapshot.cadence=1", "snapshot.target=0",
    ))  # fmt: skip
    events = list(stream(kind))
    log = ((b"s", orjson.dumps({"x": x, "y": y})) for x, y in events)
    published = list(Reference(settings).run(log))
    expected = [incidents.decode(record) for topic, record in published if topic == incidents.TOPIC.name]
    alarms = [drift.decode(record) for topic, record in published if topic == drift.TOPIC.name]
    noted = [watching.decode(record) for topic, record in published if topic == watching.TOPIC.name]

    river = model_factory("tree", 7)(task)
    monitor, found = monitor_of(river), list[incidents.Incident]()
    for x, y in events:
        monitor.explain_one(x, y)
        found += [one for one in monitor.incidents if one not in found]
        river.learn_one(x, y)
    assert found == expected != []
    raised = [DriftAlarm(one.seq, one.signal, one.feature, one.before, one.after, one.width) for one in alarms]
    assert list(monitor.alarms) == raised != []
    assert monitor.watching == noted[-1]


def test_other_explainers_losses_and_times_are_watched() -> None:
    model = linear_model.LogisticRegression()
    loss = CustomLoss("missed", "classification", lambda prediction, target: 1.0 - prediction[target])
    monitor = ModelMonitor(IncrementalSAGE(model, loss, inner=1))
    for row, (x, y) in enumerate(stream("sensor")):
        numbers = {"a": x["a"], "b": x["b"]}
        monitor.explain_one(numbers, y, ts=60_000 * row)
        model.learn_one(numbers, y)
    (found,) = [one for one in monitor.incidents if one.verdict == "feature_broken"]
    assert found.features[0].feature == "a" and found.loss_name == "missed"
    assert found.onset.ts == 60_000 * found.onset.seq
    assert abs(found.onset.seq - AT) < 50
    assert found.summary in monitor._repr_html_()


def test_a_pickled_monitor_goes_on() -> None:
    model = linear_model.LogisticRegression()
    monitor, events = monitor_of(model), stream("rule")
    explained = ExplainedModel(model, monitor)
    for x, y in islice(events, AT + 150):  # while an alarm is under way
        explained.learn_one(x, y)
    restored = pickle.loads(pickle.dumps(explained))  # noqa: S301 - made here
    for x, y in events:
        explained.learn_one(x, y)
        restored.learn_one(x, y)
    other = restored.explainers[0]
    assert other.incidents == monitor.incidents != ()
    assert (other.alarms, other.watching) == (monitor.alarms, monitor.watching)


def test_what_is_refused_changes_nothing_and_rows_stay_the_numbers_of_events() -> None:
    model, other = linear_model.LogisticRegression(), linear_model.LogisticRegression()
    with_errors, without = monitor_of(model), monitor_of(other)
    for row, (x, y) in enumerate(stream("rule")):
        if row % 100 == 50:
            for event, ts in (({"a": 1e70}, None), (x, "2020"), (x, 2**70), (x, True)):
                with pytest.raises(ModelError):
                    with_errors.explain_one(event, y, ts)
        for monitor in (with_errors, without):
            monitor.explain_one(x, y, np.int64(row) if monitor is with_errors else row)
            monitor.live.model.learn_one(x, y)
    assert with_errors.incidents == without.incidents != ()
    assert (with_errors.alarms, with_errors.watching) == (without.alarms, without.watching)


class Failing(linear_model.LogisticRegression):
    """Fails for a thousand events."""

    asked = 0

    def predict_proba_one(self, x: dict[str, Any]) -> dict[Any, float]:
        if 600 <= self.asked < 1_600:
            raise ValueError("no answer")
        return super().predict_proba_one(x)


def test_events_without_an_explanation_are_no_rows_and_keep_their_numbers() -> None:
    model = Failing()
    monitor, failed = ModelMonitor(IncrementalPFI(model)), 0
    for row, (x, y) in enumerate(stream("sensor", 2_600)):
        model.asked = row
        numbers = {"a": x["a"], "b": x["b"]}
        try:
            monitor.explain_one(numbers, y)
        except ModelError:
            failed += 1
        model.learn_one(numbers, y)
    assert failed == 1_000
    for found in monitor.incidents:
        assert found.onset.row == found.onset.seq
    assert any(abs(found.onset.row - AT) < 50 for found in monitor.incidents)


def test_losses_beyond_the_largest_number_are_not_watched() -> None:
    model, huge = linear_model.LogisticRegression(), False
    loss = CustomLoss("huge", "classification", lambda prediction, target: 1e128 if huge else 1.0 - prediction[target])
    monitor = ModelMonitor(IncrementalPFI(model, loss))
    for row, (x, y) in enumerate(stream("rule", 1_200)):
        huge = row % 10 == 5
        monitor.explain_one(x, y)
        model.learn_one(x, y)
    assert monitor.watching is not None and monitor.watching.label is not None
    explained = monitor.watching.row + 1 - monitor.explainer.start
    assert monitor.watching.label.known == explained * 9 // 10 - CALIBRATION
    assert monitor.incidents == ()


def test_the_newest_incidents_and_alarms_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glasstream.detect.model_monitor.KEPT", 1)
    model = linear_model.LogisticRegression()
    monitor = monitor_of(model)
    seen = set[int]()
    for row, (x, y) in enumerate(stream("rule", 6_000)):
        numbers = {"a": x["a"], "b": x["b"] + 5.0 * (row >= 5_000)}
        monitor.explain_one(numbers, y)
        seen |= {one.incident for one in monitor.incidents}
        assert len(monitor.incidents) <= 1 and len(monitor.alarms) <= 1
        model.learn_one(numbers, y)
    assert len(seen) > 1 and [one.incident for one in monitor.incidents] == [max(seen)]
    assert monitor.alarms_raised > 1 and f"{monitor.alarms_raised} drift alarms" in monitor._repr_html_()


def test_calls_of_the_explainer_beside_the_monitor_are_refused() -> None:
    model = linear_model.LogisticRegression()
    monitor = monitor_of(model)
    monitor.explain_one({"a": 1.0}, True)
    monitor.explainer.explain_one({"a": 1.0}, True)
    with pytest.raises(ModelError, match="has seen 2 events instead of 1"):
        monitor.explain_one({"a": 1.0}, True)


def test_the_order_after_is_refused() -> None:
    model = linear_model.LogisticRegression()
    with pytest.raises(SettingsError, match="expected the order before for ModelMonitor, got after"):
        ExplainedModel(model, monitor_of(model), order="after")


def test_what_is_turned_off_is_not_watched() -> None:
    model = linear_model.LogisticRegression()
    monitor = monitor_of(model, drift=DriftSettings(budget=0, watch="none"))
    for x, y in stream("rule"):
        monitor.explain_one(x, y)
        model.learn_one(x, y)
    assert (monitor.incidents, list(monitor.alarms), monitor.watching) == ((), [], None)


def test_a_monitor_refuses_an_explainer_that_it_cannot_follow() -> None:
    model = linear_model.LogisticRegression()
    used = IncrementalPFI(model)
    used.explain_one({"a": 1.0}, True)
    sets = IncrementalPFI(model, sets={"a": ["a", "b"]})
    preset = DriftSettings(preset="paper")
    with pytest.raises(SettingsError, match="expected the values of the preset 'paper'"):
        monitor_of(model, drift=preset)
    for explainer, finding in (
        (IncrementalPDP(model), "expected an IncrementalPFI or IncrementalSAGE of the model, got IncrementalPDP"),
        (model, "got LogisticRegression"),
        (IncrementalPFI(loss="brier"), "expected an explainer of a model"),
        (sets, "expected an explainer of single features"),
        (used, "expected a new explainer, got one that has seen 1 events"),
    ):
        with pytest.raises(SettingsError, match=finding):
            ModelMonitor(explainer)  # type: ignore[arg-type]
