"""One record of every type, and the bytes that were checked in for it.

`python -m tests.support.golden_records` writes the files that are missing. It never touches one that is there: those
bytes are on the topics of users, and today's code must write and read them. A new version of a record gets a new file.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import orjson

from glasstream_topics import (
    attributions,
    checkpoints,
    comparisons,
    contributions,
    drift,
    effects,
    events,
    events_dead,
    groups,
    importance,
    incidents,
    labels,
    models,
    novelty,
    predictions,
    progress_aggregator,
    progress_intake,
    progress_labels,
    progress_learner,
    progress_novelty,
    requests,
    segments,
    snapshots,
    watching,
)

DIRECTORY: Final = Path(__file__).resolve().parents[1] / "golden"

SNAPSHOT: Final = bytes(range(256)) * 3
FINGERPRINT: Final = {"seed": 7, "model": "forest", "alpha": 0.001, "explain": True, "loss": None}


def event() -> bytes:
    return events.encode({"id": "e-1", "ts": 1700000000000, "x": {"age": 31, "car": "Škoda", "new": None}, "y": "a"})


def array_of_events() -> bytes:
    return events.encode([{"x": {"age": 31.5, "new": True}, "y": 1}, {"x": {"age": -1e-9}, "id": 12}])


def event_with_meta() -> bytes:
    meta = {"sex": "f", "branch": 7, "staff": False, "note": None}
    return events.encode({"x": {"age": 31.5}, "y": "a", "meta": meta})


def group_record(*, regression: bool = False) -> bytes:
    def mean(of: int, value: float) -> groups.Mean:
        return groups.Mean(of, value, value - 0.125, value + 0.125)

    def group(value: str, of: int) -> groups.Group:
        if regression:
            return groups.Group("value", mean(of, 0.5), value, error=mean(of, 0.25))
        rates = [mean(of, 0.25), groups.Mean(3)]
        return groups.Group("value", mean(of, 0.5), value, mean(of, 0.75), None, rates, rates, rates)

    kinds = [groups.Group("other", groups.Mean(2)), groups.Group("missing", groups.Mean(1))]
    differences = [] if regression else [groups.Differences(0.25, 0.5), groups.Differences()]
    largest = (None, None) if regression else (0.25, 0.5)
    measure, what = ("large_errors", "share of large errors") if regression else ("accuracy", "accuracy")
    values = (0.125, 0.25) if regression else (0.875, 0.75)
    odds = "(evidence 10,000 to 1)"
    text = (
        f"{what} of sex = 'f' {'rose' if regression else 'fell'} from {values[0]} to {values[1]} since row 600 {odds}"
    )
    alarms = [groups.Alarm(measure, ["f"], 600, 603, *values, 4.0, text)]  # type: ignore[arg-type]
    if not regression:
        text = f"demographic parity difference of sex rose from 0.125 to 0.25 since row 600 {odds}"
        parity = ("demographic_parity_difference", ["f", "m"], 600, 603, 0.125, 0.25, 4.0, text)
        alarms.append(groups.Alarm(*parity, "paid", "selection_rate"))  # type: ignore[arg-type]
    return groups.encode(
        epoch=0,
        stream="loans",
        seq=712,
        attribute="sex",
        loss="squared" if regression else "brier",
        classes=[] if regression else ["paid", "lost"],
        more_classes=False,
        least=30,
        level=0.95,
        left_out=1,
        window=groups.Summary(60, [group("f", 60)]),
        total=groups.Summary(703, [group("f", 300), group("m", 400), *kinds], differences, *largest, 0.125),
        alarms=alarms,
    )


def dead_letter() -> bytes:
    headers = events_dead.headers(
        epoch=0,
        reason=events_dead.Reason.REJECTED_ELEMENTS,
        topic="glasstream.events",
        partition=1,
        offset=42,
        time=1700000000000,
        detail="1 of 3 elements rejected",
        rejected=[(2, events_dead.Reason.NO_X)],
    )
    return b"\n".join(name.encode() + b": " + text for name, text in headers)


def prediction() -> bytes:
    return predictions.encode(
        epoch=0,
        stream="elec2",
        seq=100,
        id="0-1-0",
        prediction="UP",
        probabilities={"UP": 0.75, "DOWN": 0.25},
        target="DOWN",
        loss=1.0,
        loss_name="zero_one",
        metric_name="accuracy",
        metric_value=0.5,
        model_version=99,
    )


def prediction_of_many_classes() -> bytes:
    return predictions.encode(
        epoch=0,
        stream="words",
        seq=7,
        id="0-9-0",
        prediction="w000",
        probabilities={f"w{number:03}": 0.375 if number == 0 else 0.005 for number in range(126)},
        target="w125",
        loss=1.0,
        loss_name="zero_one",
        metric_name="accuracy",
        metric_value=0.5,
        model_version=6,
    )


def prediction_with_a_time() -> bytes:
    return predictions.encode(
        epoch=0,
        stream="loans",
        seq=3,
        id="loan-3",
        prediction="paid",
        probabilities={"paid": 0.75, "lost": 0.25},
        target=None,
        loss=None,
        loss_name="brier",
        metric_name="accuracy",
        metric_value=0.5,
        model_version=3,
        ts=1_767_225_600_000,
    )


def prediction_with_estimates() -> bytes:
    def expected(value: float, realised: float | None = None) -> predictions.Expected:
        return predictions.Expected(value, value - 0.125, value + 0.125, realised, None if realised is None else True)

    return predictions.encode(
        epoch=0,
        stream="loans",
        seq=1200,
        id="loan-1200",
        prediction="paid",
        probabilities={"paid": 0.75, "lost": 0.25},
        target=None,
        loss=None,
        loss_name="brier",
        metric_name="accuracy",
        metric_value=0.5,
        model_version=3,
        estimates=[
            predictions.Estimate(100, 650, 500, expected(0.75, 0.8125), expected(0.25, 0.3125), 490, 1, 1, 1),
            predictions.Estimate(651, 1200, 500, expected(0.5), expected(0.375), None, 1, 1, 1),
        ],
    )


def large_dead_letter() -> bytes:
    headers = events_dead.headers(
        epoch=0,
        reason=events_dead.Reason.REJECTED_ELEMENTS,
        topic="glasstream.events",
        partition=1,
        offset=42,
        time=1_700_000_000_000,
        detail="1001 elements rejected",
        rejected=[(index, events_dead.Reason.NO_X) for index in range(events_dead.LISTED + 1)],
        omitted_bytes=9_000_000,
        omitted_key_bytes=5_000,
    )
    return b"\n".join(name.encode() + b": " + text for name, text in headers)


def prediction_of_nothing() -> bytes:
    return predictions.encode(
        epoch=0,
        stream="bike",
        seq=0,
        id="first",
        prediction=None,
        probabilities=None,
        target=3.5,
        loss=None,
        loss_name="squared",
        metric_name="mae",
        metric_value=None,
        model_version=0,
    )


def estimate() -> bytes:
    return importance.encode(
        epoch=0,
        stream="agrawal",
        row=199,
        seq=203,
        ts=1767225600000,
        method="ipfi",
        loss="zero_one",
        alpha=0.001,
        sampling="geometric",
        n=100,
        coverage=0.5,
        model_version=128,
        lag=71,
        names=["salary", "age", "car"],
        value=np.array([0.5, -0.125, -0.125]),
        raw=np.array([0.25, -0.0625, -0.0625]),
        variance=np.array([0.0625, 0.0, 1.0]),
        staleness=0.0625,
    )


def estimate_of_isage() -> bytes:
    return importance.encode(
        epoch=0,
        stream="agrawal",
        row=199,
        seq=203,
        method="isage",
        loss="zero_one",
        alpha=0.001,
        sampling="geometric",
        n=100,
        coverage=0.5,
        model_version=128,
        lag=71,
        names=["salary", "age"],
        value=np.array([0.5, -0.125]),
        raw=np.array([0.25, -0.0625]),
        variance=np.array([0.0625, 0.0]),
        low=np.array([0.25, -0.25]),
        high=np.array([0.75, 0.0]),
        interval_kind="normal",
        interval_level=0.95,
        totals={"marginal_loss": 0.5, "model_loss": 0.125, "total": 0.375},
    )


def curve() -> bytes:
    return effects.encode(
        epoch=0,
        stream="agrawal",
        row=199,
        seq=203,
        ts=1767225600000,
        feature="age",
        output="yes",
        kind="numeric",
        grid=[20.0, 40.5, 61.0],
        curve=[0.25, 0.5, 0.125],
        margin=[0.0625, None, 0.03125],
        level=0.95,
        importance=0.15625,
        ice=[effects.IceCurve([20.0, 40.5, 61.0], [0.25, 0.5, 0.0]), effects.IceCurve([20.0, 61.0], [0.5, 0.25])],
        n=100,
        coverage=0.5,
        model_version=128,
    )


def alarm() -> bytes:
    return drift.encode(
        epoch=0,
        stream="agrawal",
        row=199,
        seq=203,
        ts=1767225600000,
        signal="pd_importance",
        feature="age",
        method="ipdp",
        model_version=128,
        coverage=0.5,
        before=0.25,
        after=0.125,
        width=64,
        curve_before={"output": "yes", "grid": [20.0, 40.5, 61.0], "curve": [0.25, 0.5, 0.125]},
        curve_after={"output": "yes", "grid": [20.0, 61.0], "curve": [0.5, 0.25]},
        detector="adwin",
        parameters={"grace_period": 500, "delta": 0.0625},
    )


def alarm_of_loss() -> bytes:
    return drift.encode(
        epoch=0,
        stream="agrawal",
        row=200,
        seq=204,
        signal="loss",
        feature=None,
        method=None,
        model_version=128,
        coverage=1.0,
        before=0.125,
        after=0.25,
        width=30,
        curve_before=None,
        curve_after=None,
        detector="kswin",
        parameters={"alpha": 0.0625, "seed": 1},
    )


def watching_record() -> bytes:
    def watched(state: str, sizes: list[watching.Detectable]) -> watching.Watched:
        return watching.Watched(state=state, known=4_600, bins=17, block=3, evidence=0.0125, detectable=sizes)

    sizes = [watching.Detectable(1_000, 0.0625, None, 2.5), watching.Detectable(10_000, 0.03125, 0.25, 1.25)]
    return watching.encode(
        epoch=1,
        stream="loans",
        row=4_999,
        seq=5_012,
        unlabelled=False,
        label=watched("watched", sizes[1:]),
        features={"car": watched("muted", []), "age": watched("watched", sizes)},
    )


def comparison() -> comparisons.Comparison:
    return comparisons.Comparison(
        schema_version=1,
        epoch=1,
        stream="loans",
        seq=5_012,
        other=comparisons.Other("fixed.", "loans", 0, 17),
        loss="absolute",
        scale=500.0,
        start=12,
        rows=5_000,
        left_out=1,
        own_loss=20.5,
        other_loss=16.25,
        difference=4.25,
        low=2.0,
        high=6.5,
        level=0.95,
        better="other",
        since_row=1_234,
        since_seq=1_246,
        evidence=3.25,
        visible=2.25,
    )


def segments_record() -> bytes:
    weak = segments.WeakSegment(
        conditions=[
            incidents.Condition("region", "in", ["north"], False),
            incidents.Condition("hour", ">=", [15.0], False),
        ],
        text="region = north and hour >= 15",
        share=0.125,
        loss=0.5,
        outside=0.25,
        low=0.125,
        high=0.375,
        since=3_000,
    )
    return segments.encode(
        epoch=1,
        stream="loans",
        row=7_999,
        seq=8_012,
        loss_name="brier",
        rows=5_000,
        loss=0.28125,
        level=0.05,
        looked=18_845,
        tested=10,
        segments=[weak],
    )


def incident() -> incidents.Incident:
    return incidents.Incident(
        schema_version=3,
        epoch=0,
        stream="agrawal",
        incident=2,
        status="open",
        row=1_263,
        seq=1_270,
        onset=incidents.Onset(row=1_200, earliest=1_187, latest=1_211, seq=1_207, ts=1_767_225_600_000),
        verdict="feature_broken",
        weight=0.75,
        alternatives=[incidents.Alternative("data_moved", 0.25)],
        features=[
            incidents.Affected("age", "scaled", factor=0.125, factor_low=0.0625, factor_high=0.25),
            incidents.Affected("car", "swapped", other="loan"),
            incidents.Affected("salary", None),
        ],
        loss_name="brier",
        loss_before=0.125,
        loss_after=0.5,
        summary="age is multiplied by about 0.125 (0.0625 to 0.25) since row 1,200; the loss rose from 0.125 to 0.5.",
        evidence=[
            incidents.Evidence("input", "age", 1_200, 12.5, 40.5, 5.0625),
            incidents.Evidence("loss", None, 1_204, 3.5, 0.125, 0.5),
        ],
        rule="unknown",
        muted=["loan"],
        where=incidents.Where(
            of="loss",
            extent="segments",
            rows_before=300,
            rows_since=150,
            change=0.375,
            segments=[
                incidents.Segment(
                    conditions=[
                        incidents.Condition("car", "in", ["Škoda"], missing=False),
                        incidents.Condition("salary", "<", [40_000.0], missing=True),
                    ],
                    text="car = Škoda and salary < 40000 or missing",
                    share_before=0.25,
                    share_since=0.28125,
                    loss_before=0.125,
                    loss_since=1.25,
                    low=0.75,
                    high=1.5,
                    carried=0.9375,
                )
            ],
        ),
        advice=incidents.Advice("fix_input", ["age"], 0.25),
    )


def novel_event(alarm: bool = False) -> bytes:
    return novelty.encode(
        epoch=0,
        stream="elec2",
        seq=1203,
        id="0-12-3",
        indicator=2.5,
        baseline=0.75,
        threshold=1.25,
        flagged=True,
        map_version=999,
        attribution={"price": -0.5, "day": 0.25},
        alarm=novelty.Alarm(before=0.0625, after=0.5, width=64) if alarm else None,
        held_threshold=0.625,
    )


def attribution(regression: bool = False) -> bytes:
    contributions = [
        attributions.Contribution("price", 0.0625, 0.25, 0.0),
        attributions.Contribution("day", "mon", -0.125, 0.0),
        attributions.Contribution("holiday", True, 0.0625, 0.0),
        attributions.Contribution("wind", None, 0.03125, 0.015625 if regression else 0.0),
    ]
    return attributions.encode(
        epoch=0,
        stream="elec2",
        seq=1203,
        model_version=1000,
        output=None if regression else "UP",
        prediction=0.75,
        link="identity",
        explained=0.75,
        base=0.5,
        background=attributions.Background(rows=100, event=1000, sampling="geometric"),
        exact=not regression,
        contributions=contributions,
        others=0.03125,
        pairs=None if regression else [attributions.Interaction("price", "day", -0.0625)],
    )


def usual_event() -> bytes:
    return novelty.encode(
        epoch=0,
        stream="elec2",
        seq=1204,
        id="0-12-4",
        indicator=0.5,
        baseline=0.25,
        threshold=1.25,
        flagged=False,
        map_version=999,
        held_threshold=0.625,
    )


def curve_of_categories() -> bytes:
    return effects.encode(
        epoch=0,
        stream="bike",
        row=99,
        seq=99,
        feature="weather",
        output=None,
        kind="categorical",
        grid=["clear", "rain"],
        curve=[3.5, 1.5],
        margin=[None, None],
        level=0.95,
        importance=0.5,
        ice=None,
        n=1,
        coverage=1.0,
        model_version=64,
    )


def block() -> requests.ExplainRequest:
    return requests.ExplainRequest(
        stream="agrawal/a",
        epoch=0,
        partition=1,
        first_row=100,
        version=64,
        seqs=np.array([100, 102, 103]),
        x=np.array([[1.5, 0.0], [np.nan, 2.0], [-0.0, 3.0]]),
        y=np.array([0.0, 1.0, 1.0]),
        draws={
            "ipfi": np.arange(12.0).reshape(3, 2, 2),
            "isage": np.arange(6.0).reshape(3, 1, 1, 2),
            "isage.order": np.array([[0, 1], [1, 0], [0, 1]]),
            "ipdp.row": np.array([0, 0, 2], np.int32),
            "ipdp.place": np.array([0, 2, 1], np.int32),
            "ipdp.value": np.array([20.0, 61.0, 0.0]),
        },
        names=["age", "car"],
        kinds=[0, 2],
        classes=["no", "yes"],
        task="classification",
        loss="zero_one",
        new_categories={1: requests.NewCategories(2, ("Škoda", "Tatra"))},
        texts={1: {0: "Praga"}},
        grid=requests.Grid(2, 10, True),
        staleness=0.0625,
        flush_before=True,
    )


def explained() -> contributions.Contributions:
    return contributions.Contributions(
        stream="agrawal/a",
        epoch=0,
        partition=1,
        first_row=100,
        version=64,
        seqs=np.array([100, 102, 103]),
        kind="ok",
        names=["age", "car"],
        kinds=[0, 2],
        classes=["no", "yes"],
        outputs=["yes"],
        texts={1: {0: "Praga"}},
        staleness=0.0625,
        values={
            "ipfi": np.array([[0.5, 0.0], [1.0, -1.0], [0.0, -0.0]]),
            "isage": np.array([[0.5, -1.0], [1.0, -1.0], [0.0, -0.0]]),
            "isage.first": np.array([0, 1, 0]),
            "loss": np.array([0.0, 1.0, 0.0]),
            "isage.model_loss": np.array([0.0, 1.0, 0.0]),
            "isage.prediction": np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]]),
            "isage.target": np.array([1.0, -1.0, 0.0]),
            "ipdp": np.arange(12.0).reshape(3, 2, 2, 1),
            "ipdp.points": np.array([[[1.0, 0.0], [2.0, np.nan]]] * 3),
        },
        loss="zero_one",
        flush_before=True,
    )


def watched() -> contributions.Contributions:
    """The same, of a stream that is watched for incidents and whose newest class is not one of the model's yet."""
    rows = {"inputs": np.array([[1.5, 0.0], [np.nan, 2.0], [-0.0, 3.0]]), "target": np.array([0.0, 1.0, 2.0])}
    of = explained()
    return replace(of, values={**of.values, **rows}, new_classes=["maybe"], times=[1_767_225_600_000, None, 0])


