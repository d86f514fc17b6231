"""Records of the public topics, as the stages write them."""

from collections.abc import Mapping, Sequence

from glasstream_topics import drift, effects, importance, novelty, predictions


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


def prediction_record(seq: int, loss: float | None, *, stream: str = "s", epoch: int = 0) -> bytes:
    return predictions.encode(
        epoch=epoch,
        stream=stream,
        seq=seq,
        id=str(seq),
        prediction="yes",
        probabilities=None,
        target=None if loss is None else "no",
        loss=loss,
        loss_name="zero_one",
        metric_name="accuracy",
        metric_value=0.5,
        model_version=seq,
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
