"""Decides when to send again what the aggregator may lack of a stream."""

from collections.abc import Callable, Hashable
from time import monotonic

PATIENCE = 15.0
"""Seconds of standstill until the first time; then twice as many, and so on."""
LONGEST = 600.0
"""Seconds between two times, at most."""


class Standstill:
    """Tells when the aggregator has not moved on with a stream for long although rows wait for it.

    Parameters
    ----------
    clock
        Seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._place: Hashable = None
        self._begun = 0.0
        self._since = 0.0
        self._patience = PATIENCE
        self.times = 0
        """How often it has been told of the standstill that lasts; 0: there is none."""

    def lasts(self, place: Hashable) -> float | None:
        """Seconds of the standstill, each time that it has lasted long enough; else None.

        Parameters
        ----------
        place
            Where the aggregator is; None: there is nothing that it has not finished.
        """
        now = self._clock()
        if place != self._place or place is None:
            self._place, self._begun, self._since, self._patience, self.times = place, now, now, PATIENCE, 0
            return None
        if now - self._since < self._patience:
            return None
        self._since, self._patience = now, min(2 * self._patience, LONGEST)
        self.times += 1
        return now - self._begun
