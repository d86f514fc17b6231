"""How contributions depend on each other because background rows recur.

A row that stays in the reservoir is drawn by many events, and an event is itself drawn later. With independent events
two contributions k rows apart therefore have the covariance (the three cases of 004, proof of Theorem 3)

    V · P(both draw the same row) + C · P(the later one draws the earlier one's event),

V the variance over the background row of the mean over the event, C the covariance of that mean with the other one.
For a geometric reservoir of L rows, p = 1/L, it is p (1-p)^(k-1) · ((1-p) V + C): a constant times (1-p)^k.
"""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Overlap:
    """The law of the covariance of contributions k >= 1 rows apart: share · variance · decay^k, plus a floor.

    The share is not known; it is estimated from the contributions (see `glasstream.aggregator.intervals`).

    Attributes
    ----------
    decay
        In [0, 1).
    most
        The largest share that the law of the reservoir allows if events are independent; 0: none.
    floor
        A share that does not decay and that contributions alone cannot show; it is taken at its largest.
    """

    decay: float = 0.0
    most: float = 0.0
    floor: float = 0.0

    @classmethod
    def of(cls, sampling: str, size: int, draws: int = 1) -> "Overlap":
        """The law of a reservoir of `size` rows.

        *geometric* as above. *window*: the covariance V (w-k)/w² + C/w for k <= w is taken as a geometric one of the
        same sum and the same mean age, w/2. *uniform*: rows hardly ever leave, so all contributions share the offset
        of the rows held; it cannot be told from the importance itself, its variance is at most that of a contribution
        times `draws` / L, and this is taken. Intervals are then wider than need be; use many rows.

        Parameters
        ----------
        sampling
            ``geometric``, ``window`` or ``uniform``.
        size
            Rows held. Conditional removal: those of all leaves together.
        draws
            Background rows that one contribution depends on: the more are averaged, the larger the share that the
            overlap can have.
        """
        if sampling == "uniform":
            return cls(floor=min(1.0, draws / size))
        recur, leave = (0.5, 2 / size) if sampling == "window" else (1.0, 1 / size)
        leave = min(leave, 0.5)
        return cls(1 - leave, min(1.0, leave / (1 - leave) * _largest(recur, draws)))


INDEPENDENT = Overlap()
"""Contributions without a background row in common, as those of an effect curve."""


def _largest(recur: float, draws: int) -> float:
    """The largest (recur · V + C) / variance.

    C is at most sqrt(V E) and the variance at least E + V / draws, E the variance over the event of the mean over the
    background row (Cauchy-Schwarz; Hoeffding's decomposition); the largest quotient is that of
    sqrt(E / V) = x = sqrt(recur² + 1 / draws) - recur.
    """
    return 1 / (2 * (sqrt(recur * recur + 1 / draws) - recur))
