"""`effects`: how the prediction depends on one feature, as of one row (iPDP curves)."""

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from glasstream_topics.contract import Topic
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

DAY_MS: Final = 24 * 60 * 60 * 1000

TOPIC: Final = Topic(
    name="effects",
    holds="one feature's effect curve of one stream as of one row",
    key="stream/feature; stream/feature/output where the model has more than one",
    partitioning="murmur2 of the key",
    partitions="events",
    codec="json",
    read_by=("anyone",),
    public=True,
    schema_version=VERSION,
    # Late consumers find the newest curve of every feature. All curves of the last day stay for comparisons.
    config={"cleanup.policy": "compact", "min.compaction.lag.ms": str(DAY_MS)},
)

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class IceCurve(msgspec.Struct, frozen=True):
    """The curve of a single row: the grid at that time, and the prediction at each point."""

    grid: list[float | str | bool]
    curve: list[float]


class Effect(msgspec.Struct, frozen=True):
    """One feature's smoothed effect on one output, as of one row.

    Attributes
    ----------
    epoch, stream, row
        the newest row in the estimate.
    seq
        the event of this row.
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
    importance
        importance of the curve: the standard deviation of its values (numeric), or a quarter of their range
        (categorical).
    ice
        curves of the last single rows, oldest first; null if none are kept.
    n
        number of rows in the estimate.
    coverage, model_version
        as in `importance`.
    """

    schema_version: Literal[1]
    epoch: _Natural
    stream: str
    row: _Natural
    seq: _Natural
    feature: str
    output: str | None
    kind: Literal["numeric", "categorical"]
    grid: list[float | str | bool]
    curve: list[float]
    importance: float
    ice: list[IceCurve] | None
    n: _Positive
    coverage: _Share
    model_version: _Natural


_decoder: Final = msgspec.json.Decoder(Effect)


def key(stream: str, feature: str, output: str | None = None) -> bytes:
    """Return the key of a feature's curve. Pass `output` only if the model has more than one."""
    parts = (stream, feature) if output is None else (stream, feature, output)
    return "/".join(parts).encode("utf-8", "surrogatepass")


def encode(
    *,
    epoch: int,
    stream: str,
    row: int,
    seq: int,
    feature: str,
    output: str | None,
    kind: str,
    grid: Sequence[float | str | bool],
    curve: Sequence[float],
    importance: float,
    ice: Sequence[IceCurve] | None,
    n: int,
    coverage: float,
    model_version: int,
) -> bytes:
    """Return the bytes of one curve.

    Raises
    ------
    RecordError
        NaN or an infinity.
    """
    return encode_record(
        "effects",
        {
            "schema_version": VERSION,
            "epoch": epoch,
            "stream": stream,
            "row": row,
            "seq": seq,
            "feature": feature,
            "output": output,
            "kind": kind,
            "grid": grid,
            "curve": curve,
            "importance": importance,
            "ice": None if ice is None else [{"grid": one.grid, "curve": one.curve} for one in ice],
            "n": n,
            "coverage": coverage,
            "model_version": model_version,
        },
    )


def decode(data: bytes) -> Effect:
    """Decode a curve.

    Raises
    ------
    RecordError
        the bytes are not a curve.
    """
    return decode_record("effects", data, _decoder)
