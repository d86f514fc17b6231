"""Versions of a stream's large objects (snapshots, checkpoints), in chunks: their keys and their assembly.

A key is never reused for other content. It gets a tombstone when no stage needs the version any more.
"""

from typing import NamedTuple

from glasstream_topics import chunks
from glasstream_topics.contract import CHUNK_BYTES
from glasstream_topics.errors import FrameError


class Identity(NamedTuple):
    """One version of an object of one stream."""

    stream: str
    epoch: int
    version: int


class Key(NamedTuple):
    """Key of one chunk."""

    stream: str
    epoch: int
    version: int
    chunk: int

    @property
    def identity(self) -> Identity:
        """The version that the chunk belongs to."""
        return Identity(self.stream, self.epoch, self.version)

    def encode(self) -> bytes:
        """Return stream/epoch/version/chunk. The stream's name may hold any characters: the last three parts are
        numbers.
        """
        return f"{self.stream}/{self.epoch}/{self.version}/{self.chunk}".encode()

    @classmethod
    def decode(cls, data: bytes) -> "Key":
        """Decode a key.

        Raises
        ------
        FrameError
            the bytes are not such a key.

        >>> Key.decode(b"a/b/0/64/1")
        Key(stream='a/b', epoch=0, version=64, chunk=1)
        """
        try:
            stream, *numbers = data.decode().rsplit("/", 3)
            epoch, version, chunk = (int(number) for number in numbers)
        except ValueError as error:  # not UTF-8, too few parts, or not numbers
            raise FrameError(f"a key: expected stream/epoch/version/chunk, got {data!r}") from error
        key = cls(stream, epoch, version, chunk)
        if min(epoch, version, chunk) < 0 or key.encode() != data:  # int() accepts other spellings too
            raise FrameError(f"a key: expected plain numbers, got {data!r}")
        return key


def split(
    kind: str, stream: str, epoch: int, version: int, data: bytes, limit: int = CHUNK_BYTES
) -> list[tuple[bytes, bytes]]:
    """Return key and value of each record that holds the bytes of a version."""
    return [
        (Key(stream, epoch, version, index).encode(), value)
        for index, value in enumerate(chunks.split(kind, data, limit))
    ]


def tombstones(stream: str, epoch: int, version: int, count: int) -> list[bytes]:
    """Return the keys of a version's `count` records, for the tombstones that delete it."""
    return [Key(stream, epoch, version, index).encode() for index in range(count)]


class Assembler:
    """Assembler of versions from the records of a topic, in any order, with duplicates and tombstones.

    Parameters
    ----------
    kind
        kind of the chunks' frames.
    limit
        largest number of bytes that it holds; above it the oldest version is dropped and counted.
    """

    def __init__(self, kind: str, limit: int) -> None:
        self._chunks: chunks.Assembler[Identity] = chunks.Assembler(kind, limit)
        self._foreign = 0

    @property
    def rejected(self) -> int:
        """Number of records ignored because they are damaged or foreign."""
        return self._foreign + self._chunks.rejected

    @property
    def evicted(self) -> int:
        """Number of versions dropped because of the limit."""
        return self._chunks.evicted

    @property
    def held_bytes(self) -> int:
        """Number of bytes held now."""
        return self._chunks.held_bytes

    def add(self, key: bytes, value: bytes | memoryview | None) -> Identity | None:
        """Add one record and return the version that it completed, if any. A tombstone drops its version."""
        try:
            parsed = Key.decode(key)
        except FrameError:
            self._foreign += 1
            return None
        if value is None:
            self._chunks.forget(parsed.identity)
            return None
        return parsed.identity if self._chunks.add(parsed.identity, parsed.chunk, value) else None

    def get(self, stream: str, epoch: int, version: int) -> bytes | None:
        """Return the verified bytes of a version, or None while it is incomplete."""
        return self._chunks.get(Identity(stream, epoch, version))

    def forget(self, stream: str, epoch: int, version: int) -> None:
        """Drop everything that is held of a version."""
        self._chunks.forget(Identity(stream, epoch, version))

    def complete(self) -> list[Identity]:
        """Return the complete versions."""
        return self._chunks.complete()
