"""What every stage does with its partitions: take them over, hand their messages on, let them go.

A stage owns a *lane* for every input partition it has taken over in the present generation of its group. The agent
hands a message to the lane of its partition, or drops it when there is none: then somebody else has the partition, or
we have not taken it over yet, and it will be read again from where the lane begins.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from faust.types import TP

from pipeline.errors import BrokerError, StalledError
from pipeline.health.steps import Steps
from pipeline.transport.app import make_app
from pipeline.transport.connection import Connection
from pipeline.transport.lane import Lane
from pipeline.transport.options import StageOptions
from pipeline.transport.topic_check import check_topics

#: Seconds between two looks at lanes that wait for nothing.
WATCH_INTERVAL = 1.0


class Service(Protocol):
    """Something that lives as long as a stage does."""

    async def start(self) -> None:
        """Begin."""

    async def stop(self) -> None:
        """End."""


class Stage(ABC):
    """A Faust application that reads one topic, partition by partition.

    Parameters
    ----------
    connection : Connection
    options : StageOptions
    input_topic : str
    topics : mapping
        Every topic that is needed, and how many partitions it must have (None: any number).

    Attributes
    ----------
    ended : asyncio.Event
        Set when the stage cannot go on.
    failure : Exception or None
        Why.
    lost : int
        How many times messages were lost on the way and read again; 0 as long as Faust behaves as we make it.
    settled : bool
        Whether the partitions of the present generation have been taken over.
    steps : Steps
        How long its steps take.
    beats : list of callable
        Called about once a second, as long as the event loop turns.
    services : list of Service
        Started before the application, stopped after it; fill it before `start`.
    """

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
        #: How many rebalances have begun: work begun before the last one is void.
        self.revocations = 0
        self._draining = False
        self._watch: asyncio.Task[None] | None = None
        self._unsettled_since: float | None = None
        self.app = make_app(connection, options)
        self.app.positions = self.positions
        self.app.seeking = self.seeking
        self.app.on_partitions_revoked.connect(self._revoked)
        self.app.on_rebalance_complete.connect(self._assigned)
        topic = self.app.topic(input_topic, key_type=bytes, value_type=bytes, allow_empty=True)
        self.app.agent(topic, name=options.name)(self._consume)

    @abstractmethod
    async def take_over(self, partition: int, generation: int) -> Lane | None:
        """Make a partition ours, or return None when it was revoked meanwhile. An error ends the worker."""

    @abstractmethod
    async def positions(self, tps: set[TP]) -> Mapping[TP, int]:
        """Return where to read the partitions of the input from."""

    def seeking(self, positions: Mapping[TP, int]) -> None:
        """Expect messages from these offsets on; those that were fetched before the seek are none of them."""
        for tp, offset in positions.items():
            lane = self.lanes.get(tp.partition)
            if lane is not None:
                lane.begin(offset)

    async def start(self) -> None:
        """Check the topics, then start; returns when the first partitions have been taken over.

        Raises
        ------
        TopicError, BrokerError
        """
        await asyncio.to_thread(check_topics, self.connection, self.topics)
        for service in self.services:
            await service.start()
        self._watch = asyncio.ensure_future(self._look())
        await self.app.start()

    async def stop(self, *, drain: bool = True) -> None:
        """End; with `drain`, what is in flight is finished and made durable first."""
        self._draining = True
        if self._watch is not None:
            self._watch.cancel()
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

    async def wait_crashed(self) -> None:
        """Wait until Faust has given up, which is a failure, or was stopped."""
        await self.app.wait_until_stopped()
        if self.app.crash_reason is not None:
            self.fail(_as_exception(self.app.crash_reason))

    def fail(self, error: Exception) -> None:
        """End the worker because of `error`; the first one counts."""
        if self.failure is None:
            self.failure = error
            self.ended.set()

    async def _consume(self, stream: Any) -> None:
        lanes = self.lanes
        try:
            async for event in stream.noack().events():
                message = event.message
                lane = lanes.get(message.partition)
                if lane is not None and lane.generation == message.generation_id and not self._draining:
                    lane.offer(event)
        except Exception as error:  # noqa: BLE001 - Faust would restart the agent and go on without the message
            self.fail(error)

    async def _revoked(self, *args: Any, **kwargs: Any) -> None:
        self.settled = False
        self.revocations += 1
        lanes = list(self.lanes.values())
        self.lanes.clear()
        for lane in lanes:
            self.app.consumer.forget(lane.tp)
        await asyncio.gather(*(lane.drop() for lane in lanes))

    async def _assigned(self, *args: Any, **kwargs: Any) -> None:
        if self._draining or self.failure is not None:
            return
        revocations = self.revocations
        generation = self.app.consumer_generation_id
        partitions = sorted(tp.partition for tp in self.app.consumer.assignment() if tp.topic == self.input_topic)
        outcomes = await asyncio.gather(
            *(self.take_over(partition, generation) for partition in partitions), return_exceptions=True
        )
        taken = {lane.partition: lane for lane in outcomes if isinstance(lane, Lane)}
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                self.fail(outcome)
        if self._draining or revocations != self.revocations:
            await asyncio.gather(*(lane.drop() for lane in taken.values()))  # revoked before they were all taken over
        else:
            self.lanes.update(taken)
            self.settled = self.failure is None

    async def _look(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            asleep = loop.time()
            await asyncio.sleep(WATCH_INTERVAL)
            for beat in self.beats:
                beat()
            late = loop.time() - asleep > 2 * WATCH_INTERVAL  # the loop was busy: nothing could have moved
            if self.app.rebalancing:
                self._unsettled_since = self._unsettled_since or loop.time()
                self.check_stall(loop.time() - self._unsettled_since)
                continue
            self._unsettled_since = None
            for lane in list(self.lanes.values()):
                lane.look(late=late)

    def check_stall(self, seconds: float) -> None:
        """End the worker when a rebalance has been going on for longer than anything in it may take."""
        limit = 60.0 + 2 * self.options.session_timeout + self.options.take_over_timeout
        if seconds > limit:
            self.fail(StalledError(f"a rebalance of {self.options.group} has not ended after {limit:g} s"))


def _as_exception(reason: BaseException) -> Exception:
    return reason if isinstance(reason, Exception) else BrokerError(f"the Kafka client was cancelled: {reason!r}")
