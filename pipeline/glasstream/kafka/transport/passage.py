"""The way of messages from the consumer to the lanes: one queue for all partitions, which they pass in order."""

from dataclasses import dataclass
from typing import Any


@dataclass
class Passage:
    """Counts what is on its way, so that a message that waits for its turn is not taken for a lost one.

    Attributes
    ----------
    rounds : int
        Number of rounds in which the consumer has begun to fetch and deliver. When a round begins, everything that was
        fetched before has been put into the queue.
    arrived : int
        Number of messages that have left the queue.
    queue : asyncio.Queue, optional
        The queue; None before the stage reads.
    """

    rounds: int = 0
    arrived: int = 0
    queue: Any = None

    def end(self) -> int:
        """Return the number of arrived messages when all that are in the queue now will have arrived."""
        return self.arrived + self._waiting()

    def is_behind(self, end: int) -> bool:
        """Return whether messages before this end may still arrive. Faust may have dropped some of the queue."""
        return self.arrived < end and self._waiting() > 0

    def _waiting(self) -> int:
        return 0 if self.queue is None else int(self.queue.qsize())
