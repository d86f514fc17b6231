"""`importance`: how much the model relies on each feature, as of one row."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal

import msgspec

from glasstream_topics.contract import Natural, Positive, Share, Topic, stream_key
from glasstream_topics.errors import RecordError
from glasstream_topics.notebook import Shown
from glasstream_topics.record import Json


class Interval(msgspec.Struct, frozen=True):
    """Kind and level of the intervals `low` to `high`.

    Attributes
    ----------
    kind
        `normal`; `biased` if the values have a bias of unknown size, so that there are no intervals; null while there
        are too few rows.
    level
        probability with which an interval contains the true smoothed importance; null if there are no intervals.
    """

    kind: str | None
    level: Share | None


class Feature(msgspec.Struct, frozen=True):
    """One feature's importance.

    Attributes
    ----------
    value
        smoothed contributions, corrected for the bias of their start at 0.
    raw
        smoothed contributions, without this correction.
    variance
        smoothed variance of the contributions.
    low
        lower bound of the interval of `value`; null if there is none.
    high
        upper bound of this interval; null if there is none.
    rank
        1 for the largest value; equal values are ranked by name.
    """

    value: float
    raw: float
    variance: float
    low: float | None
    high: float | None
    rank: Positive


class Importance(Shown, msgspec.Struct, frozen=True):
    """One method's estimate as of one row.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    row
        newest row in the estimate.
    seq
        the event of this row.
    method
        name of the method.
    loss
        name of the loss.
    alpha
        smoothing factor α.
    sampling
        distribution of the background rows.
    interval
        kind and level of the features' intervals.
    n
        number of rows in the estimate.
    coverage
        explained rows divided by the rows that could have been explained, from t0 on. With `explain.unlabelled`, both
        numbers count events without a label, too.
    model_version
        version of the model that explained the row.
    lag
        number of rows learned before this row, minus `model_version`; 0 for a model that learns nothing.
    staleness
        how far the explanations of that version can be from those of the snapshot before it, in units of the loss: the
        largest bound over the features (Fumagalli et al. 2023, Theorem 4), or for other losses the measured distance
        between predictions; null if it was not measured.
    marginal_loss
        iSAGE only: smoothed loss of the mean prediction.
    model_loss
        iSAGE only: smoothed loss of the model.
    total
        iSAGE only: `marginal_loss` - `model_loss`. The features' values add up to it.
    ts
        time of this event in milliseconds, as its sender gave it; absent if the event has none.
    features
        importance of each feature, by name.
    """

    schema_version: Literal[1, 2]
    epoch: Natural
    stream: str
    row: Natural
    seq: Natural
    method: str
    loss: str
    alpha: Share
    sampling: str
    interval: Interval
    n: Positive
    coverage: Share
    model_version: Natural
    lag: Natural
    staleness: float | None
    features: dict[str, Feature]
    marginal_loss: float | None = None
    model_loss: float | None = None
    total: float | None = None
    ts: int | None = None


def encode(
    *,
    stream: str,
    row: int,
    n: int,
    names: Sequence[str],
    value: Sequence[float],
    raw: Sequence[float],
    variance: Sequence[float],
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    interval_kind: str | None = None,
    interval_level: float | None = None,
    staleness: float | None = None,
    totals: Mapping[str, Any] | None = None,
    **fields: Any,
) -> bytes:
    """Return the bytes of one estimate, with features sorted by name and ranked.

    Parameters
    ----------
    names, value, raw, variance, low, high
        one entry per feature, all in the same order (lists or numpy arrays); without low and high both are null.
    totals
        marginal_loss, model_loss and total of iSAGE.
    fields
        the other fields of `Importance`.

    Raises
    ------
    RecordError
        NaN, an infinity, no rows in the estimate, or lists that disagree on the number of features.
    """
    none = [None] * len(names)
    columns = (value, raw, variance, none if low is None else low, none if high is None else high)
    if set(map(len, columns)) != {len(names)} or len(set(names)) != len(names):
        raise RecordError(
            f"importance of {stream!r} at row {row}: expected {len(set(names))} different names and as many values, "
            f"got {len(names)} names and {[len(column) for column in columns]} values"
        )
    if n < 1:
        raise RecordError(f"importance of {stream!r} at row {row}: expected rows in the estimate, got n = {n}")
    rows = sorted(zip(names, *columns, strict=True))
    features = {
        name: {"value": a, "raw": b, "variance": c, "low": d, "high": e, "rank": 0} for name, a, b, c, d, e in rows
    }
    # This order is stable, so equal values are ranked by name.
    for rank, ranked in enumerate(sorted(rows, key=itemgetter(1), reverse=True), 1):
        features[ranked[0]]["rank"] = rank
    fields |= {"stream": stream, "row": row, "n": n, "staleness": staleness, "features": features, **(totals or {})}
    fields["interval"] = {"kind": interval_kind, "level": interval_level}
    return JSON.write(fields)


JSON: Final = Json("importance", Importance, last="features")
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="importance",
    title="Feature importance",
    holds="one method's feature importance of one stream as of one row",
    written_by=("aggregator",),
    json=JSON,
)