def failed() -> contributions.Contributions:
    return contributions.Contributions(
        stream="agrawal/a",
        epoch=0,
        partition=1,
        first_row=103,
        version=64,
        seqs=np.array([104]),
        kind="failed",
        names=["age", "car"],
        kinds=[0, 2],
        reason="ValueError: no",
        loss="zero_one",
    )


def learner_partition() -> progress_learner.LearnerPartitionProgress:
    return progress_learner.LearnerPartitionProgress(
        epoch=0, first_offset=0, offset=12, used=3, fingerprint=dict(FINGERPRINT)
    )


def checkpoint() -> checkpoints.Checkpoint:
    return checkpoints.Checkpoint(
        stream="elec2",
        epoch=0,
        rows=64,
        seqs=66,
        offset=7,
        used=3,
        fingerprint=dict(FINGERPRINT),
        form="sealed",
        state=SNAPSHOT,
    )


def learner_stream() -> progress_learner.LearnerStreamProgress:
    return progress_learner.LearnerStreamProgress(
        stream="elec2",
        epoch=0,
        seqs=103,
        rows=100,
        first_offset=5,
        snapshots={"64": 1, "100": 2},
        counts={"unlabelled": 3, "retyped": 1},
        after=12,
    )


def aggregator_partition() -> progress_aggregator.AggregatorPartitionProgress:
    return progress_aggregator.AggregatorPartitionProgress(epoch=0, offset=9, fingerprint=dict(FINGERPRINT))


