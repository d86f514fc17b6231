"""The fold stage: `contributions` in, `importance`, `effects` and `drift` out.

State and position go to `progress.fold` in the same transaction.
"""

import asyncio
import logging
from collections.abc import Mapping

from pipeline.errors import FrameError, LostInputError
from pipeline.fold.partition import PartitionFold
from pipeline.fold.stream import StreamFold
from pipeline.settings import Settings
from pipeline.stages.names import check_fingerprint, fingerprint, topic
from pipeline.transport.records import Message, Outputs, Record
from topics import contributions, drift, effects, importance, progress_fold
from topics.progress_fold import FoldState, PartitionProgress, StreamProgress

log = logging.getLogger(__name__)


class FoldPartition:
    """What the stage keeps for one partition of `contributions`."""

    def __init__(self, partition: int, settings: Settings) -> None:
        self.partition = partition
        self.settings = settings
        self.core = PartitionFold(partition, settings.fold())
        self.damaged = 0
        """Messages that were not contributions."""
        self._fingerprint = fingerprint(settings)
        self._sent_offset = -1
        self._chunks: dict[str, int] = {}
        self._failed_said: set[str] = set()

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Go on from the committed state: rows that it has are dropped when they come again.

        Raises
        ------
        StateError
            The state is of other settings, or needs input that is gone.
        """
        restored = progress_fold.restore(records)
        where = f"{topic(self.settings, 'progress.fold')}[{self.partition}]"
        if restored.partition is None:
            self.core.next_offset = low
            return low
        found = restored.partition
        check_fingerprint(where, found.fingerprint, self.settings, found.epoch)
        if found.offset < low or found.offset > high:
            raise LostInputError(
                f"{where}: expected to go on at offset {found.offset} of "
                f"{topic(self.settings, 'contributions')}[{self.partition}], but the broker keeps {low} to {high}; "
                "begin anew with another --prefix"
            )
        for name, state in restored.streams.items():
            self.core.streams[name] = StreamFold.restore(
                name, self.settings.fold(), dict(state.meta), dict(state.arrays)
            )
        self.core.next_offset = self._sent_offset = found.offset
        return found.offset

    async def feed(self, message: Message) -> None:
        """Fold one block."""
        try:
            block = contributions.decode(message.value or b"")
        except FrameError as error:
            self.damaged += 1
            log.error("%s is not a contribution and is left out: %s", message.place, error)
            self.core.next_offset = message.offset + 1
            return
        if block.kind == "failed" and block.stream not in self._failed_said:
            self._failed_said.add(block.stream)
            log.warning(
                "stream %r: rows %d to %d could not be explained (said once): %s",
                block.stream,
                block.first_row,
                block.first_row + block.count - 1,
                block.reason,
            )
        self.core.offer(block, message.offset)
        await asyncio.sleep(0)

    def pending(self) -> int:
        """Records that wait to be sent."""
        return sum(len(self.core.streams[name].records) for name in self.core.changed)

    def collect(self) -> Outputs:
        """The records since the last time, and the state as of them."""
        records = [Record(topic(self.settings, one.topic), one.key, one.value) for one in self.core.take_records()]
        changed = self.core.take_changed()
        offset = self.core.offset
        if not changed and offset == self._sent_offset:
            return Outputs()
        self._sent_offset = offset
        key, value = progress_fold.encode_partition(
            PartitionProgress(epoch=self.settings.epoch, offset=offset, fingerprint=self._fingerprint)
        )
        progress = [Record("", key, value)]
        for stream in changed:
            progress += self._state_records(stream)
        return Outputs(records=records, progress=progress)

    def _state_records(self, stream: StreamFold) -> list[Record]:
        meta, arrays = stream.state()
        state = FoldState(
            progress=StreamProgress(
                stream=stream.stream,
                epoch=self.settings.epoch,
                next_row=stream.next_row,
                published_row=stream.published_row,
            ),
            meta=meta,
            arrays=arrays,
        )
        pairs = progress_fold.encode_stream(state, self._chunks.get(stream.stream, 0))
        self._chunks[stream.stream] = sum(value is not None for _, value in pairs) - 1
        return [Record("", key, value) for key, value in pairs]

    def committed(self) -> None:
        """Nothing to do: what was collected is durable."""

    def dropped(self) -> None:
        """Nothing is held beside memory."""


def needed_topics(settings: Settings) -> dict[str, int | None]:
    """The topics that must exist before the start, with their partition counts."""
    count = settings.topics.events
    return {
        topic(settings, contributions.TOPIC.name): count,
        topic(settings, importance.TOPIC.name): None,
        topic(settings, effects.TOPIC.name): None,
        topic(settings, drift.TOPIC.name): None,
        topic(settings, progress_fold.TOPIC.name): count,
    }
