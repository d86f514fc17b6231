"""Repair dead letters: decide what to send again for each of them."""

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from glasstream.base.errors import ContractError, InputError
from glasstream.events.decode import decode, split
from glasstream.events.message import Message
from glasstream.flow.identity import stream_name
from glasstream.flow.settings import Settings
from glasstream_topics import events, events_dead, labels
from glasstream_topics.events import Event
from glasstream_topics.events_dead import DeadLetter

RepairFunction = Callable[[Any], Any]
"""Function of a rejected event as JSON, or of the bytes of a message that is not JSON. It returns the replacement to
send, as JSON or bytes, or None to send nothing."""

OMITTED = "omitted"
LEFT_OUT = "left_out"
FOREIGN = "not_an_event"
KEYS = tuple(Event.__struct_fields__)


@dataclass(frozen=True, slots=True)
class Letter:
    """Record of `events.dead`.

    Attributes
    ----------
    topic, partition, offset
        Position of the record.
    key, value
        Key and value of the original message.
    said
        Content of the headers.
    """

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: DeadLetter

    @property
    def place(self) -> str:
        """Return the position as text: `topic[partition]@offset`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"

    @property
    def stream(self) -> str:
        """Return the name of the stream; bytes that are not UTF-8 are escaped."""
        return (self.key or b"").decode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Repaired:
    """Message that can be sent, and the number of its events."""

    key: bytes
    value: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Unrepaired:
    """Reason for sending nothing: one of `events.dead`, `omitted` (the letter lacks the original), or `left_out`."""

    reason: str
    detail: str


def nan_as_null(given: Any) -> Any:
    """Read NaN, Infinity and -Infinity, which JSON does not have, as null: the feature is absent.

    Return bytes that are not JSON for another reason as they are.

    >>> nan_as_null(b'{"x": {"a": NaN, "b": 1}}')
    {'x': {'a': None, 'b': 1}}
    >>> nan_as_null(b'{"x": ')
    b'{"x": '
    """
    if not isinstance(given, bytes):
        return given
    try:
        return json.loads(given, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return given


def known_keys(given: Any) -> Any:
    """Remove the keys that events do not have.

    >>> known_keys({"x": {"a": 1}, "y": 0, "source": "web"})
    {'x': {'a': 1}, 'y': 0}
    """
    return {key: given[key] for key in KEYS if key in given} if isinstance(given, dict) else given


BUILT_IN: dict[str, RepairFunction] = {"nan-as-null": nan_as_null, "known-keys": known_keys}


def filter_named(name: str) -> RepairFunction:
    """Return the filter with this name in `BUILT_IN`, or the function PACKAGE.MODULE:FUNCTION.

    Raises
    ------
    InputError
        There is no filter with this name.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise InputError(f"--filter: expected one of {', '.join(BUILT_IN)}, or PACKAGE.MODULE:FUNCTION; got {name!r}")
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except (Exception, SystemExit) as error:  # a module of the user's can raise anything
        raise InputError(
            f"--filter: cannot import {module!r} of {name!r}: it raised {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise InputError(f"--filter: expected {attribute!r} in {module!r} to be a function, got {found!r}")
    return found  # type: ignore[no-any-return]


def own_topics(settings: Settings) -> set[str]:
    """Return the names, with and without the prefix, of the topics whose dead letters can be sent to `events` again."""
    names = (events.TOPIC.name, labels.TOPIC.name)
    return {*names, *(settings.prefix + name for name in names)}


def repair(
    letter: Letter, function: RepairFunction | None, settings: Settings, to: str | None = None
) -> Repaired | Unrepaired:
    """Return what to send for a dead letter. For an array, that is only the rejected elements.

    Return `Unrepaired` if the message shows by itself that it would be rejected again.

    Parameters
    ----------
    function
        See `RepairFunction`; None keeps the content as it was.
    settings
        All settings, for the rules for stream names and the largest message.
    to
        Stream to send it to; None is the original stream.

    Raises
    ------
    InputError
        The filter raised an error, or returned something that is not JSON.
    """
    if function is None and letter.headers.topic not in own_topics(settings):
        return Unrepaired(
            FOREIGN,
            f"the intake rejected it on {letter.headers.topic}, and it is no event; correct it or the mapping, and "
            "send it to that topic again",
        )
    if letter.value is None and letter.headers.omitted_bytes is not None:
        return Unrepaired(
            OMITTED,
            f"the original of {letter.headers.omitted_bytes:,} bytes exceeded limits.dead_bytes and was not kept",
        )
    if to is None and letter.headers.omitted_key_bytes is not None:
        return Unrepaired(
            OMITTED, f"its key of {letter.headers.omitted_key_bytes:,} bytes was not kept; name a stream with --to"
        )
    count = letter.headers.rejected_count
    if count is not None and count < len(_elements(letter.value or b"") or ()):
        return Unrepaired(
            OMITTED,
            f"it lists the first {events_dead.LISTED:,} of {count:,} rejected elements, and the others cannot "
            "be distinguished from the accepted elements; send the missing events again from their source",
        )
    try:
        value = _value(letter, function)
    except (InputError, ContractError) as error:
        raise InputError(f"{letter.place}: {error}") from error
    except Exception as error:
        raise InputError(
            f"{letter.place}: the filter raised {type(error).__name__}: {error}; let it return None for what it cannot "
            "repair, or select other dead letters with --at or --reason"
        ) from error
    if value is None and letter.value is not None:
        return Unrepaired(LEFT_OUT, "the filter removed it")
    key = letter.key if to is None else events.key(to)
    partition = events.partition(key or b"", settings.topics.events, settings.topics.partitioner)
    name = stream_name(Message(letter.headers.topic, partition, 0, key, value), settings)
    if isinstance(name, tuple):
        return Unrepaired(*name)
    found = decode(value, settings.limits.message_bytes)
    if found.rejected or value is None:
        return Unrepaired(found.rejected[0].reason, found.rejected[0].detail)
    return Repaired(key or b"", value, len(found.events))


def _value(letter: Letter, function: RepairFunction | None) -> bytes | None:
    """Return the repaired value, or None if nothing is left."""
    if letter.value is None or (function is None and letter.headers.rejected is None):
        return letter.value
    elements = _elements(letter.value)
    if elements is None:
        return letter.value if function is None else _as_bytes(function(_content(letter.value)))
    listed = letter.headers.rejected if letter.headers.rejected_count is None else None
    chosen = sorted(index for index, _ in (listed or enumerate(elements)))
    if beyond := [index for index in chosen if index >= len(elements)]:
        raise InputError(f"expected an array with the rejected elements {beyond}, got one of {len(elements)} elements")
    left = [elements[index] for index in chosen]
    if function is not None:
        left = [content for element in left if (content := _as_bytes(function(_content(element)))) is not None]
    return b"[" + b",".join(left) + b"]" if left or function is None else None


def _elements(value: bytes) -> list[bytes] | None:
    """Return the elements of an array; None if the value is not an array."""
    try:
        return split(value)
    except (msgspec.DecodeError, RecursionError):
        return None


def _content(value: bytes) -> Any:
    """Return the decoded JSON of a value, or its bytes if they are not JSON."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def _as_bytes(content: Any) -> bytes | None:
    if content is None or isinstance(content, bytes):
        return content
    return events.encode(content)
