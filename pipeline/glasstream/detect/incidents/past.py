"""How high the loss of a model has been before."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST_SUM, Count

SETTLED: Final = 300
"""First rows that do not count, because a model that has hardly begun to learn is at its worst."""
RUN: Final = 600
"""Number of rows over which the loss is averaged."""
_OUTLIER = 100.0  # times the mean: larger losses count as this one


@dataclass(slots=True)
class Past:
    """The highest mean loss of `RUN` consecutive rows since the model settled: since its loss first stopped falling."""

    rows: Count = 0
    whole: float = 0.0
    """Sum of all losses."""
    run: float = 0.0
    """Sum of the losses of the current run."""
    former: float | None = None
    """Mean of the former run; None before the first has ended."""
    highest: float | None = None
    """`highest` is None while the mean loss falls from run to run."""

    def add(self, losses: NDArray[np.float64]) -> None:
        """Add the losses of the next rows."""
        for one in losses.tolist():
            loss = min(one, _OUTLIER * self.whole / self.rows) if self.rows >= SETTLED else one
            self.rows += 1
            self.whole += loss
            if self.rows > SETTLED:
                self.run += loss
                if (self.rows - SETTLED) % RUN == 0:
                    mean, self.run = self.run / RUN, 0.0
                    if self.highest is not None or (self.former is not None and mean >= self.former):
                        self.highest = mean if self.highest is None else max(self.highest, mean)
                    self.former = mean

    def check(self) -> None:
        """Raise FrameError unless the numbers are sums of losses."""
        largest = max(abs(one or 0.0) for one in (self.whole, self.run, self.former, self.highest))
        form.expect(largest <= LARGEST_SUM, f"sums within ±{LARGEST_SUM:g}", largest, "past losses")

    def exceeded(self, loss: float) -> bool:
        """Return whether a mean loss is higher than that of any run."""
        return self.highest is None or loss > self.highest
