"""`effects`: how the prediction moves with one feature, as of one row (iPDP curves)."""

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
    # The newest curve of every feature stays for whoever comes late; those of the last day stay for those who compare.
    config={"cleanup.policy": "compact", "min.compaction.lag.ms": str(DAY_MS)},
)

_Natural = Annotated[int, msgspec.Meta(ge=0)]
_Positive = Annotated[int, msgspec.Meta(ge=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class IceCurve(msgspec.Struct, frozen=True):
    """One row's own curve: the points of then, and the prediction at each."""

    grid: list[float | str | bool]
    curve: list[float]


class Effect(msgspec.Struct, frozen=True):
    """One feature's effect on one output, smoothed, as of one row.

    Attributes
    ----------
    epoch, stream, row, seq
        the row, the newest in the estimate, and its event.
    feature
        its name.
    output
        the class whose probability the curve is of; null for the number of a regression.
    kind
        `numeric`: the grid moves with the feature's range; `categorical`: a point for each category in use.
    grid, curve
        the points, and the smoothed prediction at each.
    importance
        of the curve: the standard deviation of its values (numeric), or a quarter of their range (categorical).
    ice
        curves of the last rows, oldest first; null where none are kept.
    n
        rows in the estimate.
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
    """Key of a feature's curve; `output` only where there are several."""
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
    """Bytes of one curve.

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
    """The curve in `data`.

    Raises
    ------
    RecordError
        the bytes are not one.
    """
    return decode_record("effects", data, _decoder)
