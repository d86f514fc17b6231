"""A stage without state: every message is worked on by itself, and acknowledged when its results are safe."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from aiokafka.errors import KafkaError, KafkaTimeoutError
from faust.types import TP

from glasstream.transport.connection import Connection
from glasstream.transport.lane import ASK_AGAIN_AFTER, YIELD_AFTER, Lane
from glasstream.transport.options import StageOptions
from glasstream.transport.patience import Patience
from glasstream.transport.producers import ConfirmedProducer
from glasstream.transport.records import ConsumerRecord, ProducerRecord
from glasstream.transport.snapshot_table import TableSpec, follow_topic
from glasstream.transport.stage import Stage

log = logging.getLogger(__name__)

#: Seconds a stop waits for the message in hand, and for what was produced to be acknowledged.
_DRAIN_PATIENCE = 3.0

Handle = Callable[[ConsumerRecord], Awaitable[Iterable[ProducerRecord]]]


class WorkLane(Lane):
    """A partition whose messages are worked on in order, and acknowledged in order."""

    stage: "StatelessStage"

    def __init__(self, stage: "StatelessStage", partition: int, generation: int) -> None:
        super().__init__(stage, partition, generation)
        #: Messages whose results are on the way, oldest first; its size bounds how many may be.
        self._unconfirmed: asyncio.Queue[tuple[Any, asyncio.Future[None]]] = asyncio.Queue(stage.in_flight)
        self._busy = False
        self._idle = asyncio.Event()
        self.spawn(self._work())
        self.spawn(self._confirm())

    @property
    def stalled(self) -> str | None:
        """Why this partition makes no progress: what the lane has met, else what the producer waits for."""
        return super().stalled or self.stage.producer.waits_for

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        handle, producer = self.stage.handle, self.stage.producer
        since = loop.time()
        while True:
            while self.waiting:
                self._idle.clear()
                event, message = self.next_waiting()
                with self.stage.steps.time("handle"):
                    records = await handle(message)
                await self._unconfirmed.put((event, await producer.begin(records)))
                if loop.time() - since > YIELD_AFTER:
                    await asyncio.sleep(0)
                    since = loop.time()
            self._idle.set()
            self.arrived.clear()
            await self.arrived.wait()
            since = loop.time()

    async def _confirm(self) -> None:
        while True:
            event, confirmed = await self._unconfirmed.get()
            await confirmed
            event.ack()
            self._unconfirmed.task_done()

    async def drop(self) -> None:
        """Cancel what is in progress: whoever has the partition next does it again."""
        self.open = False
        await self.cancel_tasks()

    async def drain(self) -> None:
        """Finish the message in hand and wait until what was produced is safe, for a while."""
        self.waiting.clear()
        try:
            async with asyncio.timeout(_DRAIN_PATIENCE):
                await self._idle.wait()
                await self._unconfirmed.join()
        except TimeoutError:
            pass  # not acknowledged, so it is done again
        await self.drop()


def _beginning(tp: TP, committed: int | None, kept: tuple[int, int]) -> int:
    """Return where to begin: at what was committed, or with the first message kept."""
    low, high = kept
    if committed is None or low <= committed <= high:
        return low if committed is None else committed
    log.warning(
        "%s[%d]: everything before offset %d was processed, but the broker keeps %d to %d; reading from %d",
        tp.topic, tp.partition, committed, low, high, low,
    )  # fmt: skip
    return low


class StatelessStage(Stage):
    """Runs a stage without state.

    Parameters
    ----------
    connection : Connection
    options : StageOptions
    input_topic : str
    handle : callable
        Turns a message into records. It may wait; messages of a partition come one after the other, partitions
        beside each other.
    topics : mapping
        Every topic that is needed beside the input, with its number of partitions (None: any number).
    table : TableSpec, optional
        A topic that is followed whole.
    in_flight : int
        Messages of a partition whose results may be on the way at a time.
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
    ) -> None:
        needed = {table.topic: 1} if table is not None else {}
        super().__init__(connection, options, input_topic, {**needed, **(topics or {})})
        self.handle = handle
        self.in_flight = in_flight
        self.producer = ConfirmedProducer(connection, patience=Patience("cannot write"))
        if table is not None:
            follow_topic(self.app, table, self.fail)

    async def take_over(self, partition: int, generation: int) -> Lane | None:
        """Open a lane; where it begins is known when the offsets are."""
        return WorkLane(self, partition, generation)

    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        """Return the committed offset of each partition; the first one kept where none is committed, or it is gone.

        It may be gone at either end of the log: behind retention, or beyond the end after an unclean election. While
        brokers do not say, they are asked again.
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
                except KafkaError as error:
                    if not error.retriable and not isinstance(error, KafkaTimeoutError):
                        raise
                    patience.wait(repr(error), 0.0)
                    await asyncio.sleep(ASK_AGAIN_AFTER)
                else:
                    return known | {tp: _beginning(tp, committed[tp], kept[tp]) for tp in fresh}
        return known

    async def stop(self, *, drain: bool = True) -> None:
        """End, and close the producer."""
        await super().stop(drain=drain)
        await asyncio.to_thread(self.producer.close)
