"""Alarms of a stream: the same however blocks are cut and whoever aggregates them; and what they carry."""

from itertools import pairwise
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.base.errors import StateError
from glasstream.detect.drift.adwin import Adwin
from glasstream.explain.pdp.curves import Curves
from glasstream.flow.aggregator import alarms
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.settings import Settings
from glasstream_topics import frames
from glasstream_topics.contributions import Contributions
from tests.support.examples import examples

START, ROWS, AT = 5, 2_400, 1_600
ADWIN = {"delta": 1e-5, "clock": 8, "max_buckets": 5, "min_window_length": 5, "grace_period": 50}


def settings_with(*changes: str) -> Settings:
    return load(
        assignments=[
            "explain.methods=ipfi,isage,ipdp", "explain.alpha=0.002", f"explain.reservoir={START}", "ipdp.ice=0",
            "drift.test_interval=8", "drift.grace=50", "drift.min_change=0", "drift.budget=0", *changes,
        ]
    )  # fmt: skip


SETTINGS = settings_with()

RANDOM = np.random.Generator(np.random.PCG64(9))
LATE = np.arange(ROWS) >= AT
POINTS = np.broadcast_to(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, np.nan]]), (ROWS, 3, 2))
"""The first feature is a number, the second a text of two categories."""
ICE = RANDOM.normal(0.5, 0.02, size=(ROWS, 2, 3))
ICE[:, 0] += np.where(LATE[:, np.newaxis], [-0.3, 0.0, 0.3], 0.0)
ICE[np.isnan(POINTS.transpose(0, 2, 1))] = np.nan
VALUES = {
    "ipfi": RANDOM.normal(0.1, 0.1, size=(ROWS, 2)) + LATE[:, np.newaxis] * [0.3, 0.0],
    "isage": RANDOM.normal(0.0, 0.1, size=(ROWS, 2)) + LATE[:, np.newaxis] * [0.0, 0.3],
    "isage.first": np.ones(ROWS, np.int64),
    "isage.model_loss": RANDOM.random(ROWS) * 0.2 + LATE * 0.3,
    "isage.prediction": np.full((ROWS, 2), 0.5),
    "isage.target": np.ones(ROWS),
    "ipdp": ICE[:, :, :, np.newaxis],
    "ipdp.points": POINTS,
}
VALUES["loss"] = VALUES["isage.model_loss"]


def block(first: int, end: int, kind: str = "ok") -> Contributions:
    return Contributions(
        stream="s",
        epoch=0,
        partition=0,
        first_row=first,
        version=first // 500 * 500,
        seqs=np.arange(first, end) * 2,
        kind=kind,
        names=["size", "town"],
        kinds=[0, 2],
        classes=["no", "yes"],
        outputs=["yes"],
        texts={1: {0: "Brno", 1: "Aš"}},
        values={name: values[first:end] for name, values in VALUES.items()} if kind == "ok" else {},
        loss="brier",
    )


def aggregated(cuts: list[int], settings: Settings = SETTINGS, failed: slice = slice(0, 0)) -> StreamAggregator:
    aggregator = StreamAggregator.empty("s", settings)
    for first, end in pairwise([START, *cuts, ROWS]):
        aggregator.offer(block(first, end, "failed" if failed.start <= first < failed.stop else "ok"), first)
    return aggregator


def told(aggregator: StreamAggregator) -> list[bytes]:
    return [record.value for record in aggregator.records if record.topic == "drift"]


def found(aggregator: StreamAggregator) -> list[dict[str, Any]]:
    return [orjson.loads(alarm) for alarm in told(aggregator)]


SNAPSHOTS = [500, 1_000, 1_500, 2_000]
QUIET = found(aggregated(SNAPSHOTS))
cut_points = st.lists(st.integers(START + 1, ROWS - 1), max_size=6).map(lambda cuts: sorted({*cuts, *SNAPSHOTS}))


def test_what_changes_is_told_and_nothing_before_it() -> None:
    told = {(one["signal"], one["method"], one["feature"]) for one in QUIET}
    assert {
        ("importance", "ipfi", "size"),
        ("importance", "isage", "town"),
        ("pd_importance", "ipdp", "size"),
        ("curve_shape", "ipdp", "size"),
        ("loss", None, None),
    } <= told
    assert not told & {("importance", "ipfi", "town"), ("pd_importance", "ipdp", "town")}
    assert all(one["row"] >= AT for one in QUIET)
    assert [one["row"] for one in QUIET] == sorted(one["row"] for one in QUIET)
    first = next(one for one in QUIET if one["method"] == "ipfi")
    assert first["row"] < AT + 100 and first["seq"] == 2 * first["row"] and first["model_version"] == 1_500
    assert first["before"] == pytest.approx(0.1, abs=0.03) and first["after"] > 0.15 and first["coverage"] == 1.0
    assert first["detector"] == {"name": "adwin", "parameters": dict(sorted({**ADWIN, "delta": 1e-5 / 9}.items()))}


def test_the_alarms_are_those_of_the_detector_fed_with_the_contributions() -> None:
    wanted = Adwin.empty().update(VALUES["ipfi"][START:], {**ADWIN, "delta": 1e-5 / 9})
    ipfi = [one for one in QUIET if one["method"] == "ipfi"]
    assert [(one["row"], one["before"], one["after"], one["width"]) for one in ipfi] == [
        (START + alarm.row, alarm.before, alarm.after, alarm.width) for alarm in wanted
    ]


