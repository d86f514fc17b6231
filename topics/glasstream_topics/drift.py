"""`drift`: alarms of the detectors that watch a stream's explanations and its loss."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, TypedDict

import msgspec

from glasstream_topics.contract import Natural, Positive, Share, Topic, stream_key
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json

SIGNALS: Final = ("importance", "pd_importance", "curve_shape", "loss")
"""Signals that detectors watch: the importance of a feature by one method, the importance of its effect curve, the
distance of single rows' curves from the smoothed curve, and the loss of the model."""


class CurveFields(TypedDict):
    """A curve as `encode` takes it."""

    output: str | None
    grid: Sequence[float | str | bool]
    curve: Sequence[float]


class Curve(msgspec.Struct, frozen=True):
    """A feature's smoothed effect curve, with the field names of `effects`.

    Attributes
    ----------
    output
        the class whose probability the curve shows; null for regression.
    grid
        the points at which the curve is evaluated.
    curve
        the smoothed prediction at each point.
    """

    output: str | None
    grid: list[float | str | bool]
    curve: list[float]


class Detector(msgspec.Struct, frozen=True):
    """The detector that raised the alarm.

    Attributes
    ----------
    name
        name of the detector, as in `drift.detector`.
    parameters
        values of its parameters, by name.
    """

    name: str
    parameters: dict[str, float | int | str]


class Drift(Shown, msgspec.Struct, frozen=True):
    """One alarm.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    row
        row that raised the alarm.
    seq
        the event of this row. With `explain.unlabelled`, both numbers are equal where `method` is `ipdp`.
    signal
        `importance`, `pd_importance` (of the effect curve), `curve_shape` (the distance of single rows' curves from the
        smoothed curve), or `loss`; later releases may add signals.
    feature
        the feature that changed; null for the loss.
    method
        the method whose values changed; null for the loss.
    model_version
        version of the model that explained the row.
    coverage
        explained rows divided by the rows that could have been explained, from t0 on. With `explain.unlabelled`, both
        numbers count events without a label, too.
    before
        mean of the watched values before the change, as the detector sees it.
    after
        mean of the `width` values after the change.
    width
        number of values after the change.
    curve_before
        the feature's effect curve some time before the change; null if there is none. If the model has several outputs,
        this is the curve that moved furthest.
    curve_after
        the same curve at the row of the alarm; null if there is none.
    detector
        name and parameters of the detector.
    ts
        time of this event in milliseconds, as its sender gave it; absent if the event has none.
    """

    schema_version: Literal[1, 2]
    epoch: Natural
    stream: str
    row: Natural
    seq: Natural
    signal: str
    feature: str | None
    method: str | None
    model_version: Natural
    coverage: Share
    before: float
    after: float
    width: Positive
    curve_before: Curve | None
    curve_after: Curve | None
    detector: Detector
    ts: int | None = None


JSON: Final = Json("drift", Drift)
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="drift",
    title="Drift alarm",
    holds="one alarm: what changed at which row of one stream, from what to what",
    written_by=("aggregator",),
    read_by=("anyone", "alerting"),
    json=JSON,
)


def encode(
    *,
    curve_before: CurveFields | None,
    curve_after: CurveFields | None,
    detector: str,
    parameters: Mapping[str, float | int | str],
    **fields: Any,
) -> bytes:
    """Return the bytes of one alarm, with the detector's parameters sorted by name; `fields` as in `Drift`.

    Raises
    ------
    RecordError
        NaN or an infinity.
    """
    return JSON.encode(
        curve_before=_curve(curve_before),
        curve_after=_curve(curve_after),
        detector=Detector(detector, dict(sorted(parameters.items()))),
        **fields,
    )


def _curve(fields: CurveFields | None) -> Curve | None:
    return None if fields is None else Curve(fields["output"], list(fields["grid"]), list(fields["curve"]))
