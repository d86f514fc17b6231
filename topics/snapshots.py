"""`snapshots`: versions of a stream's model for those who explain with them, in chunks.

A key is never reused for other content, and gets a tombstone when no row needs the version any more.
"""

from typing import Final, NamedTuple

from topics import chunks
from topics.contract import CHUNK_BYTES, COMPACTED, Topic
from topics.errors import FrameError

VERSION: Final = 1
_KIND: Final = "snapshot-chunk"

TOPIC: Final = Topic(
    name="snapshots",
    holds="a part of one version of a stream's model",
    key="stream/epoch/version/chunk",
    partitioning="one partition, read by every explainer",
    partitions="one",
    codec="chunks",
    read_by=("explainer",),
    public=False,
    schema_version=VERSION,
    config=COMPACTED,
)


class Identity(NamedTuple):
    """One version of one stream's model."""

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
        """What the chunk is a part of."""
        return Identity(self.stream, self.epoch, self.version)

    def encode(self) -> bytes:
        """stream/epoch/version/chunk. The stream's name may hold any characters: the last three parts are numbers."""
        return f"{self.stream}/{self.epoch}/{self.version}/{self.chunk}".encode()

    @classmethod
    def decode(cls, data: bytes) -> "Key":
        """The key in `data`.

        Raises
        ------
        FrameError
            it is no such key.

        >>> Key.decode(b"a/b/0/64/1")
        Key(stream='a/b', epoch=0, version=64, chunk=1)
        """
        try:
            stream, *numbers = data.decode().rsplit("/", 3)
            epoch, version, chunk = (int(number) for number in numbers)
        except ValueError as error:  # not UTF-8, too few parts, or not numbers
            raise FrameError(f"a key of snapshots: expected stream/epoch/version/chunk, got {data!r}") from error
        key = cls(stream, epoch, version, chunk)
        if min(epoch, version, chunk) < 0 or key.encode() != data:  # int() takes more spellings than the one of ours
            raise FrameError(f"a key of snapshots: expected plain numbers, got {data!r}")
        return key


def split(stream: str, epoch: int, version: int, data: bytes, limit: int = CHUNK_BYTES) -> list[tuple[bytes, bytes]]:
    """Key and value of each record that holds a snapshot's bytes."""
    return [
        (Key(stream, epoch, version, index).encode(), value)
        for index, value in enumerate(chunks.split(_KIND, data, limit))
    ]


def tombstones(stream: str, epoch: int, version: int, count: int) -> list[bytes]:
    """Keys of a snapshot's `count` records, for the tombstones that end it."""
    return [Key(stream, epoch, version, index).encode() for index in range(count)]


class Assembler:
    """Snapshots put together from the records of the topic, in any order, with duplicates and tombstones.

    Parameters
    ----------
    limit
        bytes that it holds at most; above it the oldest snapshot is forgotten and counted.
    """

    def __init__(self, limit: int) -> None:
        self._chunks: chunks.Assembler[Identity] = chunks.Assembler(_KIND, limit)
        self._foreign = 0

    @property
    def rejected(self) -> int:
        """Records ignored because they are damaged or not snapshots."""
        return self._foreign + self._chunks.rejected

    @property
    def evicted(self) -> int:
        """Snapshots forgotten because of the limit."""
        return self._chunks.evicted

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._chunks.held_bytes

    def add(self, key: bytes, value: bytes | memoryview | None) -> Identity | None:
        """Take one record; gives the snapshot that it completed, if it did. A tombstone forgets its snapshot."""
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
        """The verified bytes of a snapshot; None while it is not complete."""
        return self._chunks.get(Identity(stream, epoch, version))

    def forget(self, stream: str, epoch: int, version: int) -> None:
        """Drop what is held of a snapshot."""
        self._chunks.forget(Identity(stream, epoch, version))
