"""Decode messages of `events` into events and labels, with a reason for everything else.

A message is an event, a label, an array of these, or a mark. Good messages take the fast path: one typed decode of the
whole message, or a second one if it contains labels. If that fails, each element is decoded separately, so that the
good elements are used and each bad element has its own reason. Each element is decoded from its own bytes by the same
typed decoder, so that an event means the same alone and in an array. A message is rejected as a whole only if it is not
JSON, or is nested too deep to be split.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import compress, repeat
from operator import not_
from typing import Any

import msgspec
import orjson

from glasstream.events.features import Value
from glasstream.events.json_advice import json_advice
from glasstream_topics import events
from glasstream_topics.errors import RecordError
from glasstream_topics.events import LARGEST, META_COLUMNS, META_NAME, META_TEXT, Event
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label

ID_BYTES = 256
"""Longest `id` in UTF-8 bytes, or in digits of an integer. It is part of the contract of `events`."""
_LARGEST_ID = 10**ID_BYTES - 1
_SMALLEST_ID = -(10 ** (ID_BYTES - 1)) + 1
_SMALLEST_TS, _LARGEST_TS = -(2**63), 2**63 - 1
"""Bounds of `ts`: a signed integer of 64 bits, which JSON, Avro, Arrow and databases hold alike."""
_LATEST_TS = 253_402_300_799_999
"""Milliseconds from 1970 to the end of year 9999. An event whose time is further away counts as one without."""


@dataclass(frozen=True, slots=True)
class Rejected:
    """Element that is neither event nor label. `index` is its place in the array; None means the whole message."""

    index: int | None
    reason: Reason
    detail: str


@dataclass(slots=True)
class Decoded:
    """Content of one message, in order."""

    events: Sequence[tuple[int, Event | Label]] = field(default_factory=list)
    """Events and labels, each with its index in the message."""
    labels: bool = False
    """Whether the message contains labels."""
    rejected: list[Rejected] = field(default_factory=list)
    array: bool = False
    """Whether the message was an array. A single event has index 0."""
    flush: bool = False
    reset: bool = False
    model: str | None = None
    """SHA-256 of the model that a mark names."""

    @property
    def is_mark(self) -> bool:
        """Whether the message is a mark."""
        return self.flush or self.reset or self.model is not None


_event = msgspec.json.Decoder(Event).decode
_label = msgspec.json.Decoder(Label).decode
_events = msgspec.json.Decoder(list[Event]).decode
_labels = msgspec.json.Decoder(list[Label]).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_KEYS = frozenset(Event.__struct_fields__)


def decode(value: bytes | None, limit: int) -> Decoded:
    """Return the events and labels in a message, and the rejected elements with their reasons.

    Parameters
    ----------
    value
        Value of the message; None for a null message.
    limit
        Largest size in bytes.
    """
    if value is None:
        return _whole(Reason.NULL_MESSAGE, "expected a JSON value, got a null message")
    if len(value) > limit:
        return _whole(Reason.TOO_LARGE, f"expected at most {limit} bytes, got {len(value)}")
    good: Sequence[Event | Label]
    labels = False
    try:
        good = events.decode(value)
    except RecordError:
        try:
            good = events.decode_with_labels(value)
        except RecordError:
            return _each(value)
        labels = True
    if _any_beyond(good):
        return _each(value)
    return Decoded(events=list(enumerate(good)), labels=labels, array=value[:1] == b"[")


def decode_one(value: bytes | None, limit: int) -> Event | Label | None:
    """Return the event or label that a message consists of; None for every other message, which `decode` can read."""
    if value is None or len(value) > limit or value[:1] != b"{":
        return None
    try:
        # A label has no `x`. Should an event escape this name, it is read all the same.
        found = _event(value) if b'"x"' in value else _label(value)
    except _UNREADABLE:
        return None
    return None if _beyond(found) else found


def decode_together(values: Sequence[bytes], limit: int) -> Sequence[Event | Label] | None:
    """Return what `decode_one` finds in each message, at less cost; None if it finds nothing in one of them.

    The messages are decoded as one array. Nothing can begin in one message and end in another: a text contains no
    newline, and an event or label contains no array, in which alone an object could follow another one.
    """
    objects = all(map(bytes.startswith, values, repeat(b"{"))) and all(map(bytes.endswith, values, repeat(b"}")))
    if not objects or max(map(len, values), default=0) > limit:
        return None
    try:
        is_event = [b'"x"' in value for value in values]
        events = _events(_joined(compress(values, is_event)))
        labels = [] if all(is_event) else _labels(_joined(compress(values, map(not_, is_event))))
    except _UNREADABLE:
        return None
    if len(events) != sum(is_event) or len(events) + len(labels) != len(values):
        return None
    found: Sequence[Event | Label] = events
    if labels:
        each: tuple[Iterator[Event | Label], ...] = iter(events), iter(labels)
        found = [next(each[not one]) for one in is_event]
    return None if _any_beyond(found) else found


def _joined(values: Iterable[bytes]) -> bytes:
    return b"[%b]" % b",\n".join(values)


def _beyond(element: Event | Label) -> bool:
    """Return whether the type of an element accepts what the contract does not."""
    return _long_id(element.id) or not _fits(element.ts)


def _any_beyond(elements: Sequence[Event | Label]) -> bool:
    """Return whether any element is `_beyond`, at less cost."""
    ids = [one.id for one in elements]
    numbers = [one for one in ids if type(one) is int]
    if numbers and (_long_id(min(numbers)) or _long_id(max(numbers))):
        return True
    if len(numbers) < len(ids) and any(map(_long_id, ids)):
        return True
    return not all(map(_fits, {one.ts for one in elements}))


def _fits(ts: int | None) -> bool:
    return ts is None or _SMALLEST_TS <= ts <= _LARGEST_TS


def _long_id(event_id: str | int | None) -> bool:
    if type(event_id) is str:
        return len(event_id) * 4 > ID_BYTES and len(event_id.encode()) > ID_BYTES
    return event_id is not None and not _SMALLEST_ID <= event_id <= _LARGEST_ID


def _whole(reason: Reason, detail: str) -> Decoded:
    return Decoded(rejected=[Rejected(None, reason, detail)])


def _each(value: bytes) -> Decoded:
    """Decode each element separately: the slow path."""
    try:
        value.decode("utf-8")
    except UnicodeDecodeError as error:
        got = f"byte 0x{value[error.start]:02x} at {error.start}"
        return _whole(Reason.NOT_UTF8, f"expected UTF-8, got {got}; write the message in UTF-8")
    try:
        elements = split(value)
    except (msgspec.DecodeError, RecursionError) as error:
        return _whole(*_no_json(value, error))
    if elements is None:
        if events.is_flush(value):
            return Decoded(flush=True)
        if events.is_reset(value):
            return Decoded(reset=True)
        if (named := events.named_model(value)) is not None:
            return Decoded(model=named)
        found = _judge(value)
        if isinstance(found, tuple):
            return _whole(*found)
        return Decoded(events=[(0, found)], labels=type(found) is Label)
    good: list[tuple[int, Event | Label]] = []
    rejected = []
    for index, element in enumerate(elements):
        found = _judge(element)
        if isinstance(found, tuple):
            rejected.append(Rejected(index, *found))
        else:
            good.append((index, found))
    return Decoded(good, labels=any(type(one) is Label for _, one in good), rejected=rejected, array=True)


_SPACE = b" \t\r\n"
_elements = msgspec.json.Decoder(list[msgspec.Raw])
_anything = msgspec.json.Decoder()


def split(value: bytes) -> list[bytes] | None:
    """Return the bytes of each element of an array; None if the value is not an array.

    Raises
    ------
    msgspec.DecodeError, RecursionError
        The value begins like an array, but is not JSON or is nested too deep.
    """
    return [bytes(element) for element in _elements.decode(value)] if value.lstrip(_SPACE)[:1] == b"[" else None


def _judge(element: bytes) -> Event | Label | tuple[Reason, str]:
    """Decode one element from its own bytes to an event or a label, or return the reason why it is neither."""
    if element.lstrip(_SPACE)[:1] == b"{":
        with suppress(RecordError):
            (found,) = events.decode_with_labels(element)
            if not _beyond(found):
                return found
    try:
        content = _anything.decode(element)  # unlike orjson it accepts integers beyond 64 bits
    except (msgspec.DecodeError, RecursionError) as error:
        return _no_json(element, error)
    return _examine(content)


def _no_json(value: bytes, error: Exception) -> tuple[Reason, str]:
    """Return why a value is not JSON. Prefer the message of orjson, which names line and column."""
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError as found:
        return Reason.NOT_JSON, f"not valid JSON: {found}{json_advice(found)}"
    return Reason.NOT_JSON, f"not valid JSON: {error}"


def _examine(element: Any) -> Event | Label | tuple[Reason, str]:
    """Return an element as an event or a label, or the reason why it is neither."""
    if not isinstance(element, dict):
        return Reason.NOT_AN_OBJECT, f"expected an object with `x`, got {_kind(element)}"
    unknown = sorted(element.keys() - _KEYS)
    if unknown:
        found = ", ".join(map(repr, unknown[:3]))
        keys = "id, meta, ts, x and y"
        return Reason.UNKNOWN_KEY, f"expected only the keys {keys}, got also {found}; features belong in `x`"
    event_id, ts, y = element.get("id"), element.get("ts"), element.get("y")
    wrong = wrong_beside_x(event_id, ts, y)
    if "x" not in element and "y" in element and event_id is not None:
        if y is None:
            return wrong or (Reason.BAD_TARGET, "expected the `y` of a label to be a number, text or boolean, got null")
        if "meta" in element:
            return wrong or (Reason.BAD_META, "expected no `meta` on a label, got one; send it with the event")
        return wrong or Label(event_id, y, ts)
    x = element.get("x")
    if x is None:
        return Reason.NO_X, "expected `x`, an object of features, or `id` and `y`, a label that comes late; got neither"
    features = features_of(x)
    if isinstance(features, tuple):
        return features
    meta = meta_of(element.get("meta"))
    if isinstance(meta, tuple):
        return wrong or meta
    return wrong or Event(x=features, id=event_id, ts=ts, y=y, meta=meta)


def features_of(x: Any) -> dict[str, Value] | tuple[Reason, str]:
    """Return the features of an event with its numbers as floats, or the reason why no event can have them.

    Parameters
    ----------
    x
        Value of `x` as Python has it after JSON was decoded.
    """
    if not isinstance(x, dict):
        return Reason.NO_X, f"expected `x` to be an object of features, got {_kind(x)}"
    if not x:
        return Reason.EMPTY_X, "expected at least one feature in `x`, got none"
    features: dict[str, Value] = {}
    for name, value in x.items():
        if isinstance(value, (dict, list)):
            return (
                Reason.NESTED_VALUE,
                f"expected a number, text, boolean or null in `x`, got {_kind(value)} in {name!r}",
            )
        features[name] = number = _number_or_other(value)
        if type(number) is float and abs(number) > LARGEST:
            return Reason.NOT_FINITE, f"expected numbers within ±{LARGEST:g}, got a larger one in {name!r}"
    return features


def meta_of(meta: Any) -> dict[str, Value] | tuple[Reason, str] | None:
    """Return `meta` with its numbers as floats, or the reason why no event can have it.

    Parameters
    ----------
    meta
        Value of `meta` as Python has it after JSON was decoded.
    """
    if meta is None:
        return None
    if not isinstance(meta, dict):
        return Reason.BAD_META, f"expected `meta` to be an object of columns, got {_kind(meta)}"
    if len(meta) > META_COLUMNS:
        return Reason.BAD_META, f"expected at most {META_COLUMNS} columns in `meta`, got {len(meta)}"
    columns: dict[str, Value] = {}
    for name, value in meta.items():
        wanted = got = ""
        if len(name) > META_NAME:
            wanted, got = f"names of at most {META_NAME} characters in `meta`", f"one of {len(name)}"
        elif isinstance(value, (dict, list)):
            wanted, got = "a number, text, boolean or null in `meta`", _kind(value)
        elif isinstance(value, str) and len(value) > META_TEXT:
            wanted, got = f"texts of at most {META_TEXT:,} characters in `meta`", f"one of {len(value):,}"
        columns[name] = number = _number_or_other(value)
        if type(number) is float and abs(number) > LARGEST:
            wanted, got = f"numbers within ±{LARGEST:g} in `meta`", "a larger one"
        if wanted:
            return Reason.BAD_META, f"expected {wanted}, got {got} in {name!r:.60}"
    return columns


def time_of(ts: int | None) -> int | None:
    """Return the time of an event; None if it has none, or one that no calendar has."""
    return ts if ts is not None and abs(ts) <= _LATEST_TS else None


def wrong_beside_x(event_id: Any, ts: Any, y: Any) -> tuple[Reason, str] | None:
    """Return why an event cannot have this `id`, `ts` or `y`, of whatever type; None if it can."""
    if event_id is not None and (isinstance(event_id, bool) or not isinstance(event_id, (str, int))):
        return Reason.BAD_ID, f"expected `id` to be text or an integer, got {_kind(event_id)}"
    if isinstance(event_id, str) and _long_id(event_id):
        return Reason.BAD_ID, f"expected an `id` of at most {ID_BYTES} bytes, got {len(event_id.encode())}"
    if _long_id(event_id):
        return Reason.BAD_ID, f"expected an `id` of at most {ID_BYTES} digits, got an integer with more"
    if ts is not None and (isinstance(ts, bool) or not isinstance(ts, int)):
        return Reason.BAD_TS, f"expected `ts` to be an integer (ms), got {_kind(ts)}"
    if not _fits(ts):
        found = "an integer of more bits; send milliseconds since 1970, or leave `ts` out"
        return Reason.BAD_TS, f"expected `ts` to be a signed integer of 64 bits (ms since 1970), got {found}"
    if isinstance(y, (dict, list)):
        return Reason.BAD_TARGET, f"expected `y` to be a number, text or boolean, got {_kind(y)}"
    return None


def _number_or_other(value: Any) -> Any:
    """Return a number as a float, however large it is, and any other value as it is."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return value
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "an array", str: "text", int: "an integer", float: "a number"}
    return names[type(value)]
