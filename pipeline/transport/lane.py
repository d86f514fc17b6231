"""One input partition while it is ours: what has arrived, what is next, and what was lost on the way."""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from faust.types import TP

from pipeline.transport.records import Message
from pipeline.transport.sequence import Sequence, Verdict

if TYPE_CHECKING:
    from pipeline.transport.stage import Stage

log = logging.getLogger(__name__)

#: Seconds a lane may keep the event loop before it lets the others (heartbeats are in a thread of their own) have it.
YIELD_AFTER = 0.02
#: Seconds after which a seek that did not bring the next message is repeated. The way is full of later ones.
SEEK_AGAIN_AFTER = 2.0


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
        self.waiting: deque[tuple[Any, Message]] = deque()
        self.arrived = asyncio.Event()
        self.held = False
        self._explaining = False
        self._sought_at = -SEEK_AGAIN_AFTER
        self._last_look: tuple[int, int | None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @abstractmethod
    async def drop(self) -> None:
        """Let the partition go at once; nothing that is not durable is made so."""

    @abstractmethod
    async def drain(self) -> None:
        """Finish what is in flight, make it durable, and let the partition go."""

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
        if sequence is None or not self.open:
            return
        expected = sequence.next_offset
        verdict = sequence.judge(message.offset, message.follows)
        if verdict is Verdict.NEXT:
            if message.offset - expected > 1 and not self._explaining:
                self._explaining = True
                self.spawn(self._explain(expected, message.offset))
            self.waiting.append((event, _to_message(message)))
            self.arrived.set()
            if not self.held and len(self.waiting) >= self.stage.options.queue_messages:
                self.held = True
                self.stage.app.consumer.on_buffer_full(self.tp)
        elif verdict is Verdict.MISSING:
            self.read_again()

    def begin(self, offset: int) -> None:
        """Expect `offset` next: it is being sought."""
        if self.sequence is None:
            self.sequence = Sequence(offset)
        self._sought_at = asyncio.get_running_loop().time()

    def next_waiting(self) -> tuple[Any, Message]:
        """Take the oldest message that waits; reading goes on when few are left."""
        item = self.waiting.popleft()
        if self.held and len(self.waiting) <= self.stage.options.queue_messages // 2:
            self.held = False
            self.stage.app.consumer.on_buffer_drop(self.tp)
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
            "%s[%d]: messages from offset %d on were lost on the way here and are read again",
            self.tp.topic,
            self.partition,
            self.sequence.next_offset,
        )
        self.spawn(self._seek_back(self.sequence.next_offset))

    async def _explain(self, first: int, after: int) -> None:
        """Say so when a hole was torn by retention. Otherwise it is of markers, aborted or compacted records."""
        kept = (await self.stage.app.consumer.earliest_offsets(self.tp)).get(self.tp)
        if kept is not None and kept > first:
            log.warning(
                "%s[%d]: the broker removed offsets %d to %d before they were read; lengthen the topic's retention",
                self.tp.topic,
                self.partition,
                first,
                min(kept, after) - 1,
            )
        self._explaining = False

    async def _seek_back(self, offset: int) -> None:
        await self.stage.app.consumer.seek_back(self.tp, offset)

    def look(self, *, late: bool) -> None:
        """Notice messages that were handed out and never came, with none after them to tell."""
        if self.sequence is None or self.held or late:
            self._last_look = None
            return
        handed = self.stage.app.consumer.handed(self.tp)
        look = (self.sequence.next_offset, handed)
        if handed is not None and handed > self.sequence.next_offset and look == self._last_look:
            self.read_again()
        self._last_look = look


def _to_message(message: Any) -> Message:
    timestamp = message.timestamp
    return Message(
        message.topic,
        message.partition,
        message.offset,
        message.key,
        message.value,
        tuple(message.headers or ()),
        0 if timestamp is None else round(timestamp * 1000.0),
    )
