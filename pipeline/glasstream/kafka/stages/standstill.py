"""Decides when the learner sends again what the aggregator may lack of a stream."""

from collections.abc import Callable, Hashable
from time import monotonic

PATIENCE = 15.0
"""Seconds of standstill before the first repetition. Each later wait is twice as long."""
LONGEST = 600.0
"""Largest number of seconds between two repetitions."""


class Standstill:
    """Detects that the aggregator has not moved for long with a stream although rows wait for it.

    Many streams share a partition, and the aggregator comes to each in its turn. A stream does not stand still as long
    as the aggregator finishes blocks that may be before it: as many as were waiting when the stream last moved.

    Parameters
    ----------
    clock
        Clock in seconds.
    known
        Whether the predecessor reported a standstill, so that the first repetition is due at once.
    """

    def __init__(self, clock: Callable[[], float] = monotonic, *, known: bool = False) -> None:
        self._clock = clock
        self._place: Hashable = None
        self._turn = 0
        """Number of finished blocks of all streams by which the turn of this stream has come."""
        self._moves: Hashable = None
        self._begun = 0.0
        self._since = 0.0
        self._patience = PATIENCE
        self._known = known
        self.times = 0
        """Number of times that the current standstill has been reported; 0 without one."""

    def lasts(self, place: Hashable, finished: int = 0, waiting: int = 0) -> float | None:
        """Return the seconds of the standstill each time that it has lasted long enough, else None.

        Parameters
        ----------
        place
            Position of the aggregator in the stream; None if it has finished everything.
        finished, waiting
            Number of blocks of all streams that the aggregator has finished, and number of those that wait for it.
        """
        now = self._clock()
        if place != self._place:
            self._place, self._turn = place, finished + waiting
        moves = place, min(finished, self._turn)
        if moves != self._moves or place is None:
            self._moves, self._begun, self._since, self._patience, self.times = moves, now, now, PATIENCE, 0
            if place is None or not self._known:
                return None
            self._known, self._patience = False, 0.0
        if now - self._since < self._patience:
            return None
        self._since, self._patience = now, min(max(PATIENCE, 2 * self._patience), LONGEST)
        self.times += 1
        return now - self._begun
