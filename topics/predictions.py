"""`predictions`: for every accepted event what the model said before it saw the label, and how well it does so far."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

import msgspec

from topics.contract import Topic
from topics.record import decode_record, encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="predictions",
    holds="one accepted event's prediction, made before its label was learned, with loss and running metric",
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


class Metric(msgspec.Struct, frozen=True):
    """A running metric and its value with this event; null before the first event that has one."""

    name: str
    value: float | None


class Prediction(msgspec.Struct, frozen=True):
    """One event's prediction.

    Attributes
    ----------
    stream, epoch, seq
        name the event: the seq-th accepted one of its stream, in this epoch of it.
    id
        as the event says, or partition-offset-index of where it stands in `events`.
    prediction
        class or number; null when the model gives nothing yet.
    probabilities
        by class; null for regression.
    target
        class or number; null for an event without a label.
    loss, loss_name
        of this prediction; null without prediction or target.
    metric
        over all events until this one.
    model_version
        number of events that the model had learned.
    """

    schema_version: Literal[1]
    epoch: _Natural
    stream: str
    seq: _Natural
    id: str
    prediction: str | float | None
    probabilities: dict[str, float] | None
    target: str | float | None
    loss: float | None
    loss_name: str
    metric: Metric
    model_version: _Natural


_decoder: Final = msgspec.json.Decoder(Prediction)


def key(stream: str) -> bytes:
    """Key of a stream's predictions."""
    return stream.encode()


def encode(
    *,
    epoch: int,
    stream: str,
    seq: int,
    id: str,
    prediction: str | float | None,
    probabilities: Mapping[str, float] | None,
    target: str | float | None,
    loss: float | None,
    loss_name: str,
    metric_name: str,
    metric_value: float | None,
    model_version: int,
) -> bytes:
    """Bytes of one event's prediction, classes sorted by name; on the hot path, so types are not checked.

    Raises
    ------
    RecordError
        NaN, an infinity, or a value that JSON cannot hold.
    """
    if probabilities is not None:
        classes = sorted(probabilities)
        if list(probabilities) != classes:
            probabilities = {name: probabilities[name] for name in classes}
    return encode_record(
        "predictions",
        {
            "schema_version": VERSION,
            "epoch": epoch,
            "stream": stream,
            "seq": seq,
            "id": id,
            "prediction": prediction,
            "probabilities": probabilities,
            "target": target,
            "loss": loss,
            "loss_name": loss_name,
            "metric": {"name": metric_name, "value": metric_value},
            "model_version": model_version,
        },
    )


def decode(data: bytes) -> Prediction:
    """The prediction in `data`.

    Raises
    ------
    RecordError
        the bytes are not one.
    """
    return decode_record("predictions", data, _decoder)
