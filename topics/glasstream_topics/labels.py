"""`labels`: labels that come after their events, for those who cannot write to `events` themselves.

Two topics have no common order. `glasstream worker labels` moves each message, as it is, to the same partition of
`events`; the order that it gives them there is from then on the log's.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from glasstream_topics.contract import DEFAULT_MAX_MESSAGE_BYTES, Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.record import encode_record

VERSION: Final = 1

TOPIC: Final = Topic(
    name="labels",
    holds="one label of an event that is on events, or an array of them",
    key="stream",
    partitioning="as of events: a label goes to the partition of its event",
    partitions="events",
    codec="json",
    read_by=("labels",),
    public=True,
    schema_version=VERSION,
    config={"cleanup.policy": "delete", "max.message.bytes": str(DEFAULT_MAX_MESSAGE_BYTES)},
)


class Label(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The label of an event that came before, without one.

    Attributes
    ----------
    id
        that of the event; 7 and "7" are the same.
    y
        the target; for regression it lies within ±1e60.
    ts
        time of the label in milliseconds; carried only.
    """

    id: Annotated[str, msgspec.Meta(max_length=256)] | int
    y: int | float | str | bool
    ts: int | None = None


_one: Final = msgspec.json.Decoder(Label)
_many: Final = msgspec.json.Decoder(list[Label])


def encode(labels: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bytes:
    """Bytes of one label or of an array of labels.

    Raises
    ------
    RecordError
        a value that JSON cannot hold, NaN and the infinities among them.
    """
    return encode_record(TOPIC.name, labels)


def decode(data: bytes) -> list[Label]:
    """The labels of a message all of whose content is good.

    Raises
    ------
    RecordError
        anything in it is not a label.
    """
    try:
        return _many.decode(data) if data[:1] == b"[" else [_one.decode(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RecordError(f"labels: expected a label or an array of labels: {error}") from error
