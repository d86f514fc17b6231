"""Laws of the whole pipeline as a plain loop, with every method: how events are packed changes nothing."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.detect.incidents.watch import Rows
from glasstream.flow.aggregator import incidents
from glasstream.flow.reference import Reference
from glasstream_topics import events, groups
from glasstream_topics.incidents import Incident
from tests.support.counting_watch import EVERY, LASTS, CountingWatch
from tests.support.late_labels import apart, delays
from tests.support.mixed_streams import BASE, ROWS, mixed


def published(of: list[dict[str, Any]], rows_per_message: int, *assignments: str) -> dict[str, list[bytes]]:
    settings = load(assignments=[*BASE, *assignments])
    log = [(b"s", events.encode(of[n : n + rows_per_message])) for n in range(0, len(of), rows_per_message)]
    found = defaultdict(list)
    for topic, record in Reference(settings).run([*log, (b"s", events.FLUSH)]):
        found[topic].append(record)
    return dict(found)


@pytest.mark.parametrize(
    ("model", "classes"),
    [
        ("tree", 3),
        ("linear", 0),
        pytest.param("tree", 2, marks=pytest.mark.slow),
        pytest.param("linear", 2, marks=pytest.mark.slow),
        pytest.param("forest", 0, marks=pytest.mark.slow),
    ],
)
def test_packing_and_cutting_change_no_record(model: str, classes: int) -> None:
    stream = mixed(ROWS, classes=classes)
    one = published(stream, 1, f"model.name={model}")
    assert {"predictions", "importance", "effects", "drift"} == set(one)
    for size, rows in ((7, 500), (ROWS, 500), (50, 3)):
        assert published(stream, size, f"model.name={model}", f"block.rows={rows}") == one


@pytest.mark.parametrize("every", [1, 7, 1_000])
def test_alarms_and_incidents_do_not_depend_on_how_often_importance_is_published(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "IncidentWatch", CountingWatch)
    stream = mixed(ROWS, classes=3)
    usual = published(stream, 50, "model.name=tree")
    other = published(stream, 50, "model.name=tree", f"publish.every={every}")
    for topic in ("drift", "incidents", "watching"):
        assert len(usual[topic]) > 3 and other[topic] == usual[topic]
    assert other["importance"][-1] == usual["importance"][-1]
    assert len(other["importance"]) != len(usual["importance"])


@pytest.mark.parametrize("option", ["explain.sampling=uniform", "explain.sampling=window", "isage.fresh=true",
                                    "ipdp.grid=extremes", "ipdp.grid=quantiles", "isage.removal=conditional",
                                    "explain.loss=cross_entropy", "explain.draws=3", "snapshot.target=0",
                                    "drift.values=smoothed", "drift.bonferroni=true", "drift.min_change=0.05",
                                    "drift.pd=squares"])  # fmt: skip
def test_no_option_makes_a_record_depend_on_packing(option: str) -> None:
    stream = mixed(160, classes=2)
    assert published(stream, 1, "model.name=tree", option) == published(stream, 40, "model.name=tree", option)


def test_one_method_says_the_same_alone_and_beside_others() -> None:
    stream = mixed(ROWS, classes=2)
    together = published(stream, 50, "model.name=tree")
    for method in ("ipfi", "isage"):
        alone = published(stream, 50, "model.name=tree", f"explain.methods={method}")
        assert alone["importance"] == [one for one in together["importance"] if orjson.loads(one)["method"] == method]
    alone = published(stream, 50, "model.name=tree", "explain.methods=ipdp")
    assert alone["effects"] == together["effects"] and "importance" not in alone


@pytest.mark.parametrize(
    ("model", "classes"),
    [pytest.param("tree", 3, marks=pytest.mark.slow), ("linear", 0), ("river.dummy:PriorClassifier", 3)],
)
def test_the_watch_sees_the_rows_however_they_are_packed_and_changes_no_other_record(
    model: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "IncidentWatch", CountingWatch)
    stream = mixed(ROWS, classes=classes)
    one = published(stream, 1, f"model.name={model}")
    assert len(one["incidents"]) == 2 * ((ROWS - 20) // EVERY) - ((ROWS - 20) % EVERY < LASTS)
    assert published(stream, 50, f"model.name={model}", "block.rows=3") == one
    assert len(one["watching"]) == (ROWS - 20) // EVERY
    del one["incidents"], one["watching"]
    assert published(stream, 50, f"model.name={model}", "drift.budget=0") == one


def test_the_watch_gets_the_events_as_they_were_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values by slot, the codes of texts in the order in which they came, and each label with the name of its class."""
    seen: dict[int, tuple[dict[str, float], str]] = {}

    class Noting(CountingWatch):
        def update(self, rows: Rows) -> Iterator[Incident]:
            for at, seq in enumerate(rows.seqs.tolist()):
                values = dict(zip(rows.names, rows.inputs[at].tolist(), strict=True))
                seen[seq] = values, rows.classes[int(rows.target[at])]
            return super().update(rows)

    monkeypatch.setattr(incidents, "IncidentWatch", Noting)
    stream = mixed(ROWS, classes=2)
    for number in (300, 350):
        stream[number]["y"] = f"new {number}"  # classes that the model of these rows does not know
    published(stream, 50, "model.name=tree")
    codes: dict[str, float] = {}
    for seq, event in enumerate(stream):
        x = dict(event["x"])
        if "town" in x:
            x["town"] = codes.setdefault(x["town"], float(len(codes)))
        if seq in seen:
            values, label = seen[seq]
            assert {name: value for name, value in values.items() if not np.isnan(value)} == x
            assert label == event["y"]
    assert seen.keys() == set(range(20, ROWS))


