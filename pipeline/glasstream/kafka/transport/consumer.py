"""Faust's consumer on librdkafka: a batch of a partition is one message of Faust.

Faust keeps the application, its agents, streams and tables. This module gives it a `Transport` whose consumer reads
with a `Reader`. Faust's own consumer on aiokafka hands over message by message, which costs ten times as much.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, ClassVar, Final, TypeVar

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaException, TopicPartition
from faust.transport import base
from faust.types import TP, ConsumerMessage

from glasstream.base.errors import BrokerError, UnavailableError
from glasstream.kafka.transport.progress import watermarks
from glasstream.kafka.transport.reader import Batch, Reader
from glasstream_topics.client_errors import heals

log = logging.getLogger(__name__)

#: Function that returns the offsets at which to continue reading. Partitions that its result omits stay where they are.
Positions = Callable[[set[TP]], Awaitable[Mapping[TP, int]]]

#: Seconds between two queries to a broker that does not answer.
ASK_AGAIN: Final = 1.0
#: Seconds for a broker to answer.
ANSWER: Final = 5.0
#: Seconds that a stop waits for the group.
STOP: Final = 5.0

Answer = TypeVar("Answer")


class Assignor:
    """Faust's view of the assignment: the partitions of the group, and the topics that its tables follow.

    Brokers and librdkafka assign the partitions. Faust asks only which changelogs it must read.
    """

    def __init__(self, app: Any, replicas: int = 0) -> None:
        self._app = app

    def assigned_actives(self) -> set[TP]:
        """Return all partitions of this worker. A worker reads the topics of its tables before it begins."""
        return self._app.consumer.assignment()  # type: ignore[no-any-return]

    def assigned_standbys(self) -> set[TP]:
        """Return no partitions: tables have no other kind of copy."""
        return set()


class Consumer(base.Consumer):
    """Consumer that begins at the stage's positions, and hands over batches."""

    app: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        connection, options = self.app.reading
        self.reader = Reader(connection, options, self)
        self._owned: set[TP] = set()
        self._arrived: asyncio.Queue[tuple[Sequence[Batch], Callable[[], None]]] = asyncio.Queue()
        #: Faust's queue between consumer and agent; None before the stage reads.
        self.queue: asyncio.Queue[Any] | None = None
        #: Number of batches that the reader has handed over.
        self.posted = 0
        self._delivered = 0
        self._turn = asyncio.Lock()
        #: Offset after the last used message of each partition, to be committed.
        self._used: dict[TP, int] = {}
        self._committing = asyncio.Lock()

    # --- called by the reader, in its thread --------------------------------------------------------------------------

    def assigned(self, partitions: set[TP], generation: int) -> None:
        """Let Faust take over the partitions of a new assignment."""
        self._on_loop(self._take_over(partitions, generation))

    def revoked(self) -> "Future[None]":
        """Let Faust release all partitions. Meanwhile the reader waits, so nothing may be asked of it."""
        return self._on_loop(self._release())

    def arrived(self, batches: Sequence[Batch], taken: Callable[[], None]) -> None:
        """Queue batches."""
        self.posted += len(batches)
        self.loop.call_soon_threadsafe(self._arrived.put_nowait, (batches, taken))

    def out_of_range(self, tp: TP, position: int) -> None:
        """Tell the stage, or read a followed topic from its beginning."""
        if self._is_changelog_tp(tp):
            self.reader.place({tp: None}, self.app.consumer_generation_id)
        else:
            self.loop.call_soon_threadsafe(self.app.out_of_range, tp, position)

    def failed(self, error: Exception) -> None:
        """End the worker."""
        self.loop.call_soon_threadsafe(self.app.failed, error)

    def _on_loop(self, work: Any) -> "Future[None]":
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    async def _take_over(self, partitions: set[TP], generation: int) -> None:
        async with self._turn:
            if not self.app.rebalancing:
                self.app.on_rebalance_start()
            self._owned = partitions | {TP(topic, 0) for topic in self.app.tables.changelog_topics}
            self.app.consumer_generation_id = generation
            await self.on_partitions_assigned(set(self._owned), generation)

    async def _release(self) -> None:
        async with self._turn:
            self.app.on_rebalance_start()
            await self.on_partitions_revoked(set(self._owned))
            self._owned = set()
            self._used.clear()

    # --- asked by Faust ----------------------------------------------------------------------------------------------

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group."""
        followed = self.app.tables.changelog_topics
        self.app.on_rebalance_start()
        self.reader.start(set(topics) - followed, followed)

    async def on_stop(self) -> None:
        """Commit, and leave the group."""
        await self.commit()
        await asyncio.to_thread(self.reader.stop, STOP)

    def assignment(self) -> set[TP]:
        """Return the partitions of this worker, and those of the topics that its tables follow."""
        return set(self._owned)

    async def perform_seek(self) -> None:
        """Begin to read every partition of the input at the stage's position, whatever the group has committed."""
        inputs = {tp for tp in self._owned if not self._is_changelog_tp(tp)}
        positions = await self.app.positions(inputs)
        if positions:
            self.app.seeking(positions)
            await self.seek_wait(positions)

    async def seek_wait(self, partitions: Mapping[TP, int]) -> None:
        """Read partitions from these offsets on, and return when nothing fetched before can arrive any more."""
        if partitions:
            await asyncio.wrap_future(self.reader.place(partitions, self.app.consumer_generation_id))

    async def _drain_messages(self, fetcher: Any) -> None:
        """Hand batches to the streams, once they flow. A batch of a former assignment is dropped: it is read again."""
        try:
            while True:
                batches, taken = await self._arrived.get()
                try:
                    for batch in batches:
                        await self.app.flow_control.acquire()
                        if batch.generation == self.app.consumer_generation_id:
                            await self.callback(_message(batch))
                        self._delivered += 1
                finally:
                    taken()
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise

    async def commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Commit what has been used to the group. If that fails, the next call commits it.

        Only stages without state begin at the committed offset, and they may begin early.
        """
        async with self._committing:
            used, self._used = self._used, {}
            if not used or await self.commit_offsets(used):
                return bool(used)
            self._used = {**{tp: offset for tp, offset in used.items() if tp in self._owned}, **self._used}
            return False

    async def highwaters(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the offset after the last message of each partition."""
        return {tp: (await self._patiently(self.bounds, tp))[1] for tp in partitions}

    async def earliest_offsets(self, *partitions: TP) -> Mapping[TP, int]:
        """Return the first offset that the broker keeps of each partition."""
        return {tp: (await self._patiently(self.bounds, tp))[0] for tp in partitions}

    async def _patiently(self, ask: Callable[[TP], Awaitable[Answer]], tp: TP) -> Answer:
        while True:
            try:
                return await ask(tp)
            except UnavailableError as error:
                log.debug("%s[%d]: %s", tp.topic, tp.partition, error)
            await asyncio.sleep(ASK_AGAIN)

    # --- asked by the stage ------------------------------------------------------------------------------------------

    def used(self, tp: TP, offset: int) -> None:
        """Count everything below `offset` as used, to be committed at the next occasion."""
        if tp in self._owned:
            self._used[tp] = offset

    def hold(self, tp: TP) -> None:
        """Read nothing of `tp` until `release`."""
        self.reader.hold(tp)

    def release(self, tp: TP) -> None:
        """Read `tp` again."""
        self.reader.release(tp)

    def handed(self, tp: TP) -> int | None:
        """Return the offset after the last message of `tp` that was handed over, or of the last seek."""
        return self.reader.handed(tp)

    def left(self) -> int:
        """Return how many of the `posted` batches have left all queues. The lanes have them, or they are lost."""
        return self._delivered - (self.queue.qsize() if self.queue is not None else 0)

    def member_id(self) -> str:
        """Return the name under which the group knows this worker; empty while it is no member."""
        return self.reader.member

    def refusal(self) -> str | None:
        """Return what brokers have refused last since the last assignment; None if nothing."""
        return self.reader.refusal

    def end(self, tp: TP) -> int | None:
        """Return the end of `tp` as of the last fetch; None while that is not known."""
        return self.reader.end(tp)

    async def bounds(self, tp: TP) -> tuple[int, int]:
        """Return the first offset of `tp` that the broker keeps, and the one after the last.

        Raises
        ------
        UnavailableError
        """
        connection, _ = self.app.reading
        return await asyncio.to_thread(watermarks, connection, tp.topic, tp.partition, ANSWER)

    async def committed(self, tps: set[TP]) -> dict[TP, int | None]:
        """Return the offsets the group has committed.

        Raises
        ------
        UnavailableError
        """
        places = [TopicPartition(tp.topic, tp.partition) for tp in tps]
        found = await self._ask(lambda client: client.committed(places, timeout=ANSWER))
        for one in found:
            if one.error is not None:
                raise _of_ours(KafkaException(one.error), "read the offsets of the group")
        return {TP(one.topic, one.partition): one.offset if one.offset >= 0 else None for one in found}

    async def commit_offsets(self, offsets: Mapping[TP, int]) -> bool:
        """Commit offsets to the group at once, and return whether that succeeded within a few seconds."""
        with contextlib.suppress(TimeoutError, UnavailableError):
            return await asyncio.wait_for(asyncio.wrap_future(self.reader.commit(offsets)), ANSWER)
        return False

    async def partition_count(self, topic: str) -> int:
        """Return the number of partitions of a topic; 0 while no broker answers."""
        try:
            found = await self._ask(lambda client: client.list_topics(topic, timeout=ANSWER))
        except BrokerError:
            return 0
        return len(found.topics[topic].partitions)

    async def refresh(self) -> None:
        """Ask for the topics again, so that a partition that exists again is assigned at once."""
        try:
            await self._ask(lambda client: client.list_topics(timeout=ANSWER))
        except BrokerError as error:
            log.debug("no topics: %s", error)

    async def _ask(self, ask: Callable[[Client], Answer]) -> Answer:
        """Let a client of its own ask the brokers: that of the reader answers only between two reads."""
        connection, options = self.app.reading

        def run() -> Answer:
            client = Client(connection.consumer(read_committed=options.read_committed, group_id=options.group))
            try:
                return ask(client)
            finally:
                client.close()

        try:
            return await asyncio.to_thread(run)
        except KafkaException as error:
            raise _of_ours(error, "ask the brokers") from error

    # --- required by Faust, and not used -----------------------------------------------------------------------------

    def pause_partitions(self, tps: Iterable[TP]) -> None:
        """Do nothing: an assignment reads nothing until `seek_wait` says where."""

    def resume_partitions(self, tps: Iterable[TP]) -> None:
        """Do nothing, as above."""

    def on_buffer_full(self, tp: TP) -> None:
        """Do nothing: stages hold their partitions themselves."""

    def on_buffer_drop(self, tp: TP) -> None:
        """Do nothing, as above."""

    async def create_topic(self, *args: Any, **kwargs: Any) -> None:
        """Create nothing: `glasstream topics create` does it, and it is checked before the start."""

    async def position(self, tp: TP) -> int | None:
        """Return the next offset of `tp`."""
        return self.handed(tp)

    def highwater(self, tp: TP) -> int:
        """Return the end of `tp` as of the last fetch."""
        return self.end(tp) or 0

    def topic_partitions(self, topic: str) -> int | None:
        """Return no number: nothing of ours depends on it."""
        return None

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Refuse: stages say where to read."""
        raise NotImplementedError

    async def _commit(self, offsets: Mapping[TP, int]) -> bool:
        raise NotImplementedError

    async def _seek(self, partition: TP, offset: int) -> None:
        raise NotImplementedError

    async def _getmany(self, active_partitions: set[TP] | None, timeout: float) -> Any:
        raise NotImplementedError

    def _new_topicpartition(self, topic: str, partition: int) -> TP:
        return TP(topic, partition)

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        raise NotImplementedError

    def key_partition(self, topic: str, key: bytes | None, partition: int | None = None) -> int | None:
        """Return `partition`: Faust sends nothing."""
        return partition


class Producer(base.Producer):
    """Faust's producer. Nothing is sent with it: stages write with transactional producers of librdkafka."""

    async def flush(self) -> None:
        """Do nothing."""


class Transport(base.Transport):
    """The transport of `StreamApp`."""

    Consumer: ClassVar[Any] = Consumer
    Producer: ClassVar[Any] = Producer
    driver_version = "librdkafka"


def _message(batch: Batch) -> ConsumerMessage:
    tp, last = batch.tp, batch.records[-1]
    return ConsumerMessage(
        tp.topic, tp.partition, last.offset, (last.timestamp or 0) / 1000.0, 0, [], None, batch, None, 0, 0, tp,
        generation_id=batch.generation,
    )  # fmt: skip


def _of_ours(error: KafkaException, what: str) -> BrokerError:
    cause = error.args[0]
    if heals(cause) or cause.code() == cause.UNSTABLE_OFFSET_COMMIT:
        return UnavailableError(f"cannot {what}: {cause.str()}")
    return BrokerError(f"cannot {what}: {cause.str()}")
