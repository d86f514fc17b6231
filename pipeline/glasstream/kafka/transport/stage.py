"""Handling of partitions that all stages share: take over, deliver messages, release.

A stage owns a *lane* for every input partition that it has taken over in the current generation of its group. The agent
gives a message to the lane of its partition. Without a lane it drops the message: another worker owns the partition, or
this one has not taken it over yet and will read the message again from the beginning of the lane.
"""

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from typing import Any, Protocol

from faust.types import TP

from glasstream.base.errors import BrokerError, StalledError
from glasstream.kafka.health.steps import Steps
from glasstream.kafka.transport.app import make_app
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.group import Cut, GroupWatch, Look, View
from glasstream.kafka.transport.lane import Lane, StalledLane
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.topic_check import check_topics, surplus

log = logging.getLogger(__name__)

#: Seconds between two checks of lanes that wait for nothing.
WATCH_INTERVAL = 1.0


class Service(Protocol):
    """Service that lives as long as a stage."""

    async def start(self) -> None:
        """Start."""

    async def stop(self) -> None:
        """Stop."""


class Stage(ABC):
    """Faust application that reads one topic, partition by partition.

    Parameters
    ----------
    connection : Connection
    options : StageOptions
    input_topic : str
    topics : mapping
        Needed topics, each with its required number of partitions (None: any number).

    Attributes
    ----------
    ended : asyncio.Event
        Set when the stage cannot go on.
    failure : Exception or None
        Error that ended the stage, if any.
    lost : int
        Number of times that messages were lost on the way and read again; 0 as long as our changes to Faust work.
    settled : bool
        Whether the partitions of the current generation have been taken over.
    steps : Steps
        Durations of the steps.
    beats : list of callable
        Functions to call about once a second, as long as the event loop turns.
    services : list of Service
        Services that start before the application and stop after it. Fill the list before `start`.
    replaceable : collection of str
        Topics whose lost records are produced again, so that the stage may continue after a gap.
    remedy : str
        Remedy for the user when input is lost that is not produced again.
    view : View
        Last report of the brokers about the topics and the group.
    """

    replaceable: Collection[str] = frozenset()
    remedy: str = "the missing messages cannot be recovered"

    def __init__(
        self, connection: Connection, options: StageOptions, input_topic: str, topics: Mapping[str, int | None]
    ) -> None:
        self.connection = connection
        self.options = options
        self.input_topic = input_topic
        self.topics = {input_topic: None, **topics}
        self.lanes: dict[int, Lane] = {}
        self.ended = asyncio.Event()
        self.failure: Exception | None = None
        self.lost = 0
        self.services: list[Service] = []
        self.beats: list[Callable[[], None]] = []
        self.steps = Steps()
        self.settled = False
        #: Number of rebalances that have begun. Work that began before the last one is void.
        self.revocations = 0
        self.view = View(options.group, input_topic)
        self._draining = False
        self._losses: dict[int | None, str] = {}
        """Why a partition cannot be continued although its state can be read; None as key stands for all partitions."""
        self._patiences: set[Patience] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watch: asyncio.Task[None] | None = None
        self._unsettled_since: float | None = None
        self._read = self._read_before = 0
        self._brokers = GroupWatch(connection, options.group, input_topic, self.topics, self.see, options.look_interval)
        self.app = make_app(connection, options)
        self.app.positions = self.positions
        self.app.seeking = self.seeking
        self.app.out_of_range = self._out_of_range
        self.app.failed = self.fail
        self.app.on_partitions_revoked.connect(self._revoked)
        self.app.on_rebalance_complete.connect(self._assigned)
        topic = self.app.topic(input_topic, key_type=bytes, value_type=bytes, allow_empty=True)
        self.app.agent(topic, name=options.name)(self._consume)

    @abstractmethod
    async def take_over(self, partition: int, generation: int) -> Lane | None:
        """Take over a partition, or return None if it was revoked meanwhile. An error ends the worker."""

    @abstractmethod
    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        """Return where to read the partitions of the input."""

    def seeking(self, positions: Mapping[TP, int]) -> None:
        """Expect messages from these offsets on, and no messages that were fetched before the seek."""
        for tp, offset in positions.items():
            lane = self.lanes.get(tp.partition)
            if lane is not None:
                lane.begin(offset)

    async def start(self) -> None:
        """Check the topics, then start. Return when the first partitions have been taken over.

        Raises
        ------
        TopicError, BrokerError
        """
        await asyncio.to_thread(check_topics, self.connection, self.topics, prefix=self.options.prefix)
        for service in self.services:
            await service.start()
        self._watch = asyncio.ensure_future(self._look())
        await self._brokers.start()
        await self.app.start()

    async def stop(self, *, drain: bool = True) -> None:
        """Stop. With `drain`, finish and commit the work in progress first."""
        self._draining = True
        for patience in self._patiences:
            patience.give_up()
        if self._watch is not None:
            self._watch.cancel()
        await self._brokers.stop()
        lanes = list(self.lanes.values())
        try:
            if drain and self.failure is None:
                await asyncio.gather(*(lane.drain() for lane in lanes))
            else:
                await asyncio.gather(*(lane.drop() for lane in lanes))
            await self.app.stop()
        finally:
            self.lanes.clear()
            for service in reversed(self.services):
                await service.stop()
            # Faust's signals are global: what stays connected would live on, with its Kafka clients and their threads.
            self.app.on_partitions_revoked.disconnect(self._revoked)
            self.app.on_rebalance_complete.disconnect(self._assigned)

    async def wait_crashed(self) -> None:
        """Wait until Faust has failed or was stopped."""
        await self.app.wait_until_stopped()
        if self.app.crash_reason is not None:
            self.fail(_as_exception(self.app.crash_reason))

    def fail(self, error: Exception) -> None:
        """End the worker because of `error`. The first error counts."""
        if self.failure is None:
            self.failure = error
            self.ended.set()

    async def _consume(self, stream: Any) -> None:
        lanes = self.lanes
        self.app.consumer.queue = stream.channel.queue
        try:
            async for batch in stream.noack():
                lane = lanes.get(batch.tp.partition)
                if lane is not None and lane.generation == batch.generation and not self._draining:
                    lane.offer(batch)
        except Exception as error:  # noqa: BLE001 - Faust would restart the agent and go on without the message
            self.fail(error)

    async def _revoked(self, *args: Any, **kwargs: Any) -> None:
        self.settled = False
        self.view.release()
        self.revocations += 1
        for patience in self._patiences:
            patience.give_up()
        lanes = list(self.lanes.values())
        self.lanes.clear()
        await asyncio.gather(*(self._drop(lane) for lane in lanes))

    async def _drop(self, lane: Lane) -> None:
        self.app.consumer.release(lane.tp)
        await lane.drop()

    def _out_of_range(self, tp: TP, position: int) -> None:
        lane = self.lanes.get(tp.partition)
        if lane is not None and lane.sequence is not None:  # without a position, the take-over will seek
            lane.spawn(lane.out_of_range(position))

    @property
    def replaceable_input(self) -> bool:
        """Return whether lost messages of the input are produced again."""
        return self.input_topic in self.replaceable

    def see(self, look: Look) -> None:
        """Process a report of the brokers: ends of logs, owners of partitions, truncated or new logs."""
        remade = self.view.remade
        cuts = self.view.see(look)
        if self._draining or self.failure is not None:
            return
        if self.view.remade != remade:
            for lane in list(self.lanes.values()):
                self._has_changed(lane, f"{self.view.remade}")
        for cut in cuts:
            self._cut(cut)
        if self.view.unready is not None:
            self._spawn(self.app.consumer.refresh())  # else a new topic is noticed after minutes

    def _cut(self, cut: Cut) -> None:
        found = f"the broker lost the end of the log: it ended at offset {cut.was}, and ends at {cut.now} now"
        if cut.topic == self.input_topic:
            lane = self.lanes.get(cut.partition)
            if lane is not None and lane.sequence is not None and lane.sequence.next_offset > cut.now:
                self._has_changed(lane, found)
                if lane.stall is not None:
                    self._losses.setdefault(lane.partition, lane.stall)
        elif cut.topic not in self.replaceable:
            loss = self._losses.setdefault(
                None,
                f"{cut.topic}[{cut.partition}]: {found}; a restart continues without the lost messages; to process "
                "all of the log again, use another --prefix",
            )
            for lane in self.lanes.values():
                lane.give_up(loss)

    def _has_changed(self, lane: Lane, what: str) -> None:
        if not self.replaceable_input:
            used = "" if lane.sequence is None else f"; everything before offset {lane.sequence.next_offset} was read"
            lane.give_up(f"{what}{used}; {self.remedy}")
        elif lane.stall is None:
            log.warning("%s[%d]: %s; reading it again", lane.tp.topic, lane.partition, what)
            self.take_again(lane)

    @contextlib.contextmanager
    def taking_over(self, patience: Patience) -> Iterator[None]:
        """Give up a take-over when its partition is revoked or the worker stops, however long it waits for brokers."""
        self._patiences.add(patience)
        try:
            yield
        finally:
            self._patiences.discard(patience)

    @property
    def waits_for(self) -> str | None:
        """Return what a take-over waits for; None if none waits."""
        return next((patience.reason for patience in self._patiences if patience.reason), None)

    @property
    def refusal(self) -> str | None:
        """Return what brokers refuse to a client that is no member of the group yet; None if nothing."""
        refusal: str | None = self.app.consumer.refusal()
        return refusal

    def take_again(self, lane: Lane) -> None:
        """Release a partition and take it over again, because its log was truncated or recreated."""
        if self.lanes.get(lane.partition) is lane and not self._draining:
            del self.lanes[lane.partition]
            self._spawn(self._take_again(lane))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_again(self, lane: Lane) -> None:
        revocations = self.revocations
        try:
            await self._drop(lane)
            if self._draining or revocations != self.revocations:
                return  # opening a producer now would fence the rightful owner's
            fresh = await self.take_over(lane.partition, lane.generation)
            if fresh is None:
                return
            if self._draining or revocations != self.revocations:
                await self._drop(fresh)
                return
            self.lanes[lane.partition] = fresh
            positions = await self.positions({lane.tp})
            self.seeking(positions)
            await self.app.consumer.seek_wait(positions)
        except Exception as error:  # noqa: BLE001 - as in a take-over
            if revocations == self.revocations:
                self.fail(error)

    async def _assigned(self, *args: Any, **kwargs: Any) -> None:
        if self._draining or self.failure is not None:
            return
        revocations = self.revocations
        generation = self.app.consumer_generation_id
        partitions = sorted(tp.partition for tp in self.app.consumer.assignment() if tp.topic == self.input_topic)
        outcomes = await asyncio.gather(
            *(self._take_over(partition, generation) for partition in partitions), return_exceptions=True
        )
        taken = {lane.partition: lane for lane in outcomes if isinstance(lane, Lane)}
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                self.fail(outcome)
        if self._draining or revocations != self.revocations:  # revoked before all were taken over
            await asyncio.gather(*(self._drop(lane) for lane in taken.values()))
        else:
            self.lanes.update(taken)
            if self.view.remade is not None and not self.replaceable_input:
                for lane in taken.values():
                    self._has_changed(lane, self.view.remade)
            for lane in taken.values():
                loss = self._losses.get(None) or self._losses.get(lane.partition)
                if loss is not None:
                    lane.give_up(loss)
            self.settled = self.failure is None

    async def _take_over(self, partition: int, generation: int) -> Lane | None:
        """Take over a partition, unless the deployment was made for fewer partitions."""
        limit = self.topics[self.input_topic]
        if limit is None or partition < limit:
            return await self.take_over(partition, generation)
        count = max(partition + 1, await self.app.consumer.partition_count(self.input_topic))
        return StalledLane(self, partition, generation, surplus(self.input_topic, count, limit))

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(WATCH_INTERVAL)
            for beat in self.beats:
                beat()
            if self.app.rebalancing:
                self.check_rebalance(loop.time())
                continue
            self._unsettled_since = None
            for lane in list(self.lanes.values()):
                lane.look()
                lane.measure(time.time(), self.view.longest_wait)

    def has_read(self) -> None:
        """Note that a take-over has read one more record."""
        self._read += 1

    def check_rebalance(self, now: float) -> None:
        """End the worker when a rebalance lasts longer than its steps may take together.

        Reading state may take any time, as long as records arrive, and so may waiting for brokers that are down.
        """
        if self.view.away is not None or self.waits_for is not None:
            self._unsettled_since = None
            return
        if self._unsettled_since is None or self._read != self._read_before:
            self._unsettled_since, self._read_before = now, self._read
        limit = 60.0 + 2 * self.options.session_timeout + self.options.take_over_timeout
        if now - self._unsettled_since > limit:
            self.fail(StalledError(f"a rebalance of {self.options.group} has made no progress for {limit:g} s"))


def _as_exception(reason: BaseException) -> Exception:
    return reason if isinstance(reason, Exception) else BrokerError(f"the Kafka client was cancelled: {reason!r}")
