"""Decide when the model is snapshotted, as a function of the log alone. This is the section `snapshot`.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from typing import Annotated

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesExplanations

_Positive = Annotated[int, Meta(ge=1)]


class Schedule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When the learner publishes a snapshot of the model.

    The change over the last interval is the model's staleness in units of `glasstream.flow.learner.staleness.scale`. It
    predicts after how many rows the model will have changed by `target`. That number is the next interval, between
    `shortest` and `longest` and at most twice the last one.

    Attributes
    ----------
    doubling
        The first snapshots are taken after 1, 2, 4, ... `doubling` learned rows.
    cadence
        Later snapshots are taken at multiples of this number of learned rows while the learner does not measure how
        much the model changes: if `target` is 0, before `cadence` rows are learned, or if the model is not compiled.
    target
        Once the learner measures the change of the model, it chooses intervals in which the model changes by about this
        much. With 0, it measures no change.
    shortest
        Shortest interval, in rows, that `target` can lead to.
    longest
        Longest interval, in rows, that `target` can lead to.

    Examples
    --------
    >>> fixed = Schedule(doubling=4, cadence=10, target=0.0)
    >>> [fixed.after(learned, None) for learned in (0, 1, 2, 4, 10, 20)]
    [1, 2, 4, 10, 20, 30]
    >>> adaptive = Schedule(doubling=4, cadence=10, target=0.1, shortest=5, longest=50)
    >>> [adaptive.after(20, change, interval=10) for change in (0.1, 0.15, 0.4, 0.01)]
    [30, 27, 25, 40]
    """

    doubling: ChangesExplanations[_Positive] = 256
    cadence: ChangesExplanations[_Positive] = 500
    target: ChangesExplanations[Annotated[float, Meta(ge=0)]] = 0.15
    shortest: ChangesExplanations[_Positive] = 200
    longest: ChangesExplanations[_Positive] = 1_000

    def after(self, learned: int, change: float | None, interval: int = 0) -> int:
        """Return the number of learned rows at which the next snapshot is due.

        Parameters
        ----------
        learned
            Number of rows learned at the newest snapshot; 0 before the first.
        change
            Distance between that snapshot and the one before it; None if it was not measured.
        interval
            Number of rows between the two snapshots.
        """
        early = max(2 * learned, 1)
        if early <= self.doubling:
            return early
        if self.target == 0.0 or change is None or learned < self.cadence:
            return learned // self.cadence * self.cadence + self.cadence
        wanted = 2 * interval if change <= self.target / 2 else round(interval * self.target / change)
        return learned + min(max(min(wanted, 2 * interval), self.shortest), self.longest)

    def latest(self, learned: int) -> int:
        """Return the largest number that `after` can return for a snapshot at `learned`, whatever the change."""
        due = self.after(learned, None)
        fixed = self.target == 0.0 or max(2 * learned, 1) <= self.doubling
        return due if fixed else max(due, learned + self.longest)
