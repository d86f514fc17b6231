"""`events`: the input. A message is an event, a label, an array of them, or a mark, as JSON. Its key is the stream's
name.

A label (`glasstream_topics.labels.Label`) belongs to an earlier event on the same topic that came without a target.

This module defines valid messages. To report what is wrong with an invalid message, a reader checks it again element by
element. Limits on sizes and names are settings of the reader.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Final

import msgspec
import orjson

from glasstream_topics.contract import DEFAULT_MAX_MESSAGE_BYTES, Topic, stream_key
from glasstream_topics.errors import RecordError, TopicError
from glasstream_topics.labels import Label
from glasstream_topics.murmur2 import crc32_partition, murmur2_partition
from glasstream_topics.record import Messages, encode_record

VERSION: Final = 2

LARGEST: Final = 1e60
"""Largest absolute value of a number. Estimates contain fourth powers, which would overflow for larger values."""

Value = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)] | str | bool | None

META_COLUMNS: Final = 64
"""Largest number of columns of `meta`."""
META_NAME: Final = 256
"""Longest name of a column of `meta`, in characters."""
META_TEXT: Final = 1_024
"""Longest text in `meta`, in characters."""

Meta = Annotated[
    dict[
        Annotated[str, msgspec.Meta(max_length=META_NAME)],
        Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
        | Annotated[str, msgspec.Meta(max_length=META_TEXT)]
        | bool
        | None,
    ],
    msgspec.Meta(max_length=META_COLUMNS),
]
"""Columns of an event that are no features."""


class Event(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True, gc=False):
    """One event.

    Attributes
    ----------
    x
        features by name; null means that the event lacks the feature. Numbers lie within ±1e60.
    id
        name of the event, up to 256 bytes; the prediction carries it as text.
    ts
        time of the event in milliseconds since 1970 (UTC), a signed integer of 64 bits. The records of its
        prediction, importance, effects and drift alarms repeat it, and incidents name it; nothing else uses it.
    y
        the target. If it is absent or null, the event is predicted but not learned, unless a label with its `id`
        follows. For regression it lies within ±1e60.
    meta
        columns that the model never sees, by name: numbers within ±1e60, texts of up to 1,024 characters, booleans or
        null; at most 64, with names of up to 256 characters. `groups.by` can name them.
    """

    x: Annotated[dict[str, Value], msgspec.Meta(min_length=1)]
    id: Annotated[str, msgspec.Meta(max_length=256)] | int | None = None
    ts: int | None = None
    y: int | float | str | bool | None = None
    meta: Meta | None = None


FLUSH: Final = b'{"flush":true}'
"""Flush mark: publish everything that is unpublished. It is a message of its own, never an element of an array."""

RESET: Final = b'{"reset":true}'
"""Reset mark: publish as at a flush mark and start the stream's next epoch. It is a message of its own."""

DIGEST: Final = "^[0-9a-f]{64}$"
"""Pattern of a SHA-256 in hexadecimal digits."""

_SPACE: Final = rb"[ \t\r\n]*"
_MODEL_MARK: Final = re.compile(_SPACE.join((b"", b"{", b'"model"', b":", b'"([0-9a-f]{64})"', b"}", b"")))

PARTITIONERS: Final[Mapping[str, Callable[[bytes, int], int]]] = MappingProxyType(
    {"murmur2": murmur2_partition, "crc32": crc32_partition}
)


class _Element(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An event, or a label if `x` is missing."""

    x: Annotated[dict[str, Value], msgspec.Meta(min_length=1)] | msgspec.UnsetType = msgspec.UNSET
    id: Annotated[str, msgspec.Meta(max_length=256)] | int | None = None
    ts: int | None = None
    y: int | float | str | bool | None = None
    meta: Meta | msgspec.UnsetType | None = msgspec.UNSET

    def read(self) -> Event | Label:
        if self.x is not msgspec.UNSET:
            return Event(self.x, self.id, self.ts, self.y, None if self.meta is msgspec.UNSET else self.meta)
        if self.id is None or self.y is None or self.meta is not msgspec.UNSET:
            raise RecordError("events: expected `x`, or only the `id` and the `y` of a label")
        return Label(self.id, self.y, self.ts)


TOPIC: Final = Topic(
    name="events",
    title="Message of events",
    holds="one event or late label, an array of them, or a mark (flush, reset, model)",
    partitioning="murmur2 of the key, which is the default of Java's client; crc32 by configuration",
    written_by=("producer", "labels", "intake"),
    read_by=("learner", "novelty", "compare"),
    types=(Event, Label),
    marks={
        "flush": "The flush mark: publish everything that is unpublished.",
        "reset": "The reset mark: publish as at a flush mark, and start the stream's next epoch.",
        "model": "The mark of a model: from here on, the stream's model is the file with this SHA-256.",
    },
    named=("model",),
    version=VERSION,
    config={"cleanup.policy": "delete", "max.message.bytes": str(DEFAULT_MAX_MESSAGE_BYTES)},
)

_EVENTS: Final = Messages("events: expected an event or an array of events", Event)
_ELEMENTS: Final = Messages("events: expected an event or a label, or an array of them", _Element)
decode: Final = _EVENTS.decode
key: Final = stream_key


def partition(key: bytes, partitions: int, partitioner: str = "murmur2") -> int:
    """Return the partition for the events of a key; raise TopicError unless `partitioner` is one of `PARTITIONERS`."""
    choose = PARTITIONERS.get(partitioner)
    if choose is None:
        raise TopicError(f"partitioner of events: expected {' or '.join(PARTITIONERS)}, got {partitioner!r}")
    return choose(key, partitions)


def encode(events: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> bytes:
    """Return the bytes of one event or label, or of an array of them.

    Raises
    ------
    RecordError
        JSON cannot hold a value, for example NaN or an infinity.
    """
    return encode_record("events", events)


def decode_with_labels(data: bytes) -> list[Event | Label]:
    """Decode a valid message that holds events and labels. This is slower than `decode`.

    Raises
    ------
    RecordError
        an element is neither an event nor a label, for example a mark.
    """
    return [element.read() for element in _ELEMENTS.decode(data)]


def is_flush(data: bytes) -> bool:
    """Return whether a message is the flush mark, with any whitespace.

    >>> is_flush(b'{"flush": true}'), is_flush(b'{"flush": false}'), is_flush(b'[{"flush": true}]')
    (True, False, False)
    """
    return data == FLUSH or _says(data, "flush")


def is_reset(data: bytes) -> bool:
    """Return whether a message is the reset mark, with any whitespace.

    >>> is_reset(b'{"reset": true}'), is_reset(b'{"reset": false}'), is_reset(b'[{"reset": true}]')
    (True, False, False)
    """
    return data == RESET or _says(data, "reset")


def model_mark(digest: str) -> bytes:
    """Return the mark from which on a stream's model is the file with this SHA-256."""
    return encode_record("events", {"model": digest})


def named_model(data: bytes) -> str | None:
    """Return the SHA-256 that a message names if it is the mark of a model; None for any other message.

    >>> named_model(model_mark("0a" * 32)) == "0a" * 32, named_model(b'{"model": true}')
    (True, None)
    """
    found = _MODEL_MARK.fullmatch(data)
    return None if found is None else found[1].decode()


def _says(data: bytes, mark: str) -> bool:
    if f'"{mark}"'.encode() not in data[:64]:  # other messages are not parsed
        return False
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(found, dict) and found.keys() == {mark} and found[mark] is True
