"""Dependence between contributions that share background rows.

A row that stays in the reservoir is drawn for many events, and an event is itself drawn for later ones. With
independent events, two contributions k rows apart therefore have the covariance (the three cases in 004, proof of
Theorem 3)

    V · P(both draw the same row) + C · P(the later one draws the earlier one's event).

V is the variance over the background row of the mean over the event. C is the covariance of that mean with the mean
over the background row. For a geometric reservoir of L rows with p = 1/L, the covariance is p (1-p)^(k-1) · ((1-p) V +
C), a constant times (1-p)^k.
"""

from dataclasses import dataclass
from math import sqrt


@dataclass(frozen=True, slots=True)
class Overlap:
    """Covariance of contributions k >= 1 rows apart: share · variance · decay^k, plus a floor.

    The share is unknown. `glasstream.explain.intervals` estimates it from the contributions.

    Attributes
    ----------
    decay
        Factor of the covariance per row, in [0, 1).
    most
        Largest share that the reservoir allows if events are independent; 0 for independent contributions.
    floor
        Share that does not decay. It cannot be estimated from contributions, so its upper bound is used.
    """

    decay: float = 0.0
    most: float = 0.0
    floor: float = 0.0

    @classmethod
    def of(cls, sampling: str, size: int, draws: int = 1) -> "Overlap":
        """Return the law for a reservoir of `size` rows.

        *geometric*: the law in the module's docstring. *window*: the covariance V (w-k)/w² + C/w for k <= w is
        approximated by a geometric one with the same sum and the same mean age, w/2. *uniform*: rows hardly ever leave,
        so all contributions share the offset of the rows held. This offset cannot be distinguished from the importance.
        Its variance is at most that of a contribution times `draws` / L, and the floor is set to this bound. The
        intervals are then wider than necessary; use a large reservoir.

        Parameters
        ----------
        sampling
            ``geometric``, ``window`` or ``uniform``.
        size
            Number of rows held; for conditional removal, the sum over all leaves.
        draws
            Number of background rows that one contribution depends on. Averaging over more rows increases the share
            that the overlap can have.
        """
        if sampling == "uniform":
            return cls(floor=min(1.0, draws / size))
        recur, leave = (0.5, 2 / size) if sampling == "window" else (1.0, 1 / size)
        leave = min(leave, 0.5)
        return cls(1 - leave, min(1.0, leave / (1 - leave) * _largest(recur, draws)))


INDEPENDENT = Overlap()
"""Law for contributions that share no background row, such as those of an effect curve."""


def _largest(recur: float, draws: int) -> float:
    """Return the largest (recur · V + C) / variance.

    Let E be the variance over the event of the mean over the background row. C is at most sqrt(V E) (Cauchy-Schwarz),
    and the variance is at least E + V / draws (Hoeffding's decomposition). The quotient is largest at sqrt(E / V) = x =
    sqrt(recur² + 1 / draws) - recur.
    """
    return 1 / (2 * (sqrt(recur * recur + 1 / draws) - recur))
