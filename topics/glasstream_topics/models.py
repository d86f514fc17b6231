"""`models`: files of trained models that a mark on `events` names, in chunks under their SHA-256.

A key has the same content for ever, so a file may be written again. Files are kept, because a learner that starts over
needs each of them again.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from glasstream_topics import chunks
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, Topic
from glasstream_topics.errors import FrameError

VERSION: Final = 1
_KIND: Final = "model-chunk"

TOPIC: Final = Topic(
    name="models",
    holds="a part of the file of a trained model",
    key="SHA-256 of the file/chunk",
    partitioning="one partition, read by every learner that meets a mark",
    partitions="one",
    codec="chunks",
    written_by=("operator",),
    read_by=("learner", "operator"),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


def digest(data: bytes) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    return sha256(data).hexdigest()


def split(data: bytes, limit: int = CHUNK_BYTES) -> list[tuple[bytes, bytes]]:
    """Return key and value of each record that holds a file."""
    name = digest(data)
    return [(f"{name}/{index}".encode(), value) for index, value in enumerate(chunks.split(_KIND, data, limit))]


def part(value: bytes) -> chunks.Chunk:
    """Return the part of a file in a record; raise FrameError if it is damaged."""
    return chunks.decode(_KIND, value)


def digest_of(key: bytes) -> str:
    """Return the SHA-256 that a key names.

    >>> digest_of(b"00ff/3")
    '00ff'
    """
    return key.rpartition(b"/")[0].decode("ascii", "replace")


def whole(name: str, records: Mapping[bytes, bytes], limit: int) -> bytes:
    """Return the file with a SHA-256.

    Parameters
    ----------
    name
        SHA-256 of the file.
    records
        Records of the topic by key; others than those of the file are not looked at.
    limit
        Largest size of the file in bytes.

    Raises
    ------
    FrameError
        Some records are missing or damaged, or the file is larger.
    """
    found: dict[int, chunks.Chunk] = {}
    while (value := records.get(f"{name}/{len(found)}".encode())) is not None:
        chunk = part(value)
        if chunk.index != len(found):
            raise FrameError(f"chunk {len(found)}: expected its number, got {chunk.index}")
        found[chunk.index] = chunk
        if chunk.length > limit:
            raise FrameError(f"expected a file of at most {limit:,} bytes, got {chunk.length:,}")
        if len(found) >= chunk.count:
            break
    data = b"".join(chunk.data for chunk in found.values())
    if not found:
        raise FrameError("expected its chunks, found none")
    if len(found) < found[0].count:
        raise FrameError(f"expected {found[0].count} chunks, found {len(found)}")
    if digest(data) != name:
        raise FrameError(f"expected the SHA-256 {name}, got {digest(data)}")
    return data
