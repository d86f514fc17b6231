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
from glasstream.detect.model_monitor import DriftAlarm, ModelMonitor
from glasstream.events.admission import Task
from glasstream.explain.estimators.explained_model import ExplainedModel
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.explain.losses import CustomLoss
from glasstream.flow.reference import Reference
from glasstream.models.river.catalogue import model_factory
from glasstream_topics import drift, incidents, watching

ROWS, AT = 3_200, 2_000
Event = tuple[dict[str, Any], Any]


def stream(kind: str, rows: int = ROWS) -> Iterator[Event]:
    """Events whose label depends on `a` and on the colour; from row `AT` on, `a` is broken or the rule is another."""
    draws = np.random.default_rng(1)
    for row in range(rows):
        a, b = draws.normal(size=2).tolist()
        colour = ("red", "green", "blue")[int(draws.integers(3))]
        score = (-a if kind == "rule" and row >= AT else a) + (colour == "red") + 0.2 * draws.normal()
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
@pytest.mark.parametrize("kind", ["sensor", "rule", "number"])
def test_a_monitor_finds_the_incidents_and_alarms_of_the_pipeline(kind: str) -> None:
    """Where the pipeline takes a snapshot for each row."""
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
    assert found == expected and (kind == "number" or found)
    assert list(monitor.alarms) == [
        DriftAlarm(one.seq, one.signal, one.feature, one.before, one.after, one.width) for one in alarms
    ]
    assert monitor.watching == noted[-1]


def test_other_explainers_losses_and_times_are_watched() -> None:
    model = linear_model.LogisticRegression()
    loss = CustomLoss("missed", "classification", lambda prediction, target: 1.0 - prediction[target])
    monitor = ModelMonitor(IncrementalSAGE(model, loss, inner=1))
    for row, (x, y) in enumerate(stream("sensor")):
        numbers = {"a": x["a"], "b": x["b"]}
        monitor.explain_one(numbers, y, time=60_000 * row)
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


def test_an_event_that_is_refused_is_not_watched() -> None:
    model = linear_model.LogisticRegression()
    with_errors, without = monitor_of(model), monitor_of(linear_model.LogisticRegression())
    for row, (x, y) in enumerate(islice(stream("rule"), 800)):
        if row % 100 == 50:
            with pytest.raises(ModelError):
                with_errors.explain_one({"a": 1e70}, y)
        for monitor in (with_errors, without):
            monitor.explain_one(x, y)
            monitor.live.model.learn_one(x, y)
    assert with_errors.incidents == without.incidents and with_errors.watching == without.watching


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
    sets = IncrementalPFI(model, sets={"both": ["a", "b"]})
    for explainer, finding in (
        (IncrementalPFI(loss="brier"), "expected an explainer of a model"),
        (sets, "expected an explainer of single features"),
        (used, "expected a new explainer, got one that has seen 1 events"),
    ):
        with pytest.raises(SettingsError, match=finding):
            ModelMonitor(explainer)
