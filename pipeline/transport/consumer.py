"""Faust's Kafka consumer with the behaviours that lose or hold up messages replaced.

Each override names the behaviour of faust-streaming 0.15.3 and aiokafka 0.14 that it cures; `tests/integration/
test_transport_cures.py` takes the cures out one by one and sees the loss.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiokafka.errors import IllegalStateError, KafkaError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

log = logging.getLogger(__name__)

#: Where to go on reading: partitions of the input to offsets. What is missing in the answer is left where it is.
Positions = Callable[[set[TP]], Awaitable[Mapping[TP, int]]]

#: Seconds. A partition that may be read again is noticed after this long when no other is being read, ...
PAUSED_POLL = 0.01
#: ... or after this long when another one is, but has nothing new.
IDLE_POLL = 0.1


#: Messages handed on before the streams get their turn.
YIELD_EVERY = 64


class ChainedMessage(ConsumerMessage):
    """A message that also says which offset the consumer handed out before it.

    `follows` is the offset after the previous message of the partition, or the offset that was sought. A stage that
    has used everything below `follows` has missed nothing, however large the hole to `offset` is: the consumer has
    read the log in between and found nothing to deliver (markers, aborted or compacted records).
    """

    __slots__ = ("follows",)
    follows: int


class _NothingRead(dict[TP, int | None]):
    """Stands for Faust's table of read offsets and never holds one.

    Faust drops what lies below its last read offset. After a seek that drops messages which nobody has seen: the
    fetcher may store the offset of a message fetched before the seek after the seek was made. Who sees an offset
    twice is told by our own watch (`sequence`).
    """

    def __getitem__(self, tp: TP) -> None:
        return None

    def __setitem__(self, tp: TP, offset: int | None) -> None:
        return None

    def update(self, *args: Any, **kwargs: Any) -> None:
        return None


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """The thread that owns the aiokafka consumer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._handed: dict[TP, int] = {}

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Set isolation and long poll, for which Faust has no setting; aiokafka reads both when it starts."""
        consumer = super()._create_worker_consumer(transport)
        settings = self.app.consumer_settings
        consumer._isolation_level = "read_committed" if settings.read_committed else "read_uncommitted"
        consumer._fetch_max_wait_ms = settings.fetch_wait_ms
        return consumer

    async def on_thread_stop(self) -> None:
        """Leave the group, which aiokafka omits for static members: the others need not wait for the session."""
        if self._consumer is not None and self.app.leave_group:
            coordinator = self._consumer._coordinator
            if hasattr(coordinator, "_group_instance_id"):  # absent when nothing was subscribed to
                coordinator._group_instance_id = None
        await super().on_thread_stop()

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> Mapping[TP, Any]:
        """Pair every record with the offset that follows the one handed out before it."""
        fetched = await super()._fetch_records(*args, **kwargs)
        handed = self._handed
        chained = {}
        for tp, records in fetched.items():
            follows = handed.get(tp, records[0].offset)
            pairs = []
            for record in records:
                pairs.append((follows, record))
                follows = record.offset + 1
            handed[tp] = follows
            chained[tp] = pairs
        return chained

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, int]) -> None:
        for tp, offset in partitions.items():
            consumer.seek(tp, offset)
            self._handed[tp] = offset

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit to the group, or go on without.

        Faust means to go on when a rebalance came between, but looks for that in aiokafka's message as a text which
        there has a line break in the middle, and ends the worker. Nothing rests on what is committed but where a stage
        without state begins, and that may be early.
        """
        ours = {
            driver.ensure_aiokafka_TP(tp): OffsetAndMetadata(offset, "")
            for tp, offset in offsets.items()
            if tp in self.assignment()
        }
        try:
            await self._ensure_consumer().commit(ours)
        except KafkaError as error:
            log.debug("offsets were not committed: %s", error)
            return False
        return True

    def handed(self, tp: TP) -> int | None:
        """Return the offset after the last record of `tp` that left the thread."""
        return self._handed.get(tp)

    def end(self, tp: TP) -> int | None:
        """Return the end of `tp` as of the last fetch; None while that is not known."""
        consumer = self._consumer
        if consumer is None or tp not in self.assignment():
            return None
        end: int | None = consumer.highwater(driver.ensure_aiokafka_TP(tp))
        return end

    async def committed(self, tps: set[TP]) -> dict[TP, int | None]:
        """Return the offsets the group has committed."""
        return dict(await self.call_thread(self._committed, tps))

    async def _committed(self, tps: set[TP]) -> dict[TP, int | None]:
        consumer = self._ensure_consumer()
        return {tp: await consumer.committed(tp) for tp in tps}


