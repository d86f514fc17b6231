"""The learner stage: `events` in; predictions, requests, snapshots and dead letters out.

For each event of a partition that this worker owns, the learner predicts, computes the loss, draws background rows,
extends the block, learns, and takes a snapshot if one is due (all in `glasstream.learn`). It commits records and
position in one transaction. The learner waits between two events while it is too far ahead of the aggregator. At a
reset mark, it waits until the aggregator has finished the rows that the mark ends.

The learner keeps the requests whose rows the aggregator has not aggregated, and a successor makes them again. When the
aggregator stands still with a stream, because a record of `explain.requests`, `contributions` or `snapshots` has been
lost, the learner sends all of these requests and snapshots once more.
"""

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from time import monotonic

import msgspec

from glasstream.base.errors import LostInputError, UnavailableError
from glasstream.base.sparse import logged
from glasstream.events.message import Message, Position, Rejections
from glasstream.flow.learner.dead_letters import dead_letter
from glasstream.flow.learner.learner import StreamLearner
from glasstream.flow.learner.outbox import Outbox
from glasstream.flow.learner.partition import BLOCK_EVENTS, PartitionLearner
from glasstream.flow.learner.pushed import Decisions, File, PushedModels, Trial, no_files, untried
from glasstream.flow.learner.stream_state import StreamState
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages.aggregator_progress import ALL, AggregatorProgress
from glasstream.kafka.stages.backlog import Backlog
from glasstream.kafka.stages.checkpoints import Checkpoints, Read
from glasstream.kafka.stages.dead_letters import dead_record
from glasstream.kafka.stages.names import (
    LOST_EVENTS,
    Identify,
    begin_of_epoch,
    fingerprint,
    known_state,
    no_identity,
    topic,
)
from glasstream.kafka.stages.standstill import Standstill
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.models.codec.authentication import Key
from glasstream_topics import (
    checkpoints,
    contributions,
    groups,
    predictions,
    progress_aggregator,
    progress_learner,
    requests,
)
from glasstream_topics.checkpoints import Checkpoint
from glasstream_topics.events import named_model
from glasstream_topics.events_dead import Reason

log = logging.getLogger(__name__)

_YIELD_SECONDS = 0.02
"""Seconds after which the event loop gets its turn. One event of a slow model may take longer."""
_TRY_AGAIN_SECONDS = 1.0
"""Seconds between two attempts to read the file of a model."""
_NAMED = 3
"""Streams that a line about standstills names; it counts the others."""
_STREAM = re.compile(r"""stream ('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"): """)
_EACH, _MOST_SAID = 10, 1_000
"""Equal notices of streams that are logged one by one, and different ones that are counted."""
_FEWEST, _SHARE = 16, 0.0125
"""Events between two looks at how far the aggregator is behind: this number, or this share of `limits.rows_ahead`."""


@dataclass(slots=True)
class _Stall:
    """Standstill of the aggregator with a stream."""

    row: int
    """Next row that the aggregator would aggregate."""
    rows: int
    seqs: int
    """Numbers of rows learned and events accepted when the standstill was noticed."""
    times: int = 0
    blocks: int = 0
    """Number of times that records were sent again, and number of blocks sent the last time."""


