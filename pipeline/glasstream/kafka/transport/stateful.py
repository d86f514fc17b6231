"""A stage with state: outputs and state of an input partition become durable in one transaction.

A take-over of a partition has these steps: `init_transactions` fences the previous owner and ends its transaction. The
stage reads the state partition to its end. The state determines the offset from which it must be fed. The consumer
seeks to this offset, whatever the group has committed. Each step is limited in time, except while brokers are down.
Long work (learning again) belongs in `feed`.

Feeding and committing overlap: while a thread writes one transaction, the stage continues to feed the state.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from confluent_kafka.admin import AdminClient
from faust.types import TP

from glasstream.base.errors import FencedError, LostInputError, UnavailableError
from glasstream.events.message import Message
from glasstream.kafka.transport import sequence
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.group import Unknown, owners_of
from glasstream.kafka.transport.lane import YIELD_AFTER, Lane, StalledLane
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.patience import Patience, patiently
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.progress import read_to_end, watermarks
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.kafka.transport.stage import Stage
from glasstream.kafka.transport.transactions import ReplacedError, TransactionalProducer

log = logging.getLogger(__name__)

#: Seconds that a revoke waits for a transaction in progress. After that the successor's fence ends it.
_REVOKE_PATIENCE = 10.0
#: Seconds that a stop waits for a transaction that cannot be written.
_DRAIN_PATIENCE = 4.0
#: Seconds between two checks whether a stop should continue to wait for a transaction.
_LOOK = 0.5
#: Most messages of a run that is fed at once, and the bytes after which a run ends. A run may exceed `commit_rows`.
RUN_MESSAGES = 1_024
RUN_BYTES = 512 * 1024
#: Least seconds between two commits of a partition while little comes, and the bytes of state that it may write then in
#: a second: a commit contains the whole state of each stream that has changed. See decision 21.
PAUSE = 0.01
STATE_BYTES_PER_SECOND = 5 * 1024 * 1024
#: Seconds between two looks whether a state that was fed nothing has something to commit.
IDLE = 1.0
#: Number of threads for transactions and take-overs. Further partitions take turns.
_THREADS = 16


class PartitionState(Protocol):
    """State of one input partition while a stage owns it."""

    def restore(self, records: dict[bytes, bytes], low: int, high: int) -> int:
        """Resume from the committed state, and return the offset of the first message to feed.

        The stage calls this method once, before all others, in a thread. No other worker can then commit for this
        partition.

        Parameters
        ----------
        records : dict
            Last committed progress record of each key; empty if there is none. The state may take records out of it.
        low, high : int
            First offset that the input still keeps, and the offset after the last.

        Raises
        ------
        StateError
            The stage cannot resume from the state. The worker ends with this error.
        """

    async def feed(self, run: Sequence[Message]) -> None:
        """Use the next messages, in the order of their offsets.

        How the messages of a partition are divided into runs changes no output. This method may wait, even in the
        middle of a run (to hold back), while other partitions continue. It yields to the event loop at least as often
        as `lane.YIELD_AFTER` says.
        """

    def used(self) -> int:
        """Return the offset of the first message that is not used up. The stage acknowledges those before it."""

    def collect(self) -> Outputs:
        """Return everything produced since the last call, as of now.

        The stage may call this method whenever `feed` waits. Empty outputs mean that there is nothing to commit.
        """

    def committed(self) -> None:
        """Note that the outputs collected last are durable."""

    def pending(self) -> int:
        """Return the number of rows that wait to be collected. Many of them bring the commit forward."""

    def stalled(self) -> str | None:
        """Return why the partition makes no progress, in one sentence with the remedy; None while it does."""

    def dropped(self) -> None:
        """Release all resources. The partition has been released, and no other method is called any more."""


class StateLane(Lane):
    """Partition with its state, and the only producer that may write it."""

    stage: "StatefulStage"

    def __init__(
        self,
        stage: "StatefulStage",
        partition: int,
        generation: int,
        state: PartitionState,
        taken: "Taken",
    ) -> None:
        super().__init__(stage, partition, generation)
        self.state = state
        self.producer = taken.producer
        self.patience = taken.patience
        self.sequence = sequence.Sequence(taken.start)
        #: Digests by key of the state that this owner has found and written.
        self._written = taken.found
        #: Messages of the run that is fed, or was fed last.
        self._run: list[Message] = []
        self._stopping = False
        #: Whether messages are fed.
        self._busy = False
        #: Whether something was fed since the last commit; whether nothing waits any more; whether a commit is overdue.
        self._fed, self._ready, self._due = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._collected = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._feeding = self.spawn(self._feed())
        self._committing = self.spawn(self._commit_on())

    @property
    def stalled(self) -> str | None:
        """Return why this partition makes no progress: the reason of the lane, else what its state waits for."""
        return self.stall or self.patience.reason or self.state.stalled()

    async def _feed(self) -> None:
        loop = asyncio.get_running_loop()
        state, limit, steps = self.state, self.stage.commit_rows, self.stage.steps
        since = loop.time()
        while True:
            self._busy = bool(self.waiting)
            while self.waiting:
                self._fed.set()
                self._run = run = self.next_run(RUN_MESSAGES, RUN_BYTES)
                begun = perf_counter()
                await state.feed(run)
                steps.add("feed", perf_counter() - begun)
                if state.pending() >= limit:
                    self._collected.clear()
                    self._hurry()
                    await self._collected.wait()
                    since = loop.time()
                elif loop.time() - since > YIELD_AFTER:
                    await asyncio.sleep(0)
                    since = loop.time()
            self._busy = False
            self._ready.set()
            self.arrived.clear()
            await self.arrived.wait()
            since = loop.time()

    async def _commit_on(self) -> None:
        """Commit as soon as nothing waits, with a pause between two commits; after the interval in any case."""
        loop = asyncio.get_running_loop()
        interval, rested = self.stage.commit_interval, loop.time()
        while not self._stopping:
            await _until_set(self._fed, IDLE)
            await _until_set(self._ready, interval)
            await _until_set(self._due, rested - loop.time())
            self._ready.clear()
            self._due.clear()
            if not self._busy:
                self._fed.clear()
            state_bytes = await self.commit()
            rested = loop.time() + pause_after(state_bytes, interval)
        await self.commit()

    def _hurry(self) -> None:
        """Commit without waiting for more."""
        for event in (self._fed, self._ready, self._due):
            event.set()

    async def commit(self) -> int:
        """Commit everything produced until now, then acknowledge the messages that were used.

        Return the bytes of the state that were written.
        """
        with self.stage.steps.time("collect"):
            outputs = self.state.collect()
        used = self.state.used()
        self._collected.set()
        if outputs:
            self._writing = asyncio.get_running_loop().run_in_executor(self.stage.threads, self._write, outputs)
            self._writing.add_done_callback(lambda writing: writing.exception())  # seen, even without a waiting caller
            await asyncio.wait({self._writing})  # unlike `await` alone, this does not cancel it
            self._writing.result()
            self._writing = None
            if self.open:
                self.state.committed()
        if self.open:
            self.stage.app.consumer.used(self.tp, used)
        return sum(len(record.value or b"") for record in outputs.progress)

    def _oldest(self) -> Message | None:
        """Return the first message that is not used up, which may be one of the run that is fed."""
        used = self.state.used()
        return next((message for message in self._run if message.offset >= used), super()._oldest())

    def _write(self, outputs: Outputs) -> None:
        """Deliver the records that must come first, then commit outputs and state in one transaction."""
        stage = self.stage
        with stage.steps.time("deliver"):
            if outputs.before:
                self.patience.what = f"cannot write to {', '.join(sorted({record.topic for record in outputs.before}))}"
                self.patience.begin("the broker does not acknowledge the records")
                stage.plain.deliver(outputs.before, self.patience)
                self.patience.done()
        with stage.steps.time("commit"):
            self._commit(outputs)

    def _commit(self, outputs: Outputs) -> None:
        stage = self.stage
        progress = [
            ProducerRecord(stage.state_topic, record.key, record.value, self.partition, record.headers)
            for record in outputs.progress
        ]
        if outputs.records or progress:
            self._publish([*outputs.records, *progress], progress)
        if outputs.apart:
            self._publish(outputs.apart, ())

    def _publish(self, records: Iterable[ProducerRecord], progress: Iterable[ProducerRecord]) -> None:
        """Commit one transaction, with a new producer if the broker has ended the transaction of this one.

        The broker ends a transaction that stays open beyond its time-out, which happens while brokers are down. From
        then on it refuses the producer just as it refuses a replaced one. The group distinguishes the two cases: the
        owner of the partition in the current generation may write it. A new producer of the same name fences all
        others. The state then shows whether the transaction was committed.
        """
        records, intended = list(records), with_records(self._written, progress)
        while True:
            try:
                self.producer.commit(records)
                break
            except ReplacedError as error:
                log.warning("%s[%d]: %s; opening a new producer", self.tp.topic, self.partition, error)
                found = self._reopen()
            if found == intended and intended != self._written:
                break
            if found != self._written:
                raise FencedError(
                    f"{self.stage.state_topic}[{self.partition}] holds records of another worker: this one no "
                    "longer owns its partition"
                )
        self._written = intended

    def _reopen(self) -> dict[bytes, int]:
        """Open a producer of the same name if the partition is still ours, and return digests of the state."""
        stage = self.stage
        self.patience.begin()
        stage.expect_owned(self)
        self.producer.close()
        self.producer = stage.make_producer(self.partition, self.patience)
        self.producer.open(stage.options.take_over_timeout)
        found = patiently(
            self.patience,
            lambda: read_to_end(stage.connection, stage.state_topic, self.partition, stage.options.take_over_timeout),
        )
        return digests(found)

    async def drop(self) -> None:
        """Cancel the work in progress, abort the transaction, and close the producer."""
        self.open = False
        if self.patience.troubled:
            self.patience.give_up()
        await self.cancel_tasks()
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=_REVOKE_PATIENCE)
            self.patience.give_up()
            if not self._writing.done():
                self.state.dropped()
                return  # the thread still uses the producer; the next owner fences it
        await asyncio.get_running_loop().run_in_executor(self.stage.threads, self.producer.close)
        self.state.dropped()

    async def drain(self) -> None:
        """Commit finished work, and cancel a message that is in use where it waits.

        While brokers are down, nothing can be committed. The successor repeats uncommitted work.
        """
        self.waiting.clear()
        self._stopping = True
        self._hurry()
        loop = asyncio.get_running_loop()
        until = loop.time() + _DRAIN_PATIENCE
        while not self._committing.done():
            await asyncio.wait({self._committing}, timeout=_LOOK)
            if loop.time() > until and self.patience.troubled:
                break
        await self.drop()


def pause_after(state_bytes: int, interval: float) -> float:
    """Return the seconds between a commit that wrote so much state and the next one, unless messages wait."""
    return max(PAUSE, min(interval, state_bytes / STATE_BYTES_PER_SECOND))


async def _until_set(event: asyncio.Event, seconds: float) -> None:
    """Wait until an event is set, for a limited time."""
    if seconds > 0 and not event.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), seconds)


@dataclass(frozen=True)
class Taken:
    """Result of a take-over: the producer, the first offset to read, and digests of the state by key."""

    producer: TransactionalProducer
    patience: Patience
    start: int
    found: dict[bytes, int]


def digests(state: Mapping[bytes, bytes]) -> dict[bytes, int]:
    """Return digests of a state, to recognize it later."""
    return {key: hash(value) for key, value in state.items()}


def with_records(known: Mapping[bytes, int], progress: Iterable[ProducerRecord]) -> dict[bytes, int]:
    """Return the digests of a state after these records were written to it."""
    after = dict(known)
    for record in progress:
        if record.value is None:
            after.pop(record.key or b"", None)
        else:
            after[record.key or b""] = hash(record.value)
    return after


class StatefulStage(Stage):
    """Stage with state.

    Parameters
    ----------
    connection : Connection
    options : StageOptions
    input_topic, state_topic : str
        Topics of the input and of the state, with the same number of partitions.
    make_state : callable
        Function that makes the state of a partition at each take-over.
    topics : mapping
        Other needed topics, each with its number of partitions (None: any number).
    commit_interval : float
        Seconds between transactions.
    commit_rows : int
        Number of rows after which a transaction does not wait for the interval. Memory holds at most twice as many:
        those being written, and those produced meanwhile.
    """

    def __init__(
        self,
        connection: Connection,
        options: StageOptions,
        *,
        input_topic: str,
        state_topic: str,
        make_state: Callable[[int], PartitionState],
        topics: Mapping[str, int | None] | None = None,
        commit_interval: float = 0.3,
        commit_rows: int = 2000,
    ) -> None:
        super().__init__(connection, options, input_topic, {state_topic: None, **(topics or {})})
        self.state_topic = state_topic
        self.make_state = make_state
        self.commit_interval = commit_interval
        self.commit_rows = commit_rows
        self.plain = ConfirmedProducer(
            connection, linger_ms=0.0, deadline=options.commit_deadline, patience=Patience("cannot write")
        )
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"{options.name}-commit")

    async def take_over(self, partition: int, generation: int) -> Lane | None:
        """Fence, read the state, and restore it (see the module). Wait while brokers are down."""
        revocations = self.revocations
        place = f"{self.input_topic}[{partition}]"
        patience = Patience(f"cannot take over {place}")
        producer = self.make_producer(partition, patience)
        loop = asyncio.get_running_loop()
        with self.taking_over(patience):
            while True:
                state = self.make_state(partition)
                try:
                    taken = await loop.run_in_executor(
                        self.threads, self._restore, partition, state, producer, patience
                    )
                    break
                except asyncio.CancelledError:
                    patience.give_up()
                    state.dropped()  # the thread still uses the producer; the next owner fences it
                    raise
                except Exception as error:
                    state.dropped()
                    if isinstance(error, UnavailableError) and not patience.given_up:
                        await loop.run_in_executor(self.threads, patience.wait, str(error), 1.0)
                        continue
                    await loop.run_in_executor(self.threads, producer.close)
                    if patience.given_up:
                        return None
                    if isinstance(error, LostInputError) and revocations == self.revocations:
                        return StalledLane(self, partition, generation, str(error))
                    raise
        if revocations != self.revocations:
            await loop.run_in_executor(self.threads, producer.close)
            state.dropped()
            return None
        return StateLane(self, partition, generation, state, taken)

    def make_producer(self, partition: int, patience: Patience) -> TransactionalProducer:
        """Return a producer that, once opened, is the only one that may write for a partition."""
        name = self.options.transactional_id(partition)
        return TransactionalProducer(self.connection, name, self.options.commit_deadline, patience)

    def expect_owned(self, lane: Lane) -> None:
        """Return when the group says that this worker owns a partition. Wait while the group does not answer.

        Raises
        ------
        FencedError
            Another worker owns the partition.
        UnavailableError
            The lane has been released meanwhile.
        """
        patience = lane.patience if isinstance(lane, StateLane) else Patience("")
        until = time.monotonic() + self.options.session_timeout
        admin = AdminClient(self.connection.client())
        while True:
            owners = owners_of(admin, self.options.group, self.input_topic)
            member = self.app.consumer.member_id()
            if not lane.open:  # its successor may be another lane of this worker, whose producer must not be fenced
                raise UnavailableError(f"{lane.tp.topic}[{lane.partition}] has been released")
            if isinstance(owners, Unknown):
                cause = owners.reason
                until = time.monotonic() + self.options.session_timeout
            elif member and owners.get(lane.partition) == member:
                return
            elif time.monotonic() > until:
                raise FencedError(
                    f"another worker uses {self.options.transactional_id(lane.partition)}: this worker no longer owns "
                    f"{lane.tp.topic}[{lane.partition}]"
                )
            else:
                cause = (
                    f"the group {self.options.group} does not name this worker as the owner of {lane.tp.topic}"
                    f"[{lane.partition}]"
                )
            patience.wait(cause, 1.0)
            if patience.given_up or not lane.open:
                raise UnavailableError(f"{patience.what}: {cause}; given up")

    def _restore(
        self, partition: int, state: PartitionState, producer: TransactionalProducer, patience: Patience
    ) -> Taken:
        timeout = self.options.take_over_timeout
        if patience.given_up:  # given up while waiting for a thread; opening would fence the rightful owner's producer
            raise UnavailableError(f"{patience.what}: given up")
        producer.open(timeout)
        records = read_to_end(self.connection, self.state_topic, partition, timeout, moved=self.has_read)
        low, high = watermarks(self.connection, self.input_topic, partition, timeout)
        found = digests(records)
        start = self._begin(partition, state.restore(records, low, high), low, high)
        patience.done()
        return Taken(producer, patience, start, found)

    def _begin(self, partition: int, start: int, low: int, high: int) -> int:
        """Return where to read from. Raise LostInputError if Kafka no longer has it and it is not produced again."""
        place = f"{self.input_topic}[{partition}]"
        if low <= start <= high:
            return start
        if self.replaceable_input:
            log.warning("%s: the broker has only offsets %d to %d; reading from %d", place, low, high, low)
            return low
        if start < low:
            raise LostInputError(
                f"{place} must be read again from offset {start}, but the broker keeps it from {low} on; {self.remedy}"
            )
        raise LostInputError(
            f"{place} ends at offset {high}, but the state in {self.state_topic}[{partition}] continues at {start}: "
            f"the broker lost the end of the log, or the topic was deleted and created again; {self.remedy}"
        )

    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        """Return the offset from which each state must be fed."""
        return {
            tp: lane.sequence.next_offset
            for tp in tps
            if (lane := self.lanes.get(tp.partition)) is not None and lane.sequence is not None
        }

    async def stop(self, *, drain: bool = True) -> None:
        """Stop, and close the producers."""
        await super().stop(drain=drain)
        await asyncio.get_running_loop().run_in_executor(None, self.plain.close)
        self.threads.shutdown(wait=False)
