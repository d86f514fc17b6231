"""Where the fold is, as the learner sees it: committed rows per stream, from `progress.fold`."""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from pipeline.errors import RecordError
from topics import progress_fold

log = logging.getLogger(__name__)

OnRecord = Callable[[int, int, bytes | None, bytes | None], None]


class Followed(Protocol):
    """What reads the topic: `pipeline.transport.watch.Follower`."""

    def follow(self, partition: int) -> None:
        """Begin to read a partition."""

    def unfollow(self, partition: int) -> None:
        """Read it no more."""


class FoldProgress:
    """The next row that the fold will fold, per stream."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        """Per stream: the epoch that the fold is in."""
        self.changes = 0
        """Grows whenever a stream moves."""
        self._next_row: dict[int, dict[str, int]] = {}
        self._moved = asyncio.Event()
        self._follower: Followed | None = None

    def next_row(self, epoch: int) -> dict[str, int]:
        """Per stream: the next row of an epoch that the fold will fold; kept up to date."""
        return self._next_row.setdefault(epoch, {})

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
        """Take one committed record of `progress.fold`."""
        if key is None or value is None:
            return
        try:
            record = progress_fold.decode(key, value)
        except RecordError as error:
            log.warning("progress.fold[%d]@%d is ignored: %s", partition, offset, error)
            return
        if not isinstance(record, progress_fold.StreamProgress):
            return
        next_row = self.next_row(record.epoch)
        if record.next_row > next_row.get(record.stream, -1):
            next_row[record.stream] = record.next_row
            self.epochs[record.stream] = max(record.epoch, self.epochs.get(record.stream, 0))
            self.changes += 1
            self._moved.set()

    async def moved(self) -> None:
        """Wait until some stream has moved."""
        self._moved.clear()
        await self._moved.wait()
