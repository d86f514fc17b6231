"""Effects of events without labels (`explain.unlabelled`), in the plain loop: each event once, when it arrives."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import GlasstreamError
from glasstream.flow.reference import Encoded
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.warm_up import warm_up_aggregator
from glasstream_topics import events
from tests.support.late_labels import apart, delays
from tests.support.logs import event
from tests.support.odd_labels import odd

BASE = (
    "model.task=classification", "explain.reservoir=10", "publish.every=25", "snapshot.doubling=8",
    "snapshot.cadence=20", "snapshot.target=0", "block.rows=8", "explain.methods=ipfi,isage,ipdp",
)  # fmt: skip
ALARMS = (
    "drift.detector=page_hinkley", "drift.threshold=0.3", "drift.tolerance=0", "drift.grace=20", "drift.min_change=0",
)  # fmt: skip
"""Settings with which there are many alarms, most of them false."""
ON = "explain.unlabelled=true"
COUNT = 200
MADE = [event(number) for number in range(COUNT)]
LATE = apart(MADE, delays("random:30", COUNT))
SOME = [{name: part for name, part in one.items() if name != "y" or one["id"] % 3} for one in MADE]
"""Events of which every third has no label, ever."""
PART = [{name: it for name, it in one.items() if name != "y" or one["id"] % 4} for one in MADE]
MIXED = apart(PART, [0, 9] * (COUNT // 2))
"""Events of which every fourth never has a label, and every other one a late label."""


def settings(*more: str, model: str = "linear") -> Settings:
    return load(assignments=[*BASE, f"model.name={model}", *more])


def published(of: Settings, log: Sequence[dict[str, Any]], size: int = 7) -> dict[str, list[bytes]]:
    values = [orjson.dumps(list(log[at : at + size])) for at in range(0, len(log), size)]
    found: dict[str, list[bytes]] = {}
    for topic, record in Encoded(of).run((b"s", value) for value in [*values, events.FLUSH]):
        found.setdefault(topic, []).append(record)
    return found


def read(records: Sequence[bytes], without: Sequence[str] = ()) -> list[dict[str, Any]]:
    return [{name: it for name, it in orjson.loads(one).items() if name not in without} for one in records]


@pytest.mark.parametrize("model", ["linear", "tree"])
def test_if_all_events_have_labels_nothing_changes(model: str) -> None:
    off, on = published(settings(*ALARMS, model=model), MADE), published(settings(*ALARMS, ON, model=model), MADE)
    assert on == off
    assert off.keys() >= {"predictions", "importance", "effects", "drift"}


def test_a_label_right_after_its_event_is_as_if_it_had_come_with_it() -> None:
    together, after = published(settings(ON), MADE), published(settings(ON), apart(MADE, [0] * COUNT))
    assert after["importance"] == together["importance"]
    assert after["effects"] == together["effects"]


@pytest.mark.parametrize("model", ["linear", pytest.param("tree", marks=pytest.mark.slow)])
def test_how_events_are_packed_and_blocks_are_cut_changes_nothing(model: str) -> None:
    strange = [{key: it for key, it in odd(n).items() if key != "y" or n % 3} for n in range(100)]
    for log in (MIXED[:150], apart(strange, delays("random:20", 100))):
        whole = published(settings(ON, model=model), log, size=len(log))
        assert len(whole["effects"]) > 10
        for size, rows in ((1, 8), (50, 3)):
            assert published(settings(ON, f"block.rows={rows}", model=model), log, size) == whole


@pytest.mark.parametrize("log", [LATE, MIXED, SOME], ids=["late", "mixed", "never"])
def test_importance_stays_that_of_the_labelled_rows(log: list[dict[str, Any]]) -> None:
    off, on = published(settings(), log), published(settings(ON), log)
    assert on["predictions"] == off["predictions"]
    assert read(on["importance"], ["coverage"]) == read(off["importance"], ["coverage"])
    assert {one["coverage"] for one in read(on["importance"])} == {1.0}


@pytest.mark.parametrize("log", [LATE, MIXED, SOME], ids=["late", "mixed", "never"])
def test_every_event_has_its_effect_once(log: list[dict[str, Any]]) -> None:
    """From the first event after ten learned rows on, each event counts once, and its label not again."""
    learned = first = 0
    for one in log:
        if "x" in one and learned >= 10:
            first = one["id"]
            break
        learned += "y" in one
    newest = read(published(settings(ON), log)["effects"])[-3:]
    assert {one["feature"] for one in newest} == {"a", "b", "c"}
    for one in newest:
        assert one["row"] == one["seq"] == COUNT - 1
        assert one["n"] == COUNT - first


def test_late_labels_change_no_effect_of_the_events_before_them() -> None:
    """A label that never comes, or is another one, changes no effect up to the event where it would have come."""
    at = next(place for place, one in enumerate(LATE) if one.get("id") == 150 and "x" not in one)
    until = max(one["id"] for one in LATE[:at] if "x" in one)
    other = [*LATE[:at], {"id": 150, "y": not LATE[at]["y"]}, *LATE[at + 1 :]]
    every = settings(ON, "publish.every=1")
    usual, never, wrong = (published(every, log)["effects"] for log in (LATE, LATE[:at] + LATE[at + 1 :], other))
    same = [one for one, read_one in zip(usual, read(usual), strict=True) if read_one["row"] <= until]
    assert len(same) > 100
    assert never[: len(same)] == wrong[: len(same)] == same
    assert wrong != usual, "the model has learned another label"


def test_alarms_about_effects_go_by_events_and_others_by_rows() -> None:
    off, on = (read(published(settings(*ALARMS, *more), SOME)["drift"]) for more in ((), (ON,)))
    about_effects = [one for one in on if one["method"] == "ipdp"]
    assert about_effects and all(one["row"] == one["seq"] for one in about_effects)
    others = [one for one in on if one["method"] != "ipdp"]
    assert others and any(one["row"] < one["seq"] for one in others)
    assert [one["seq"] for one in on] == sorted(one["seq"] for one in on)
    kept = ("row", "seq", "signal", "feature", "method", "before", "after", "width", "model_version")
    assert [[one[name] for name in kept] for one in others] == [
        [one[name] for name in kept] for one in off if one["method"] != "ipdp"
    ]


def test_stages_warm_up_with_the_setting() -> None:
    warm_up_aggregator(settings(ON))


def test_the_setting_needs_effects() -> None:
    with pytest.raises(GlasstreamError, match=r"explain\.unlabelled: expected the method ipdp"):
        settings(ON, "explain.methods=ipfi")