def test_an_alarm_carries_the_curve_of_its_row_and_one_from_before_the_change() -> None:
    for one in QUIET:
        if one["signal"] == "loss":
            assert one["curve_before"] is None and one["curve_after"] is None
            continue
        slot = ["size", "town"].index(one["feature"])
        kept = [row for row in range(alarms.EVERY - 1, ROWS, alarms.EVERY) if row < one["row"] - one["width"] + 1]
        for name, row in (("curve_before", max(kept, default=alarms.EVERY - 1)), ("curve_after", one["row"])):
            curve = curve_after(row)[slot]
            assert one[name]["output"] == "yes"
            assert sorted(one[name]["curve"]) == sorted(curve), (name, row)
        assert one["curve_after"]["grid"] == ([0.0, 1.0, 2.0] if slot == 0 else ["Aš", "Brno"])


def curve_after(row: int) -> dict[int, list[float]]:
    curves = Curves(0.002, 0)
    rows = slice(START, row + 1)
    curves.update(POINTS[rows], ICE[rows, :, :, np.newaxis], np.array([False, True]), ["yes"])
    return {effect.slot: effect.curve for effect in curves.effects()}


@given(cuts=cut_points)
@examples(20)
def test_cuts_change_no_alarm(cuts: list[int]) -> None:
    assert found(aggregated(cuts)) == QUIET


@pytest.mark.parametrize(
    "changes",
    [
        [],
        ["drift.values=smoothed"],
        ["drift.detector=page_hinkley", "drift.grace=30", "drift.threshold=5"],
    ],
)
@pytest.mark.parametrize("at", [900, 1_000, 1_001, 1_650])
def test_a_successor_goes_on_to_the_same_alarms(changes: list[str], at: int) -> None:
    settings = settings_with(*changes)
    whole = told(aggregated([*SNAPSHOTS], settings))
    assert whole
    cuts = sorted({*SNAPSHOTS, at})
    first = StreamAggregator.empty("s", settings)
    for one, end in pairwise([START, *[cut for cut in cuts if cut <= at]]):
        first.offer(block(one, end), one)
    meta, arrays = first.state()
    frame = frames.decode(frames.encode("state", 1, meta, arrays), "state", 1)
    second = StreamAggregator.restore("s", settings, frame.meta, frame.arrays)
    for one, end in pairwise([at, *[cut for cut in cuts if cut > at], ROWS]):
        second.offer(block(one, end), one)
    assert told(first) + told(second) == whole


def test_rows_that_failed_feed_nothing_and_lower_the_coverage() -> None:
    holes = found(aggregated(sorted({*SNAPSHOTS, 700, 720}), failed=slice(700, 720)))
    ipfi = [one for one in holes if one["method"] == "ipfi"]
    rows = np.r_[START:700, 720:ROWS]
    wanted = Adwin.empty().update(VALUES["ipfi"][rows], {**ADWIN, "delta": 1e-5 / 9})
    assert [one["row"] for one in ipfi] == [int(rows[alarm.row]) for alarm in wanted]
    assert all(one["coverage"] == (one["row"] + 1 - START - 20) / (one["row"] + 1 - START) for one in holes)


def test_smoothed_pd_importance_is_that_of_the_smoothed_curve() -> None:
    watched = settings_with(
        "explain.methods=ipdp", "drift.watch=pd_importance", "drift.values=smoothed", "drift.pd=squares",
        "drift.bonferroni=false",
    )  # fmt: skip
    curves = Curves(0.002, 0)
    said = curves.update(POINTS[START:], ICE[START:, :, :, np.newaxis], np.array([False, True]), ["yes"])
    wanted = Adwin.empty().update(said.smoothed_deviation[:, :, 0].copy(), ADWIN)
    told = found(aggregated(SNAPSHOTS, watched))
    assert told and [(one["row"], one["feature"]) for one in told] == [
        (START + alarm.row, ["size", "town"][alarm.series]) for alarm in wanted
    ]


def test_small_changes_of_curves_are_not_told() -> None:
    def told(least: float) -> list[dict[str, Any]]:
        return found(aggregated(SNAPSHOTS, settings_with(f"drift.min_change={least!r}")))

    (steep,) = [one for one in QUIET if one["signal"] == "pd_importance"]
    curves = Curves(0.002, 0)
    rows = slice(START, steep["row"] + 1)
    curves.update(POINTS[rows], ICE[rows, :, :, np.newaxis], np.array([False, True]), ["yes"])
    share = (steep["after"] - steep["before"]) / sum(effect.importance for effect in curves.effects())
    assert steep in told(share * 0.999) and steep not in told(share * 1.001)
    assert told(1e9) == [one for one in QUIET if one["signal"] in ("importance", "loss")]


def test_nothing_is_watched_without_settings_and_only_what_is_asked_with_them() -> None:
    assert not found(aggregated(SNAPSHOTS, settings_with("drift.watch=none")))
    loss = found(aggregated(SNAPSHOTS, settings_with("drift.watch=loss")))
    assert loss and {one["signal"] for one in loss} == {"loss"}
    assert loss[0]["detector"]["parameters"]["delta"] == 1e-5


def test_a_state_without_detectors_is_refused() -> None:
    meta, arrays = aggregated(SNAPSHOTS).state()
    del meta["drift"]
    with pytest.raises(StateError, match="drift alarms: Expected `object`, got `null`"):
        StreamAggregator.restore("s", SETTINGS, meta, arrays)
    meta, arrays = aggregated(SNAPSHOTS).state()
    del arrays["drift/importance/ipfi/sums"]
    with pytest.raises(StateError, match="expected an array 'sums'"):
        StreamAggregator.restore("s", SETTINGS, meta, arrays)
