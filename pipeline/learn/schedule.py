"""When the model is snapshotted: a function of the number of learned events alone."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Schedule:
    """Snapshots are due at 1, 2, 4, ... up to `doubling` learned events, then at every multiple of `cadence`.

    >>> schedule = Schedule(doubling=4, cadence=10)
    >>> [v for v in range(31) if schedule.due(v)]
    [1, 2, 4, 10, 20, 30]
    >>> [schedule.version(row) for row in (0, 1, 3, 4, 9, 10, 25)]
    [0, 1, 2, 4, 4, 10, 20]
    >>> schedule.after(4), schedule.after(10)
    (10, 20)
    """

    doubling: int = 256
    cadence: int = 500

    def due(self, learned: int) -> bool:
        """Whether the model that has learned `learned` events is a scheduled version."""
        return learned > 0 and self.version(learned) == learned

    def version(self, row: int) -> int:
        """The version that `row` is explained with: the newest scheduled one among 1 .. row; 0 if there is none."""
        early = 1 << (min(row, self.doubling).bit_length() - 1) if row > 0 else 0
        late = row - row % self.cadence
        return max(early, late if late > self.doubling else 0)

    def after(self, version: int) -> int:
        """The scheduled version that follows `version`."""
        late = max(version, self.doubling) // self.cadence * self.cadence + self.cadence
        early = max(2 * version, 1)
        return min(early, late) if early <= self.doubling else late
