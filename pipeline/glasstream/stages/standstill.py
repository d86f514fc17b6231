"""Decides when the learner sends again what the aggregator may lack of a stream."""

from collections.abc import Callable, Hashable
from time import monotonic

PATIENCE = 15.0
"""Seconds of standstill before the first repetition. Each later wait is twice as long."""
LONGEST = 600.0
"""Largest number of seconds between two repetitions."""


class Standstill:
    """Detects that the aggregator has not moved for long with a stream although rows wait for it.

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
        self._begun = 0.0
        self._since = 0.0
        self._patience = PATIENCE
        self._known = known
        self.times = 0
        """Number of times that the current standstill has been reported; 0 without one."""

    def lasts(self, place: Hashable) -> float | None:
        """Return the seconds of the standstill each time that it has lasted long enough, else None.

        Parameters
        ----------
        place
            Position of the aggregator; None if it has finished everything.
        """
        now = self._clock()
        if place != self._place or place is None:
            self._place, self._begun, self._since, self._patience, self.times = place, now, now, PATIENCE, 0
            if place is None or not self._known:
                return None
            self._known, self._patience = False, 0.0
        if now - self._since < self._patience:
            return None
        self._since, self._patience = now, min(max(PATIENCE, 2 * self._patience), LONGEST)
        self.times += 1
        return now - self._begun
