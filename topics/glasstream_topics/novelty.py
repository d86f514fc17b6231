"""`novelty`: of one event, labelled or not, whether the model of its stream should be trusted with it."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics.contract import Topic
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="novelty",
    holds="one event's novelty: how far its prediction is from what its neighbours support, and whether that is a lot",
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
_Distance = Annotated[float, msgspec.Meta(ge=0)]


class Alarm(msgspec.Struct, frozen=True):
    """The share of flagged events has changed.

    Attributes
    ----------
    before, after
        share of flagged events on the older and on the newer side of the change, as the detector sees it.
    width
        events on the newer side, the newest of them that of the record.
    """

    before: _Share
    after: _Share
    width: _Positive


class Novelty(msgspec.Struct, frozen=True):
    """One event. Events before the stream's first map have no record.

    Attributes
    ----------
    epoch, stream, seq, id
        the event, as in `predictions`.
    indicator
        distance of the map's value at the event from the mean of its nearest reference events (paper 003, section
        4.5): in units of the target, for classes in log-odds, of several classes the largest.
    baseline
        Euclidean distance, in standardised features, to the k-th nearest reference event.
    threshold
        what the indicator is compared with: in-distribution events exceed it at the rate that is configured.
    flagged
        whether it is exceeded.
    map_version
        seq of the newest event in the window that the map is of.
    attribution
        of a flagged event, if asked for: the map's slope in each feature, by name, for one standard deviation of a
        number, or for having the category.
    alarm
        with this event the share of flagged ones has changed.
    """

    schema_version: Literal[1]
    epoch: _Natural
    stream: str
    seq: _Natural
    id: str
    indicator: _Distance
    baseline: _Distance
    threshold: _Distance
    flagged: bool
    map_version: _Natural
    attribution: dict[str, float] | None = None
    alarm: Alarm | None = None


_decoder: Final = msgspec.json.Decoder(Novelty)


def key(stream: str) -> bytes:
    """Key of a stream's records."""
    return stream.encode()


def encode(
    *,
    epoch: int,
    stream: str,
    seq: int,
    id: str,
    indicator: float,
    baseline: float,
    threshold: float,
    flagged: bool,
    map_version: int,
    attribution: Mapping[str, float] | None = None,
    alarm: Alarm | None = None,
) -> bytes:
    """Bytes of one event's record, its attribution sorted by name; what is None is left out.

    Raises
    ------
    RecordError
        NaN or an infinity.
    """
    record: dict[str, Any] = {
        "schema_version": VERSION,
        "epoch": epoch,
        "stream": stream,
        "seq": seq,
        "id": id,
        "indicator": indicator,
        "baseline": baseline,
        "threshold": threshold,
        "flagged": flagged,
        "map_version": map_version,
    }
    if attribution is not None:
        record["attribution"] = dict(sorted(attribution.items()))
    if alarm is not None:
        record["alarm"] = {"before": alarm.before, "after": alarm.after, "width": alarm.width}
    return encode_record("novelty", record)


def decode(data: bytes) -> Novelty:
    """The record in `data`.

    Raises
    ------
    RecordError
        the bytes are not one.
    """
    return decode_record("novelty", data, _decoder)