class Consumer(driver.Consumer):
    """Commits in order, starts where it is told, hands out chained messages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = _NothingRead()

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: Any) -> ChainedMessage:
        follows, fetched = record
        milliseconds = fetched.timestamp
        message = ChainedMessage(
            fetched.topic,
            fetched.partition,
            fetched.offset,
            None if milliseconds is None else milliseconds / 1000.0,
            fetched.timestamp_type,
            fetched.headers,
            fetched.key,
            fetched.value,
            fetched.checksum,
            fetched.serialized_key_size,
            fetched.serialized_value_size,
            tp,
            generation_id=self.app.consumer_generation_id,
        )
        message.follows = follows
        return message

    def _new_offset(self, tp: TP) -> int | None:
        """Return the offset to commit: one above the highest acknowledged.

        Our stages acknowledge in order. Faust looks for consecutive offsets instead, and the first marker of a
        transaction stops it: after 40,000 messages in 100 transactions 809 of 10,100 offsets were committed.
        """
        acked = self._acked[tp]
        if not acked:
            return None
        offset = max(acked) + 1
        acked.clear()
        self._acked_index[tp].clear()
        return int(offset)

    async def perform_seek(self) -> None:
        """Go to where the stage says for every partition of the input, whatever the group has committed.

        Faust seeks to the committed offsets, which is nowhere when none is committed, and what was fetched before is
        then gone: the survivor of a killed explainer began a partition at offset 32 to 46.
        """
        inputs = {tp for tp in self.assignment() if not self._is_changelog_tp(tp)}
        positions = await self.app.positions(inputs)
        if positions:
            self.app.seeking(positions)
            await self.seek_wait(positions)

    async def commit_and_end_transactions(self) -> None:
        """Commit what has been acknowledged until now, at the end and before partitions are given up.

        Faust takes a commit that is already under way for this one, though it began before the last messages were
        acknowledged.
        """
        await self.maybe_wait_for_commit_to_finish()
        await super().commit_and_end_transactions()

    async def seek_back(self, tp: TP, offset: int) -> bool:
        """Read `tp` again from `offset`; False when it is not assigned any more."""
        try:
            await self.seek_wait({tp: offset})
        except IllegalStateError:
            return False
        return True

    def forget(self, tp: TP) -> None:
        """Let `tp` not be held back any more: it is not ours."""
        self._buffered_partitions.discard(tp)

    async def committed(self, tps: set[TP]) -> dict[TP, int | None]:
        """Return the offsets the group has committed."""
        return await self._thread.committed(tps)  # type: ignore[no-any-return]

    def handed(self, tp: TP) -> int | None:
        """Return the offset after the last record of `tp` that was handed out."""
        return self._thread.handed(tp)  # type: ignore[no-any-return]

    def end(self, tp: TP) -> int | None:
        """Return the end of `tp` as of the last fetch; None while that is not known."""
        return self._thread.end(tp)  # type: ignore[no-any-return]

    async def _drain_messages(self, fetcher: Any) -> None:
        """Hand what is fetched to the streams.

        Faust's own starts four tasks a message, to break off when a rebalance suspends the flow while a full queue
        blocks. Our agents always empty their queues, so nothing blocks, and what is fetched while the flow is
        suspended is read again from where the partition begins.
        """
        deliver = self.callback
        flowing = self.app.flow_control.is_active
        delivered = 0
        try:
            while not (self.should_stop or fetcher.should_stop):
                await asyncio.sleep(0)
                async for _, message in self.getmany(timeout=IDLE_POLL):
                    if flowing():
                        await deliver(message)
                    delivered += 1
                    if not delivered % YIELD_EVERY:
                        await asyncio.sleep(0)
        except (*self.consumer_stopped_errors, asyncio.CancelledError):
            if not self.app.should_stop:
                raise

    async def _wait_next_records(self, timeout: float) -> tuple[Any, Any]:
        """Look for resumed partitions often; Faust does so once a second, also while all are paused for a moment."""
        if self.flow_active and not self._get_active_partitions():
            await self.sleep(PAUSED_POLL)
            return {}, self._get_active_partitions()
        return await super()._wait_next_records(timeout)  # type: ignore[no-any-return]

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        """Create nothing and say nothing: `glasstream topics create` does it, and it is checked before the start."""


class Transport(driver.Transport):
    """The transport of `StreamApp`."""

    Consumer = Consumer
