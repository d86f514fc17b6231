"""Lane of one input partition while this worker owns it: received messages, the next one, and losses on the way."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from faust.types import TP

from glasstream.base.errors import UnavailableError
from glasstream.events.message import Message
from glasstream.kafka.transport.reader import Batch
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
#: Seconds for which messages that left the reader may still be on their way to the lane.
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
        self.waiting: deque[Message] = deque()
        self._waiting_bytes = 0
        self.arrived = asyncio.Event()
        self.held = False
        #: Reason why the lane can make no progress by itself, in one sentence with the remedy; None while it can.
        self.stall: str | None = None
        #: Reason why the current message waits, in one sentence with the remedy, or None. Reading continues meanwhile.
        self.waits: str | None = None
        self._sought_at = -SEEK_AGAIN_AFTER
        #: Seconds that the oldest message which is not processed yet has waited, as of the last measurement.
        self.wait = 0.0
        self._taken: Message | None = None
        #: The next offset, which was handed over and has not arrived, and the number of batches handed over until then.
        self._suspicion: tuple[int, int] | None = None
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

    def offer(self, batch: Batch) -> None:
        """Accept the messages of a batch if they are the next ones."""
        sequence = self.sequence
        if sequence is None or not self.open or self.stall is not None:
            return
        expected = sequence.next_offset
        verdict = sequence.judge(batch.records[-1].offset, batch.follows)
        if verdict is Verdict.NEXT:
            records = batch.records
            if records[0].offset < expected:
                records = [record for record in records if record.offset >= expected]
            self.waiting += records
            self._waiting_bytes += sum(record.size for record in records)
            self.arrived.set()
            if not self.held and self._is_full(1):
                self.held = True
                self.stage.app.consumer.hold(self.tp)
        elif verdict is Verdict.MISSING:
            self.read_again()

    def _is_full(self, share: int) -> bool:
        """Return whether at least this part (1 of 1, 1 of 2, ...) of what may wait is waiting."""
        options = self.stage.options
        return len(self.waiting) * share >= options.queue_messages or self._waiting_bytes * share >= options.queue_bytes

    def begin(self, offset: int) -> None:
        """Expect `offset` next, because the consumer seeks to it."""
        if self.sequence is None:
            self.sequence = Sequence(offset)
        self._sought_at = asyncio.get_running_loop().time()

    def next_run(self, most: int, most_bytes: int) -> list[Message]:
        """Take the oldest waiting messages. Resume reading when few are left.

        Parameters
        ----------
        most
            Largest number of messages.
        most_bytes
            Bytes of messages after which no further message is taken.
        """
        waiting = self.waiting
        run = [waiting.popleft()]
        size = run[0].size
        while waiting and len(run) < most and size < most_bytes:
            run.append(waiting.popleft())
            size += run[-1].size
        self._waiting_bytes -= size
        self._taken = run[-1]
        if self.held and not self._is_full(2):
            self.held = False
            if self.stall is None:
                self.stage.app.consumer.release(self.tp)
        return run

    def _oldest(self) -> Message | None:
        """Return the oldest waiting message; without one, the last that was taken since the last measurement."""
        return self.waiting[0] if self.waiting else self._taken

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
            self.wait = max(0.0, min(now - (message.timestamp or 0) / 1000.0, longest(self.partition, message.offset)))

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
        self.spawn(self._seek(self.sequence.next_offset))

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
        await self._arrival(position)
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
            log.warning("%s: %s; skipping them; the learner sends again what is missing", place, what)
            self.skip(low)
            await self._seek(low)
        else:
            log.warning("%s: %s; re-reading from offset %d", place, what, low)
            stage.take_again(self)

    async def _bounds(self) -> tuple[int, int]:
        while True:
            try:
                return await self.stage.app.consumer.bounds(self.tp)  # type: ignore[no-any-return]
            except UnavailableError as error:
                log.debug("%s[%d]: no offsets: %s", self.tp.topic, self.partition, error)
            await asyncio.sleep(ASK_AGAIN_AFTER)

    async def _arrival(self, position: int) -> None:
        """Wait for the messages before `position`, which the reader has handed over."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ARRIVAL_PATIENCE
        while self.sequence is not None and self.open and loop.time() < until:
            if self.sequence.next_offset >= position:
                return
            await asyncio.sleep(0.01)

    def skip(self, offset: int) -> None:
        """Expect `offset` next: the log has nothing before it any more."""
        if self.sequence is not None:
            self.sequence.next_offset = max(offset, self.sequence.next_offset)

    async def _seek(self, offset: int) -> None:
        await self.stage.app.consumer.seek_wait({self.tp: offset})

    def look(self) -> None:
        """Detect messages that were handed over and never arrived, when no later message reveals the loss.

        A message may be on its way for long, behind those of other partitions and while the event loop is busy. It is
        lost if all batches that were handed over with it have left the queues.
        """
        consumer, sequence = self.stage.app.consumer, self.sequence
        handed = None if sequence is None else consumer.handed(self.tp)
        if sequence is None or handed is None or handed <= sequence.next_offset or self.stall is not None:
            self._suspicion = None
        elif self._suspicion is None or self._suspicion[0] != sequence.next_offset:
            self._suspicion = sequence.next_offset, consumer.posted
        elif consumer.left() >= self._suspicion[1]:
            self._suspicion = None
            self.read_again()


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
