"""A stream whose labels end: what the model begins to rely on is watched, and named in an alarm and in an incident."""

from typing import Any

import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.reference import Reference
from glasstream_topics import drift, events, incidents

LABELS, AT, EVENTS = 1_000, 4_500, 5_500
KEY = events.key("s")


def made(draws: np.random.Generator, place: int, *, shift: float, often: bool = False) -> dict[str, Any]:
    """Return an event: `b` has little influence until its values are spread further, where no label tells."""
    a, b, c = draws.normal(size=3)
    b *= 0.4 + shift * (place >= AT)
    event: dict[str, Any] = {"x": {"a": float(a), "b": float(b), "c": float(c)}}
    return event | {"y": "yes" if a + b > 0.1 * c else "no"} if place < LABELS or (often and place % 2) else event


def published(messages: list[bytes], reload_at: int = -1, **changes: str) -> list[tuple[str, bytes]]:
    settings = load(
        assignments=[
            "explain.methods=attributions",
            "model.name=linear",
            "attributions.scale=additive",
            "publish.every=100000",
            *(f"{name.replace('__', '.')}={value}" for name, value in changes.items()),
        ]
    )
    loop, records = Reference(settings), list[tuple[str, bytes]]()
    for number, message in enumerate(messages):
        records += loop.run([(KEY, message)])
        if number == reload_at:
            (aggregator,) = loop._aggregators.values()
            state = aggregator.streams["s"].state()
            aggregator.streams["s"] = StreamAggregator.restore("s", aggregator.streams["s"].settings, *state)
    return [record for record in records if record[0] in (drift.TOPIC.name, incidents.TOPIC.name)]


def stream(shift: float, seed: int = 0, size: int = 50, *, often: bool = False) -> list[bytes]:
    draws = np.random.default_rng(seed)
    every = [made(draws, place, shift=shift, often=often) for place in range(EVENTS)]
    return [orjson.dumps(every[first : first + size]) for first in range(0, EVENTS, size)]


def test_the_feature_that_the_model_begins_to_rely_on_is_named() -> None:
    records = published(stream(shift=2.0))
    alarms = [drift.decode(data) for topic, data in records if topic == drift.TOPIC.name]
    first = next(one for one in alarms if one.row >= AT)
    assert (first.signal, first.method, first.feature) == ("importance", "attributions", "b")
    assert first.after > 2.0 * first.before and AT < first.row < AT + 400 and first.row == first.seq
    found = [incidents.decode(data) for topic, data in records if topic == incidents.TOPIC.name]
    assert [one.incident for one in found if one.row < AT] == [] and found[0].incident == 2
    assert found[0].features[0].feature == "b" and "the model relies more on b" in found[0].summary
    assert abs(found[0].onset.row - AT) < 50 and AT < found[0].row < AT + 400


def test_nothing_that_changes_raises_no_alarm() -> None:
    records = published(stream(shift=0.0))
    assert [topic for topic, _ in records if topic == incidents.TOPIC.name] == []
    assert [
        one for topic, data in records if topic == drift.TOPIC.name and (one := drift.decode(data)).row > 3_000
    ] == []


@pytest.mark.parametrize("turn", [70, 93])
def test_a_successor_continues_where_its_predecessor_was(turn: int) -> None:
    messages = stream(shift=2.0)
    whole = published(messages)
    assert published(messages, reload_at=turn) == whole
    assert [topic for topic, _ in whole].count(incidents.TOPIC.name) > 0


@pytest.mark.parametrize("sizes", [(7, 331), pytest.param((1,), marks=pytest.mark.slow)], ids=str)
def test_incidents_of_rows_and_of_events_do_not_depend_on_messages_and_blocks(sizes: tuple[int, ...]) -> None:
    """Both kinds of incidents are open at the same time; which one was first in a block must not show."""
    whole = published(stream(shift=2.0, often=True))
    for size in sizes:
        assert published(stream(shift=2.0, size=size, often=True)) == whole
    numbers = {incidents.decode(data).incident % 2 for topic, data in whole if topic == incidents.TOPIC.name}
    assert numbers == {0, 1}


def test_only_explained_events_are_watched() -> None:
    """A share of the events is explained: rows are counted among these, and named by their events."""
    found = [
        incidents.decode(data)
        for topic, data in published(stream(shift=2.0), attributions__share="0.75")
        if topic == incidents.TOPIC.name
    ]
    assert found[0].features[0].feature == "b" and abs(found[0].onset.row - AT) < 60
    assert found[0].onset.row == found[0].onset.seq and found[0].row == found[0].seq


def test_a_budget_of_zero_watches_for_no_incident() -> None:
    assert incidents.TOPIC.name not in {topic for topic, _ in published(stream(shift=2.0), drift__budget="0")}
