"""One input partition while it is ours: what has arrived, what is next, and what was lost on the way."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from aiokafka.errors import KafkaError
from faust.types import TP

from glasstream.transport.records import ConsumerRecord
from glasstream.transport.sequence import Sequence, Verdict

if TYPE_CHECKING:
    from glasstream.transport.stage import Stage

log = logging.getLogger(__name__)

#: Seconds a lane may keep the event loop before it lets the others (heartbeats are in a thread of their own) have it.
YIELD_AFTER = 0.02
#: Seconds after which a seek that did not bring the next message is repeated. The way is full of later ones.
SEEK_AGAIN_AFTER = 2.0
#: Seconds between two questions to a broker that does not answer.
ASK_AGAIN_AFTER = 1.0
#: Seconds for which messages that left the consumer's thread may still be on their way here.
ARRIVAL_PATIENCE = 5.0


class Lane(ABC):
    """One input partition while it is ours."""

    def __init__(self, stage: "Stage", partition: int, generation: int) -> None:
        self.stage = stage
        self.partition = partition
        self.generation = generation
        self.tp = TP(stage.input_topic, partition)
        #: Where the reading is; None until it is known where it begins.
        self.sequence: Sequence | None = None
        self.open = True
        self.waiting: deque[tuple[Any, ConsumerRecord]] = deque()
        self.arrived = asyncio.Event()
        self.held = False
        #: Why the lane makes no progress and cannot by itself, in one sentence with the remedy; None while it can.
        self.stall: str | None = None
        #: Why the message in hand waits, in one sentence with the remedy; None while it does not. Reading goes on.
        self.waits: str | None = None
        self._sought_at = -SEEK_AGAIN_AFTER
        self._last_look: tuple[int, int | None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def drop(self) -> None:
        """Let the partition go at once; nothing that is not durable is made so."""

    @abstractmethod
    async def drain(self) -> None:
        """Finish what is in flight, make it durable, and let the partition go."""

    @property
    def stalled(self) -> str | None:
        """Why this partition makes no progress; None while it does."""
        return self.stall or self.waits

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run `work`; its failure ends the worker, unless the partition has been let go."""
        task = asyncio.ensure_future(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def cancel_tasks(self) -> None:
        """Cancel everything that was spawned and wait for its end."""
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
        """Take a message, if it is the next."""
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
        """Expect `offset` next: it is being sought."""
        if self.sequence is None:
            self.sequence = Sequence(offset)
        self._sought_at = asyncio.get_running_loop().time()

    def next_waiting(self) -> tuple[Any, ConsumerRecord]:
        """Take the oldest message that waits; reading goes on when few are left."""
        item = self.waiting.popleft()
        if self.held and len(self.waiting) <= self.stage.options.queue_messages // 2:
            self.held = False
            if self.stall is None:
                self.stage.app.consumer.release(self.tp)
        return item

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
            "%s[%d]: reading again from offset %d, because messages were lost on the way from the broker",
            self.tp.topic,
            self.partition,
            self.sequence.next_offset,
        )
        self.spawn(self._seek_back(self.sequence.next_offset))

    def give_up(self, reason: str) -> None:
        """Stop reading the partition, and say why and what to do; the other partitions go on.

        What has arrived is used and committed. The worker stays: a restart would meet the same, again and again.
        """
        if self.stall is None:
            log.error("%s[%d]: %s", self.tp.topic, self.partition, reason)
            self.stall = reason
            self.stage.app.consumer.hold(self.tp)

    async def out_of_range(self, position: int) -> None:
        """Decide what to do where the log does not have the offset that is to be read next.

        Below the first offset kept: retention or an operator removed what comes next. Elsewhere: the log ended
        before it when the broker was asked, so an unclean election cut it off, or the topic was made anew. Where the
        input can be produced again the reading goes on with what there is; elsewhere it ends here.
        """
        low, high = await self._bounds()
        await self._arrival()
        if not self.open or self.stall is not None:
            return
        stage, place = self.stage, f"{self.tp.topic}[{self.partition}]"
        if position < low:
            what = f"the broker removed offsets {position} to {low - 1} before they were read"
        else:
            what = f"everything before offset {position} was read, but the broker lost the end of the log: it is {high}"
        if not stage.replaceable_input:
            self.give_up(f"{what}; {stage.remedy}")
        elif position < low:
            log.warning(
                "%s: %s; reading continues after them, and their sender is expected to send them again", place, what
            )
            await stage.app.consumer.skip(self.tp, low)
        else:
            log.warning("%s: %s; reading again from offset %d", place, what, low)
            stage.take_again(self)

    async def _bounds(self) -> tuple[int, int]:
        while True:
            try:
                return await self.stage.app.consumer.bounds(self.tp)  # type: ignore[no-any-return]
            except KafkaError as error:
                log.debug("%s[%d]: no offsets: %s", self.tp.topic, self.partition, error)
            await asyncio.sleep(ASK_AGAIN_AFTER)

    async def _arrival(self) -> None:
        """Wait for what the consumer has handed out: it comes before what is missing."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ARRIVAL_PATIENCE
        while self.sequence is not None and self.open and loop.time() < until:
            if self.sequence.next_offset >= (self.stage.app.consumer.handed(self.tp) or 0):
                return
            await asyncio.sleep(0.01)

    async def _seek_back(self, offset: int) -> None:
        await self.stage.app.consumer.seek_back(self.tp, offset)

    def look(self, *, late: bool) -> None:
        """Notice messages that were handed out and never came, with none after them to tell."""
        if self.sequence is None or self.held or late or self.stall is not None:
            self._last_look = None
            return
        handed = self.stage.app.consumer.handed(self.tp)
        look = (self.sequence.next_offset, handed)
        if handed is not None and handed > self.sequence.next_offset and look == self._last_look:
            self.read_again()
        self._last_look = look


class StalledLane(Lane):
    """A partition of ours that no worker can continue until somebody does what `stall` says."""

    def __init__(self, stage: "Stage", partition: int, generation: int, reason: str) -> None:
        super().__init__(stage, partition, generation)
        self.give_up(reason)

    async def drop(self) -> None:
        """Let the partition go."""
        self.open = False

    async def drain(self) -> None:
        """Let the partition go."""
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
