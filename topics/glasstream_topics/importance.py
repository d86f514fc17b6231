"""`importance`: how much the model relies on each feature, as of one row."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.contract import Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="importance",
    holds="one method's feature importance of one stream as of one row",
    key="stream",
    partitioning="murmur2 of the key",
    partitions="events",
    codec="json",
    read_by=("anyone",),
    public=True,
    schema_version=VERSION,
    config={"cleanup.policy": "delete"},
)

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Interval(msgspec.Struct, frozen=True):
    """Kind and level of the intervals `low` to `high`; both are null if there are none."""

    kind: str | None
    level: _Share | None


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
    low, high
        bounds of the interval of `value`; null if there is none.
    rank
        1 for the largest value; equal values are ranked by name.
    """

    value: float
    raw: float
    variance: float
    low: float | None
    high: float | None
    rank: _Positive


class Importance(msgspec.Struct, frozen=True):
    """One method's estimate as of one row.

    Attributes
    ----------
    epoch, stream, row
        the newest row in the estimate.
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
        explained rows divided by the rows that could have been explained, from t0 on.
    model_version
        version of the model that explained the row.
    lag
        number of rows learned before this row, minus `model_version`.
    staleness
        how far the explanations of that version can be from those of the snapshot before it, in units of the loss: the
        largest bound over the features (paper 004, Theorem 4), or for other losses the measured distance between
        predictions; null if it was not measured.
    marginal_loss, model_loss, total
        iSAGE only: the smoothed loss of the mean prediction, the smoothed loss of the model, and their difference. The
        features' values add up to this difference.
    features
        importance of each feature, by name.
    """

    schema_version: Literal[1]
    epoch: _Natural
    stream: str
    row: _Natural
    seq: _Natural
    method: str
    loss: str
    alpha: _Share
    sampling: str
    interval: Interval
    n: _Positive
    coverage: _Share
    model_version: _Natural
    lag: _Natural
    staleness: float | None
    features: dict[str, Feature]
    marginal_loss: float | None = None
    model_loss: float | None = None
    total: float | None = None


_decoder: Final = msgspec.json.Decoder(Importance)


def key(stream: str) -> bytes:
    """Return the key of a stream's records."""
    return stream.encode()


def ranks(names: Sequence[str], values: Sequence[float]) -> list[int]:
    """Return the rank of each feature: 1 for the largest value, ties by name.

    >>> ranks(["salary", "age", "loan", "car"], [0.4, 0.0, 0.0, 0.5])
    [2, 3, 4, 1]
    """
    order = sorted(range(len(names)), key=lambda slot: (-values[slot], names[slot]))
    result = [0] * len(names)
    for rank, slot in enumerate(order, 1):
        result[slot] = rank
    return result


def encode(
    *,
    epoch: int,
    stream: str,
    row: int,
    seq: int,
    method: str,
    loss: str,
    alpha: float,
    sampling: str,
    n: int,
    coverage: float,
    model_version: int,
    lag: int,
    names: Sequence[str],
    value: Sequence[float],
    raw: Sequence[float],
    variance: Sequence[float],
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    interval_kind: str | None = None,
    interval_level: float | None = None,
    staleness: float | None = None,
    totals: Mapping[str, float] | None = None,
) -> bytes:
    """Return the bytes of one estimate, with features sorted by name and ranked.

    Parameters
    ----------
    names, value, raw, variance, low, high
        one entry per feature, all in the same order (lists or numpy arrays); without low and high both are null.
    totals
        marginal_loss, model_loss and total of iSAGE.

    Raises
    ------
    RecordError
        NaN, an infinity, no rows in the estimate, or lists that disagree on the number of features.
    """
    columns = [value, raw, variance, *(column for column in (low, high) if column is not None)]
    if any(len(column) != len(names) for column in columns) or len(set(names)) != len(names):
        raise RecordError(
            f"importance of {stream!r} at row {row}: expected {len(set(names))} different names and as many values, "
            f"got {len(names)} names and {[len(column) for column in columns]} values"
        )
    if n < 1:
        raise RecordError(f"importance of {stream!r} at row {row}: expected rows in the estimate, got n = {n}")
    rank = ranks(names, value)
    features = {
        names[slot]: {
            "value": value[slot],
            "raw": raw[slot],
            "variance": variance[slot],
            "low": None if low is None else low[slot],
            "high": None if high is None else high[slot],
            "rank": rank[slot],
        }
        for slot in sorted(range(len(names)), key=lambda slot: names[slot])
    }
    return encode_record(
        "importance",
        {
            "schema_version": VERSION,
            "epoch": epoch,
            "stream": stream,
            "row": row,
            "seq": seq,
            "method": method,
            "loss": loss,
            "alpha": alpha,
            "sampling": sampling,
            "interval": {"kind": interval_kind, "level": interval_level},
            "n": n,
            "coverage": coverage,
            "model_version": model_version,
            "lag": lag,
            "staleness": staleness,
            **(totals or {}),
            "features": features,
        },
    )


def decode(data: bytes) -> Importance:
    """Decode an estimate.

    Raises
    ------
    RecordError
        the bytes are not an estimate.
    """
    return decode_record("importance", data, _decoder)
