"""Laws of the groups of a stream: they are those of its published predictions, whatever comes late or not at all."""

import csv
import gzip
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from glasstream.base.errors import FrameError
from glasstream.detect.groups.sums import CLASSES, VALUES
from glasstream.flow.learner.groups import TEXT, GroupRecords, GroupState, LabelledColumns
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream_topics import events, predictions
from glasstream_topics.events import Event
from glasstream_topics.groups import Groups, decode
from tests.support.fairness import by_definition
from tests.support.late_labels import apart, delays
from tests.support.learner import message, settings


def sent(count: int = 400) -> list[dict[str, Any]]:
    """Events whose groups are a column of `meta` and a feature. The model is better for one group than for another."""
    made = []
    for number in range(count):
        a, flips = (number * 7919 % 1000) / 1000, number % 3 == 0 and number % 5 < 2
        x = {"a": a, "b": number % 4, "on": number % 2 == 0}
        made.append({"id": number, "x": x, "y": (a > 0.5) != flips, "meta": {"sex": "fm"[number % 3 == 0]}})
    return made


def published(elements: Sequence[Any], given: Settings, size: int = 50) -> tuple[list[Groups], list[Any]]:
    """Return the groups and the predictions that a learner publishes for events and labels, and a flush mark."""
    learner = PartitionLearner(0, given)
    log = [message(begin, elements[begin : begin + size]) for begin in range(0, len(elements), size)]
    for _ in learner.consume(*log, message(10**6, events.FLUSH)):
        pass
    learner.cut()
    outbox, dead = learner.take_outbox()
    assert not dead
    return [decode(record) for _, record in outbox.groups], [predictions.decode(one) for _, one in outbox.predictions]


def agrees(found: Groups, labelled: Iterable[tuple[str, str, str, float]]) -> None:
    """Check all rows of a record against (group, target, prediction, loss) of each row, to 1e-12."""
    groups, targets, said, losses = zip(*labelled, strict=True)
    number = {name: place for place, name in enumerate(found.classes)}
    expected = by_definition([number[one] for one in targets], [number[one] for one in said], groups, len(number))
    total = found.total
    assert total.rows == len(groups)
    by_name = {group.value: group for group in total.groups}
    assert by_name.keys() == {*groups}
    for name, rates in zip(sorted({*groups}), expected.groups, strict=True):
        group = by_name[name]
        assert group.accuracy is not None and group.accuracy.value == pytest.approx(rates["accuracy"], abs=1e-12)
        mine = [loss for one, loss in zip(groups, losses, strict=True) if one == name]
        assert group.loss.of == len(mine) and group.loss.value == pytest.approx(sum(mine) / len(mine), rel=1e-12)
        for rate in ("selection_rate", "true_positive_rate", "false_positive_rate"):
            assert [one.value for one in getattr(group, rate)] == pytest.approx(rates[rate], abs=1e-12)
    parity, odds = zip(*expected.differences, strict=True)
    assert total.demographic_parity_difference == pytest.approx(max(parity), abs=1e-12)
    assert total.equalized_odds_difference == pytest.approx(max(odds), abs=1e-12)


def test_they_are_those_of_the_published_predictions() -> None:
    given = settings("groups.by=sex,on", "groups.every=100", "groups.window=150", "groups.least=1")
    found, told = published(sent(), given)
    assert [(one.attribute, one.total.rows) for one in found] == [
        (name, rows) for rows in (100, 200, 300, 399) for name in ("sex", "on")
    ]  # the first event has no prediction, and the flush mark publishes the last rows
    rows = [
        (one["meta"]["sex"], str(one["x"]["on"]).lower(), said.target, said.prediction, said.loss)
        for one, said in zip(sent(), told, strict=True)
    ][1:]
    for record in found:
        place = ("sex", "on").index(record.attribute)
        of = [(one[place], *one[2:]) for one in rows[: record.total.rows]]
        agrees(record, of)
        assert record.seq == record.total.rows and not record.left_out
        window = record.window
        newest = of[-150:]
        assert window.rows == len(newest)
        for group in window.groups:
            mine = [loss for name, _, _, loss in newest if name == group.value]
            assert group.loss.of == len(mine) and group.loss.value == pytest.approx(sum(mine) / len(mine), rel=1e-12)


