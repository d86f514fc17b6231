"""Split a large value into several records that a broker accepts, and assemble it again, in whatever order they arrive.

Each chunk states the number of chunks, and the length and checksum of the whole. Chunks with the same statement belong
together. A later chunk under the same index replaces the earlier one, as on a compacted topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Generic, TypeVar

import numpy as np

from glasstream_topics import frames
from glasstream_topics.contract import CHUNK_BYTES, Natural, Positive
from glasstream_topics.errors import FrameError

VERSION: Final = 1
_CHECKSUM_BYTES: Final = 16
# Cost of a held part in addition to its bytes, so that a limit on bytes also bounds the number of parts.
_OVERHEAD: Final = 512

K = TypeVar("K")


@dataclass(frozen=True)
class Chunk:
    """One part of a larger value.

    Attributes
    ----------
    index
        place of this part, from 0.
    count, length, checksum
        number of parts, bytes, and blake2b-16 in hexadecimal, all of the whole.
    data
        the bytes of this part.
    """

    index: Natural
    count: Positive
    length: Natural
    checksum: str
    data: bytes

    def whole(self) -> tuple[int, int, str]:
        """Return what all parts of one whole have in common."""
        return self.count, self.length, self.checksum


def split(kind: str, data: bytes, limit: int = CHUNK_BYTES) -> list[bytes]:
    """Return the values of the records that hold `data`: at least one, each with at most `limit` bytes of it."""
    count = max(1, -(-len(data) // limit))
    meta = {"count": count, "length": len(data), "checksum": _checksum(data)}
    parts = (np.frombuffer(data[index * limit : (index + 1) * limit], np.uint8) for index in range(count))
    return [frames.encode(kind, VERSION, {"index": index, **meta}, {"data": part}) for index, part in enumerate(parts)]


def room_for(values: Iterable[bytes]) -> int:
    """Return a limit with which an `Assembler` can hold all of these records' values, in parts and assembled.

    What a reader can hold depends on what was written, never on a limit of its own. State that a stage could write can
    therefore always be read again.
    """
    return sum(2 * (len(value) + _OVERHEAD) for value in values) + _OVERHEAD


def decode(kind: str, value: bytes | memoryview) -> Chunk:
    """Decode the chunk in a record's value.

    Raises
    ------
    FrameError
        the value is damaged or is not a chunk of this kind.
    """
    frame = frames.decode(value, kind, VERSION)
    data = frame.arrays.get("data")
    if frame.arrays.keys() != {"data"} or data is None or data.dtype != "uint8" or data.ndim != 1:
        raise FrameError(f"a {kind} frame: expected one array of bytes, got {sorted(frame.arrays)}")
    chunk = frames.convert({**frame.meta, "data": data.tobytes()}, Chunk, kind)
    if chunk.index >= chunk.count or len(chunk.data) > chunk.length:
        raise FrameError(
            f"a {kind} frame: expected a part of {chunk.length} bytes in {chunk.count} parts, "
            f"got part {chunk.index} with {len(chunk.data)} bytes"
        )
    return chunk


@dataclass
class _Entry:
    """What is held for one identity: parts of an incomplete value, and the newest complete value."""

    parts: dict[int, Chunk] = field(default_factory=dict)
    whole: tuple[int, int, str] | None = None
    data: bytes = b""

    def cost(self) -> int:
        parts = sum(len(part.data) + _OVERHEAD for part in self.parts.values())
        return parts + len(self.data) + _OVERHEAD


class Assembler(Generic[K]):
    """Assembler of chunked values, each under an identity, with a limit on the bytes it holds.

    Parameters
    ----------
    kind
        kind of the chunks' frames.
    limit
        largest number of bytes that it holds, complete or not. Above it the oldest identity is dropped.

    Attributes
    ----------
    rejected
        number of values that are not chunks, do not fit together, or exceed the limit by themselves.
    evicted
        number of identities dropped because of the limit.
    """

    def __init__(self, kind: str, limit: int) -> None:
        self._kind = kind
        self._limit = limit
        self._entries: dict[K, _Entry] = {}
        self._held = 0
        self.rejected = 0
        self.evicted = 0

    @property
    def held_bytes(self) -> int:
        """Number of bytes held now, with an allowance for each part."""
        return self._held

    def add(self, identity: K, index: int, value: bytes | memoryview) -> bool:
        """Add one chunk; return True if it completes a value of `identity` that differs from the last complete one."""
        try:
            chunk = decode(self._kind, value)
        except FrameError:
            self.rejected += 1
            return False
        if chunk.index != index or chunk.length + chunk.count * _OVERHEAD > self._limit:
            self.rejected += 1
            return False
        entry = self._entries.get(identity)
        if entry is None:
            entry = self._entries[identity] = _Entry()
            self._held += entry.cost()
        elif entry.whole == chunk.whole():
            return False
        self._held -= entry.cost()
        entry.parts[index] = chunk
        completed = self._complete(entry, chunk)
        self._held += entry.cost()
        self._evict(identity)
        return completed

    def get(self, identity: K) -> bytes | None:
        """Return the verified bytes of a value, or None while it is incomplete."""
        entry = self._entries.get(identity)
        return None if entry is None or entry.whole is None else entry.data

    def forget(self, identity: K) -> None:
        """Drop everything held for an identity."""
        entry = self._entries.pop(identity, None)
        if entry is not None:
            self._held -= entry.cost()

    def complete(self) -> list[K]:
        """Return the identities that have a complete value."""
        return [identity for identity, entry in self._entries.items() if entry.whole is not None]

    def _complete(self, entry: _Entry, newest: Chunk) -> bool:
        """Assemble the value that the newest chunk belongs to, if all of its parts are here."""
        if len(entry.parts) < newest.count:
            return False
        whole = newest.whole()
        parts = [entry.parts.get(index) for index in range(min(newest.count, len(entry.parts)))]
        chosen = [part.data for part in parts if part is not None and part.whole() == whole]
        if len(chosen) < newest.count:
            return False
        entry.parts.clear()
        data = b"".join(chosen)
        if len(data) != newest.length or _checksum(data) != newest.checksum:
            self.rejected += 1
            return False
        entry.whole, entry.data = whole, data
        return True

    def _evict(self, newest: K) -> None:
        """Drop the oldest identities until the limit holds. The newest goes last, because it is about to be read."""
        while self._held > self._limit:
            oldest = next((identity for identity in self._entries if identity != newest), newest)
            self.forget(oldest)
            self.evicted += 1


def _checksum(data: bytes) -> str:
    return blake2b(data, digest_size=_CHECKSUM_BYTES).hexdigest()
