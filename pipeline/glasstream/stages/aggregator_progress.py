"""Where the aggregator is, as the learner sees it: committed rows per stream, from `progress.aggregator`."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from glasstream.errors import RecordError
from glasstream_topics import progress_aggregator

log = logging.getLogger(__name__)

ALL: Final = 2**63
"""More rows than any stream has."""

_NOWHERE: Final = (-1, 0, -1)

OnRecord = Callable[[int, int, bytes | None, bytes | None], None]


class Followed(Protocol):
    """What reads the topic: `glasstream.transport.watch.Follower`."""

    def follow(self, partition: int) -> None:
        """Begin to read a partition."""

    def unfollow(self, partition: int) -> None:
        """Read it no more."""


class AggregatorProgress:
    """The next row that the aggregator will aggregate, per stream and epoch."""

    def __init__(self) -> None:
        self.changes = 0
        """Grows whenever a stream moves."""
        self._at: dict[str, tuple[int, int, int]] = {}
        """Per stream: the epoch that the aggregator is in, its next row there, and the row of its newest records."""
        self._moved = asyncio.Event()
        self._follower: Followed | None = None

    def aggregated(self, stream: str, epoch: int) -> int | None:
        """The next row of an epoch of a stream that the aggregator will aggregate.

        `ALL` when the aggregator has left the epoch; None while it is not in it.
        """
        current, row, _ = self._at.get(stream, _NOWHERE)
        if current == epoch:
            return row
        return ALL if current > epoch else None

    def left(self, stream: str, epoch: int) -> bool:
        """Whether the aggregator is in a later epoch of a stream."""
        return self._at.get(stream, _NOWHERE)[0] > epoch

    def published(self, stream: str, epoch: int, row: int) -> bool:
        """Whether all rows of an epoch of a stream before a row are aggregated, and records as of the last are due."""
        return self._at.get(stream, _NOWHERE) >= (epoch, row, row - 1)

    def place(self, stream: str) -> tuple[int, int, int]:
        """Where the aggregator is with a stream: it grows whenever the aggregator moves."""
        return self._at.get(stream, _NOWHERE)

    def attach(self, follower: Followed) -> None:
        """Say what reads the topic for us."""
        self._follower = follower

    def follow(self, partition: int) -> None:
        """A partition is ours: its streams are of interest."""
        if self._follower is not None:
            self._follower.follow(partition)

    def unfollow(self, partition: int) -> None:
        """A partition is ours no more."""
        if self._follower is not None:
            self._follower.unfollow(partition)

    def on_record(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one committed record of `progress.aggregator`."""
        if key is None or value is None:
            return
        try:
            record = progress_aggregator.decode(key, value)
        except RecordError as error:
            log.warning("progress.aggregator[%d]@%d is ignored: %s", partition, offset, error)
            return
        if not isinstance(record, progress_aggregator.StreamProgress):
            return
        at = record.epoch, record.next_row, record.published_row
        if at > self._at.get(record.stream, _NOWHERE):
            self._at[record.stream] = at
            self.changes += 1
            self._moved.set()

    async def moved(self) -> None:
        """Wait until some stream has moved."""
        self._moved.clear()
        await self._moved.wait()
