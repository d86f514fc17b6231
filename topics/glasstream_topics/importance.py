"""`importance`: what the model relies on, per feature, as of one row."""

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
    """What kind of interval `low` and `high` are, and at which level; null where there is none."""

    kind: str | None
    level: _Share | None


class Feature(msgspec.Struct, frozen=True):
    """One feature's importance.

    Attributes
    ----------
    value, raw
        smoothed contributions, without and with the bias of their start at 0.
    variance
        of the contributions, smoothed likewise.
    low, high
        interval of `value`; null where there is none.
    rank
        1 for the largest value; ties go by name.
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
    epoch, stream, row, seq
        the row, the newest in the estimate, and its event.
    method, loss, alpha, sampling
        what was estimated: the method's name, the loss, the smoothing, how background rows are drawn.
    interval
        kind and level of the intervals of the features.
    n
        rows in the estimate.
    coverage
        rows explained over rows that could have been, since the start.
    model_version
        version of the model that explained the row.
    lag
        events learned before the row minus `model_version`.
    staleness
        how far that version's explanations can be from those of the scheduled one before it, in units of the loss: the
        largest bound over the features (paper 004, Theorem 4), or for other losses the measured distance; null where
        it was not measured.
    marginal_loss, model_loss, total
        iSAGE: the smoothed loss of the mean prediction, that of the model, and their difference, to which the features'
        values add up; absent for other methods.
    features
        by name.
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
    """Key of a stream's importances."""
    return stream.encode()


def ranks(names: Sequence[str], values: Sequence[float]) -> list[int]:
    """Rank of each feature: 1 for the largest value, ties by name.

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
    """Bytes of one estimate, features sorted by name and ranked.

    Parameters
    ----------
    names, value, raw, variance, low, high
        per feature, in any one order (lists or numpy arrays); without low and high both are null.
    totals
        of iSAGE: marginal_loss, model_loss and total.

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
    """The estimate in `data`.

    Raises
    ------
    RecordError
        the bytes are not one.
    """
    return decode_record("importance", data, _decoder)
