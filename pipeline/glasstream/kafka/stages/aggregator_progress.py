"""Progress of the aggregator as the learner follows it: committed rows per stream, from `progress.aggregator`."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from glasstream.base.errors import RecordError
from glasstream_topics import progress_aggregator

log = logging.getLogger(__name__)

ALL: Final = 2**63
"""Number of rows beyond that of any stream."""

_NOWHERE: Final = (-1, 0, -1)

OnRecord = Callable[[int, int, bytes | None, bytes | None], None]


class Followed(Protocol):
    """Reader of the topic: `glasstream.kafka.transport.watch.Follower`."""

    def follow(self, partition: int) -> None:
        """Start reading a partition."""

    def unfollow(self, partition: int) -> None:
        """Stop reading a partition."""


class AggregatorProgress:
    """The next row that the aggregator will aggregate, per stream and epoch."""

    def __init__(self) -> None:
        self.changes = 0
        """Counter that grows whenever a stream moves."""
        self._at: dict[str, tuple[int, int, int]] = {}
        """Per stream: the aggregator's epoch, its next row, and the row of its newest records."""
        self._epochs: dict[int, int] = {}
        """Epoch of the aggregator on each partition."""
        self._moves: dict[str, int] = {}
        """Value of `changes` at the newest move of each stream, in this order."""
        self._moved = asyncio.Event()
        self._follower: Followed | None = None

    def aggregated(self, stream: str, epoch: int) -> int | None:
        """Return the next row of an epoch of a stream that the aggregator will aggregate.

        Return `ALL` if the aggregator has left the epoch, and None if it has not entered it.
        """
        current, row, _ = self._at.get(stream, _NOWHERE)
        if current == epoch:
            return row
        return ALL if current > epoch else None

    def left(self, stream: str, epoch: int) -> bool:
        """Return whether the aggregator is in a later epoch of a stream."""
        return self._at.get(stream, _NOWHERE)[0] > epoch

    def published(self, stream: str, epoch: int, row: int) -> bool:
        """Return whether all rows before `row` are aggregated, and the record of the last of them is due."""
        return self._at.get(stream, _NOWHERE) >= (epoch, row, row - 1)

    def moved_since(self, change: int) -> Iterator[str]:
        """Yield the streams that have moved since `changes` had a value."""
        for stream, moved in reversed(self._moves.items()):
            if moved <= change:
                return
            yield stream

    def place(self, stream: str) -> tuple[int, int, int]:
        """Return the aggregator's position in a stream. It grows whenever the aggregator moves."""
        return self._at.get(stream, _NOWHERE)

    def epoch(self, partition: int) -> int:
        """Return the aggregator's epoch on a partition; 0 if it has committed nothing there."""
        return self._epochs.get(partition, 0)

    def attach(self, follower: Followed) -> None:
        """Set the reader of the topic."""
        self._follower = follower

    def follow(self, partition: int) -> None:
        """Follow the streams of a partition, because this worker now owns it."""
        if self._follower is not None:
            self._follower.follow(partition)

    def unfollow(self, partition: int) -> None:
        """Stop following a partition that this worker no longer owns."""
        if self._follower is not None:
            self._follower.unfollow(partition)

    def on_record(self, partition: int, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Take one committed record of `progress.aggregator`."""
        if key is None or value is None:
            return
        try:
            record = progress_aggregator.decode(key, value)
        except RecordError as error:
            log.warning("skipping unreadable record progress.aggregator[%d]@%d: %s", partition, offset, error)
            return
        if isinstance(record, progress_aggregator.AggregatorPartitionProgress):
            self._epochs[partition] = record.epoch
        if not isinstance(record, progress_aggregator.AggregatorStreamProgress):
            return
        at = record.epoch, record.next_row, record.published_row
        if at > self._at.get(record.stream, _NOWHERE):
            self._at[record.stream] = at
            self.changes += 1
            self._moves.pop(record.stream, None)
            self._moves[record.stream] = self.changes
            self._moved.set()

    async def moved(self) -> None:
        """Wait until any stream has moved."""
        self._moved.clear()
        await self._moved.wait()
