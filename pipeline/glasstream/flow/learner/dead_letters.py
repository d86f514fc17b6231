"""Make the dead letter of a message, as it is written to `events.dead`."""

import base64
from dataclasses import dataclass
from functools import partial

import orjson

from glasstream.events.message import Oversized, Rejections
from glasstream_topics import events_dead
from glasstream_topics.events_dead import Reason


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A rejected message with its origin and the reasons."""

    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]

    def as_json(self) -> bytes:
        """Return one readable JSON object: the headers, and the original (in base64 if it is not UTF-8)."""
        record: dict[str, object] = {name: text.decode() for name, text in self.headers}
        for name, original in (("key", self.key), ("value", self.value)):
            try:
                record[name] = None if original is None else original.decode()
            except UnicodeDecodeError:
                record[f"{name}_base64"] = base64.b64encode(original or b"").decode()
        return orjson.dumps(record)


def dead_letter(rejections: Rejections, limit: int) -> DeadLetter:
    """Return the dead letter of a message; it takes at most `limit` bytes, whatever the message.

    Parts that do not fit are left out: first a key that is no stream's name, then the value, then a shorter key.

    Parameters
    ----------
    rejections
        The rejected elements of the message.
    limit
        Largest letter in bytes, with key, value, headers and record overhead; at least `events_dead.ORIGIN_BYTES`.
    """
    message = rejections.message
    first = rejections.found[0]
    elements = [(found.index, found.reason) for found in rejections.found if found.index is not None]
    detail = first.detail
    if len(rejections.found) > 1:
        detail = f"element {first.index}: {detail} (and {len(rejections.found) - 1} more)"
    key: bytes | None = message.key
    value: bytes | None = message.value
    omitted: int | None = None
    omitted_key: int | None = None
    if isinstance(message.value, Oversized):
        value, omitted = None, message.value.size
    headers = partial(
        events_dead.headers,
        epoch=rejections.epoch,
        reason=Reason.REJECTED_ELEMENTS if len(elements) == len(rejections.found) and elements else first.reason,
        topic=message.topic,
        partition=message.partition,
        offset=message.offset,
        time=message.timestamp or 0,
        detail=detail[:1_000],
        rejected=elements or None,
    )
    size = events_dead.size(key, value, headers(omitted_bytes=0, omitted_key_bytes=0)) + _SIZES_BYTES
    if size > limit and key is not None and len(key) > events_dead.KEY_BYTES:
        omitted_key = len(key)
        size -= omitted_key
        key = None
    if size > limit and value is not None:
        omitted = len(value)
        value = None
    said = headers(omitted_bytes=omitted, omitted_key_bytes=omitted_key)
    return DeadLetter(message.partition, key, value, tuple(said))


def origin_only(letter: DeadLetter) -> DeadLetter:
    """Return a letter without its value and a long key, for a topic that refuses the whole letter as too large."""
    said = dict(letter.headers)
    if letter.value is not None:
        said["omitted_bytes"] = str(len(letter.value)).encode()
    key = letter.key
    if key is not None and len(key) > events_dead.KEY_BYTES:
        said["omitted_key_bytes"] = str(len(key)).encode()
        key = None
    return DeadLetter(letter.partition, key, None, tuple(said.items()))


_SIZES_BYTES = 32
"""Bytes reserved for the digits of the omitted sizes."""
