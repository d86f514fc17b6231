"""A message of `events`, and the record of what was rejected in it."""

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from glasstream.events.decode import Rejected
from glasstream_topics.events_dead import Reason


class Oversized(bytes):
    """Stand-in for the value of a message that was not read into memory because it inflates to too many bytes.

    Attributes
    ----------
    size
        Compressed size in bytes of the batch that contains the message.
    detail
        Readable text that says what was expected and what came.
    """

    size: int
    detail: str

    def __new__(cls, size: int, detail: str) -> "Oversized":
        """Return a stand-in that holds no bytes."""
        made = super().__new__(cls)
        made.size, made.detail = size, detail
        return made


class Message(msgspec.Struct, frozen=True, gc=False):
    """One record of a topic, as it was read."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """Timestamp of Kafka in ms. Dead letters carry it; no number depends on it."""
    headers: tuple[tuple[str, bytes], ...] = ()

    @property
    def size(self) -> int:
        """Return an estimate of the bytes that the message occupies."""
        return 200 + len(self.value or b"") + len(self.key or b"")

    @property
    def place(self) -> str:
        """Return the position as errors name it: `topic[partition]@offset`."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


class Position(NamedTuple):
    """Consumed position: `used` events of the message at `offset`, and all earlier messages."""

    offset: int = 0
    used: int = 0


@dataclass(slots=True)
class Rejections:
    """Rejections in one message, collected until all its elements have been checked."""

    message: Message
    epoch: int
    """Epoch of the stream when the message arrived, or of the partition if the stream is unknown."""
    found: list[Rejected] = field(default_factory=list)

    def add(self, index: int | None, reason: Reason, detail: str) -> None:
        """Add a rejection. `index` is the place in the array; None means the whole message."""
        self.found.append(Rejected(index, reason, detail))

    def __bool__(self) -> bool:
        return bool(self.found)
