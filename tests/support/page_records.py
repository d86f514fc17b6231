"""Records of the public topics, as the stages write them."""

from collections.abc import Mapping, Sequence

import msgspec

from glasstream_topics import (
    attributions,
    comparisons,
    drift,
    effects,
    groups,
    importance,
    novelty,
    predictions,
    segments,
    watching,
)
from glasstream_topics.incidents import Advice, Affected, Alternative, Evidence, Incident, Onset


def importance_record(
    row: int,
    values: Mapping[str, float],
    *,
    stream: str = "s",
    method: str = "ipfi",
    epoch: int = 0,
    coverage: float = 1.0,
    lag: int = 7,
) -> bytes:
    """An interval of ±0.1 around each value."""
    numbers = list(values.values())
    return importance.encode(
        epoch=epoch,
        stream=stream,
        row=row,
        seq=row,
        method=method,
        loss="zero_one",
        alpha=0.001,
        sampling="geometric",
        n=row + 1,
        coverage=coverage,
        model_version=max(0, row - lag),
        lag=lag,
        names=list(values),
        value=numbers,
        raw=numbers,
        variance=[0.5] * len(numbers),
        low=[value - 0.1 for value in numbers],
        high=[value + 0.1 for value in numbers],
        interval_kind="normal",
        interval_level=0.95,
    )


def effect_record(row: int, feature: str, curve: Sequence[float], *, stream: str = "s") -> bytes:
    return effects.encode(
        epoch=0,
        stream=stream,
        row=row,
        seq=row,
        feature=feature,
        output="yes",
        kind="numeric",
        grid=[float(at) for at in range(len(curve))],
        curve=curve,
        margin=[0.125] * len(curve),
        level=0.95,
        importance=max(curve) - min(curve),
        ice=None,
        n=row + 1,
        coverage=1.0,
        model_version=row,
    )


def drift_record(row: int, feature: str | None, before: float, after: float, *, stream: str = "s") -> bytes:
    curves = {"output": "yes", "grid": [0.0, 1.0, 2.0], "curve": [0.1, 0.2, 0.3]}
    return drift.encode(
        epoch=0,
        stream=stream,
        row=row,
        seq=row,
        signal="loss" if feature is None else "importance",
        feature=feature,
        method=None if feature is None else "ipfi",
        model_version=row,
        coverage=1.0,
        before=before,
        after=after,
        width=64,
        curve_before=None if feature is None else {**curves},
        curve_after=None if feature is None else {**curves, "curve": [0.3, 0.2, 0.1]},
        detector="adwin",
        parameters={"delta": 1e-5},
    )


def incident_record(
    row: int,
    incident: int,
    *,
    onset: int | None = None,
    status: str = "open",
    verdict: str = "feature_broken",
    summary: str = "",
    stream: str = "s",
) -> bytes:
    """An incident that began 50 rows before, unless its onset is given."""
    onset = max(0, row - 50) if onset is None else onset
    record = Incident(
        schema_version=1,
        epoch=0,
        stream=stream,
        incident=incident,
        status=status,
        row=row,
        seq=row,
        onset=Onset(onset, max(0, onset - 20), onset + 20, onset + 1, 1_767_225_600_000),
        verdict=verdict,
        weight=0.625,
        alternatives=[Alternative("data_moved", 0.25), Alternative("unclear", 0.125)],
        features=[Affected("salary", "scaled", factor=1000.0), Affected("age", "swapped", other="loan")],
        advice=Advice("fix_input", ["salary"], None),
        loss_name="zero_one",
        loss_before=0.125,
        loss_after=0.5,
        summary=summary or f"incident {incident}",
        evidence=[
            Evidence("input", "salary", onset, 42.5, 80_123.0, 80_123_000.0),
            Evidence("reasoning", "salary", onset + 30, 7.25, 0.25, 0.0625),
            Evidence("loss", None, onset + 12, 5.5, 0.125, 0.5),
            Evidence("label", None, onset + 40, 2.0, None, 0.75),
        ],
    )
    return msgspec.json.encode(record)


def prediction_record(
    seq: int,
    loss: float | None,
    *,
    prediction: str | float = "yes",
    target: str | float = "no",
    stream: str = "s",
    epoch: int = 0,
    ts: int | None = None,
) -> bytes:
    return predictions.encode(
        epoch=epoch,
        stream=stream,
        seq=seq,
        id=str(seq),
        prediction=prediction,
        probabilities=None,
        target=None if loss is None else target,
        loss=loss,
        loss_name="zero_one",
        metric_name="accuracy",
        metric_value=0.5,
        model_version=seq,
        ts=ts,
    )