@pytest.mark.parametrize("name", ["sex", "race"])
def test_they_are_those_of_fairlearns_definitions_on_adult(name: str, data_dir: Path) -> None:
    with gzip.open(data_dir / "adult.csv.gz", "rt", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))[:1500]
    elements = []
    for row in rows:
        x = {key: float(row[key]) for key in ("age", "education-num", "hours-per-week")}
        elements.append({"x": x, "y": row["target"], "meta": {"sex": row["sex"], "race": row["race"]}})
    (*_, found), told = published(elements, settings(f"groups.by={name}", "groups.least=1"))
    agrees(found, [(row[name], one.target, one.prediction, one.loss) for row, one in zip(rows, told, strict=True)][1:])


@pytest.mark.parametrize(("model", "delay"), [("linear", 0), ("linear", "random:40"), ("tree", 17)])
def test_late_labels_give_the_groups_of_the_predictions_at_the_events(model: str, delay: int | str) -> None:
    """A row is what its event was told, whenever its label comes, in the order of the labels."""
    given = settings(f"model.name={model}", "model.task=classification", "groups.by=sex", "groups.least=1")
    made = sent(150)
    log = apart(made, delays(delay, 150))
    whole, told = published(log, given)
    by_id = {int(one.id): one for one in told}
    order = [one["id"] for one in log if "x" not in one and by_id[one["id"]].prediction is not None]
    rows = [(made[one]["meta"]["sex"], str(made[one]["y"]).lower(), by_id[one].prediction) for one in order]
    assert whole[-1].total.rows == len(rows) and whole[-1].seq == max(order)
    for group in whole[-1].total.groups:
        mine = [target == said for name, target, said in rows if name == group.value]
        assert group.accuracy is not None and group.accuracy.value == pytest.approx(sum(mine) / len(mine))
    assert published(log, given, 1)[0] == published(log, given, 7)[0] == whole


def test_the_groups_of_a_regression_have_errors_and_no_rates() -> None:
    made = [{**one, "y": one["x"]["a"] + (one["meta"]["sex"] == "f")} for one in sent(150)]
    (*_, found), told = published(made, settings("model.name=tree", "groups.by=sex", "groups.least=1"))
    errors: dict[str, list[float]] = {"f": [], "m": []}
    for one, said in zip(made, told, strict=True):
        errors[one["meta"]["sex"]].append(abs(said.prediction - said.target))
    assert not found.classes and found.total.demographic_parity_difference is None and not found.total.differences
    for group in found.total.groups:
        mine = errors[str(group.value)]
        assert group.error is not None and group.error.value == pytest.approx(sum(mine) / len(mine))
        assert group.loss.value == pytest.approx(sum(one * one for one in mine) / len(mine))
        assert group.accuracy is None and group.selection_rate == []


def test_meta_changes_no_prediction_and_without_the_setting_there_are_no_groups() -> None:
    made = sent(150)
    plain = [{name: value for name, value in one.items() if name != "meta"} for one in made]
    found, told = published(made, settings())
    assert found == [] and told == published(plain, settings())[1]
    assert told == published(made, settings("groups.by=sex"))[1]


def test_a_column_of_meta_comes_before_a_feature_and_null_is_missing() -> None:
    state = GroupState(settings("groups.by=sex").groups)
    codes = [
        state.codes_of(Event({"sex": "a"}, meta=meta))[0]
        for meta in (None, {}, {"sex": "b"}, {"sex": None}, {"z": 1.0})
    ]
    assert codes == [2, 2, 3, 0, 2] and [*state.codes[0]] == ["a", "b"]
    values = [True, 1.0, 1.5, "true", "1", -0.0]
    assert [state.codes_of(Event({"sex": value}))[0] - 4 for value in values] == [0, 1, 2, 0, 1, 3]


def test_values_and_classes_beyond_the_limits_are_counted_together() -> None:
    given = settings("groups.by=g", "groups.least=1", "groups.every=1000")
    state, records, labelled = GroupState(given.groups), GroupRecords(given, "s"), LabelledColumns()
    count = 60
    for number in range(count):
        name = "x" * (TEXT + 1) if number == 3 else f"g{number}"
        codes = state.codes_of(Event({"a": 1.0}, meta={"g": name}))
        labelled.add(number, codes, f"c{number % 30}", f"c{number % 30 if number % 2 else 29}", 0.5)
    assert records.add(labelled, state, "brier") == []
    (record,) = map(decode, records.of(state, "brier"))
    assert len(record.classes) == CLASSES and record.more_classes
    assert [group.kind for group in record.total.groups] == ["value"] * VALUES + ["other"]
    assert record.total.groups[-1].loss.of == count - VALUES
    right = sum(group.accuracy.value * group.loss.of for group in record.total.groups if group.accuracy)  # type: ignore[operator]
    assert right == pytest.approx(sum(labelled.predicted[n] == labelled.targets[n] for n in range(count)))


