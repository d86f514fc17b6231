"""The aggregator stage: `contributions` in, `importance`, `effects`, `drift` and `incidents` out.

State and position go to `progress.aggregator` in the same transaction.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from glasstream.base.errors import FrameError, StateError
from glasstream.base.form import MOST
from glasstream.base.sparse import logged
from glasstream.events.message import Message
from glasstream.explain.losses import loss_for, possible_tasks
from glasstream.flow.aggregator.partition import PartitionAggregator
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.health.server import Note
from glasstream.kafka.stages.names import (
    Identify,
    agreed_epoch,
    fingerprint,
    is_other_topic,
    known_state,
    no_identity,
    topic,
)
from glasstream.kafka.stages.seals import AGGREGATOR, Seals, named_by_aggregator
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.models.codec.authentication import Key
from glasstream_topics import ALL, contributions, drift, progress_aggregator
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import METHODS, WATCHED, method_of
from glasstream_topics.progress_aggregator import AggregatorPartitionProgress, AggregatorState, AggregatorStreamProgress

log = logging.getLogger(__name__)

STATE_BYTES: Final = 8 * 2**20
"""Bytes of state after which a commit takes no further stream.

A commit holds the whole state of every stream in it. Without a bound, 1,000 streams of 100 features would commit 400 MB
five times a second. With this bound a commit takes a fraction of a second, and streams that share a partition are
committed in turn.
"""


class AggregatorTask:
    """State of the aggregator for one partition of `contributions`.

    Parameters
    ----------
    partition
        Number of the partition.
    settings
        Configuration.
    identify
        Function that returns the id of the topic `contributions`.
    key
        HMAC key that seals the state; None leaves it plain.
    """

    def __init__(
        self, partition: int, settings: Settings, identify: Identify = no_identity, key: Key | None = None
    ) -> None:
        self.partition = partition
        self._identify = identify
        self._topic_id: str | None = None
        self._use(settings)
        self.damaged = 0
        """Number of messages that were not contributions."""
        self.published: Counter[str] = Counter()
        """Number of records written, by topic."""
        self.alarms: Counter[str] = Counter()
        """Number of drift alarms, by stream."""
        self._fingerprint = fingerprint(settings)
        self._seals = Seals(AGGREGATOR, key, self._fingerprint)
        self._sent_offset = -1
        self._chunks: dict[str, int] = {}
        self._failed_said: set[str] = set()

    def _use(self, settings: Settings) -> None:
        """Start with empty state and these settings."""
        self.settings = settings
        self.core = PartitionAggregator(self.partition, settings)
        tasks = possible_tasks(settings.model.chosen_task, settings.explain.loss)
        self._losses = {loss_for(task, settings.explain.loss) for task in tasks}
        self._dropped = 0

    def restore(self, records: dict[bytes, bytes], low: int, high: int) -> int:
        """Resume from the committed state, and ignore rows that it already includes.

        This empties `records`, so that a state of hundreds of megabytes is in memory once.

        Raises
        ------
        StateError
            The state belongs to other settings.
        """
        where = f"{topic(self.settings, 'progress.aggregator')}[{self.partition}]"
        with known_state(where):
            restored = progress_aggregator.restore(records)
        records.clear()
        self._topic_id = self._identify()
        if restored.partition is None:
            self.core.next_offset = low
            return low
        found = restored.partition
        epoch = agreed_epoch(where, found.fingerprint, found.epoch, self.settings, self._fingerprint)
        self._use(msgspec.structs.replace(self.settings, epoch=epoch))
        begin = found.offset
        if is_other_topic(found.topic_id, self._topic_id):
            begin = low
            log.warning(
                "%s: the topic %s was deleted and recreated (id %s before, %s now); reading it from offset "
                "%d on, and the learner sends requests for the missing rows again",
                where, topic(self.settings, contributions.TOPIC.name), found.topic_id, self._topic_id, begin,
            )  # fmt: skip
        self._topic_id = self._topic_id or found.topic_id
        if epoch > found.epoch:
            log.info("%s: epoch %d begins at offset %d", where, epoch, begin)
        for name, progress in restored.streams.items():
            self._chunks[name] = restored.chunks(name)
            if progress.epoch >= epoch:
                opening = self._seals.opening(where, name, **named_by_aggregator(progress))
                with known_state(where):
                    state = restored.state(name, opening)
                mine = msgspec.structs.replace(self.settings, epoch=progress.epoch)
                stream = StreamAggregator.restore(name, mine, dict(state.meta), dict(state.arrays))
                if (stream.next_row, stream.published_row) != (progress.next_row, progress.published_row):
                    raise StateError(f"{where}: expected the state of {progress}, got that of row {stream.next_row}")
                stream.cause = progress.cause
                self.core.streams[name] = stream
            if name in self._seals.older:
                self.core.changed[name] = begin  # so that it is sealed again with the newest key
            restored.parts.pop(name, None)
        self.core.next_offset = begin
        self._sent_offset = found.offset
        return begin

    async def feed(self, run: Sequence[Message]) -> None:
        """Aggregate blocks. Yield to the loop after each one."""
        for message in run:
            self._offer(message)
            await asyncio.sleep(0)

    def used(self) -> int:
        """Return the offset of the next block."""
        return self.core.next_offset

    def _offer(self, message: Message) -> None:
        """Aggregate one block."""
        below = self.core.below
        try:
            block = contributions.decode(message.value or b"")
            self._check(block)
            self.core.offer(block, message.offset)
        except FrameError as error:
            self._count_damaged(1, f"Skipping {message.place}, which cannot be aggregated: {error}")
            self.core.next_offset = message.offset + 1
            return
        if self.core.dropped > self._dropped:
            self._count_damaged(
                self.core.dropped - self._dropped,
                f"stream {block.stream!r}: dropping contributions that were far ahead: they took more than twice "
                "limits.request_bytes, or did not fit the rows before; the learner sends the requests again",
            )
            self._dropped = self.core.dropped
        if self.core.below > below and logged(self.core.below):
            log.warning(
                "partition %d: dropping an explanation of epoch %d, because this aggregator is in epoch %d (stream %r, "
                "%d so far). Unless these are the last ones of the old epoch, start every stage with --set epoch=%d, "
                "or a higher number if a stage asks for it",
                self.partition, block.epoch, self.settings.epoch, block.stream, self.core.below, self.settings.epoch,
            )  # fmt: skip
        if block.kind == "failed" and block.stream not in self._failed_said:
            self._failed_said.add(block.stream)
            log.warning(
                "stream %r: rows %d to %d could not be explained: %s. Further failures of this stream are not logged",
                block.stream,
                block.first_row,
                block.first_row + block.count - 1,
                block.reason,
            )

    def _count_damaged(self, blocks: int, what: str) -> None:
        """Count blocks that are not used, and log when there is the 1st, the 10th, the 100th, ..."""
        digits = len(str(self.damaged)) if self.damaged else 0
        self.damaged += blocks
        if len(str(self.damaged)) > digits:
            log.error("%s (%d so far)", what, self.damaged)

    def _check(self, block: Contributions) -> None:
        """Reject contributions that do not answer the requests of this partition and these settings.

        Raises
        ------
        FrameError
            The block answers no such request.
        """
        if block.partition != self.partition:
            raise FrameError(f"expected contributions of partition {self.partition}, got those of {block.partition}")
        if block.first_row + block.count > MOST or block.seqs.max(initial=0) > MOST:
            raise FrameError(f"expected rows and events up to {MOST}, got row {block.first_row}")
        if block.loss not in self._losses and (block.loss or block.kind == "ok"):
            raise FrameError(f"expected a loss of {', '.join(sorted(self._losses))}, got {block.loss!r}")
        if block.kind != "ok":
            return
        methods = [name for name in self.settings.explain.names if block.has(METHODS[name].part).any()]
        given = {method_of(name) for name in block.values}
        if not given.issuperset(methods):
            raise FrameError(f"expected contributions of {', '.join(methods)}, got those of {sorted(given)}")
        if self.settings.drift.finds_incidents and not given.issuperset(WATCHED):
            raise FrameError(f"expected the rows ({', '.join(WATCHED)}), got only {sorted(block.values)}")

    def stalled(self) -> str | None:
        """Return None: this stage waits for nothing that can be lost."""
        return None

    def unexplained(self) -> Iterator[Note]:
        """Yield a note about each stream with rows that could not be explained."""
        for stream in self.core.streams.values():
            if (note := stream.unexplained()) is not None:
                yield Note(note, unready=stream.explains_nothing)

    def pending(self) -> int:
        """Return the number of records that wait to be sent."""
        return sum(len(self.core.streams[name].records) for name in self.core.changed)

    def collect(self) -> Outputs:
        """Return records of changed streams and the states as of these records, up to `STATE_BYTES` of state.

        The next calls return the other changed streams, those that have waited longest first. Until then the committed
        position stays before the messages that these streams have used, so that a successor aggregates them again.
        """
        records: list[ProducerRecord] = []
        states: list[ProducerRecord] = []
        size = 0
        while self.core.changed and size < STATE_BYTES:
            stream, published = self.core.take_next()
            for one in published:
                self.published[one.topic] += 1
                if one.topic == drift.TOPIC.name:
                    self.alarms[one.key.decode()] += 1
                records.append(ProducerRecord(topic(self.settings, one.topic), one.key, one.value))
            mine = self._state_records(stream)
            size += sum(len(record.value or b"") for record in mine)
            states += mine
        offset = self.core.offset
        if not states and offset == self._sent_offset:
            return Outputs()
        self._sent_offset = offset
        key, value = progress_aggregator.encode_partition(
            AggregatorPartitionProgress(
                epoch=self.settings.epoch, offset=offset, fingerprint=self._fingerprint, topic_id=self._topic_id
            )
        )
        return Outputs(records=records, progress=[ProducerRecord("", key, value), *states])

    def _state_records(self, stream: StreamAggregator) -> list[ProducerRecord]:
        meta, arrays = stream.state()
        state = AggregatorState(
            progress=AggregatorStreamProgress(
                stream=stream.stream,
                epoch=stream.settings.epoch,
                next_row=stream.next_row,
                published_row=stream.published_row,
                failed=stream.failed,
                cause=stream.cause,
            ),
            meta=meta,
            arrays=arrays,
        )
        sealing = self._seals.sealing(stream.stream, **named_by_aggregator(state.progress))
        pairs = progress_aggregator.encode_stream(state, self._chunks.get(stream.stream, 0), seal=sealing)
        self._chunks[stream.stream] = sum(value is not None for _, value in pairs) - 1
        return [ProducerRecord("", key, value) for key, value in pairs]

    def samples(self) -> Iterator[Sample]:
        """Yield metrics of the partition and its streams."""
        place = str(self.partition)
        yield Sample(catalogue.DAMAGED, self.damaged, (place,))
        yield Sample(catalogue.OVER, self.core.over, (place,))
        for output in ALL:
            if output.json and "aggregator" in output.written_by:
                yield Sample(catalogue.RECORDS, self.published[output.name], (output.name, place))
        names = catalogue.shown(self.core.streams, lambda stream: stream.next_row)
        yield Sample(catalogue.STREAMS_LEFT_OUT, len(self.core.streams) - len(names), (place,))
        for name in names:
            stream = self.core.streams[name]
            yield Sample(catalogue.AGGREGATED, stream.next_row, (name,))
            yield Sample(
                catalogue.UNEXPLAINED, stream.next_row - stream.settings.explain.first_row - stream.explained, (name,)
            )
            yield Sample(catalogue.COVERAGE, stream.coverage, (name,))
            yield Sample(catalogue.AGGREGATOR_WAITING, stream.waiting, (name,))
            yield Sample(catalogue.DRIFT_ALARMS, self.alarms[name], (name,))
            for verdict in sorted(() if stream.incidents is None else stream.incidents.verdicts):
                yield Sample(catalogue.INCIDENT, 1, (name, verdict))

    def committed(self) -> None:
        """Do nothing: the collected records are durable."""

    def dropped(self) -> None:
        """Do nothing: the stage holds only memory."""


def notes(partitions: Iterable[AggregatorTask]) -> Iterator[Note]:
    """Yield the notes of a worker."""
    for partition in partitions:
        yield from partition.unexplained()


def samples(partitions: Iterable[AggregatorTask]) -> Iterator[Sample]:
    """Yield metrics of a worker."""
    for partition in partitions:
        yield from partition.samples()