def novelty_record(seq: int, *, flagged: bool, stream: str = "s") -> bytes:
    return novelty.encode(
        epoch=0,
        stream=stream,
        seq=seq,
        id=f"id-{seq}",
        indicator=3.0 if flagged else 0.5,
        baseline=1.0,
        threshold=2.0,
        flagged=flagged,
        map_version=0,
        attribution={"a": 0.5, "b": -2.0} if flagged else None,
    )


def attribution_record(
    seq: int,
    contributions: Mapping[str, float],
    *,
    output: str | None = "yes",
    stream: str = "s",
    epoch: int = 0,
) -> bytes:
    """Contributions to a base of 0.25, exact and complete."""
    explained = 0.25 + sum(contributions.values())
    record = attributions.Attribution(
        schema_version=1,
        epoch=epoch,
        stream=stream,
        seq=seq,
        model_version=max(0, seq - 7),
        output=output,
        prediction=explained,
        link="identity",
        explained=explained,
        base=0.25,
        background=attributions.Background(100, seq // 1_000 * 1_000, "geometric"),
        exact=True,
        contributions=[attributions.Contribution(name, 19.5, one, 0.0) for name, one in contributions.items()],
        others=0.0,
    )
    return msgspec.json.encode(record)


def segments_record(row: int, *texts: str, stream: str = "s", epoch: int = 0) -> bytes:
    return segments.encode(
        epoch=epoch,
        stream=stream,
        row=row,
        seq=row,
        loss_name="brier",
        rows=5_000,
        loss=0.25,
        level=0.05,
        looked=1_000,
        tested=10,
        segments=[segments.WeakSegment([], text, 0.125, 0.5, 0.25, 0.125, 0.375, 3_000) for text in texts],
    )


def watching_record(row: int, states: Mapping[str, str], *, stream: str = "s", epoch: int = 0) -> bytes:
    """With one horizon for the features that are watched."""
    sizes = [watching.Detectable(1_000, 0.0625, None, 2.5)]
    return watching.encode(
        epoch=epoch,
        stream=stream,
        row=row,
        seq=row,
        unlabelled=False,
        label=watching.Watched("watched", row, 2, 1, 0.0, sizes),
        features={
            name: watching.Watched(state, row, 17, 3, 0.5, sizes if state == "watched" else [])
            for name, state in states.items()
        },
    )


def group_record(rows: int, attribute: str = "sex", *, alarms: Sequence[str] = (), epoch: int = 0) -> bytes:
    """Two classes: 40 rows of one group, few of a second one, and the rest of a third. The rarer class is b."""

    def rates(of: int, more: float) -> list[groups.Mean]:
        first, second = groups.Mean(3 * of, 1.0 - more, 0.25, 1.0), groups.Mean(of, more, 0.0, 0.75)
        return [first, second]

    found = []
    for value, of, more in (("f", 40, 0.25), ("m", rows - 45, 0.5)):
        columns = [rates(of // 4, more)] * 3
        accuracy = groups.Mean(of, 0.75, 0.5, 0.875)
        found.append(groups.Group("value", groups.Mean(of, 0.125, 0.0, 0.25), value, accuracy, None, *columns))
    few = [groups.Mean(1), groups.Mean(1)]
    found.append(groups.Group("missing", groups.Mean(5), None, groups.Mean(5), None, few, few, few))
    both = [groups.Differences(0.25, 0.5)] * 2
    total = groups.Summary(rows, found, both, 0.25, 0.5, 0.0)
    claims = [groups.Alarm("accuracy", ["f"], 10, 9, 0.875, 0.75, 4.0, text) for text in alarms]
    return groups.encode(
        epoch=epoch, stream="s", seq=rows, attribute=attribute, loss="brier", classes=["a", "b"], more_classes=False,
        least=30, level=0.95, left_out=0, window=total, total=total, alarms=claims,
    )  # fmt: skip


def comparison_record(
    rows: int, better: str | None = None, other: str = "s", *, start: int = 0, epoch: int = 0
) -> bytes:
    """A comparison of the stream `s` with one of another deployment."""
    since = None if better is None else 1
    record = comparisons.Comparison(
        1, epoch, "s", rows, comparisons.Other("other.", other, 0, start), "brier", None, start, rows, 0, 0.5, 0.25,
        0.25, 0.125, 0.375, 0.95, better, since, since, 2.0, 0.125,  # type: ignore[arg-type]
    )  # fmt: skip
    return comparisons.encode(record)
