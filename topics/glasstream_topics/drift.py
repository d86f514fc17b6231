"""`drift`: alarms of the detectors that watch a stream's explanations and its loss."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal, TypedDict

import msgspec

from glasstream_topics.contract import Topic
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

SIGNALS: Final = ("importance", "pd_importance", "curve_shape", "loss")
"""Signals that detectors watch: the importance of a feature by one method, the importance of its effect curve, the
distance of single rows' curves from the smoothed curve, and the loss of the model."""

TOPIC: Final = Topic(
    name="drift",
    holds="one alarm: what changed at which row of one stream, from what to what",
    key="stream",
    partitioning="murmur2 of the key",
    partitions="events",
    codec="json",
    read_by=("anyone", "alerting"),
    public=True,
    schema_version=VERSION,
    config={"cleanup.policy": "delete"},
)

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class CurveFields(TypedDict):
    """A curve as `encode` takes it."""

    output: str | None
    grid: Sequence[float | str | bool]
    curve: Sequence[float]


class Curve(msgspec.Struct, frozen=True):
    """A feature's smoothed effect curve, with the field names of `effects`."""

    output: str | None
    grid: list[float | str | bool]
    curve: list[float]


class Detector(msgspec.Struct, frozen=True):
    """The detector that raised the alarm."""

    name: str
    parameters: dict[str, float | int | str]


class Drift(msgspec.Struct, frozen=True):
    """One alarm.

    Attributes
    ----------
    epoch, stream, row
        the row that raised the alarm.
    seq
        the event of this row.
    signal
        `importance`, `pd_importance` (of the effect curve), `curve_shape` (the distance of single rows' curves from the
        smoothed curve), or `loss`; later releases may add signals.
    feature
        the feature that changed; null for the loss.
    method
        the method whose values changed; null for the loss.
    model_version, coverage
        as in `importance`.
    before, after
        mean of the watched values before and after the change, as the detector sees it.
    width
        number of values after the change.
    curve_before
        the feature's effect curve some time before the change; null if there is none. If the model has several outputs,
        this is the curve that moved furthest.
    curve_after
        the same curve at the row of the alarm; null if there is none.
    detector
        name and parameters of the detector.
    """

    schema_version: Literal[1]
    epoch: _Natural
    stream: str
    row: _Natural
    seq: _Natural
    signal: str
    feature: str | None
    method: str | None
    model_version: _Natural
    coverage: _Share
    before: float
    after: float
    width: _Positive
    curve_before: Curve | None
    curve_after: Curve | None
    detector: Detector


_decoder: Final = msgspec.json.Decoder(Drift)


def key(stream: str) -> bytes:
    """Return the key of a stream's alarms."""
    return stream.encode()


def encode(
    *,
    epoch: int,
    stream: str,
    row: int,
    seq: int,
    signal: str,
    feature: str | None,
    method: str | None,
    model_version: int,
    coverage: float,
    before: float,
    after: float,
    width: int,
    curve_before: CurveFields | None,
    curve_after: CurveFields | None,
    detector: str,
    parameters: Mapping[str, float | int | str],
) -> bytes:
    """Return the bytes of one alarm, with the detector's parameters sorted by name.

    Raises
    ------
    RecordError
        NaN or an infinity.
    """
    return encode_record(
        "drift",
        {
            "schema_version": VERSION,
            "epoch": epoch,
            "stream": stream,
            "row": row,
            "seq": seq,
            "signal": signal,
            "feature": feature,
            "method": method,
            "model_version": model_version,
            "coverage": coverage,
            "before": before,
            "after": after,
            "width": width,
            "curve_before": _ordered(curve_before),
            "curve_after": _ordered(curve_after),
            "detector": {"name": detector, "parameters": dict(sorted(parameters.items()))},
        },
    )


def _ordered(curve: CurveFields | None) -> CurveFields | None:
    """Return the curve with its fields in the order of the record."""
    return None if curve is None else {"output": curve["output"], "grid": curve["grid"], "curve": curve["curve"]}


def decode(data: bytes) -> Drift:
    """Decode an alarm.

    Raises
    ------
    RecordError
        the bytes are not an alarm.
    """
    return decode_record("drift", data, _decoder)
