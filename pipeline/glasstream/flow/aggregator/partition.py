"""All streams of one `contributions` partition, and the offset at which a successor resumes."""

from dataclasses import dataclass, field

import msgspec

from glasstream.explain.method import OutputRecord
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.settings import Settings
from glasstream_topics.contributions import Contributions


@dataclass(slots=True)
class PartitionAggregator:
    """Aggregator of the streams of one partition."""

    partition: int
    settings: Settings
    next_offset: int = 0
    streams: dict[str, StreamAggregator] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    """Streams whose state is newer than what was last taken, and the lowest offset of what has entered since; the
    stream that changed first comes first."""
    over: int = 0
    """Blocks of epochs that their streams have left."""
    below: int = 0
    """Those among them whose epoch is below that of the partition."""
    waiting_bytes: int = 0
    """Bytes of the blocks that wait: at most twice what a learner may have in flight (`limits.request_bytes`)."""
    dropped: int = 0
    """Blocks that have waited and were not used: there were too many bytes of them, or they did not fit."""

    def offer(self, block: Contributions, offset: int) -> None:
        """Process one message of the partition.

        An epoch begins with its first block, or with the end of the epoch before it. A later epoch restarts its stream,
        and blocks of earlier epochs are dropped.

        Raises
        ------
        FrameError
            The block's features are not those of its stream, or it is too far ahead.
        """
        self.next_offset = offset + 1
        stream = self.streams.get(block.stream)
        epoch = self.settings.epoch if stream is None else stream.settings.epoch
        if block.epoch < epoch:
            self.over += 1
            self.below += block.epoch < self.settings.epoch
            return
        if stream is None or block.epoch > epoch:
            stream = self._begin(block.stream, block.epoch)
        waiting, waiting_bytes, dropped = stream.oldest_waiting, stream.waiting_bytes, stream.dropped
        stream.offer(block, offset)
        self.waiting_bytes += stream.waiting_bytes - waiting_bytes
        self.dropped += stream.dropped - dropped
        while self.waiting_bytes > 2 * self.settings.limits.request_bytes:
            self._drop_furthest()
        if stream.ended:
            self._begin(block.stream, block.epoch + 1)
        first = offset if waiting is None else min(offset, waiting)  # what has waited may have entered
        self.changed[block.stream] = min(first, self.changed.get(block.stream, first))

    def _begin(self, name: str, epoch: int) -> StreamAggregator:
        """Drop a stream's state, but not its records."""
        fresh = StreamAggregator.empty(name, msgspec.structs.replace(self.settings, epoch=epoch))
        if name in self.streams:
            fresh.records = self.streams[name].records
            self.waiting_bytes -= self.streams[name].waiting_bytes
        self.streams[name] = fresh
        return fresh

    def _drop_furthest(self) -> None:
        """Drop a waiting block of the stream of which most bytes wait: the one that is needed last."""
        stream = max(self.streams.values(), key=lambda stream: stream.waiting_bytes)
        self.waiting_bytes -= stream.waiting_bytes
        stream.drop_furthest()
        self.waiting_bytes += stream.waiting_bytes
        self.dropped += 1

    @property
    def offset(self) -> int:
        """The lowest offset of a row that no saved state includes: a successor resumes here."""
        waiting = (stream.oldest_waiting for stream in self.streams.values())
        unfinished = (offset for offset in waiting if offset is not None)
        return min((*unfinished, *self.changed.values()), default=self.next_offset)

    def take_next(self) -> tuple[StreamAggregator, list[OutputRecord]]:
        """Return the stream whose state has waited longest to be saved, and the records it has published since."""
        name = next(iter(self.changed))
        del self.changed[name]
        stream = self.streams[name]
        records, stream.records = stream.records, []
        return stream, records

    def take_records(self) -> list[OutputRecord]:
        """Return the records published since the last call, each stream in row order, without saving its state."""
        return [record for _ in range(len(self.changed)) for record in self.take_next()[1]]
