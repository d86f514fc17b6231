"""The watch for incidents gets every explained row once, in order; what it says and its state pass through."""

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.base.errors import StateError
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.flow.aggregator import incidents
from glasstream.flow.aggregator.partition import PartitionAggregator
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream_topics import frames, watching
from glasstream_topics.contributions import Contributions, flush_item
from glasstream_topics.errors import FrameError
from glasstream_topics.incidents import encode
from glasstream_topics.methods import WATCHED
from tests.support.contributions import VALUES as FEW
from tests.support.counting_watch import EVERY, LASTS, CountingWatch
from tests.support.examples import examples

START, ROWS = 5, 300
VALUES = {name: np.concatenate([values] * (ROWS // len(values))) for name, values in FEW.items()}
VALUES["inputs"][::7, 1] = np.nan
VALUES["target"] = np.arange(ROWS) % 3.0


@pytest.fixture(autouse=True, scope="module")
def counting() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents, "IncidentWatch", CountingWatch)
        yield


def settings_with(*changes: str, methods: str = "ipfi,isage,ipdp") -> Settings:
    return load(
        assignments=[
            f"explain.methods={methods}", "explain.alpha=0.1", f"explain.reservoir={START}", "publish.every=10",
            "ipdp.ice=0", "explain.loss=zero_one", *changes,
        ]
    )  # fmt: skip


def block(first: int, end: int, kind: str = "ok", epoch: int = 0, watched: bool = True) -> Contributions:
    values = {name: array[first:end] for name, array in VALUES.items() if watched or name not in WATCHED}
    return Contributions(
        stream="s",
        epoch=epoch,
        partition=0,
        first_row=first,
        version=1,
        seqs=np.arange(first, end) * 2,
        times=[None if row % 5 == 0 else 1_000 * row for row in range(first, end)],
        kind=kind,
        names=["c", "a", "b"],
        kinds=[0, 2, 0],
        classes=["no", "yes"],
        new_classes=["maybe"] if watched and kind == "ok" else [],
        outputs=["yes"],
        texts={1: {0: "zero", 1: "one"}},
        values=values if kind == "ok" else {},
        reason="" if kind == "ok" else "ValueError: no",
        loss="zero_one",
    )


def aggregated(blocks: list[Contributions], settings: Settings) -> StreamAggregator:
    stream = StreamAggregator.empty("s", settings)
    for number, one in enumerate(blocks):
        stream.offer(one, number)
    return stream


def by_cuts(cuts: list[int], **options: Any) -> list[Contributions]:
    return [block(first, end, **options) for first, end in pairwise([START, *cuts, ROWS])]


def records(stream: StreamAggregator, topic: str = "incidents") -> list[bytes]:
    return [record.value for record in stream.records if record.topic == topic]


def single_rows(settings: Settings) -> list[bytes]:
    """Return what the watch says of the rows, one by one, without an aggregator."""
    watch = CountingWatch("s", settings.epoch, settings.seed, settings.drift.budget)
    found = []
    for row in range(START, ROWS):
        values = [VALUES[name][row : row + 1] for name in ("inputs", "target", "loss", "ipfi")]
        inputs, target, loss, importance = values
        names, kinds, classes = ["c", "a", "b"], [0, 2, 0], ["no", "yes", "maybe"]
        seqs, times = np.array([2 * row]), [None if row % 5 == 0 else 1_000 * row]
        found += watch.update(
            Rows(row, seqs, times, names, kinds, inputs, target, classes, loss, "zero_one", importance)
        )
    return [encode(one) for one in found]


cut_points = st.lists(st.integers(START + 1, ROWS - 1), max_size=8, unique=True).map(sorted)


@given(cuts=cut_points, every=st.integers(1, 100))
@examples(30)
def test_cuts_and_publishing_change_no_incident(cuts: list[int], every: int) -> None:
    settings = settings_with(f"publish.every={every}")
    expected = [orjson.loads(one) for one in single_rows(settings)]
    assert len(expected) == 2 * ((ROWS - START) // EVERY)
    found = aggregated(by_cuts(cuts), settings)
    assert [orjson.loads(one) for one in records(found)] == expected
    opened = [one["row"] for one in expected if one["status"] == "open"]
    assert [watching.decode(one).row for one in records(found, "watching")] == opened


@given(cuts=cut_points, at=st.integers(START + 1, ROWS - 1))
@examples(30)
def test_a_successor_continues_with_the_same_incidents(cuts: list[int], at: int) -> None:
    settings = settings_with()
    blocks = by_cuts(sorted({*cuts, at}))
    first = aggregated([one for one in blocks if one.first_row < at], settings)
    meta, arrays = first.state()
    frame = frames.decode(frames.encode("state", 1, meta, arrays), "state", 1)
    second = StreamAggregator.restore("s", settings, frame.meta, frame.arrays)
    for number, one in enumerate(blocks):
        second.offer(one, number)
    whole = aggregated(by_cuts([]), settings)
    for topic in ("incidents", "watching"):
        assert records(first, topic) + records(second, topic) == records(whole, topic)


@pytest.mark.parametrize("missing", ["meta", "arrays"])
def test_a_state_without_the_watch_is_refused(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incidents, "IncidentWatch", IncidentWatch)
    meta, arrays = aggregated(by_cuts([]), settings_with()).state()
    if missing == "meta":
        del meta["incidents"]
    else:
        del arrays["incidents/edges"]
    with pytest.raises(StateError, match=r"incidents: (Expected `object`, got `null`|expected an array 'edges')"):
        StreamAggregator.restore("s", settings_with(), meta, arrays)


def test_rows_that_failed_are_not_watched_and_keep_their_numbers() -> None:
    blocks = [block(START, 20), block(20, 30, kind="failed"), block(30, ROWS)]
    first = orjson.loads(records(aggregated(blocks, settings_with()))[0])
    assert first["onset"]["row"] == first["row"] == START + 10 + EVERY - 1
    assert first["seq"] == 2 * first["row"]


@pytest.mark.parametrize("methods", ["ipfi,isage,ipdp", "isage,ipdp", "ipdp"])
def test_the_watched_importance_is_that_of_the_first_method_that_has_one(methods: str) -> None:
    """For iSAGE, it is the completed contribution, as the detectors get it."""
    settings = settings_with(methods=methods)
    (first, *_) = map(orjson.loads, records(aggregated(by_cuts([]), settings)))
    end = START + EVERY
    total = float(VALUES["ipfi"][START:end].sum())
    if methods != "ipfi,isage,ipdp":
        stream = StreamAggregator.empty("s", settings)
        whole = block(START, ROWS)
        signals = [method.update(whole, slice(0, EVERY)) for method in stream.methods]
        total = sum(float(one["importance"].sum()) for one in signals if "importance" in one)
    assert first["evidence"][3]["strength"] == pytest.approx(total, abs=1e-9)
    assert (total == 0.0) == (methods == "ipdp")


def test_a_budget_of_zero_watches_nothing_and_changes_no_other_record() -> None:
    watched, unwatched = settings_with(), settings_with("drift.budget=0")
    one, other = aggregated(by_cuts([77]), watched), aggregated(by_cuts([77], watched=False), unwatched)
    assert records(one) and "incidents" in one.state()[0]
    assert not records(other) and "incidents" not in other.state()[0]
    for topic in ("importance", "effects", "drift"):
        assert records(one, topic) == records(other, topic)
    assert records(other, "importance")


def test_a_new_epoch_is_watched_anew() -> None:
    settings = settings_with()
    aggregator = PartitionAggregator(0, settings)
    ends = flush_item(stream="s", epoch=0, partition=0, first_row=ROWS, ends=True)
    for number, one in enumerate([*by_cuts([]), ends, *by_cuts([100], epoch=1)]):
        aggregator.offer(one, number)
    found = [orjson.loads(one.value) for one in aggregator.take_records() if one.topic == "incidents"]
    half = len(found) // 2
    assert [one["epoch"] for one in found] == [0] * half + [1] * half
    assert [{**one, "epoch": 0} for one in found[half:]] == found[:half]


def test_contributions_without_the_rows_are_refused_where_incidents_are_watched() -> None:
    bare = block(START, 20, watched=False)
    AggregatorTask(0, settings_with("drift.budget=0"))._check(bare)
    AggregatorTask(0, settings_with())._check(block(START, 20, kind="failed"))
    with pytest.raises(FrameError, match=r"expected the rows .inputs, target., got only"):
        AggregatorTask(0, settings_with())._check(bare)


def test_each_incident_ends() -> None:
    found = [orjson.loads(one) for one in records(aggregated(by_cuts([]), settings_with()))]
    assert [one["status"] for one in found[:4]] == ["open", "over", "open", "over"]
    assert found[1]["row"] - found[0]["row"] == LASTS
