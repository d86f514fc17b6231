"""The learner stage: `events` in; predictions, work, snapshots and dead letters out.

For each partition of `events` that this worker owns, in this order: predict, loss, draw, block, learn, snapshot (all
in `pipeline.learn`); records and position become durable in one transaction. The learner waits, between two events,
while it is too far ahead of the fold, and at a reset mark until the fold has finished what the mark ends.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from pipeline.errors import LostInputError, StateError
from pipeline.health import catalogue
from pipeline.health.catalogue import Sample
from pipeline.ingest.message import Message as InputMessage
from pipeline.ingest.message import Position, Rejections
from pipeline.learn.checkpoint import StreamState
from pipeline.learn.dead_letters import dead_letter
from pipeline.learn.learner import Outbox, StreamLearner
from pipeline.learn.partition import PartitionLearner
from pipeline.settings import Settings
from pipeline.stages.backlog import Backlog
from pipeline.stages.checkpoints import Checkpoints, Read
from pipeline.stages.fold_progress import ALL, FoldProgress
from pipeline.stages.names import agreed_epoch, expect_later, fingerprint, known_state, topic
from pipeline.stages.standstill import Standstill
from pipeline.transport.records import Message, Outputs, Record
from topics import checkpoints, contributions, events, predictions, progress_fold, progress_learner, work
from topics.checkpoints import Checkpoint

log = logging.getLogger(__name__)

_YIELD_SECONDS = 0.02
"""The event loop gets its turn after so long; an event of a slow model may take longer."""
_LOOK_EVERY = 16
"""Events between two looks at how far the fold is behind."""


class LearnerPartition:
    """What the stage keeps for one partition of `events`.

    Parameters
    ----------
    partition
        Its number.
    settings
        The configuration.
    key
        The HMAC key, for models that travel as a pickle.
    progress
        Where the fold is.
    read
        Reads a partition of one of our topics to its end.
    """

    def __init__(
        self, partition: int, settings: Settings, key: bytes | None, progress: FoldProgress, read: Read
    ) -> None:
        self.partition = partition
        self._key = key
        self._progress = progress
        self._use(settings)
        self._read = read
        self._first_offset = 0
        self._sent_position: Position | None = None
        self._durable: Position | None = None
        self._committed = asyncio.Event()
        self._fingerprint = fingerprint(settings)
        self.rejected: Counter[str] = Counter()
        """Rejected elements and messages, by reason."""
        self.bounds_hit = 0
        """How often the fold was waited for, or snapshots ended instead."""
        self._holding_back = False
        self._standstill = Standstill()
        progress.follow(partition)

    def _use(self, settings: Settings) -> None:
        """Begin with nothing, under these settings."""
        self.settings = settings
        self._learn = settings.learn()
        self.core = PartitionLearner(self.partition, self._learn)
        self._backlog = Backlog(settings, self._key, self._progress)
        self._checkpoints = Checkpoints(self.partition, settings, self._key, self._progress)

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Go on from checkpoints, or from the first offset, silently up to where the predecessor committed.

        Raises
        ------
        StateError
            The state is of other settings, or needs input that is gone.
        """
        where = f"{topic(self.settings, 'progress.learner')}[{self.partition}]"
        with known_state(where):
            restored = progress_learner.restore(records)
        found = restored.partition
        if found is None:
            self._first_offset = low
            self.core = PartitionLearner(self.partition, self._learn, first_offset=low)
            return low
        epoch = agreed_epoch(where, found.fingerprint, found.epoch, self.settings, self._fingerprint)
        if epoch > found.epoch:
            expect_later(where, epoch, (one.epoch for one in restored.streams.values()))
        self._use(msgspec.structs.replace(self.settings, epoch=epoch))
        if found.offset > high:
            raise StateError(
                f"{where}: the state has consumed offset {found.offset}, but the input ends at {high}: it was "
                "deleted or made anew; begin anew with another --prefix"
            )
        if epoch > found.epoch:
            log.info("%s: epoch %d begins at offset %d", where, epoch, found.offset)
            self._backlog.supersede(restored.streams)
            if self.settings.checkpoint.seconds:
                self._checkpoints.supersede(self._read(checkpoints.TOPIC.name, self.partition))
            self._first_offset = found.offset
            self.core = PartitionLearner(self.partition, self._learn, first_offset=found.offset)
            return found.offset
        streams = {name: stream for name, stream in restored.streams.items() if stream.epoch >= epoch}
        self._backlog.inherit(streams)
        self._backlog.supersede({name: one for name, one in restored.streams.items() if one.epoch < epoch})
        self._first_offset = found.first_offset
        sent = self._sent_position = Position(found.offset, found.used)
        states = self._states(streams, sent)
        begins = []
        for name, stream in streams.items():
            at = states[name][0].offset if name in states else stream.first_offset
            if not 0 <= stream.after <= at:  # else it has no message between there and what was sent
                begins.append(at)
        begin = min([found.offset, *begins])
        if begin < low:
            raise LostInputError(
                f"{where}: expected to learn {topic(self.settings, 'events')}[{self.partition}] again from offset "
                f"{begin}, but the broker keeps it from {low} on; lengthen the retention of the topic "
                "before the next start, and begin anew with another --prefix"
            )
        self.core = PartitionLearner(self.partition, self._learn, first_offset=begin, silent_until=sent)
        for name, stream in streams.items():
            if stream.epoch > epoch and name not in states:
                self.core.begin(name, stream.epoch, stream.first_offset)
        for name, (checkpoint, state) in states.items():
            self.core.resume(name, state, Position(checkpoint.offset, checkpoint.used), checkpoint.epoch)
            log.info("stream %r goes on from its checkpoint at row %d", name, checkpoint.rows)
        if self.core.silent:
            name = topic(self.settings, "events")
            log.info("learning %s[%d] again from offset %d up to %d", name, self.partition, begin, found.offset)
        return begin

    def _states(
        self, streams: Mapping[str, progress_learner.StreamProgress], sent: Position
    ) -> dict[str, tuple[Checkpoint, StreamState]]:
        """The checkpoints that can be gone on from; none where none are made."""
        if not self.settings.checkpoint.seconds:
            return {}
        fold = progress_fold.restore(self._read(progress_fold.TOPIC.name, self.partition))
        epochs = {name: stream.epoch for name, stream in streams.items()}
        folded = {
            name: at.next_row if at.epoch == epochs[name] else ALL
            for name, at in ((name, stream.progress) for name, stream in fold.streams.items())
            if name in epochs and at.epoch >= epochs[name]
        }
        return self._checkpoints.restore(self._read(checkpoints.TOPIC.name, self.partition), epochs, folded, sent)

    async def feed(self, message: Message) -> None:
        """Learn one message, yielding to the loop and holding back between events."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        source = InputMessage(
            message.topic, message.partition, message.offset, message.key, message.value, message.timestamp
        )
        since_look = 0
        ended: StreamLearner | None = None
        for learner in self.core.consume(source):
            since_look += 1
            if learner.ended:
                ended = learner
                await self._end(learner)
                continue
            if self.core.outbox.snapshots:
                self._take()
                self._checkpoints.consider(self.core, learner)
                since_look = _LOOK_EVERY
            if since_look >= _LOOK_EVERY:
                since_look = 0
                if self._backlog.full(learner.stream, learner.rows + _LOOK_EVERY):
                    if self.settings.limits.lag == "shed":
                        self._shed(learner)
                    else:
                        await self._hold_back(learner)
                        last = loop.time()
            if (now := loop.time()) - last > _YIELD_SECONDS:
                await asyncio.sleep(0)
                last = now
        self._take()
        if ended is not None:
            await self._commit()
            self._checkpoints.end(ended.stream, ended.epoch)

    async def _end(self, learner: StreamLearner) -> None:
        """Wait until the fold has folded all that a reset mark ends: no row of the next epoch overtakes it."""
        log.info("stream %r waits for the fold at the reset mark after row %d", learner.stream, learner.rows)
        self._holding_back = True
        while not self._progress.left(learner.stream, learner.epoch):
            await self._progress.moved()
        self._holding_back = False
        self._backlog.end(learner.stream)

    async def _commit(self) -> None:
        """Wait until the position is committed: a mark that is not would be used again after rows that follow it."""
        while self._durable != self.core.position:
            self._committed.clear()
            await self._committed.wait()

    def _shed(self, learner: StreamLearner) -> None:
        """Go on, at the price of explanations."""
        ended = self._backlog.shed()
        if ended:
            self.bounds_hit += ended
            if str(self.bounds_hit).strip("0") == "1":
                log.warning(
                    "stream %r is too far ahead of the fold at row %d: old snapshots are ended (%d so far), rows that "
                    "need them will not be explained",
                    learner.stream, learner.rows, self.bounds_hit,
                )  # fmt: skip

    async def _hold_back(self, learner: StreamLearner) -> None:
        """Wait until the fold has caught up; what has been learned is cut, sent and committed meanwhile."""
        log.info("stream %r waits for the fold at row %d", learner.stream, learner.rows)
        self._holding_back = True
        self.bounds_hit += 1
        self.core.cut()
        while self._backlog.full(learner.stream, learner.rows + _LOOK_EVERY):
            await self._progress.moved()
        self._holding_back = False

    def _take(self) -> None:
        """Encode snapshots as they come, so that their size counts at once."""
        if self.core.outbox.snapshots:
            for snapshot in self.core.outbox.snapshots:
                self._backlog.add_snapshot(snapshot)
            self.core.outbox.snapshots.clear()

    def pending(self) -> int:
        """Records that wait to be sent."""
        return self.core.waiting

    def collect(self) -> Outputs:
        """Everything since the last time: snapshots first, then records and progress in one transaction."""
        if self.core.silent:
            return Outputs(before=self._backlog.take_records())
        lasted = self._standstill.lasts(self._progress.changes, self._backlog.work_bytes > 0)
        if lasted is not None:
            log.warning(
                "partition %d: the fold has stood still for %.0f s with work outstanding; publishing the snapshots "
                "again, in case one was damaged",
                self.partition,
                lasted,
            )
            self._backlog.publish_again()
        self.core.cut()
        self._take()
        outbox, dead = self.core.take_outbox()
        for notice in outbox.notices:
            log.info("%s", notice)
        before = self._backlog.take_records()
        records = self._records(outbox)
        for rejections in dead:
            letter = dead_letter(rejections, self.settings.limits.dead_bytes)
            self._say_rejected(rejections)
            records.append(
                Record(topic(self.settings, "events.dead"), letter.key, letter.value, letter.partition, letter.headers)
            )
        self._checkpoints.consider_rest(self.core)
        apart = self._checkpoints.take_records()
        if self.core.position == self._sent_position and not records:
            return Outputs(before=before, apart=apart)
        self._sent_position = self.core.position
        return Outputs(before=before, records=records, progress=self._progress_records(), apart=apart)

    def _say_rejected(self, rejections: Rejections) -> None:
        """One line for the 1st, 10th, 100th, ... message of each reason: the topic has them all."""
        found, message = rejections.found[0], rejections.message
        self.rejected[found.reason] += 1
        count = self.rejected[found.reason]
        if str(count).strip("0") == "1":
            place = (message.topic, message.partition, message.offset)
            log.warning("rejected %s[%d]@%d, %s (%d so far): %s", *place, found.reason, count, found.detail)

    def _records(self, outbox: Outbox) -> list[Record]:
        name = topic(self.settings, "predictions")
        keys = {stream: predictions.key(stream) for stream, _ in outbox.predictions}
        records = [Record(name, keys[stream], value) for stream, value in outbox.predictions]
        name = topic(self.settings, "work")
        for block in outbox.work:
            value = work.encode(block)
            self._backlog.sent_work(block, len(value))
            key = work.key(block.stream, block.first_row)
            records.append(Record(name, key, value, work.partition(key, self.settings.topics.work)))
        return records

    def _progress_records(self) -> list[Record]:
        position = self.core.position
        key, value = progress_learner.encode(
            progress_learner.PartitionProgress(
                epoch=self.settings.epoch,
                first_offset=self._first_offset,
                offset=position.offset,
                used=position.used,
                fingerprint=self._fingerprint,
            )
        )
        records = [Record("", key, value)]
        for name, stream in self.core.streams.items():
            key, value = progress_learner.encode(
                progress_learner.StreamProgress(
                    stream=name,
                    epoch=stream.learner.epoch,
                    seqs=stream.learner.seqs,
                    rows=stream.learner.rows,
                    first_offset=stream.first_offset,
                    snapshots=self._backlog.live(name),
                    counts=_counts(stream.learner),
                    after=stream.after,
                )
            )
            records.append(Record("", key, value))
        return records

    def samples(self) -> Iterator[Sample]:
        """Metrics of the partition and its streams."""
        place = (str(self.partition),)
        yield Sample(catalogue.STREAMS, len(self.core.streams), place)
        yield Sample(catalogue.SNAPSHOT_BYTES, self._backlog.live_bytes, place)
        yield Sample(catalogue.WORK_BYTES, self._backlog.work_bytes, place)
        yield Sample(catalogue.WAITING, float(self._holding_back), place)
        for name, stream in self.core.streams.items():
            learner, of = stream.learner, (name,)
            yield Sample(catalogue.EVENTS, learner.seqs, of)
            yield Sample(catalogue.ROWS, learner.rows, of)
            yield Sample(catalogue.UNLABELLED, learner.unlabelled, of)
            learner.waiting.expire(learner.seqs)
            yield Sample(catalogue.LABELS_JOINED, learner.waiting.joined, of)
            yield Sample(catalogue.LABELS_MISSED, learner.waiting.missed + self.core.missed[name], of)
            yield Sample(catalogue.EVENTS_WAITING, learner.waiting.waiting, of)
            yield Sample(catalogue.MODEL_VERSION, learner.version, of)
            folded = self._progress.folded(name, learner.epoch)
            folded = self.settings.start if folded is None else folded
            yield Sample(catalogue.ROWS_AHEAD, max(0, learner.rows - folded), of)
            yield Sample(catalogue.RETYPED, learner.counts.retyped, of)
            yield Sample(catalogue.OVER_LIMIT, learner.counts.over_limit, of)
            if learner.score is not None:
                yield Sample(catalogue.SCORE, learner.score, (name, learner.score_name))
        yield from self._checkpoints.samples()

    def committed(self) -> None:
        """What was collected is durable."""
        self._durable = self._sent_position
        self._committed.set()

    def dropped(self) -> None:
        """The partition is another worker's now."""
        self._progress.unfollow(self.partition)