def aggregator_state() -> progress_aggregator.AggregatorState:
    return progress_aggregator.AggregatorState(
        progress=progress_aggregator.AggregatorStreamProgress(stream="elec2", epoch=0, next_row=200, published_row=199),
        meta={"names": ["age", "car"], "count": 100},
        arrays={"raw": np.array([0.25, 0.5]), "weight": np.array([1.0, 0.5])},
    )


def novelty_partition() -> progress_novelty.NoveltyPartitionProgress:
    return progress_novelty.NoveltyPartitionProgress(epoch=0, offset=12, used=3, fingerprint=dict(FINGERPRINT))


def novelty_stream() -> progress_novelty.NoveltyStreamProgress:
    return progress_novelty.NoveltyStreamProgress(stream="elec2", epoch=0, first_offset=5, seqs=103, anchor=100)


def anchor() -> progress_novelty.Anchor:
    return progress_novelty.Anchor(
        stream="elec2",
        epoch=0,
        offset=11,
        used=2,
        seqs=100,
        meta={"names": ["age", "car"], "labelled": 98},
        arrays={"window/rows": np.array([[0.25, 0.5], [np.nan, 1.0]]), "window/seqs": np.array([98, 99])},
    )


def _anchor_chunk(index: int) -> bytes:
    _, value = progress_novelty.encode_anchor(anchor(), limit=256)[index]
    if value is None:
        raise ValueError("an anchor has no tombstone for its first chunks")
    return value


