"""Faust's Kafka consumer, without the behaviours that lose or delay messages.

Each override names the behaviour of faust-streaming 0.15.3 or aiokafka 0.14 that it replaces.
`tests/integration/test_transport_cures.py` removes overrides one by one and observes the loss;
`tests/integration/test_transport_waits.py` tests what happens while brokers do not answer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from aiokafka.client import ConnectionGroup
from aiokafka.cluster import ClusterMetadata
from aiokafka.conn import CloseReason
from aiokafka.consumer.fetcher import OffsetResetStrategy
from aiokafka.errors import (
    IllegalStateError,
    KafkaError,
    NoOffsetForPartitionError,
    OffsetOutOfRangeError,
    RequestTimedOutError,
)
from aiokafka.protocol.group import JoinGroupRequest, SyncGroupRequest
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, ConsumerMessage

from glasstream.kafka.transport import decompression
from glasstream.kafka.transport.passage import Passage

log = logging.getLogger(__name__)

#: Function that returns the offsets at which to continue reading. Partitions that its result omits stay where they are.
Positions = Callable[[set[TP]], Awaitable[Mapping[TP, int]]]

#: Seconds until a resumed partition is noticed when no other partition is being read.
PAUSED_POLL = 0.01
#: Seconds until a resumed partition is noticed when another one is being read but has nothing new.
IDLE_POLL = 0.1

#: Seconds until a request to a leader counts as lost, as in Kafka's own clients.
REQUEST_TIMEOUT = 30.0

#: Number of messages to hand over before the streams get their turn.
YIELD_EVERY = 64

#: Largest number of messages per poll: a fetch of 4 MiB may hold many thousands. The rest of the fetch stays buffered.
POLL_RECORDS = 500


class ChainedMessage(ConsumerMessage):
    """Message with the offset that the consumer reached before it.

    `follows` is the offset after the previous message of the partition, or the offset of the last seek. A stage that
    has used everything below `follows` has missed nothing, however large the gap to `offset` is. The consumer has read
    the log in between and found only markers, and aborted or compacted records.
    """

    __slots__ = ("follows",)
    follows: int


class _NothingRead(dict[TP, int | None]):
    """Replacement for Faust's table of read offsets that stays empty.

    Faust drops messages below its last read offset. After a seek, these may be unseen: the fetcher may store the offset
    of an earlier message after the seek. `sequence` detects offsets that arrive twice.
    """

    def __getitem__(self, tp: TP) -> None:
        return None

    def __setitem__(self, tp: TP, offset: int | None) -> None:
        return None

    def update(self, *args: Any, **kwargs: Any) -> None:
        return None


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Thread that owns the aiokafka consumer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._handed: dict[TP, int] = {}

    def _create_worker_consumer(self, transport: Any) -> Any:
        """Configure what Faust has no setting for. aiokafka reads these values when it starts.

        If the broker no longer has the next offset, aiokafka would silently continue at the beginning of the log. Here
        the stage decides what to do: see `_fetch_records`.
        """
        decompression.install()
        consumer = super()._create_worker_consumer(transport)
        _remember_bootstrap(consumer._client)
        _limit_requests(consumer._client, self.app.conf.broker_session_timeout)
        settings = self.app.consumer_settings
        consumer._auto_offset_reset = "none"
        consumer._isolation_level = "read_committed" if settings.read_committed else "read_uncommitted"
        consumer._fetch_max_wait_ms = settings.fetch_wait_ms
        return consumer

    async def on_thread_stop(self) -> None:
        """Leave the group, which aiokafka omits for static members, so that others need not wait for the session.

        Without a broker, the fetches that aiokafka cancels sleep between two attempts. aiokafka mistakes their
        cancellation for its own and skips the rest of its cleanup. This thread would then die without notifying the
        thread that waits for it.
        """
        if self._consumer is not None and self.app.leave_group:
            coordinator = self._consumer._coordinator
            if hasattr(coordinator, "_group_instance_id"):  # absent without a subscription
                coordinator._group_instance_id = None
        try:
            await super().on_thread_stop()
        except asyncio.CancelledError:
            await self._consumer._client.close()

    async def _fetch_records(self, *args: Any, **kwargs: Any) -> Mapping[TP, Any]:
        """Pair every record with the offset that follows the one handed out before it.

        Pause a partition whose log does not have the next offset, and notify the stage. Retention or an operator may
        have removed the offset, or an unclean election may have truncated the log. The next seek resumes the partition.
        """
        try:
            fetched = await super()._fetch_records(*args, **kwargs)
        except OffsetOutOfRangeError as error:
            for tp, position in error.args[0].items():
                self._out_of_range(driver.ensure_TPset([tp]).pop(), position)
            return {}
        except NoOffsetForPartitionError as error:
            self._to_the_beginning(error.args[0])
            return {}
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

    def _out_of_range(self, tp: TP, position: int) -> None:
        consumer, place = self._ensure_consumer(), driver.ensure_aiokafka_TP(tp)
        state = self._state_of(place)
        if state is None or not state.has_valid_position or state.position != position:
            return  # sought or revoked since the request was sent
        if self.consumer._is_changelog_tp(tp):
            self._to_the_beginning(place)
            return
        consumer.pause(place)
        self.parent_loop.call_soon_threadsafe(self.app.out_of_range, tp, position)

    def _to_the_beginning(self, place: Any) -> None:
        state = self._state_of(place)
        if state is not None:
            state.await_reset(OffsetResetStrategy.EARLIEST)

    def _state_of(self, place: Any) -> Any:
        subscription = self._ensure_consumer()._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        return assignment.state_value(place) if assignment is not None and place in assignment.tps else None

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, int]) -> None:
        for tp, offset in partitions.items():
            self._seek_one(consumer, tp, offset)
            self._handed[tp] = offset

    def _seek_one(self, consumer: Any, tp: TP, offset: int) -> None:
        place = driver.ensure_aiokafka_TP(tp)
        consumer.seek(place, offset)
        state = self._state_of(place)
        if state is not None and state.paused:  # paused by `_out_of_range`
            consumer.resume(place)

    async def skip(self, tp: TP, offset: int) -> None:
        """Continue `tp` at `offset`, as if the log had nothing between it and the last record handed over."""
        await self.call_thread(self._skip, tp, offset)

    async def _skip(self, tp: TP, offset: int) -> None:
        self._seek_one(self._ensure_consumer(), tp, offset)

    async def bounds(self, tp: TP) -> tuple[int, int]:
        """Return the first offset of `tp` that the broker keeps, and the one after the last."""
        return await self.call_thread(self._bounds, driver.ensure_aiokafka_TP(tp))  # type: ignore[no-any-return]

    async def _bounds(self, place: Any) -> tuple[int, int]:
        consumer = self._ensure_consumer()
        low, high = await consumer.beginning_offsets([place]), await consumer.end_offsets([place])
        return low[place], high[place]

    async def refresh(self) -> None:
        """Refresh the metadata of the topics, so that a partition that exists again is assigned at once."""
        await self.call_thread(self._refresh)

    async def _refresh(self) -> None:
        self._ensure_consumer()._client.force_metadata_update()

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        """Commit to the group, and continue if that fails.

        Faust intends to continue after a rebalance, but compares aiokafka's message with a text that has no line break
        where the message has one, and ends the worker. Only stages without state begin at the committed offset, and
        they may begin early.
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

    def member_id(self) -> str:
        """Return the worker's member id in the group; empty while it is no member."""
        coordinator = None if self._consumer is None else self._consumer._coordinator
        return getattr(coordinator, "member_id", "")

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions that the client knows of a topic; 0 if it knows none."""
        return 0 if self._consumer is None else len(self._consumer.partitions_for_topic(topic) or ())

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


def _remember_bootstrap(client: Any) -> None:
    """Make a client ask its bootstrap addresses when no broker that it knows answers.

    aiokafka asks only the brokers in the last answer, and an answer names only live brokers. While two of three brokers
    are down, it names one. When that one went down after the other two had come back, a worker asked only for it until
    it came back.
    """
    cluster, ask = client.cluster, client._metadata_update
    cluster._bootstrap_brokers = ClusterMetadata(bootstrap_servers=client._bootstrap_servers)._bootstrap_brokers

    async def update(metadata: ClusterMetadata, topics: Collection[str]) -> bool:
        if await ask(metadata, topics):
            return True
        known, cluster._brokers = cluster._brokers, {}  # without known brokers, aiokafka uses the addresses
        try:
            return bool(await ask(metadata, topics))
        finally:
            cluster._brokers = cluster._brokers or known

    client._metadata_update = update


def _limit_requests(client: Any, session: float) -> None:
    """Limit how long a client waits: `REQUEST_TIMEOUT` for a leader, and a session for a coordinator.

    Faust's limit of 90 s is meant for joining a group, which may last as long as a rebalance. When a network silently
    dropped all connections, fetches waited three times as long, one broker after the other. A worker whose heartbeat
    waited continued for more than a minute in a group that had already removed it.
    """
    connect, send = client._get_conn, client.send

    async def get(node_id: Any, *, group: ConnectionGroup = ConnectionGroup.DEFAULT, no_hint: bool = False) -> Any:
        connection = await connect(node_id, group=group, no_hint=no_hint)
        if connection is not None and group == ConnectionGroup.DEFAULT:
            connection._request_timeout = REQUEST_TIMEOUT
        return connection

    async def limited(node_id: Any, request: Any, *, group: ConnectionGroup = ConnectionGroup.DEFAULT) -> Any:
        if group == ConnectionGroup.DEFAULT or isinstance(request, JoinGroupRequest | SyncGroupRequest):
            return await send(node_id, request, group=group)
        try:
            async with asyncio.timeout(min(session, REQUEST_TIMEOUT)):
                return await send(node_id, request, group=group)
        except TimeoutError:
            connection = client._conns.get((node_id, group))
            if connection is not None:
                connection.close(reason=CloseReason.CONNECTION_TIMEOUT)
            raise RequestTimedOutError from None

    client._get_conn, client.send = get, limited


class Consumer(driver.Consumer):
    """Consumer that commits in order, starts at the stage's positions, and delivers chained messages."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read_offset = _NothingRead()
        self._held: set[TP] = set()
        self.passage = Passage()

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

        Our stages acknowledge in order. Faust looks for consecutive offsets instead, and stops at the first marker of a
        transaction. After 40,000 messages in 100 transactions, it had committed 809 of 10,100 offsets.
        """
        acked = self._acked[tp]
        if not acked:
            return None
        offset = max(acked) + 1
        acked.clear()
        self._acked_index[tp].clear()
        return int(offset)

    async def perform_seek(self) -> None:
        """Seek every partition of the input to the stage's position, whatever the group has committed.

        Faust seeks to the committed offsets. Without a committed offset it does not seek, and messages fetched earlier
        are lost: after an explainer was killed, the survivor began a partition at offset 32 to 46.
        """
        inputs = {tp for tp in self.assignment() if not self._is_changelog_tp(tp)}
        positions = await self.app.positions(inputs)
        if positions:
            self.app.seeking(positions)
            await self.seek_wait(positions)

    async def commit_and_end_transactions(self) -> None:
        """Commit everything acknowledged so far, at the end and before partitions are revoked.

        Faust would accept a commit that is already under way, although it began before the last acknowledgements.
        """
        await self.maybe_wait_for_commit_to_finish()
        await super().commit_and_end_transactions()

    async def seek_back(self, tp: TP, offset: int) -> bool:
        """Read `tp` again from `offset`. Return False if it is no longer assigned."""
        try:
            await self.seek_wait({tp: offset})
        except IllegalStateError:
            return False
        return True

    def hold(self, tp: TP) -> None:
        """Fetch nothing from `tp` until `release`.

        Faust's own set of held partitions (`on_buffer_full`) is unsuitable. Faust clears it whenever its queue between
        consumer and agent is empty, whatever waits in the stage. A learner that waited for the aggregator read
        everything: 59,999 messages.
        """
        self._held.add(tp)

    def release(self, tp: TP) -> None:
        """Fetch from `tp` again, or forget it if it is no longer assigned."""
        self._held.discard(tp)

    async def skip(self, tp: TP, offset: int) -> bool:
        """Continue `tp` at `offset`, and count everything before as handed over. Return False if it is unassigned."""
        try:
            await self._thread.skip(tp, offset)
        except IllegalStateError:
            return False
        return True

    def acknowledge_anew(self, tp: TP) -> None:
        """Allow commits of `tp` below the committed offset, because its log was created again."""
        for known in (self._acked, self._acked_index, self._committed_offset):
            known.pop(tp, None)

    async def bounds(self, tp: TP) -> tuple[int, int]:
        """Return the first offset of `tp` that the broker keeps, and the one after the last."""
        return await self._thread.bounds(tp)  # type: ignore[no-any-return]

    async def refresh(self) -> None:
        """Request the topics again."""
        await self._thread.refresh()

    async def committed(self, tps: set[TP]) -> dict[TP, int | None]:
        """Return the offsets the group has committed."""
        return await self._thread.committed(tps)  # type: ignore[no-any-return]

    async def commit_offsets(self, offsets: Mapping[TP, int]) -> bool:
        """Commit offsets to the group at once, and return whether that succeeded."""
        return await self._thread.commit(offsets)  # type: ignore[no-any-return]

    def member_id(self) -> str:
        """Return the name under which the group knows this worker; empty while it is no member."""
        return self._thread.member_id()  # type: ignore[no-any-return]

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions that the client knows of a topic; 0 if it knows none."""
        return self._thread.partition_count(topic)  # type: ignore[no-any-return]

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
                self.passage.rounds += 1
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
        """Ask for what is neither paused nor held.

        aiokafka prefetches one fetch of a partition that is not asked for, and no more. Faust looks for partitions
        that may be read again once a second, also while all are paused for a moment.
        """
        if not self.flow_active:
            return await super()._wait_next_records(timeout)  # type: ignore[no-any-return]
        active = self._get_active_partitions()
        wanted = active - self._held
        if not wanted:
            await self.sleep(PAUSED_POLL)
            return {}, active
        # What arrives for a partition that is held meanwhile is handed on all the same: it would be lost.
        return await self._getmany(active_partitions=wanted, timeout=timeout), active

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        """Create nothing and say nothing: `glasstream topics create` does it, and it is checked before the start."""


class Transport(driver.Transport):
    """The transport of `StreamApp`."""

    Consumer = Consumer
