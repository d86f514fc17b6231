"""Lane of one input partition while this worker owns it: received messages, the next one, and losses on the way."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from faust.types import TP

from glasstream.kafka.transport.passage import Passage
from glasstream.kafka.transport.records import ConsumerRecord
from glasstream.kafka.transport.sequence import Sequence, Verdict

if TYPE_CHECKING:
    from glasstream.kafka.transport.stage import Stage

log = logging.getLogger(__name__)

#: Seconds for which a lane may keep the event loop. Heartbeats are in a thread of their own.
YIELD_AFTER = 0.02
#: Seconds after which a seek that did not bring the next message is repeated, because later messages precede it.
SEEK_AGAIN_AFTER = 2.0
#: Seconds between two queries to a broker that does not answer.
ASK_AGAIN_AFTER = 1.0
#: Seconds for which messages that left the consumer's thread may still be on their way to the lane.
ARRIVAL_PATIENCE = 5.0


class Lane(ABC):
    """Input partition while this worker owns it."""

    def __init__(self, stage: "Stage", partition: int, generation: int) -> None:
        self.stage = stage
        self.partition = partition
        self.generation = generation
        self.tp = TP(stage.input_topic, partition)
        #: Position of the reading; None until its beginning is known.
        self.sequence: Sequence | None = None
        self.open = True
        self.waiting: deque[tuple[Any, ConsumerRecord]] = deque()
        self.arrived = asyncio.Event()
        self.held = False
        #: Reason why the lane can make no progress by itself, in one sentence with the remedy; None while it can.
        self.stall: str | None = None
        #: Reason why the current message waits, in one sentence with the remedy, or None. Reading continues meanwhile.
        self.waits: str | None = None
        self._sought_at = -SEEK_AGAIN_AFTER
        #: Seconds that the oldest message which is not processed yet has waited, as of the last measurement.
        self.wait = 0.0
        self._taken: ConsumerRecord | None = None
        self._suspicion: Suspicion | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def drop(self) -> None:
        """Release the partition at once, and commit nothing more."""

    @abstractmethod
    async def drain(self) -> None:
        """Finish and commit the work in progress, and release the partition."""

    @property
    def stalled(self) -> str | None:
        """Return why this partition makes no progress; None while it does."""
        return self.stall or self.waits

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work` as a task. Its failure ends the worker, unless the partition has been released."""
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel_tasks(self) -> None:
        """Cancel all spawned tasks, and wait for their end."""
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001 - every failure of a stage's code ends the worker
            if self.open:
                self.stage.fail(error)

    def offer(self, event: Any) -> None:
        """Accept a message if it is the next one."""
        sequence = self.sequence
        message = event.message
        if sequence is None or not self.open or self.stall is not None:
            return
        verdict = sequence.judge(message.offset, message.follows)
        if verdict is Verdict.NEXT:
            self.waiting.append((event, _to_message(message)))
            self.arrived.set()
            if not self.held and len(self.waiting) >= self.stage.options.queue_messages:
                self.held = True
                self.stage.app.consumer.hold(self.tp)
        elif verdict is Verdict.MISSING:
            self.read_again()

    def begin(self, offset: int) -> None:
        """Expect `offset` next, because the consumer seeks to it."""
        if self.sequence is None:
            self.sequence = Sequence(offset)
        self._sought_at = asyncio.get_running_loop().time()

    def next_waiting(self) -> tuple[Any, ConsumerRecord]:
        """Take the oldest waiting message. Resume reading when few are left."""
        return self.next_run(1, 0)[0]

    def next_run(self, most: int, most_bytes: int) -> list[tuple[Any, ConsumerRecord]]:
        """Take the oldest waiting messages. Resume reading when few are left.

        Parameters
        ----------
        most
            Largest number of messages.
        most_bytes
            Bytes of values after which no further message is taken.
        """
        run = [self.waiting.popleft()]
        size = len(run[0][1].value or b"")
        while self.waiting and len(run) < most and size < most_bytes:
            run.append(self.waiting.popleft())
            size += len(run[-1][1].value or b"")
        self._taken = run[-1][1]
        if self.held and len(self.waiting) <= self.stage.options.queue_messages // 2:
            self.held = False
            if self.stall is None:
                self.stage.app.consumer.release(self.tp)
        return run

    def _oldest(self) -> ConsumerRecord | None:
        """Return the oldest waiting message; without one, the last that was taken since the last measurement."""
        return self.waiting[0][1] if self.waiting else self._taken

    def measure(self, now: float, longest: Callable[[int, int], float]) -> None:
        """Measure how long the oldest waiting message has waited; without one, the last that was taken meanwhile.

        The timestamp of a message is its producer's, unless the topic has `message.timestamp.type=LogAppendTime`. It
        may be the time of an old event. Therefore the brokers' reports bound the result.

        Parameters
        ----------
        now
            Seconds since 1970.
        longest
            Function that returns the longest time that the message at an offset of a partition can have waited.
        """
        message = self._oldest()
        self._taken = None
        if message is None:
            self.wait = 0.0
        else:
            self.wait = max(0.0, min(now - message.timestamp / 1000.0, longest(self.partition, message.offset)))

    def read_again(self) -> None:
        """Seek back to the next message, unless that was just done."""
        if self.sequence is None or not self.open:
            return
        now = asyncio.get_running_loop().time()
        if now - self._sought_at < SEEK_AGAIN_AFTER:
            return
        self._sought_at = now
        self.stage.lost += 1
        log.warning(
            "%s[%d]: gap in fetched offsets; re-reading from %d",
            self.tp.topic,
            self.partition,
            self.sequence.next_offset,
        )
        self.spawn(self._seek_back(self.sequence.next_offset))

    def give_up(self, reason: str) -> None:
        """Stop reading the partition, with a reason and a remedy. The other partitions continue.

        Messages that have arrived are used and committed. The worker continues, because a restart would meet the same
        condition again.
        """
        if self.stall is None:
            log.error("%s[%d]: %s", self.tp.topic, self.partition, reason)
            self.stall = reason
            self.stage.app.consumer.hold(self.tp)

    async def out_of_range(self, position: int) -> None:
        """Decide how to continue if the log does not have the next offset.

        If the offset lies below the first offset kept, retention or an operator removed records. Otherwise the log
        ended before it when the broker was asked: an unclean election truncated the log, or the topic was created
        again. If the input can be produced again, reading continues with the available records. Otherwise it stops.
        """
        low, high = await self._bounds()
        await self._arrival()
        if not self.open or self.stall is not None:
            return
        stage, place = self.stage, f"{self.tp.topic}[{self.partition}]"
        if position < low:
            what = f"the broker removed offsets {position} to {low - 1} before they were read"
        else:
            what = f"everything before offset {position} was read, but the broker lost the end of the log: "
            what += f"it ends at {high}"
        if not stage.replaceable_input:
            self.give_up(f"{what}; {stage.remedy}")
        elif position < low:
            log.warning("%s: %s; continuing after them; the sending stage sends them again", place, what)
            await stage.app.consumer.skip(self.tp, low)
        else:
            log.warning("%s: %s; re-reading from offset %d", place, what, low)
            stage.take_again(self)

    async def _bounds(self) -> tuple[int, int]:
        while True:
            try:
                return await self.stage.app.consumer.bounds(self.tp)  # type: ignore[no-any-return]
            except KafkaError as error:
                log.debug("%s[%d]: no offsets: %s", self.tp.topic, self.partition, error)
            await asyncio.sleep(ASK_AGAIN_AFTER)

    async def _arrival(self) -> None:
        """Wait for the messages that the consumer has handed over, which precede the missing ones."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ARRIVAL_PATIENCE
        while self.sequence is not None and self.open and loop.time() < until:
            if self.sequence.next_offset >= (self.stage.app.consumer.handed(self.tp) or 0):
                return
            await asyncio.sleep(0.01)

    async def _seek_back(self, offset: int) -> None:
        await self.stage.app.consumer.seek_back(self.tp, offset)

    def look(self) -> None:
        """Detect messages that were handed over and never arrived, when no later message reveals the loss.

        A message that was handed over may wait for long, behind those of other partitions and while the event loop is
        busy. It is lost if everything that was put into the queue with it has left the queue: see `Passage`.
        """
        consumer, sequence = self.stage.app.consumer, self.sequence
        handed = None if sequence is None else consumer.handed(self.tp)
        if sequence is None or handed is None or handed <= sequence.next_offset or self.held or self.stall is not None:
            self._suspicion = None
            return
        passage: Passage = consumer.passage
        suspicion = self._suspicion
        if suspicion is None or suspicion.next_offset != sequence.next_offset:
            self._suspicion = Suspicion(sequence.next_offset, passage.rounds)
        elif suspicion.end is None:
            if passage.rounds > suspicion.round:
                suspicion.end = passage.end()
        elif not passage.is_behind(suspicion.end):
            self._suspicion = None
            self.read_again()


@dataclass
class Suspicion:
    """Suspicion that the next message of a lane is lost.

    Attributes
    ----------
    next_offset : int
        Offset of the message, which the consumer has handed over.
    round : int
        Round of the consumer in which the suspicion arose.
    end : int or None
        Number of arrived messages at which the message must have arrived; None until it is in the queue, or lost.
    """

    next_offset: int
    round: int
    end: int | None = None


class StalledLane(Lane):
    """Owned partition that no worker can continue until its remedy is applied: see `stall`."""

    def __init__(self, stage: "Stage", partition: int, generation: int, reason: str) -> None:
        super().__init__(stage, partition, generation)
        self.give_up(reason)

    async def drop(self) -> None:
        """Release the partition."""
        self.open = False

    async def drain(self) -> None:
        """Release the partition."""
        self.open = False


def _to_message(message: Any) -> ConsumerRecord:
    timestamp = message.timestamp
    return ConsumerRecord(
        message.topic,
        message.partition,
        message.offset,
        message.key,
        message.value,
        tuple(message.headers or ()),
        0 if timestamp is None else round(timestamp * 1000.0),
    )
