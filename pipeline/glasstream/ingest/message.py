"""A message as it came from `events`, and what becomes of one that is rejected."""

from dataclasses import dataclass, field
from typing import NamedTuple

from glasstream.ingest.decode import Rejected
from glasstream_topics.events_dead import Reason


class Oversized(bytes):
    """Stand-in for the value of a message that was not read into memory because it inflates to too many bytes.

    Attributes
    ----------
    size
        Bytes of the batch that it came in, as it was sent.
    detail
        What was expected and what came, for people.
    """

    size: int
    detail: str

    def __new__(cls, size: int, detail: str) -> "Oversized":
        """Make one; it holds no bytes."""
        made = super().__new__(cls)
        made.size, made.detail = size, detail
        return made


@dataclass(frozen=True, slots=True)
class Message:
    """One record of the input topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int | None = None
    """Kafka's, in ms; carried into the dead letter, never into a number."""


class Position(NamedTuple):
    """How far a partition has been consumed: `used` events of the message at `offset`, all of those before it."""

    offset: int = 0
    used: int = 0


@dataclass(slots=True)
class Rejections:
    """What was rejected of one message, gathered until all of it has been looked at."""

    message: Message
    epoch: int
    """Of its stream when it came; of the partition where the stream is not known."""
    found: list[Rejected] = field(default_factory=list)

    def add(self, index: int | None, reason: Reason, detail: str) -> None:
        """Note one rejection; `index` is the place in the array, None the whole message."""
        self.found.append(Rejected(index, reason, detail))

    def __bool__(self) -> bool:
        return bool(self.found)
