"""`effects`: how the prediction depends on one feature, as of one row (iPDP curves)."""

from typing import Final, Literal

import msgspec

from glasstream_topics.contract import CURRENT, Natural, Positive, Share, Topic
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json


class IceCurve(msgspec.Struct, frozen=True):
    """The curve of a single row.

    Attributes
    ----------
    grid
        the points at which it was evaluated.
    curve
        the prediction at each point.
    """

    grid: list[float | str | bool]
    curve: list[float]


class Effect(Shown, msgspec.Struct, frozen=True):
    """One feature's smoothed effect on one output, as of one row.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    row
        newest row in the estimate.
    seq
        the event of this row. With `explain.unlabelled`, all events are rows of effects, and both numbers are equal.
    feature
        name of the feature.
    output
        the class whose probability the curve shows; null for regression.
    kind
        `numeric`: the grid follows the feature's range; `categorical`: the grid has one point per category in use.
    grid
        the points at which the curve is evaluated.
    curve
        the smoothed prediction at each point.
    margin
        half the width of the interval at each point, which reaches from `curve` - `margin` to `curve` + `margin`; null
        where there are too few rows.
    level
        probability with which such an interval contains the expectation of its point.
    importance
        importance of the curve: the standard deviation of its values (numeric), or a quarter of their range
        (categorical).
    ice
        curves of the last single rows, oldest first; null if none are kept.
    n
        number of rows in the estimate.
    coverage
        explained rows divided by the rows that could have been explained, from t0 on. With `explain.unlabelled`, both
        numbers count events without a label, too.
    model_version
        version of the model that explained the row.
    ts
        time of this event in milliseconds, as its sender gave it; absent if the event has none.
    """

    schema_version: Literal[1, 2]
    epoch: Natural
    stream: str
    row: Natural
    seq: Natural
    feature: str
    output: str | None
    kind: Literal["numeric", "categorical"]
    grid: list[float | str | bool]
    curve: list[float]
    margin: list[float | None]
    level: Share
    importance: float
    ice: list[IceCurve] | None
    n: Positive
    coverage: Share
    model_version: Natural
    ts: int | None = None


def key(stream: str, feature: str, output: str | None = None) -> bytes:
    """Return the key of a feature's curve. Pass `output` only if the model has more than one."""
    parts = (stream, feature) if output is None else (stream, feature, output)
    return "/".join(parts).encode("utf-8", "surrogatepass")


JSON: Final = Json("effects", Effect)
encode: Final = JSON.encode
decode: Final = JSON.decode

TOPIC: Final = Topic(
    name="effects",
    title="Effect curve",
    holds="one feature's effect curve of one stream as of one row",
    key="stream/feature; stream/feature/output where the model has more than one",
    written_by=("aggregator",),
    json=JSON,
    config=CURRENT,
)
