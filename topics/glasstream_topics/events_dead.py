"""`events.dead`: input that was rejected, with its original bytes; reason and origin are in the headers.

Key, value and partition are as received. A value or key that would make the letter larger than its bound is left out
and its size stated: a letter is never refused for its size. Header values are text: numbers in decimal, `rejected` as
JSON.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
import orjson

from glasstream_topics.contract import DEFAULT_MAX_MESSAGE_BYTES, KIB, MIB, Topic
from glasstream_topics.errors import RecordError

VERSION: Final = 1

# Eight times what `events` takes by default: topics of users may be configured larger than ours.
MAX_LETTER_BYTES: Final = 8 * MIB - 4 * KIB
"""Largest letter, all of it: what our producers take, and this topic as we make it."""

ORIGIN_BYTES: Final = 64 * KIB
"""Largest letter without key and value: whatever it says of where and why, it stays below this."""

DETAIL_BYTES: Final = 4_000
LISTED: Final = 1_000
"""Rejected elements that the header `rejected` lists; of more the first, and `rejected_count` says how many."""

KEY_BYTES: Final = 1_024
"""A key up to this is never left out while the value is there: no stream's name is longer."""

REPLAYED: Final = "dead_letter"
"""Header of a message of `events` that a dead letter was sent again as: `topic[partition]@offset` of the letter."""

TOPIC: Final = Topic(
    name="events.dead",
    holds="a rejected message as it was received; headers say why, from where and when",
    key="as received",
    partitioning="the partition it was received on, set explicitly",
    partitions="events",
    codec="raw",
    read_by=("people", "glasstream tail", "glasstream dead"),
    public=True,
    schema_version=VERSION,
    config={"cleanup.policy": "delete", "max.message.bytes": str(8 * MIB + DEFAULT_MAX_MESSAGE_BYTES)},
)


class Reason(StrEnum):
    """Why a message, or an element of one, was rejected."""

    NULL_MESSAGE = "null_message"
    TOO_LARGE = "too_large"
    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    NOT_AN_OBJECT = "not_an_object"
    UNKNOWN_KEY = "unknown_key"
    NO_X = "no_x"
    EMPTY_X = "empty_x"
    NESTED_VALUE = "nested_value"
    NOT_FINITE = "not_finite"
    BAD_ID = "bad_id"
    BAD_TS = "bad_ts"
    BAD_TARGET = "bad_target"
    TARGET_KIND = "target_kind"
    LABEL_TOO_LONG = "label_too_long"
    TOO_MANY_CLASSES = "too_many_classes"
    MISSING_STREAM = "missing_stream"
    BAD_STREAM = "bad_stream"
    WRONG_PARTITION = "wrong_partition"
    TOO_MANY_STREAMS = "too_many_streams"
    MODEL_ERROR = "model_error"
    UNKNOWN_ID = "unknown_id"
    """A label of which no event waits: it has not come, is too old, or never waited."""
    DOUBLED_LABEL = "doubled_label"
    """A label of an event that has one."""
    REJECTED_ELEMENTS = "rejected_elements"
    """Some elements of an array; header `rejected` says which and why. The others went on."""


_Natural = Annotated[int, msgspec.Meta(ge=0)]


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """The headers of a rejected message.

    Attributes
    ----------
    epoch
        of the learner that rejected it.
    reason
        a code of `Reason`.
    topic, partition, offset
        where it was received.
    time
        when it was rejected, in milliseconds since 1970.
    detail
        the same reason for people: what was expected and what came.
    rejected
        [index, reason] of each rejected element of an array, of the first 1,000 if there are more; absent where the
        whole message was rejected.
    omitted_bytes
        size of the value, where it was too large to be kept.
    rejected_count
        how many elements were rejected, where `rejected` does not list all of them.
    omitted_key_bytes
        size of the key, where it was too large to be kept.
    """

    schema_version: Literal[1]
    epoch: _Natural
    reason: str
    topic: str
    partition: _Natural
    offset: _Natural
    time: _Natural
    detail: str = ""
    rejected: list[tuple[_Natural, str]] | None = None
    omitted_bytes: _Natural | None = None
    rejected_count: _Natural | None = None
    omitted_key_bytes: _Natural | None = None


def headers(
    *,
    epoch: int,
    reason: str,
    topic: str,
    partition: int,
    offset: int,
    time: int,
    detail: str = "",
    rejected: Sequence[tuple[int, str]] | None = None,
    omitted_bytes: int | None = None,
    omitted_key_bytes: int | None = None,
) -> list[tuple[str, bytes]]:
    """Headers of a dead letter, in the order of `DeadLetter`'s fields; together they are below `ORIGIN_BYTES`."""
    cut = rejected is not None and len(rejected) > LISTED
    texts = {
        "schema_version": str(VERSION),
        "epoch": str(epoch),
        "reason": str(reason),
        "topic": topic,
        "partition": str(partition),
        "offset": str(offset),
        "time": str(time),
    }
    if detail:
        texts["detail"] = detail
    if rejected is not None:
        texts["rejected"] = orjson.dumps([[index, str(why)] for index, why in rejected[:LISTED]]).decode()
    if omitted_bytes is not None:
        texts["omitted_bytes"] = str(omitted_bytes)
    if cut:
        texts["rejected_count"] = str(len(rejected or ()))
    if omitted_key_bytes is not None:
        texts["omitted_key_bytes"] = str(omitted_key_bytes)
    encoded = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    if len(encoded.get("detail", b"")) > DETAIL_BYTES:
        encoded["detail"] = encoded["detail"][:DETAIL_BYTES].decode("utf-8", "ignore").encode()
    return list(encoded.items())


def size(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> int:
    """Bound what a letter takes in a batch of its own, in bytes."""
    parts = (len(name.encode()) + len(data) + _HEADER_BYTES for name, data in headers)
    return len(key or b"") + len(value or b"") + sum(parts) + _RECORD_BYTES


_HEADER_BYTES: Final = 10
"""Of the two lengths of a header."""
_RECORD_BYTES: Final = 128
"""Of a record and the batch around it."""


def decode(headers: Iterable[tuple[str, bytes | None]]) -> DeadLetter:
    """The headers of a dead letter; those of others are skipped.

    Raises
    ------
    RecordError
        a header is missing or is not what it should be.
    """
    fields: dict[str, object] = {}
    try:
        for name, data in headers:
            if name in DeadLetter.__struct_fields__ and data is not None:
                fields[name] = orjson.loads(data) if name == "rejected" else data.decode()
        # Not strict: numbers are text in a header.
        return msgspec.convert(fields, DeadLetter, strict=False)
    except (msgspec.ValidationError, orjson.JSONDecodeError, UnicodeDecodeError) as error:
        raise RecordError(f"events.dead: expected the headers of a dead letter: {error}") from error
