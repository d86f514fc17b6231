"""`snapshots`: versions of a stream's model for the explainers, in chunks (see `glasstream_topics.versions`)."""

from typing import Final

from glasstream_topics import versions
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, Topic
from glasstream_topics.versions import Identity, Key, tombstones

__all__ = ["TOPIC", "VERSION", "Assembler", "Identity", "Key", "split", "tombstones"]

VERSION: Final = 1
_KIND: Final = "snapshot-chunk"

TOPIC: Final = Topic(
    name="snapshots",
    holds="a part of one version of a stream's model",
    key="stream/epoch/version/chunk",
    partitioning="one partition, read by every explainer",
    partitions="one",
    codec="chunks",
    written_by=("learner",),
    read_by=("explainer",),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


def split(stream: str, epoch: int, version: int, data: bytes, limit: int = CHUNK_BYTES) -> list[tuple[bytes, bytes]]:
    """Return key and value of each record that holds a snapshot's bytes."""
    return versions.split(_KIND, stream, epoch, version, data, limit)


class Assembler(versions.Assembler):
    """Assembler of snapshots from the records of the topic.

    Parameters
    ----------
    limit
        largest number of bytes that it holds; above it the oldest snapshot is dropped and counted.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(_KIND, limit)
