"""`novelty`: whether the model should be trusted with an event, labelled or not."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import msgspec

from glasstream_topics.contract import Topic
from glasstream_topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="novelty",
    holds="one event's novelty score: how far the map's prediction is from what the event's neighbours support",
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
        share of flagged events before and after the change, as the detector sees it.
    width
        number of events after the change, up to and including this one.
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
        distance between the map's prediction at the event and the mean of its nearest reference events (paper 003,
        section 4.5), in units of the target, or in log-odds for classes. With several classes, the largest of their
        distances.
    baseline
        Euclidean distance, in standardised features, to the k-th nearest reference event.
    threshold
        threshold of the indicator; in-distribution events exceed it at the configured rate.
    flagged
        whether the indicator exceeds the threshold.
    map_version
        seq of the newest event in the map's window.
    attribution
        slope of the map in each feature, by name, for one standard deviation of a number, or for having the category.
        Only flagged events have it, if `novelty.attribution` is on.
    alarm
        present if the share of flagged events changes with this event.
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
    """Return the key of a stream's records."""
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
    """Return the bytes of one event's record, with its attribution sorted by name. Fields that are None are left out.

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
    """Decode a record.

    Raises
    ------
    RecordError
        the bytes are not such a record.
    """
    return decode_record("novelty", data, _decoder)
