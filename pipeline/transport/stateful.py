"""A stage with state: outputs and state of an input partition become durable together.

Taking a partition over, in this order: `init_transactions` fences the owner before and ends its transaction; the
state partition is read to its end; the state says from which offset it must be fed; the input is sought to it,
whatever the group has committed. All of it is bounded in time. Long work (learning again) belongs in `feed`.

Feeding and committing overlap: while one transaction is written in a thread, the state is fed on.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any, Protocol

from faust.types import TP

from pipeline.errors import LostInputError, StateError
from pipeline.transport.connection import Connection
from pipeline.transport.lane import YIELD_AFTER, Lane
from pipeline.transport.options import StageOptions
from pipeline.transport.producers import ConfirmedProducer
from pipeline.transport.progress import read_to_end, watermarks
from pipeline.transport.records import Message, Outputs, Record
from pipeline.transport.sequence import Sequence
from pipeline.transport.stage import Stage
from pipeline.transport.transactions import TransactionalProducer

#: Seconds a revoke waits for a transaction that is being written; after that the successor's fence ends it.
_REVOKE_PATIENCE = 10.0
#: Threads for transactions and take-overs; partitions beyond this take turns.
_THREADS = 16


class PartitionState(Protocol):
    """What a stage keeps of one input partition while it owns it."""

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int:
        """Continue from what was committed, and return the offset of the first message to be fed.

        Called once, first, in a thread, when nobody else can commit for this partition any more.

        Parameters
        ----------
        records : mapping
            The last committed progress record of each key; empty when there is none.
        low, high : int
            The first offset that the input still keeps, and the one after the last.

        Raises
        ------
        StateError
            When it cannot be continued; the worker ends and says so.
        """

    async def feed(self, message: Message) -> None:
        """Use the next message. It may wait (to hold back); the other partitions go on meanwhile."""

    def collect(self) -> Outputs:
        """Return, and forget, everything produced since the last call, as of now.

        Called at any moment at which `feed` waits. Empty outputs mean that there is nothing to commit.
        """

    def committed(self) -> None:
        """Note that what was collected last is durable."""

    def pending(self) -> int:
        """Return how much waits to be collected, in rows: enough of it brings the commit forward."""

    def dropped(self) -> None:
        """Release what is held: the partition is let go, and nothing else is called any more."""


class StateLane(Lane):
    """A partition with its state and the producer that alone may write it."""

    stage: "StatefulStage"

    def __init__(
        self,
        stage: "StatefulStage",
        partition: int,
        generation: int,
        state: PartitionState,
        producer: TransactionalProducer,
        start: int,
    ) -> None:
        super().__init__(stage, partition, generation)
        self.state = state
        self.producer = producer
        self.sequence = Sequence(start)
        self._fed: Any = None
        self._stopping = False
        self._due = asyncio.Event()
        self._collected = asyncio.Event()
        self._writing: asyncio.Future[None] | None = None
        self._feeding = self.spawn(self._feed())
        self._committing = self.spawn(self._commit_on())

    async def _feed(self) -> None:
        loop = asyncio.get_running_loop()
        state, limit, steps = self.state, self.stage.commit_rows, self.stage.steps
        since = loop.time()
        while True:
            while self.waiting:
                event, message = self.next_waiting()
                begun = perf_counter()
                await state.feed(message)
                steps.add("feed", perf_counter() - begun)
                self._fed = event
                if state.pending() >= limit:
                    self._collected.clear()
                    self._due.set()
                    await self._collected.wait()
                    since = loop.time()
                elif loop.time() - since > YIELD_AFTER:
                    await asyncio.sleep(0)
                    since = loop.time()
            self.arrived.clear()
            await self.arrived.wait()
            since = loop.time()

    async def _commit_on(self) -> None:
        while not self._stopping:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), self.stage.commit_interval)
            self._due.clear()
            await self.commit()
        await self.commit()

    async def commit(self) -> None:
        """Make everything produced until now durable, then acknowledge the messages that were used up."""
        with self.stage.steps.time("collect"):
            outputs = self.state.collect()
        fed, self._fed = self._fed, None
        self._collected.set()
        if outputs:
            self._writing = asyncio.get_running_loop().run_in_executor(self.stage.threads, self._write, outputs)
            await asyncio.shield(self._writing)
            self._writing = None
            if self.open:
                self.state.committed()
        if fed is not None and self.open:
            fed.ack()  # the last one stands for all before it: see Consumer._new_offset

    def _write(self, outputs: Outputs) -> None:
        """Deliver what goes before, then commit outputs and state in one transaction."""
        stage = self.stage
        with stage.steps.time("deliver"):
            stage.plain.deliver(outputs.before)
        with stage.steps.time("commit"):
            self._commit(outputs)

    def _commit(self, outputs: Outputs) -> None:
        stage = self.stage
        records = list(outputs.records)
        records += [
            Record(stage.state_topic, record.key, record.value, self.partition, record.headers)
            for record in outputs.progress
        ]
        if records:
            self.producer.commit(records)
        if outputs.apart:
            self.producer.commit(outputs.apart)

    async def drop(self) -> None:
        """Cancel what is in progress, abort, close."""
        self.open = False
        await self.cancel_tasks()
        if self._writing is not None:
            await asyncio.wait({self._writing}, timeout=_REVOKE_PATIENCE)
            if not self._writing.done():
                self.state.dropped()
                return  # the thread still uses the producer; whoever takes the partition over fences it
            self._writing.exception()  # whatever it is: the partition is not ours any more
        await asyncio.get_running_loop().run_in_executor(self.stage.threads, self.producer.close)
        self.state.dropped()

    async def drain(self) -> None:
        """Commit what is done; a message in the middle of its use is cut short where it waits."""
        self.waiting.clear()
        self._stopping = True
        self._due.set()
        await asyncio.wait({self._committing})
        await self.drop()


class StatefulStage(Stage):
    """Runs a stage with state.

    Parameters
    ----------
    connection : Connection
    options : StageOptions
    input_topic, state_topic : str
        Both have the same number of partitions.
    make_state : callable
        Makes the state of a partition, each time it is taken over.
    topics : mapping
        Every topic that is needed beside these two, with its number of partitions (None: any number).
    commit_interval : float
        Seconds between transactions.
    commit_rows : int
        Rows after which a transaction does not wait for the interval. At most twice as many are in memory: those
        being written, and those produced meanwhile.
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
        self.plain = ConfirmedProducer(connection, linger_ms=0.0, deadline=options.commit_deadline)
        self.threads = ThreadPoolExecutor(_THREADS, thread_name_prefix=f"{options.name}-commit")

    async def take_over(self, partition: int, generation: int) -> Lane | None:
        """Fence, read the state, restore: see the module."""
        revocations = self.revocations
        state = self.make_state(partition)
        producer = TransactionalProducer(
            self.connection, self.options.transactional_id(partition), self.options.commit_deadline
        )
        loop = asyncio.get_running_loop()
        try:
            start = await loop.run_in_executor(self.threads, self._restore, partition, state, producer)
        except asyncio.CancelledError:
            state.dropped()  # the thread still uses the producer; whoever takes the partition over fences it
            raise
        except Exception:
            await loop.run_in_executor(self.threads, producer.close)
            state.dropped()
            raise
        if revocations != self.revocations:
            await loop.run_in_executor(self.threads, producer.close)
            state.dropped()
            return None
        return StateLane(self, partition, generation, state, producer, start)

    def _restore(self, partition: int, state: PartitionState, producer: TransactionalProducer) -> int:
        timeout = self.options.take_over_timeout
        producer.open(timeout)
        records = read_to_end(self.connection, self.state_topic, partition, timeout)
        low, high = watermarks(self.connection, self.input_topic, partition, timeout)
        start = state.restore(records, low, high)
        place = f"{self.input_topic}[{partition}]"
        if start < low:
            raise LostInputError(
                f"{place} must be read again from offset {start}, but the broker keeps it from {low} on only; "
                "what is missing cannot be made up for"
            )
        if start > high:
            raise StateError(
                f"{place} ends at offset {high}, but the state in {self.state_topic}[{partition}] continues at "
                f"{start}: the input was made anew, or the state belongs to another one"
            )
        return start

    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        """Return where each state must be fed from."""
        return {
            tp: lane.sequence.next_offset
            for tp in tps
            if (lane := self.lanes.get(tp.partition)) is not None and lane.sequence is not None
        }

    async def stop(self, *, drain: bool = True) -> None:
        """End, and close the producers."""
        await super().stop(drain=drain)
        await asyncio.get_running_loop().run_in_executor(None, self.plain.close)
        self.threads.shutdown(wait=False)
