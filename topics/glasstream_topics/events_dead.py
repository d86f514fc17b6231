"""`events.dead`: rejected input with its original bytes. The headers hold the reason and the origin.

A dead letter keeps the key, the value and the partition of the message. If a value or key would make the letter too
large, the letter states its size instead. No letter is refused for its size. Header values are text: numbers in
decimal, `rejected` as JSON.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Final, Literal

import msgspec
import orjson

from glasstream_topics.contract import DEFAULT_MAX_MESSAGE_BYTES, KIB, MIB, Natural, Topic
from glasstream_topics.errors import RecordError

VERSION: Final = 1

# Eight times the default size limit of `events`: topics of users may allow larger messages than ours.
MAX_LETTER_BYTES: Final = 8 * MIB - 4 * KIB
"""Largest letter in total. Our producers accept this size, and we create this topic for it."""

ORIGIN_BYTES: Final = 64 * KIB
"""Upper bound on a letter without key and value: its headers are always smaller."""

DETAIL_BYTES: Final = 4_000
LISTED: Final = 1_000
"""Largest number of elements in the header `rejected`. If more are rejected, `rejected_count` has their number."""

NOT_LISTED: Final = "not_listed"
"""Reason under which elements beyond `LISTED` are counted, because their own reasons are not listed."""

KEY_BYTES: Final = 1_024
"""A letter with a value always keeps a key up to this size. No stream name is longer."""

REPLAYED: Final = "dead_letter"
"""Header of a resent message on `events`: `topic[partition]@offset` of the dead letter."""


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
    BAD_META = "bad_meta"
    TARGET_KIND = "target_kind"
    LABEL_TOO_LONG = "label_too_long"
    TOO_MANY_CLASSES = "too_many_classes"
    MISSING_STREAM = "missing_stream"
    BAD_STREAM = "bad_stream"
    WRONG_PARTITION = "wrong_partition"
    TOO_MANY_STREAMS = "too_many_streams"
    MODEL_ERROR = "model_error"
    MODEL_REFUSED = "model_refused"
    """A mark names a model that the stream cannot use; it keeps the one that it has."""
    BAD_ENCODING = "bad_encoding"
    """The message is not in the format that the intake expects."""
    UNKNOWN_SCHEMA = "unknown_schema"
    """The schema registry does not have the schema that the message names."""
    FIELD_TYPE = "field_type"
    """A field of a message does not have its type."""
    UNKNOWN_ID = "unknown_id"
    """No event waits for the label: the event has not arrived, is too old, or already came with a label."""
    DOUBLED_LABEL = "doubled_label"
    """The event already has a label."""
    REJECTED_ELEMENTS = "rejected_elements"
    """Some elements of an array were rejected; the header `rejected` lists them. The others were accepted."""


_Element = Annotated[tuple[Natural, str], msgspec.Meta(extra={"record": "Rejected", "fields": ("index", "reason")})]
"""Index and reason of a rejected element, with their names in Avro, which has no tuples."""


class DeadLetter(msgspec.Struct, frozen=True, omit_defaults=True):
    """The headers of a rejected message.

    Attributes
    ----------
    epoch
        epoch of the learner that rejected the message.
    reason
        a code of `Reason`.
    topic
        topic on which the message was received.
    partition
        partition on which it was received.
    offset
        its offset there.
    time
        when it was rejected, in milliseconds since 1970.
    detail
        the reason in words: what was expected and what was found.
    rejected
        [index, reason] of each rejected element of an array, at most the first 1,000; absent if the whole message was
        rejected.
    omitted_bytes
        size of the value, if it was too large to be kept.
    rejected_count
        number of rejected elements, if `rejected` does not list all of them.
    omitted_key_bytes
        size of the key, if it was too large to be kept.
    """

    schema_version: Literal[1]
    epoch: Natural
    reason: str
    topic: str
    partition: Natural
    offset: Natural
    time: Natural
    detail: str = ""
    rejected: list[_Element] | None = None
    omitted_bytes: Natural | None = None
    rejected_count: Natural | None = None
    omitted_key_bytes: Natural | None = None

    def reasons(self) -> Counter[str]:
        """Count the rejected elements by reason. A message that was rejected as a whole counts as one element.

        Elements beyond those that `rejected` lists count as `not_listed`.
        """
        if self.rejected is None:
            return Counter([self.reason])
        reasons = Counter(reason for _, reason in self.rejected)
        if self.rejected_count is not None:
            reasons[NOT_LISTED] = self.rejected_count - len(self.rejected)
        return reasons


TOPIC: Final = Topic(
    name="events.dead",
    title="Headers of a dead letter",
    holds="a rejected message as it was received; headers give the reason, the origin and the time",
    key="as received",
    partitioning="the partition it was received on, set explicitly",
    codec="raw",
    written_by=("learner", "labels", "intake"),
    read_by=("people", "glasstream tail", "glasstream dead"),
    types=(DeadLetter,),
    version=VERSION,
    config={"cleanup.policy": "delete", "max.message.bytes": str(8 * MIB + DEFAULT_MAX_MESSAGE_BYTES)},
)


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
    """Return the headers of a dead letter, in the order of `DeadLetter`'s fields and smaller than `ORIGIN_BYTES`."""
    values = {
        "schema_version": VERSION,
        "epoch": epoch,
        "reason": reason,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "time": time,
        "detail": detail or None,
        "rejected": None
        if rejected is None
        else orjson.dumps([[at, str(why)] for at, why in rejected[:LISTED]]).decode(),
        "omitted_bytes": omitted_bytes,
        "rejected_count": len(rejected) if rejected is not None and len(rejected) > LISTED else None,
        "omitted_key_bytes": omitted_key_bytes,
    }
    texts = {name: str(value) for name, value in values.items() if value is not None}
    encoded = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
    if len(encoded.get("detail", b"")) > DETAIL_BYTES:
        encoded["detail"] = encoded["detail"][:DETAIL_BYTES].decode("utf-8", "ignore").encode()
    return list(encoded.items())


def size(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]]) -> int:
    """Return an upper bound on the bytes that a letter takes in a record batch of its own."""
    parts = (len(name.encode()) + len(data) + _HEADER_BYTES for name, data in headers)
    return len(key or b"") + len(value or b"") + sum(parts) + _RECORD_BYTES


_HEADER_BYTES: Final = 10
"""Bytes for the two length fields of a header."""
_RECORD_BYTES: Final = 128
"""Bytes for the other fields of a record and for the header of its batch."""


def decode(headers: Iterable[tuple[str, bytes | None]]) -> DeadLetter:
    """Decode the headers of a dead letter. Headers of other producers are skipped.

    Raises
    ------
    RecordError
        a header is missing or invalid.
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
