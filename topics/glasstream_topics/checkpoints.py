"""`checkpoints`: the state of a stream's learner after some row, in chunks; see `glasstream_topics.versions`.

The version of a checkpoint is the number of rows learned. Its metadata is in the clear. The state is plain data, or a
pickle if the model learns in River. A pickle is always sealed (`glasstream.models.codec.authentication`), and plain
data are sealed if the learner has an HMAC key. Readers open what is sealed only after they have verified its HMAC.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from glasstream_topics import frames, versions
from glasstream_topics.contract import CHUNK_BYTES, COMPACTED, Natural, Topic
from glasstream_topics.errors import FrameError
from glasstream_topics.progress import Setting
from glasstream_topics.versions import Identity, Key, tombstones

__all__ = [
    "PICKLE",
    "PLAIN",
    "SEALED",
    "TOPIC",
    "VERSION",
    "Assembler",
    "Checkpoint",
    "Identity",
    "Key",
    "decode",
    "encode",
    "split",
    "tombstones",
]

VERSION: Final = 2
PLAIN: Final = "plain"
SEALED: Final = "sealed"
PICKLE: Final = "pickle"
_KIND: Final = "checkpoint"
_CHUNK_KIND: Final = "checkpoint-chunk"

TOPIC: Final = Topic(
    name="checkpoints",
    holds="a part of the state of a stream's learner after some row",
    key="stream/epoch/version/chunk",
    partitioning="the partition of events that it is about, set explicitly",
    codec="chunks",
    written_by=("learner",),
    read_by=("learner",),
    public=False,
    version=VERSION,
    config=COMPACTED,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """The state of a stream's learner.

    Attributes
    ----------
    stream, epoch
        the stream and its epoch.
    rows, seqs
        number of rows learned and of events accepted when the state was saved. With `explain.unlabelled`, `rows` is the
        number of the next entry.
    offset, used
        where the stream resumes in its partition of `events`: the message, and the number of its events that are used.
    fingerprint
        the settings and versions that change numbers, by name.
    form
        `plain`: plain data; `sealed`: plain data with an HMAC; `pickle`: a pickle with an HMAC.
    state
        the state in this form.
    """

    stream: str
    epoch: Natural
    rows: Natural
    seqs: Natural
    offset: Natural
    used: Natural
    fingerprint: dict[str, Setting]
    form: Literal["plain", "sealed", "pickle"]
    state: bytes


def encode(checkpoint: Checkpoint) -> bytes:
    """Return the bytes of a checkpoint, to be split into chunks."""
    meta = {name: getattr(checkpoint, name) for name in Checkpoint.__dataclass_fields__ if name != "state"}
    return frames.encode(_KIND, VERSION, meta, {"state": np.frombuffer(checkpoint.state, np.uint8)})


def decode(data: bytes) -> Checkpoint:
    """Decode a checkpoint; its state stays as it is.

    Raises
    ------
    FrameError
        the bytes are damaged, of another kind, or of another version.
    """
    frame = frames.decode(data, _KIND, VERSION)
    state = frame.arrays.get("state")
    if state is None or state.dtype != np.uint8 or state.ndim != 1 or len(frame.arrays) != 1:
        raise FrameError("a checkpoint: expected one array, state, of bytes")
    return frames.convert({**frame.meta, "state": state.tobytes()}, Checkpoint, _KIND)


def split(checkpoint: Checkpoint, limit: int = CHUNK_BYTES) -> list[tuple[bytes, bytes]]:
    """Return key and value of each record that holds a checkpoint."""
    return versions.split(_CHUNK_KIND, checkpoint.stream, checkpoint.epoch, checkpoint.rows, encode(checkpoint), limit)


class Assembler(versions.Assembler):
    """Assembler of checkpoints from the records of the topic.

    Parameters
    ----------
    limit
        largest number of bytes that it holds; above it the oldest checkpoint is dropped and counted.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(_CHUNK_KIND, limit)
