"""Something large as several records, each below what a broker takes, and whole again from whatever order they come in.

Each chunk says how many there are, how long the whole is and what its checksum is; chunks belong together when they
say the same. What arrives later under the same index replaces what was there, as on a compacted topic.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated, Final, Generic, TypeVar

import msgspec
import numpy as np

from glasstream_topics import frames
from glasstream_topics.contract import CHUNK_BYTES
from glasstream_topics.errors import FrameError

VERSION: Final = 1
_CHECKSUM_BYTES: Final = 16
# What a held part costs beside its bytes, so that a limit on bytes also bounds how many parts there are.
_OVERHEAD: Final = 512

K = TypeVar("K")

_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Whole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a chunk says of the whole, and its place in it."""

    index: _Natural
    count: Annotated[int, msgspec.Meta(ge=1)]
    length: _Natural
    checksum: str


@dataclass(frozen=True)
class Chunk:
    """One part of something larger.

    Attributes
    ----------
    index
        place of this part, from 0.
    count, length, checksum
        of the whole: number of parts, bytes, and blake2b-16 in hexadecimal.
    data
        the bytes of this part.
    """

    index: int
    count: int
    length: int
    checksum: str
    data: bytes

    def whole(self) -> tuple[int, int, str]:
        """What all parts of one whole have in common."""
        return self.count, self.length, self.checksum


def split(kind: str, data: bytes, limit: int = CHUNK_BYTES) -> list[bytes]:
    """The values of the records that hold `data`, at least one, each with at most `limit` bytes of it."""
    count = max(1, -(-len(data) // limit))
    meta = {"count": count, "length": len(data), "checksum": _checksum(data)}
    parts = (np.frombuffer(data[index * limit : (index + 1) * limit], np.uint8) for index in range(count))
    return [frames.encode(kind, VERSION, {"index": index, **meta}, {"data": part}) for index, part in enumerate(parts)]


def room_for(values: Iterable[bytes]) -> int:
    """A limit for an `Assembler` that holds all of these records' values, whole and in parts: it refuses none of them.

    What a reader can hold follows from what was written, never from a bound of its own: nobody may write state that
    cannot be read again.
    """
    return sum(2 * (len(value) + _OVERHEAD) for value in values) + _OVERHEAD


def decode(kind: str, value: bytes | memoryview) -> Chunk:
    """The chunk in a record's value.

    Raises
    ------
    FrameError
        the value is damaged or is no chunk of this kind.
    """
    frame = frames.decode(value, kind, VERSION)
    try:
        meta = msgspec.convert(frame.meta, _Whole)
    except msgspec.ValidationError as error:
        raise FrameError(f"the meta of a {kind} frame: {error}") from error
    data = frame.arrays.get("data")
    if frame.arrays.keys() != {"data"} or data is None or data.dtype != "uint8" or data.ndim != 1:
        raise FrameError(f"a {kind} frame: expected one array of bytes, got {sorted(frame.arrays)}")
    if meta.index >= meta.count or len(data) > meta.length:
        raise FrameError(
            f"a {kind} frame: expected a part of {meta.length} bytes in {meta.count} parts, "
            f"got part {meta.index} with {len(data)} bytes"
        )
    return Chunk(meta.index, meta.count, meta.length, meta.checksum, data.tobytes())


@dataclass
class _Entry:
    """What is held of one identity: parts of what is not complete, and the newest whole."""

    parts: dict[int, Chunk] = field(default_factory=dict)
    whole: tuple[int, int, str] | None = None
    data: bytes = b""

    def cost(self) -> int:
        parts = sum(len(part.data) + _OVERHEAD for part in self.parts.values())
        return parts + len(self.data) + _OVERHEAD


class Assembler(Generic[K]):
    """Puts wholes together, each under an identity, within a bound on the bytes it holds.

    Parameters
    ----------
    kind
        of the chunks' frames.
    limit
        bytes that it holds at most, complete or not. Above it the identity that was begun first is forgotten.

    Attributes
    ----------
    rejected
        values that were no chunk, or did not fit together, or are beyond the limit by themselves.
    evicted
        identities forgotten because of the limit.
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
        """Bytes held now, an allowance for each part included."""
        return self._held

    def add(self, identity: K, index: int, value: bytes | memoryview) -> bool:
        """Take one chunk; True when it completes the whole of `identity` and that is not what was complete before."""
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
        """The verified bytes of a whole; None while it is not complete."""
        entry = self._entries.get(identity)
        return None if entry is None or entry.whole is None else entry.data

    def parts(self, identity: K) -> int:
        """How many parts a whole is of; 0 while it is not complete."""
        entry = self._entries.get(identity)
        return 0 if entry is None or entry.whole is None else entry.whole[0]

    def forget(self, identity: K) -> None:
        """Drop everything of an identity."""
        entry = self._entries.pop(identity, None)
        if entry is not None:
            self._held -= entry.cost()

    def incomplete(self) -> list[K]:
        """Identities of which some parts are here that make no whole."""
        return [identity for identity, entry in self._entries.items() if entry.parts]

    def complete(self) -> list[K]:
        """Identities of which a whole is here."""
        return [identity for identity, entry in self._entries.items() if entry.whole is not None]

    def _complete(self, entry: _Entry, newest: Chunk) -> bool:
        """Put the parts together if all that belong to the newest are here."""
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
        """Forget the oldest until the limit holds, the newest last: it is what somebody is about to ask for."""
        while self._held > self._limit:
            oldest = next((identity for identity in self._entries if identity != newest), newest)
            self.forget(oldest)
            self.evicted += 1


def _checksum(data: bytes) -> str:
    return blake2b(data, digest_size=_CHECKSUM_BYTES).hexdigest()