def test_a_loss_that_cannot_be_summed_is_left_out_and_counted() -> None:
    given = settings("groups.by=g", "groups.least=1", "groups.every=3")
    losses = [1.0, float("nan"), 2.0, float("inf"), 1e200, 3.0, 4.0]
    found = []
    for cuts in ([7], [1, 2, 3, 4, 5, 6, 7]):
        state, records, made = GroupState(given.groups), GroupRecords(given, "s"), list[bytes]()
        for begin, end in zip([0, *cuts], cuts, strict=False):
            labelled = LabelledColumns()
            for number in range(begin, end):
                labelled.add(number, b"\0", 1.0, 2.0, losses[number])
            made += records.add(labelled, state, "squared")
        found.append(made + records.of(state, "squared"))
    assert found[0] == found[1]
    three, four = map(decode, found[0])
    assert (three.total.rows, three.left_out, three.seq) == (3, 3, 5)
    assert (four.total.rows, four.left_out, four.total.groups[0].loss.value) == (4, 3, 2.5)


def filled() -> tuple[Settings, GroupState]:
    given = settings("groups.by=g,h", "groups.window=10", "groups.every=1000")
    state, labelled = GroupState(given.groups), LabelledColumns()
    for number in range(25):
        codes = state.codes_of(Event({"a": 1.0}, meta={"g": f"g{number % 4}", "h": number % 2 == 0}))
        labelled.add(number, codes, "ab"[number % 2], "ab"[number % 3 == 0], number / 8)
    assert not list(state.add(labelled, 1000))
    return given, state


def test_a_saved_state_continues_exactly() -> None:
    given, state = filled()
    meta, arrays = state.saved()
    again = GroupState(given.groups)
    again.restore(meta, arrays, 25)
    records = GroupRecords(given, "s")
    assert records.of(again, "brier") == records.of(state, "brier")
    for one in (state, again):
        labelled = LabelledColumns()
        labelled.extend([25, 26], [b"\2\3", b"\0\1"], ["a", "c"], ["b", "c"], [0.1, 0.2])
        assert not list(one.add(labelled, 1000))
    assert records.of(again, "brier") == records.of(state, "brier")


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("values", [["g0"]], "values of each attribute"),
        ("values", [["g0", "g0", "g2", "g3"], ["true", "false"]], "distinct values"),
        ("values", [["g0", "g1", "g2"], ["true", "false"]], "rows of known values"),
        ("classes", ["a"], "rows of known classes"),
        ("more_classes", True, "further classes only"),
        ("rows", 24, "rows of each attribute"),
        ("rows", 26, "rows of the stream's events"),
        ("seq", 25, "rows of the stream's events"),
        ("published", 26, "rows of the stream's events"),
    ],
)
def test_a_forged_state_is_refused(field: str, value: Any, expected: str) -> None:
    given, state = filled()
    meta, arrays = state.saved()
    setattr(meta, field, value)
    with pytest.raises(FrameError, match=expected):
        GroupState(given.groups).restore(meta, arrays, 25)


def test_newest_rows_that_are_not_among_all_rows_are_refused() -> None:
    given, state = filled()
    meta, arrays = state.saved()
    with pytest.raises(FrameError, match="newest rows that are among all rows"):
        GroupState(given.groups).restore(meta, {**arrays, "codes": arrays["codes"] * 0 + 2}, 25)


def test_memory_does_not_grow_with_the_stream() -> None:
    given, state = filled()
    marks = 25 * len(state.attributes) * VALUES * (16 + 24 * CLASSES)  # as decision 26 says, and their events
    most = sum(array.nbytes for array in state.saved()[1].values()) + marks + 25 * 8
    for begin in range(3):
        labelled = LabelledColumns()
        for number in range(1000):
            codes = state.codes_of(Event({"a": 1.0}, meta={"g": f"{begin}{number}", "h": "x" * number}))
            labelled.add(number, codes, f"c{number}", f"c{begin}", 0.5)
        assert not list(state.add(labelled, 10**6))
    assert sum(array.nbytes for array in state.saved()[1].values()) <= most
    assert [len(known) for known in state.codes] == [VALUES, VALUES] and len(state.classes) == CLASSES
    assert max(map(len, chain.from_iterable(state.codes))) <= TEXT
    assert GroupRecords(given, "s").of(state, "brier")