class LearnerTask:
    """State of the learner for one partition of `events`.

    Parameters
    ----------
    partition
        Number of the partition.
    settings
        Configuration.
    key
        HMAC key for saved state, and for models that travel as a pickle.
    progress
        Progress of the aggregator.
    read
        Function that reads a partition of one of our topics to its end.
    clock
        Clock in seconds that measures standstills of the aggregator.
    identify
        Function that returns the id of the topic `events`.
    file
        Where the files of the models are that marks name.
    trial
        What tries such a file before this process reads it.
    judges
        Threads in which marks are judged, which may take minutes; None for those of the event loop.
    """

    def __init__(
        self,
        partition: int,
        settings: Settings,
        key: Key | None,
        progress: AggregatorProgress,
        read: Read,
        clock: Callable[[], float] = monotonic,
        identify: Identify = no_identity,
        file: File = no_files,
        trial: Trial = untried,
        judges: Executor | None = None,
    ) -> None:
        self.partition = partition
        self._models = PushedModels(file, key, trial)
        self._judges = judges
        self._judging = ""
        """What is judged now, for the operator."""
        self._identify = identify
        self._topic_id: str | None = None
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
        """Number of rejected elements and messages, by reason."""
        self._said: Counter[str] = Counter()
        """Number of notices, by their text without the stream."""
        self.bounds_hit = 0
        """Number of times that the learner waited for the aggregator, or ended snapshots instead."""
        self._holding_back = False
        self._clock = clock
        self._standstills: dict[str, Standstill] = {}
        self._stalls: dict[str, _Stall] = {}
        self._progress_sent: dict[bytes, bytes] = {}
        """Newest progress record of each stream that this worker has sent, by key."""
        self._changed: set[str] = set()
        """Streams whose progress records may have changed since the newest commit."""
        self._stalls_sent: dict[str, str] = {}
        """Description of the standstill in the progress record, per stream."""
        self._forgotten: list[bytes] = []
        """Keys of the progress records of streams that have given up their places since the newest commit."""
        self._stalled_before: set[str] = set()
        """Streams with which the aggregator stood still when the predecessor committed last."""
        self._aggregated: Mapping[bytes, bytes] = {}
        """Committed state of the aggregator at the take-over, until the learner looks at it."""
        progress.follow(partition)

    def _use(self, settings: Settings) -> None:
        """Start with empty state and these settings."""
        self.settings = settings
        self.core = PartitionLearner(self.partition, settings, models=self._models)
        self._look_every = max(_FEWEST, min(BLOCK_EVENTS, int(_SHARE * settings.limits.rows_ahead)))
        self._backlog = Backlog(settings, self._key, self._progress)
        self._checkpoints = Checkpoints(self.partition, settings, self._key, self._progress, self._models)

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Resume from checkpoints, or from the first offset. Publish nothing up to the committed position.

        Raises
        ------
        StateError
            The state belongs to other settings, or needs input that Kafka no longer has.
        """
        where = f"{topic(self.settings, 'progress.learner')}[{self.partition}]"
        with known_state(where):
            restored = progress_learner.restore(records)
        found = restored.partition
        self._topic_id = self._identify()
        if found is None:
            self._first_offset = low
            self.core = PartitionLearner(self.partition, self.settings, first_offset=low, models=self._models)
            return low
        begun, ours = restored.streams.values(), self._fingerprint
        epoch, begin = begin_of_epoch(
            where, found, begun, self.settings, ours, self.partition, self._topic_id, low, high
        )
        self._use(msgspec.structs.replace(self.settings, epoch=epoch))
        if begin is not None:
            self._backlog.supersede(restored.streams)
            if self.settings.checkpoint.seconds:
                self._checkpoints.supersede(self._read(checkpoints.TOPIC.name, self.partition))
            self._first_offset = begin
            self.core = PartitionLearner(self.partition, self.settings, first_offset=begin, models=self._models)
            return begin
        self._topic_id = self._topic_id or found.topic_id
        streams = {name: stream for name, stream in restored.streams.items() if stream.epoch >= epoch}
        self._backlog.inherit(streams)
        self._backlog.supersede({name: one for name, one in restored.streams.items() if one.epoch < epoch})
        self._stalls_sent = {name: stream.stalled for name, stream in streams.items() if stream.stalled}
        self._stalled_before = set(self._stalls_sent)
        self._aggregated = self._read(progress_aggregator.TOPIC.name, self.partition)
        self._first_offset = found.first_offset
        sent = self._sent_position = Position(found.offset, found.used)
        states = self._states(streams, sent)
        begins = []
        for name, stream in streams.items():
            at = states[name][0].offset if name in states else stream.first_offset
            if stream.after > at:  # otherwise it has no message between this position and the committed one
                begins.append(at)
        begin = min([found.offset, *begins])
        if begin < low:
            raise LostInputError(
                f"{where}: expected to learn {topic(self.settings, 'events')}[{self.partition}] again from offset "
                f"{begin}, but the broker keeps it from {low} on; {LOST_EVENTS}"
            )
        refused = {name: stream.refused for name, stream in streams.items() if stream.refused}
        decisions = Decisions(sent.offset + (sent.used > 0), refused)
        self.core = PartitionLearner(
            self.partition,
            self.settings,
            first_offset=begin,
            silent_until=sent,
            models=self._models,
            decisions=decisions,
            begun={name: stream.first_offset for name, stream in streams.items()},
            begins_in=found.begins_in,
        )
        for name, stream in streams.items():
            if stream.epoch > epoch and name not in states:
                self.core.begin(name, stream.epoch, stream.first_offset)
        for name, (checkpoint, state) in states.items():
            self.core.resume(
                name, state, Position(checkpoint.offset, checkpoint.used), checkpoint.epoch, streams[name].newest
            )
            log.info("stream %r resumes from its checkpoint at row %d", name, checkpoint.rows)
        if self.core.silent:
            name = topic(self.settings, "events")
            log.info("relearning %s[%d] from offset %d up to %d", name, self.partition, begin, found.offset)
        return begin

    def _states(
        self, streams: Mapping[str, progress_learner.LearnerStreamProgress], sent: Position
    ) -> dict[str, tuple[Checkpoint, StreamState]]:
        """Return the checkpoints from which the learner can resume; empty if checkpoints are off."""
        if not self.settings.checkpoint.seconds:
            return {}
        aggregator = progress_aggregator.restore(self._aggregated)
        epochs = {name: stream.epoch for name, stream in streams.items()}
        aggregated = {
            name: at.next_row if at.epoch == epochs[name] else ALL
            for name, at in aggregator.streams.items()
            if name in epochs and at.epoch >= epochs[name]
        }
        records = dict(self._read(checkpoints.TOPIC.name, self.partition))
        return self._checkpoints.restore(records, epochs, aggregated, sent)

    async def feed(self, run: Sequence[Message]) -> None:
        """Learn messages, yielding to the loop and holding back between blocks of events."""
        self._look_at_aggregator()
        begin = 0
        for place, message in enumerate(run):
            if message.value is not None and named_model(message.value) is not None:
                await self._learn(run[begin:place])
                begin = place
                await self._judge(message)
        await self._learn(run[begin:] if begin else run)

    def used(self) -> int:
        """Return the offset of the first message that is not used up."""
        return self.core.position.offset

    async def _learn(self, messages: Sequence[Message]) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time()
        since_look = 0
        self.core.block_events = self._look_every
        ended: StreamLearner | None = None
        for learner in self.core.consume(*messages):
            since_look += self.core.stepped
            if learner.ended:
                ended = learner
                await self._end(learner)
                continue
            if ended is not None:  # the mark is used up
                self._take()
                await self._commit()
                self._checkpoints.end(ended.stream, ended.epoch)
                ended = None
                last = loop.time()
            outbox = self.core.outbox
            if outbox.snapshots or outbox.requests or outbox.sent:
                at_snapshot = bool(outbox.snapshots)
                self._take()
                if at_snapshot:
                    self._checkpoints.consider(self.core, learner)
                since_look = self._look_every
            if since_look >= self._look_every:
                since_look = 0
                if self._backlog.full(learner.stream, learner.state.next_entry + self._look_every):
                    if self.settings.limits.lag == "shed":
                        self._shed(learner)
                    if self.settings.limits.lag == "wait" or self._backlog.exhausted:
                        await self._hold_back(learner)
                        last = loop.time()
            self.core.block_events = self._look_every - since_look
            if (now := loop.time()) - last > _YIELD_SECONDS:
                await asyncio.sleep(0)
                last = now
        self._take()

    async def _judge(self, mark: Message) -> None:
        """Let a thread read and check the model that a mark names, for as long as brokers do not give its file."""
        place = f"{mark.topic}[{mark.partition}]@{mark.offset}"
        self._judging = (
            f"the model that {place} names is tested before it is used, which may take minutes; if it needs too much "
            "memory or time, it is refused, and the stream goes on with the model that it has"
        )
        try:
            while True:
                try:
                    return await asyncio.get_running_loop().run_in_executor(self._judges, self.core.judge, mark)
                except UnavailableError as error:
                    log.warning("cannot load the model of mark %s: %s; trying again", place, error)
                    await asyncio.sleep(_TRY_AGAIN_SECONDS)
        finally:
            self._judging = ""

    async def _end(self, learner: StreamLearner) -> None:
        """Wait until the aggregator has all rows that a reset mark ends, before any row of the next epoch.

        What the outbox holds belongs to the ended epoch: after `Backlog.end` it would count as that of the next one.
        """
        self._take()
        rows = learner.state.rows
        log.info("stream %r: waiting for the aggregator at the reset mark after row %d", learner.stream, rows)
        self._holding_back = True
        while not self._progress.left(learner.stream, learner.epoch):
            await self._progress.moved()
        self._holding_back = False
        self._backlog.end(learner.stream)

    async def _commit(self) -> None:
        """Wait until the position is committed.

        A mark that is not committed would be used again after rows that follow it.
        """
        while self._durable != self.core.position:
            self._committed.clear()
            await self._committed.wait()

    def _shed(self, learner: StreamLearner) -> None:
        """Continue without the aggregator, at the price of explanations."""
        ended = self._backlog.shed()
        if ended:
            self.bounds_hit += ended
            if logged(self.bounds_hit):
                log.warning(
                    "stream %r is too far ahead of the aggregator at row %d: dropping old snapshots (%d so far); rows "
                    "that need them will not be explained",
                    learner.stream, learner.state.rows, self.bounds_hit,
                )  # fmt: skip

    async def _hold_back(self, learner: StreamLearner) -> None:
        """Wait until the aggregator has caught up. Cut, send and commit meanwhile what has been learned."""
        self._holding_back = True
        self.bounds_hit += 1
        if logged(self.bounds_hit):
            log.info(
                "learner paused: aggregator is behind (stream=%r row=%d pauses=%d)",
                learner.stream, learner.state.rows, self.bounds_hit,
            )  # fmt: skip
        self.core.cut()
        while self._backlog.full(learner.stream, learner.state.next_entry + self._look_every):
            await self._progress.moved()
        self._holding_back = False

    def _take(self) -> None:
        """Encode new snapshots and requests at once, so that their size counts immediately."""
        for name, epoch in self.core.take_forgotten().items():
            self._forget(name, epoch)
        outbox = self.core.outbox
        for snapshot in outbox.snapshots:
            self._backlog.add_snapshot(snapshot)
        outbox.snapshots.clear()
        for block in outbox.sent:
            self._backlog.add_request(block, again=True)
        outbox.sent.clear()
        for block in outbox.requests:
            self._backlog.add_request(block)
        outbox.requests.clear()

    def _forget(self, name: str, epoch: int) -> None:
        """End everything that was kept of a stream that has given up its place."""
        self._backlog.forget(name)
        self._checkpoints.end(name, epoch)
        for of in (self._standstills, self._stalls, self._stalls_sent):
            of.pop(name, None)
        key = progress_learner.key(name)
        self._progress_sent.pop(key, None)
        self._forgotten.append(key)

    def _look_at_aggregator(self) -> None:
        """Drop what the aggregator had already committed at the take-over."""
        for key, value in self._aggregated.items():
            self._progress.on_record(self.partition, -1, key, value)
        self._aggregated = {}

    def stalled(self) -> str | None:
        """Return what the partition waits for: a trial, or an aggregator that stands still; None while it moves."""
        if self._judging:
            return self._judging
        if (apart := self._apart()) is not None:
            return apart
        names = sorted(self._stalls)
        said = [self._stall_of(name) for name in names[:_NAMED]]
        if len(names) > _NAMED:
            said.append(f"and {len(names) - _NAMED:,} more streams (`glasstream state show`)")
        return " ".join(said) or None

    def _apart(self) -> str | None:
        """Return that the aggregator is in a later epoch, and the remedy; None while it is not."""
        theirs, ours = self._progress.epoch(self.partition), self.settings.epoch
        if theirs <= ours:
            return None
        return (
            f"the aggregator of partition {self.partition} is in epoch {theirs}, and this learner in epoch {ours}, so "
            f"the aggregator drops all explanations: start every stage with --set epoch={theirs}, or a higher number "
            "if a stage asks for it"
        )

    def _stall_of(self, name: str) -> str:
        """Describe the standstill of a stream; empty if there is none."""
        stall = self._stalls.get(name)
        if stall is None:
            return ""
        since = self.core.streams[name].learner.state.seqs - stall.seqs
        ago = f" {since:,} events ago" if since > 0 else ""
        often = "once" if stall.times == 1 else f"{stall.times} times"
        do = self._apart() or (
            "check that the explainers and the aggregator are ready (`glasstream doctor`), and what they log about "
            f"{topic(self.settings, requests.TOPIC.name)} and {topic(self.settings, contributions.TOPIC.name)}"
        )
        return (
            f"stream {name!r}: row {stall.row:,} is not aggregated, although rows up to {max(0, stall.rows - 1):,} "
            f"were learned{ago}; {stall.blocks:,} requests and the snapshots that they need were sent again {often}; "
            f"{do}"
        )

    def _repair(self) -> None:
        """Send again what the aggregator may lack of the streams with which it stands still."""
        outstanding = self._backlog.outstanding()
        finished, waiting, due = self._backlog.finished, sum(outstanding.values()), 0
        for name in [name for name in self._standstills if name not in outstanding]:
            del self._standstills[name]
            self._stalls.pop(name, None)
        for name in outstanding:
            standstill = self._standstills.get(name)
            if standstill is None:
                standstill = self._standstills[name] = Standstill(self._clock, known=name in self._stalled_before)
                self._stalled_before.discard(name)
            lasted = standstill.lasts(self._progress.place(name), finished, waiting)
            if not standstill.times:
                self._stalls.pop(name, None)
            if lasted is None:
                continue
            learner = self.core.streams[name].learner
            row = self._progress.aggregated(name, learner.epoch)
            row = self.settings.explain.first_row if row is None else min(row, learner.state.next_entry)
            stall = self._stalls.setdefault(name, _Stall(row, learner.state.next_entry, learner.state.seqs))
            stall.times, stall.blocks = standstill.times, self._backlog.repair(name)
            due += 1
            if due > _NAMED:
                continue
            log.warning(
                "stream %r: no aggregator progress %s at row %d; re-sending %d requests and their snapshots, in case a "
                "record was lost (attempt %d). %s",
                name, f"for {lasted:.0f} s" if lasted else "since before this worker took over", row,
                stall.blocks, stall.times,
                self._apart() or "An explainer or the aggregator is not running, or slow: see `glasstream doctor`.",
            )  # fmt: skip
        if due > _NAMED:
            log.warning("no aggregator progress for %d more streams; re-sending their requests too", due - _NAMED)

    def pending(self) -> int:
        """Return the number of records that wait to be sent."""
        return self.core.waiting

    def collect(self) -> Outputs:
        """Return everything since the last call: snapshots to send first, then records and progress to commit."""
        self._look_at_aggregator()
        self._repair()
        if self.core.silent:
            return Outputs(before=self._backlog.take_records() + self._backlog.take_requests())
        self.core.cut()
        self._take()
        outbox, dead = self.core.take_outbox()
        for notice in outbox.notices:
            self._say(notice)
        before = self._backlog.take_records()
        records = self._records(outbox)
        for rejections in dead:
            self._say_rejected(rejections)
            letter = dead_letter(rejections, self.settings.limits.dead_bytes)
            records.append(dead_record(self.settings, letter))
        self._changed.update(self.core.take_changed())
        self._checkpoints.note_changes(self.core, self._changed & self.core.streams.keys())
        self._checkpoints.consider_rest(self.core)
        apart = self._checkpoints.take_records()
        stalls = {name: self._stall_of(name) for name in self._stalls}
        changed = stalls.keys() != self._stalls_sent.keys()
        if self.core.position == self._sent_position and not records and not changed:
            return Outputs(before=before, apart=apart)
        self._changed |= stalls.keys() | self._stalls_sent.keys() | self._backlog.take_changed()
        self._sent_position, self._stalls_sent = self.core.position, stalls
        return Outputs(before=before, records=records, progress=self._progress_records(), apart=apart)

    def _say(self, notice: str) -> None:
        """Log a notice of a stream. Of equal notices of many streams, log the first ten, the 100th, the 1,000th, ..."""
        text = _STREAM.sub("", notice)
        if len(self._said) >= _MOST_SAID:
            self._said.clear()
        self._said[text] += 1
        count = self._said[text]
        if count <= _EACH or logged(count):
            log.info("%s%s", notice, f" ({count:,} streams so far)" if count > _EACH else "")

    def _say_rejected(self, rejections: Rejections) -> None:
        """Log the 1st, 10th, 100th, ... rejected message of each reason. The topic has all of them."""
        found, message = rejections.found[0], rejections.message
        self.rejected[found.reason] += 1
        count = self.rejected[found.reason]
        if logged(count):
            place = (message.topic, message.partition, message.offset)
            log.warning("rejected %s[%d]@%d, %s (%d so far): %s", *place, found.reason, count, found.detail)

    def _records(self, outbox: Outbox) -> list[ProducerRecord]:
        records = []
        for one, published in ((predictions, outbox.predictions), (groups, outbox.groups)):
            name = topic(self.settings, one.TOPIC.name)
            keys = {stream: one.key(stream) for stream in {stream for stream, _ in published}}
            records += [ProducerRecord(name, keys[stream], value) for stream, value in published]
        return records + self._backlog.take_requests()

    def _progress_records(self) -> list[ProducerRecord]:
        """Return the progress of the partition, and that of the streams that has changed since the last call."""
        position = self.core.position
        key, value = progress_learner.encode(
            progress_learner.LearnerPartitionProgress(
                epoch=self.settings.epoch,
                first_offset=self._first_offset,
                offset=position.offset,
                used=position.used,
                fingerprint=self._fingerprint,
                topic_id=self._topic_id,
                begins_in=self.core.begins_in if self.core.begins_in > self.settings.epoch else None,
            )
        )
        records = [ProducerRecord("", key, value), *(ProducerRecord("", key, None) for key in self._forgotten)]
        self._forgotten.clear()
        for name in sorted(self._changed & self.core.streams.keys()):
            stream = self.core.streams[name]
            key, value = progress_learner.encode(
                progress_learner.LearnerStreamProgress(
                    stream=name,
                    epoch=stream.learner.epoch,
                    seqs=stream.learner.state.seqs,
                    rows=stream.learner.state.rows,
                    first_offset=stream.first_offset,
                    snapshots=self._backlog.live(name),
                    counts=_counts(stream.learner),
                    after=stream.after,
                    stalled=self._stalls_sent.get(name, ""),
                    entries=stream.learner.state.next_entry if self.settings.explain.every_event else None,
                    model=stream.learner.state.pushed or "",
                    refused=self.core.refused.get(name, []),
                    newest=stream.newest,
                )
            )
            if self._progress_sent.get(key) != value:
                self._progress_sent[key] = value
                records.append(ProducerRecord("", key, value))
        self._changed.clear()
        return records

    def samples(self) -> Iterator[Sample]:
        """Yield metrics of the partition and its streams."""
        place = (str(self.partition),)
        yield Sample(catalogue.STREAMS, len(self.core.streams), place)
        yield Sample(catalogue.SNAPSHOT_BYTES, self._backlog.live_bytes, place)
        yield Sample(catalogue.REQUEST_BYTES, self._backlog.request_bytes, place)
        yield Sample(catalogue.WAITING, float(self._holding_back), place)
        for reason in Reason:  # from 0 on: increase() does not see the step of a series that begins at 1
            yield Sample(catalogue.DEAD_LETTERS, self.rejected[reason], (reason, *place))
        yield Sample(
            catalogue.BOUND_HIT, self.bounds_hit, ("limits.rows_ahead, request_bytes or snapshot_bytes", *place)
        )
        yield Sample(catalogue.STREAMS_FORGOTTEN, self.core.gave_up, place)
        refused = self.rejected[Reason.TOO_MANY_STREAMS] + self.core.gave_up
        yield Sample(catalogue.BOUND_HIT, refused, ("limits.streams", *place))
        yield Sample(catalogue.BOUND_HIT, self.core.dropped, ("limits.waiting_bytes", *place))
        names = catalogue.shown(self.core.streams, lambda stream: stream.learner.state.seqs)
        yield Sample(catalogue.STREAMS_LEFT_OUT, len(self.core.streams) - len(names), place)
        for name in names:
            stream = self.core.streams[name]
            learner, of = stream.learner, (name,)
            yield Sample(catalogue.EVENTS, learner.state.seqs, of)
            yield Sample(catalogue.ROWS, learner.state.rows, of)
            yield Sample(catalogue.UNLABELLED, learner.state.unlabelled, of)
            learner.state.waiting.expire(learner.state.seqs)
            yield Sample(catalogue.LABELS_JOINED, learner.state.waiting.joined, of)
            yield Sample(catalogue.LABELS_MISSED, learner.state.waiting.missed + self.core.missed[name], of)
            yield Sample(catalogue.EVENTS_WAITING, learner.state.waiting.waiting, of)
            yield Sample(catalogue.MODEL_VERSION, learner.state.version, of)
            aggregated = self._progress.aggregated(name, learner.epoch)
            aggregated = self.settings.explain.first_row if aggregated is None else aggregated
            yield Sample(catalogue.ROWS_AHEAD, max(0, learner.state.next_entry - aggregated), of)
            yield Sample(catalogue.RETYPED, learner.state.features.counts.retyped, of)
            yield Sample(catalogue.OVER_LIMIT, learner.state.features.counts.over_limit, of)
            if learner.score is not None:
                yield Sample(catalogue.SCORE, learner.score, (name, learner.score_name))
        yield from self._checkpoints.samples(names)

    def committed(self) -> None:
        """Note that the collected records are durable."""
        self._durable = self._sent_position
        self._committed.set()

    def dropped(self) -> None:
        """Release what is held, because another worker owns the partition now."""
        self._progress.unfollow(self.partition)


def _counts(learner: StreamLearner) -> dict[str, int]:
    """Return the progress of a stream's labels."""
    waiting = learner.state.waiting
    waiting.expire(learner.state.seqs)
    return {"unlabelled": learner.state.unlabelled, "labels_joined": waiting.joined, "labels_missed": waiting.missed}


def samples(partitions: Iterable[LearnerTask]) -> Iterator[Sample]:
    """Yield metrics of a worker."""
    for partition in partitions:
        yield from partition.samples()