def _counts(learner: StreamLearner) -> dict[str, int]:
    """What a stream's progress says of labels."""
    waiting = learner.waiting
    waiting.expire(learner.seqs)
    return {"unlabelled": learner.unlabelled, "labels_joined": waiting.joined, "labels_missed": waiting.missed}


def samples(partitions: Iterable[LearnerPartition]) -> Iterator[Sample]:
    """Metrics of a worker."""
    rejected: Counter[str] = Counter()
    waited = 0
    for partition in partitions:
        yield from partition.samples()
        rejected += partition.rejected
        waited += partition.bounds_hit
    for reason, count in sorted(rejected.items()):
        yield Sample(catalogue.DEAD_LETTERS, count, (reason,))
    yield Sample(catalogue.BOUND_HIT, waited, ("limits.rows_ahead, work_bytes or snapshot_bytes",))


def needed_topics(settings: Settings) -> dict[str, int | None]:
    """The topics that must exist before the start, with their partition counts."""
    count = settings.topics.events
    return {
        topic(settings, events.TOPIC.name): count,
        topic(settings, "events.dead"): count,
        topic(settings, predictions.TOPIC.name): None,
        topic(settings, work.TOPIC.name): settings.topics.work,
        topic(settings, contributions.TOPIC.name): count,
        topic(settings, "snapshots"): 1,
        topic(settings, checkpoints.TOPIC.name): count,
        topic(settings, progress_learner.TOPIC.name): count,
        topic(settings, progress_fold.TOPIC.name): count,
    }
