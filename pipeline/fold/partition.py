"""All streams of one `contributions` partition, and the offset from which a successor must read."""

from dataclasses import dataclass, field, replace

from pipeline.fold.methods import Record
from pipeline.fold.settings import FoldSettings
from pipeline.fold.stream import StreamFold
from topics.contributions import Contributions


@dataclass(slots=True)
class PartitionFold:
    """Folds the streams of one partition."""

    partition: int
    settings: FoldSettings
    next_offset: int = 0
    streams: dict[str, StreamFold] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    """Streams whose state is newer than what was last taken."""
    over: int = 0
    """Blocks of epochs that their streams have left."""

    def offer(self, block: Contributions, offset: int) -> None:
        """Take one message of the partition; a later epoch begins a stream anew, blocks of an earlier one are over.

        An epoch begins with its first block, or with the end of the one before it.

        Raises
        ------
        FrameError
            Its features are not those of its stream.
        """
        self.next_offset = offset + 1
        stream = self.streams.get(block.stream)
        epoch = self.settings.epoch if stream is None else stream.settings.epoch
        if block.epoch < epoch:
            self.over += 1
            return
        if stream is None or block.epoch > epoch:
            stream = self._begin(block.stream, block.epoch)
        stream.offer(block, offset)
        if stream.ended:
            self._begin(block.stream, block.epoch + 1)
        self.changed.add(block.stream)

    def _begin(self, name: str, epoch: int) -> StreamFold:
        """Forget a stream, but not its records."""
        fresh = StreamFold.empty(name, replace(self.settings, epoch=epoch))
        if name in self.streams:
            fresh.records = self.streams[name].records
        self.streams[name] = fresh
        return fresh

    @property
    def offset(self) -> int:
        """The lowest offset that holds an unfolded row: where a successor begins to read."""
        waiting = (stream.oldest_waiting for stream in self.streams.values())
        return min((offset for offset in waiting if offset is not None), default=self.next_offset)

    def take_records(self) -> list[Record]:
        """What was published since the last call; of a stream in the order of its rows."""
        taken = []
        for name in sorted(self.changed):
            stream = self.streams[name]
            taken += stream.records
            stream.records = []
        return taken

    def take_changed(self) -> list[StreamFold]:
        """The streams whose state must be written again."""
        changed = [self.streams[name] for name in sorted(self.changed)]
        self.changed = set()
        return changed
