"""Events that tests send, and what the plain loop publishes of them."""

from collections.abc import Iterable, Iterator

import orjson

from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings


def event(number: int) -> dict:
    """Return a labelled event of three numbers, a function of its number. Every third one has no time."""
    a, b = (number * 7919 % 1000) / 1000, (number * 104729 % 1000) / 1000
    ts = 1_767_225_600_000 + 1_000 * number if number % 3 else None
    return {"id": number, "ts": ts, "x": {"a": a, "b": b, "c": a * b}, "y": a + b > 1}


def messages(first: int, end: int, size: int = 20) -> Iterator[bytes]:
    """Yield the events of a range, packed into messages."""
    for start in range(first, end, size):
        yield orjson.dumps([event(number) for number in range(start, min(start + size, end))])


def reference(settings: Settings, values: Iterable[bytes | None], key: bytes = b"s") -> dict[str, list[bytes]]:
    """Return what the plain loop publishes of one stream, by topic."""
    found: dict[str, list[bytes]] = {"predictions": [], "importance": [], "drift": [], "events.dead": []}
    for topic, record in Reference(settings).run((key, value) for value in values):
        found.setdefault(topic, []).append(record)
    return found
