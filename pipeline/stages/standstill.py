"""When what the fold waits for should be sent once more."""

from collections.abc import Callable
from time import monotonic

PATIENCE = 15.0
"""Seconds of standstill until the first time; then twice as many, and so on."""
LONGEST = 600.0
"""Seconds between two times, at most."""


class Standstill:
    """Tells when the fold has not moved for long although there is work for it.

    Parameters
    ----------
    clock
        Seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._moves = -1
        self._since = 0.0
        self._patience = PATIENCE

    def lasts(self, moves: int, outstanding: bool) -> float | None:
        """Seconds of the standstill, each time that it has lasted long enough; else None.

        Parameters
        ----------
        moves
            Grows whenever the fold moves.
        outstanding
            Whether there is work that the fold has not finished.
        """
        now = self._clock()
        if moves != self._moves or not outstanding:
            self._moves, self._since, self._patience = moves, now, PATIENCE
            return None
        lasted = now - self._since
        if lasted < self._patience:
            return None
        self._since, self._patience = now, min(2 * self._patience, LONGEST)
        return lasted
