"""`labels`: late labels from producers that cannot write to `events`.

Two topics have no common order. `glasstream worker labels` moves each message unchanged to the same partition of
`events`. The log of `events` then fixes the order.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from glasstream_topics.contract import DEFAULT_MAX_MESSAGE_BYTES, Topic
from glasstream_topics.record import Messages, encode_record

VERSION: Final = 1


class Label(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """The label of an earlier event that came without one.

    Attributes
    ----------
    id
        id of the event; 7 and "7" are the same.
    y
        the target; for regression it lies within ±1e60.
    ts
        time of the label in milliseconds, a signed integer of 64 bits; Glasstream does not use it.
    """

    id: Annotated[str, msgspec.Meta(max_length=256)] | int
    y: int | float | str | bool
    ts: int | None = None


TOPIC: Final = Topic(
    name="labels",
    title="Message of labels",
    holds="one label of an event that is on events, or an array of them",
    partitioning="as of events: a label goes to the partition of its event",
    written_by=("producer",),
    read_by=("labels",),
    types=(Label,),
    version=VERSION,
    config={"cleanup.policy": "delete", "max.message.bytes": str(DEFAULT_MAX_MESSAGE_BYTES)},
)

_MESSAGES: Final = Messages("labels: expected a label or an array of labels", Label)
decode: Final = _MESSAGES.decode


def encode(labels: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bytes of one label or of an array of labels.

    Raises
    ------
    RecordError
        JSON cannot hold a value, for example NaN or an infinity.
    """
    return encode_record(TOPIC.name, labels)
