"""When the model is snapshotted: a function of the log alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """Snapshots are due at 1, 2, 4, ... up to `doubling` learned events, then after intervals that follow the change.

    How much a model has changed over the last interval, its staleness in units of `glasstream.learn.staleness.scale`,
    says after how many events it will have changed by `target`; that is the next interval, between `shortest` and
    `longest` and at most twice the last one. While nothing is measured, or with a target of 0, intervals end at the
    multiples of `cadence`.

    >>> fixed = Schedule(doubling=4, cadence=10)
    >>> [fixed.after(learned, None) for learned in (0, 1, 2, 4, 10, 20)]
    [1, 2, 4, 10, 20, 30]
    >>> adaptive = Schedule(doubling=4, cadence=10, target=0.1, shortest=5, longest=50)
    >>> [adaptive.after(20, change, interval=10) for change in (0.1, 0.15, 0.4, 0.01)]
    [30, 27, 25, 40]
    """

    doubling: int = 256
    cadence: int = 500
    target: float = 0.0
    shortest: int = 100
    longest: int = 1_000

    def after(self, learned: int, change: float | None, interval: int = 0) -> int:
        """The number of learned events at which the next snapshot is due.

        Parameters
        ----------
        learned
            Events learned at the newest snapshot; 0 before the first.
        change
            How far that snapshot is from the one before it; None if it was not measured.
        interval
            Events between the two.
        """
        early = max(2 * learned, 1)
        if early <= self.doubling:
            return early
        if self.target == 0.0 or change is None or learned < self.cadence:
            return learned // self.cadence * self.cadence + self.cadence
        wanted = 2 * interval if change <= self.target / 2 else round(interval * self.target / change)
        return learned + min(max(min(wanted, 2 * interval), self.shortest), self.longest)

    def latest(self, learned: int) -> int:
        """The latest that `after` can give for a snapshot at `learned`, whatever is measured."""
        due = self.after(learned, None)
        fixed = self.target == 0.0 or max(2 * learned, 1) <= self.doubling
        return due if fixed else max(due, learned + self.longest)
