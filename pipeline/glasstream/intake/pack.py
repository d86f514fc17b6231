"""Packs events of one stream into messages of `events`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import orjson

ELEMENTS = 128
"""Largest number of events in a message. The learner processes as many in one call."""
BYTES = 256 * 1024
"""Size of a message at which the next event begins another one."""


class Packed(NamedTuple):
    """Message of `events`, and the indices of its events among those that were packed."""

    value: bytes
    indices: Sequence[int]


def pack(events: Iterable[tuple[int, dict[str, Any]]], limit: int) -> Iterator[Packed | int]:
    """Yield messages that hold the events in their order; for an event beyond the limit, yield its index instead.

    Parameters
    ----------
    events
        Events with their indices.
    limit
        Largest size of a message in bytes.

    Examples
    --------
    >>> [one.value for one in pack([(0, {"x": {"a": 1}}), (1, {"x": {"a": 2}})], 100)]
    [b'[{"x":{"a":1}},{"x":{"a":2}}]']
    >>> [one.value for one in pack([(0, {"x": {"a": 1}})], 100)], list(pack([(5, {"x": {"a": 1}})], 10))
    ([b'{"x":{"a":1}}'], [5])
    """
    parts: list[bytes] = []
    indices: list[int] = []
    size, most = 0, min(BYTES, limit)
    for index, event in events:
        encoded = orjson.dumps(event)
        if len(encoded) > limit:
            yield index
            continue
        if parts and (len(parts) == ELEMENTS or size + len(encoded) + len(parts) + 2 > most):
            yield _message(parts, indices)
            parts, indices, size = [], [], 0
        parts.append(encoded)
        indices.append(index)
        size += len(encoded)
    if parts:
        yield _message(parts, indices)


def _message(parts: Sequence[bytes], indices: Sequence[int]) -> Packed:
    return Packed(parts[0] if len(parts) == 1 else b"[" + b",".join(parts) + b"]", indices)
