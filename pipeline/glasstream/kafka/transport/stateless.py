"""A stage without state: each message is processed by itself, and acknowledged when its results are safe."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Literal

from faust.types import TP

from glasstream.base.errors import UnavailableError
from glasstream.events.message import Message
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.lane import ASK_AGAIN_AFTER, YIELD_AFTER, Lane
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.producers import ConfirmedProducer
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.snapshot_table import TableSpec, follow_topic
from glasstream.kafka.transport.stage import Stage

log = logging.getLogger(__name__)

#: Seconds that a stop waits for the current message, and for acknowledgements of its results.
_DRAIN_PATIENCE = 3.0

Handle = Callable[[Message], Awaitable[Iterable[ProducerRecord]]]


class WorkLane(Lane):
    """Partition whose messages are processed and acknowledged in order."""

    stage: "StatelessStage"

    def __init__(self, stage: "StatelessStage", partition: int, generation: int) -> None:
        super().__init__(stage, partition, generation)
        #: Messages with unconfirmed results, oldest first. The size of the queue limits their number.
        self._unconfirmed: asyncio.Queue[tuple[int, asyncio.Future[None]]] = asyncio.Queue(stage.in_flight)
        self._busy = False
        self._idle = asyncio.Event()
        self.spawn(self._work())
        self.spawn(self._confirm())

    @property
    def stalled(self) -> str | None:
        """Return why this partition makes no progress: the reason of the lane, else what the producer waits for."""
        producer = self.stage.producer
        return super().stalled or (None if producer is None else producer.waits_for)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        handle, producer = self.stage.handle, self.stage.producer
        since = loop.time()
        while True:
            while self.waiting:
                self._idle.clear()
                (message,) = self.next_run(1, 1)
                with self.stage.steps.time("handle"):
                    records = await handle(message)
                await self._unconfirmed.put((message.offset, await _begun(producer, records)))
                if loop.time() - since > YIELD_AFTER:
                    await asyncio.sleep(0)
                    since = loop.time()
            self._idle.set()
            self.arrived.clear()
            await self.arrived.wait()
            since = loop.time()

    async def _confirm(self) -> None:
        while True:
            offset, confirmed = await self._unconfirmed.get()
            await confirmed
            self.stage.app.consumer.used(self.tp, offset + 1)
            self._unconfirmed.task_done()

    async def drop(self) -> None:
        """Cancel the work in progress. The next owner of the partition repeats it."""
        self.open = False
        await self.cancel_tasks()

    async def drain(self) -> None:
        """Finish the current message, and wait for a limited time until its results are safe."""
        self.waiting.clear()
        try:
            async with asyncio.timeout(_DRAIN_PATIENCE):
                await self._idle.wait()
                await self._unconfirmed.join()
        except TimeoutError:
            pass  # not acknowledged, so the next owner repeats it
        await self.drop()


async def _begun(producer: ConfirmedProducer | None, records: Iterable[ProducerRecord]) -> asyncio.Future[None]:
    """Send records, and return a future that completes when all of them are acknowledged."""
    if producer is not None:
        return await producer.begin(records)
    confirmed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    confirmed.set_result(None)
    return confirmed


def _beginning(tp: TP, committed: int | None, kept: tuple[int, int]) -> int:
    """Return the first offset to read: the committed one, or the first one kept."""
    low, high = kept
    if committed is None or low <= committed <= high:
        return low if committed is None else committed
    log.warning(
        "%s[%d]: everything before offset %d was processed, but the broker has only offsets %d to %d; reading from %d",
        tp.topic, tp.partition, committed, low, high, low,
    )  # fmt: skip
    return low


class StatelessStage(Stage):
    """Stage without state.

    Parameters
    ----------
    connection : Connection
    options : StageOptions
    input_topic : str
    handle : callable
        Function that turns a message into records. It may wait. Messages of one partition are processed one after the
        other, and partitions concurrently.
    topics : mapping
        Needed topics besides the input, each with its number of partitions (None: any number).
    table : TableSpec, optional
        Topic to follow as a whole.
    in_flight : int
        Largest number of messages of a partition with unconfirmed results.
    start : str
        Where a group without committed offsets begins: ``earliest`` or ``latest``. With ``latest`` the worker commits
        the end of the log before it reads, so that a worker that replaces it misses nothing.
    writes : bool
        Whether `handle` returns records. Without them, the worker needs no right to write.
    """

    def __init__(
        self,
        connection: Connection,
        options: StageOptions,
        *,
        input_topic: str,
        handle: Handle,
        topics: Mapping[str, int | None] | None = None,
        table: TableSpec | None = None,
        in_flight: int = 64,
        start: Literal["earliest", "latest"] = "earliest",
        writes: bool = True,
    ) -> None:
        needed = {table.topic: 1} if table is not None else {}
        super().__init__(connection, options, input_topic, {**needed, **(topics or {})})
        self.handle = handle
        self.in_flight = in_flight
        self.start_at = start
        self.producer = ConfirmedProducer(connection, patience=Patience("cannot write")) if writes else None
        if table is not None:
            follow_topic(self.app, table, self.fail)

    async def take_over(self, partition: int, generation: int) -> Lane | None:
        """Open a lane. It begins once the offsets are known."""
        return WorkLane(self, partition, generation)

    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        """Return the committed offset of each partition, or the first one kept if that is missing or gone.

        Retention may have removed the offset, or it lies beyond the end of the log after an unclean election. Retry
        while brokers do not answer.
        """
        fresh = {tp for tp in tps if (lane := self.lanes.get(tp.partition)) is not None and lane.sequence is None}
        known = {
            tp: lane.sequence.next_offset
            for tp in tps - fresh
            if (lane := self.lanes.get(tp.partition)) is not None and lane.sequence is not None
        }
        if not fresh:
            return known
        patience = Patience(f"cannot read where to continue with {self.input_topic}")
        with self.taking_over(patience):
            while not patience.given_up:
                try:
                    committed = await self.app.consumer.committed(fresh)
                    kept = {tp: await self.app.consumer.bounds(tp) for tp in fresh}
                    if self.start_at == "latest":
                        committed |= await self._commit_ends({tp: kept[tp][1] for tp in fresh if committed[tp] is None})
                except UnavailableError as error:
                    patience.wait(str(error), 0.0)
                    await asyncio.sleep(ASK_AGAIN_AFTER)
                else:
                    return known | {tp: _beginning(tp, committed[tp], kept[tp]) for tp in fresh}
        return known

    async def _commit_ends(self, ends: Mapping[TP, int]) -> Mapping[TP, int]:
        """Commit the ends of the log as the beginning of a new group, and return them."""
        if ends and not await self.app.consumer.commit_offsets(ends):
            raise UnavailableError("the offsets at which a new group begins were not committed")
        return ends

    async def stop(self, *, drain: bool = True) -> None:
        """Stop, and close the producer."""
        await super().stop(drain=drain)
        if self.producer is not None:
            await asyncio.to_thread(self.producer.close)