def test_isage_adds_up_on_the_topic_and_curves_lie_within_the_model() -> None:
    found = published(mixed(ROWS, classes=2), 50, "model.name=tree")
    sage = [one for one in map(orjson.loads, found["importance"]) if one["method"] == "isage"]
    assert sage
    for one in sage:
        assert abs(sum(values["value"] for values in one["features"].values()) - one["total"]) < 1e-9
        assert one["total"] == pytest.approx(one["marginal_loss"] - one["model_loss"], abs=1e-12)
    for one in map(orjson.loads, found["effects"]):
        assert one["output"] == "b" and all(0.0 <= value <= 1.0 for value in one["curve"])
        assert one["grid"] == sorted(one["grid"]) and len(one["grid"]) == len(one["curve"])
    towns = [one for one in map(orjson.loads, found["effects"]) if one["feature"] == "town"]
    assert towns and all(
        one["kind"] == "categorical" and set(one["grid"]) <= {f"t{n}" for n in range(6)} for one in towns
    )


def test_several_classes_have_a_curve_each_and_regression_one() -> None:
    many = [orjson.loads(one) for one in published(mixed(ROWS, classes=3), 50, "model.name=tree")["effects"]]
    assert {one["output"] for one in many if one["row"] == ROWS - 1} == {"a", "b", "c"}
    number = [orjson.loads(one) for one in published(mixed(ROWS, classes=0), 50, "model.name=linear")["effects"]]
    assert {one["output"] for one in number} == {None}


def test_staleness_is_published_and_moves_the_next_snapshot() -> None:
    stream = mixed(ROWS, classes=2)
    adaptive = [orjson.loads(one) for one in published(stream, 50, "model.name=tree")["importance"]]
    fixed = [orjson.loads(one) for one in published(stream, 50, "model.name=tree", "snapshot.target=0")["importance"]]
    assert any(one["staleness"] for one in adaptive) and any(one["staleness"] for one in fixed)
    assert all(0.0 <= (one["staleness"] or 0.0) <= 2.0 for one in fixed)
    assert {one["model_version"] for one in fixed if one["row"] >= 50} <= set(range(16, ROWS + 1, 2))
    assert {one["model_version"] for one in adaptive} != {one["model_version"] for one in fixed}


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_numbers_of_any_size_stop_nothing(loss: str) -> None:
    """A number that is too large to be squared gives a dead letter or an unexplained row, and the stream continues."""
    sizes = [1.0, 1e30, -1e60, 1e59, 1e61, 1e300, -1.7e308]
    stream = [
        {
            "x": {"a": sizes[n % 7] if n % 5 == 0 else n % 11, "b": n % 3},
            "y": sizes[n % 6] if n % 9 == 0 else n % 7 + 0.5,
        }
        for n in range(400)
    ]
    settings = load(
        assignments=[
            "model.name=tree",
            "model.task=regression",
            f"explain.loss={loss}",
            "explain.methods=ipfi,isage,ipdp",
            "explain.reservoir=20",
            "publish.every=10",
        ]
    )
    found: dict[str, list[bytes]] = {}
    for topic, record in Reference(settings).run((b"s", events.encode(event)) for event in stream):
        found.setdefault(topic, []).append(record)
    refused = sum(abs(event["x"]["a"]) > events.LARGEST or abs(event["y"]) > events.LARGEST for event in stream)
    assert 20 < refused <= len(found["events.dead"])
    assert len(found["predictions"]) + len(found["events.dead"]) >= len(stream)
    newest = orjson.loads(found["importance"][-1])
    assert newest["row"] > 250
    assert all(feature["value"] is not None for feature in newest["features"].values())


def test_a_group_that_suffers_is_named_to_the_end_of_the_flow_with_late_labels() -> None:
    """From event 1,500 on, the labels of a group follow another rule. The group is in `meta`, hidden from the model."""
    source = np.random.default_rng(3)
    made = []
    for number, (a, woman) in enumerate(zip(source.random(2000), source.random(2000) < 0.4, strict=True)):
        label = (a > 0.5) != (bool(woman) and number >= 1500)
        made.append({"id": str(number), "x": {"a": float(a)}, "y": label, "meta": {"sex": "f" if woman else "m"}})
    given = ("model.name=linear", "explain.methods=ipfi", "explain.start=1900", "groups.by=sex", "groups.every=100")
    late = apart(made, delays("random:40", len(made)))
    found = published(late, 300, *given)
    records = list(map(groups.decode, found["groups"]))
    told = [(record.total.rows, alarm) for record in records for alarm in record.alarms]
    first, alarm = told[0]
    assert 1500 < first <= 1900 and abs(alarm.row - 1500) <= 200 and alarm.groups == ["f"]
    assert alarm.measure == "accuracy" and alarm.text.startswith("accuracy of sex = 'f' fell from ")
    assert published(late, 37, *given)["groups"] == found["groups"]