def _aggregator_stream(index: int) -> bytes:
    _, value = progress_aggregator.encode_stream(aggregator_state())[index]
    if value is None:
        raise ValueError("a state has no tombstone for its first chunk")
    return value


def _mark_in_requests(ends: bool = False) -> bytes:
    return requests.encode(requests.flush_item(stream="elec2", epoch=0, partition=0, first_row=200, ends=ends))


def _mark_in_contributions(ends: bool = False) -> bytes:
    item = contributions.flush_item(stream="elec2", epoch=0, partition=0, first_row=200, ends=ends)
    return contributions.encode(item)


GOLDEN: Final[dict[str, Callable[[], bytes]]] = {
    "events.v1.one.json": event,
    "events.v1.array.json": array_of_events,
    "events.v1.flush.json": lambda: events.FLUSH,
    "events.v1.reset.json": lambda: events.RESET,
    "events.v1.label.json": lambda: labels.encode({"id": "e-1", "y": "a"}),
    "events.v1.labelled.json": lambda: events.encode([{"x": {"age": 31.5}, "id": 12}, {"id": 12, "y": 1.5}]),
    "labels.v1.one.json": lambda: labels.encode({"id": 12, "y": True, "ts": 1_700_000_000_000}),
    "labels.v1.array.json": lambda: labels.encode([{"id": "e-1", "y": "a"}, {"id": 12, "y": 1.5}]),
    "events.v2.meta.json": event_with_meta,
    "events.dead.v1.headers.txt": dead_letter,
    "events.dead.v1.cut.txt": large_dead_letter,
    "predictions.v1.json": prediction,
    "predictions.v1.others.json": prediction_of_many_classes,
    "predictions.v1.nothing.json": prediction_of_nothing,
    "predictions.v1.ts.json": prediction_with_a_time,
    "predictions.v1.estimates.json": prediction_with_estimates,
    "groups.v2.json": group_record,
    "groups.v2.regression.json": lambda: group_record(regression=True),
    "importance.v2.json": estimate,
    "importance.v2.isage.json": estimate_of_isage,
    "drift.v2.json": alarm,
    "drift.v2.loss.json": alarm_of_loss,
    "incidents.v3.json": lambda: incidents.encode(incident()),
    "watching.v1.json": watching_record,
    "comparisons.v1.json": lambda: comparisons.encode(comparison()),
    "segments.v1.json": segments_record,
    "attributions.v2.json": attribution,
    "attributions.v2.regression.json": lambda: attribution(regression=True),
    "novelty.v2.json": usual_event,
    "novelty.v2.flagged.json": novel_event,
    "novelty.v2.alarm.json": lambda: novel_event(alarm=True),
    "effects.v2.json": curve,
    "effects.v2.categories.json": curve_of_categories,
    "explain.requests.v1.bin": lambda: requests.encode(block()),
    "explain.requests.v1.watched.bin": lambda: requests.encode(replace(block(), watched=True, times=[None, 7, -1])),
    "explain.requests.v1.flush.bin": _mark_in_requests,
    "explain.requests.v1.reset.bin": lambda: _mark_in_requests(ends=True),
    "contributions.v1.ok.bin": lambda: contributions.encode(explained()),
    "contributions.v1.watched.bin": lambda: contributions.encode(watched()),
    "contributions.v1.failed.bin": lambda: contributions.encode(failed()),
    "contributions.v1.flush.bin": _mark_in_contributions,
    "contributions.v1.reset.bin": lambda: _mark_in_contributions(ends=True),
    "models.v1.chunk-0.bin": lambda: models.split(SNAPSHOT, limit=512)[0][1],
    "models.v1.chunk-1.bin": lambda: models.split(SNAPSHOT, limit=512)[1][1],
    "snapshots.v1.chunk-0.bin": lambda: snapshots.split("elec2", 0, 64, SNAPSHOT, limit=512)[0][1],
    "snapshots.v1.chunk-1.bin": lambda: snapshots.split("elec2", 0, 64, SNAPSHOT, limit=512)[1][1],
    "checkpoints.v2.chunk-0.bin": lambda: checkpoints.split(checkpoint(), limit=4096)[0][1],
    "progress.learner.v1.partition.json": lambda: progress_learner.encode(learner_partition())[1],
    "progress.learner.v1.stream.json": lambda: progress_learner.encode(learner_stream())[1],
    "progress.aggregator.v1.partition.json": lambda: progress_aggregator.encode_partition(aggregator_partition())[1],
    "progress.aggregator.v1.stream.json": lambda: _aggregator_stream(0),
    "progress.aggregator.v1.state.bin": lambda: _aggregator_stream(1),
    "progress.novelty.v1.partition.json": lambda: progress_novelty.encode(novelty_partition())[1],
    "progress.novelty.v1.stream.json": lambda: progress_novelty.encode(novelty_stream())[1],
    "progress.novelty.v1.anchor-0.bin": lambda: _anchor_chunk(0),
    "progress.novelty.v1.anchor-1.bin": lambda: _anchor_chunk(1),
    "progress.intake.v1.json": lambda: progress_intake.encode(
        progress_intake.IntakeTypes({"age": "number", "/shop/name": "text"}, {"paid": "boolean"})
    )[1],
    "progress.labels.v1.json": lambda: progress_labels.encode(progress_labels.LabelsPartitionProgress(offset=42))[1],
}


def checked_in(name: str) -> bytes:
    """The bytes of a golden file."""
    return (DIRECTORY / name).read_bytes()


def fields(data: bytes) -> list[str]:
    """Names of a JSON record's fields, in their order."""
    return list(orjson.loads(data))


if __name__ == "__main__":
    for file, encoder in GOLDEN.items():
        if not (DIRECTORY / file).exists():
            (DIRECTORY / file).write_bytes(encoder())
