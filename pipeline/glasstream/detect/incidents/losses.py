"""The mean loss before and since a row, from sums over runs of rows."""

from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import sqrt
from operator import add
from typing import Annotated, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST_SUM, Count

RUN: Final = 50
"""Number of rows of a run. Runs begin at multiples of it, and the one in which the row lies does not count."""
RUNS: Final = 120
"""Number of runs that are kept."""
BEFORE: Final = 2_000
"""Most rows before the row that count."""
WINDOW: Final = 3
"""Number of runs by which a recovery is measured."""
_SURE: Final = 3.0
"""Standard errors by which the worst window exceeds the newest one after a recovery."""

_Runs = Annotated[list[float], msgspec.Meta(max_length=RUNS)]
_Rows = Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=RUN)]], msgspec.Meta(max_length=RUNS)]


@dataclass(slots=True)
class Losses:
    """Sums of the loss over the newest runs of rows."""

    first: Count = 0
    """Number of the first run that is kept: that of the row, divided by `RUN`."""
    sums: _Runs = field(default_factory=list)
    rows: _Rows = field(default_factory=list)
    """Number of rows of each run: `RUN`, but for the first and the newest one, and where rows were not explained."""

    def add(self, first_row: int, losses: NDArray[np.float64]) -> None:
        """Add the losses of the next rows."""
        done = 0
        while done < len(losses):
            run = (first_row + done) // RUN
            if not self.first <= run < self.first + RUNS + len(self.sums):  # the first row, or one after a long gap
                self.first, self.sums, self.rows = run, [], []
            place = run - self.first
            more = max(0, place + 1 - len(self.sums))
            self.sums += [0.0] * more
            self.rows += [0] * more
            part = losses[done : done + RUN - (first_row + done) % RUN].tolist()
            # one by one: the sums must not depend on how blocks are cut
            self.sums[place] = reduce(add, part, self.sums[place])
            self.rows[place] += len(part)
            done += len(part)
        excess = max(0, len(self.sums) - RUNS)
        self.first, self.sums, self.rows = self.first + excess, self.sums[excess:], self.rows[excess:]

    def means(self, row: int) -> tuple[float | None, float | None]:
        """Return the mean loss of the rows before and since a row; None where no run is kept."""
        place = min(max(0, row // RUN - self.first), len(self.sums))
        after = place + (row % RUN != 0 and row // RUN >= self.first)
        return self._mean(max(0, place - BEFORE // RUN), place), self._mean(after, len(self.sums))

    def recovered(self, row: int, before: float | None) -> float | None:
        """Return the part of the rise of the loss since a row that has been recovered, from 0 to 1.

        The rise is that of the worst `WINDOW` consecutive runs, and what is left of it that of the newest ones. It is
        None if the loss did not rise, while there are fewer than two windows of them, or if the difference between the
        worst and the newest can be chance: the worst of many windows is higher than the newest, whatever happens.
        """
        first = min(max(0, -(-row // RUN) - self.first), len(self.sums))
        means = [self._mean(place, place + WINDOW) for place in range(first, len(self.sums) - WINDOW + 1)]
        known = [mean for mean in means if mean is not None]
        if before is None or len(known) <= WINDOW or not (worst := max(known)) > before:
            return None
        if worst - known[-1] <= _SURE * self._error(first):
            return None
        return min(1.0, max(0.0, (worst - known[-1]) / (worst - before)))

    def _error(self, first: int) -> float:
        """Return the standard error of the difference of two windows, from the steps between successive runs."""
        means = [mean for place in range(first, len(self.sums)) if (mean := self._mean(place, place + 1)) is not None]
        steps = sum((one - other) ** 2 for one, other in pairwise(means))
        return sqrt(steps / max(1, len(means) - 1) / WINDOW)

    def _mean(self, begin: int, end: int) -> float | None:
        rows = sum(self.rows[begin:end])
        return sum(self.sums[begin:end]) / rows if rows else None

    def check(self) -> None:
        """Raise FrameError unless the numbers are sums of losses."""
        largest = max(map(abs, self.sums), default=0.0)
        form.expect(largest <= LARGEST_SUM, f"sums within ±{LARGEST_SUM:g}", largest, "losses")
        form.expect(len(self.rows) == len(self.sums), "rows of each sum", self.rows, "losses")
