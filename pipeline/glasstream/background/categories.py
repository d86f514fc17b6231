"""The categories of each feature that are in use.

A category is in use while it has been seen in the last `window` rows. It takes the first free place when it comes and
keeps it until it falls out of use. While all places are taken, a category that comes has none: those that came first
are followed on, and what was left out is counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.jit import kernel

Arrays = dict[str, NDArray[np.generic]]


@dataclass(slots=True)
class Categories:
    """Categories in use, at most so many of each feature.

    Parameters
    ----------
    most
        Places of a feature.
    window
        Rows after which a category that is not seen falls out of use.
    """

    most: int
    window: int
    codes: NDArray[np.float64]
    """(d, most) NaN: the place is free."""
    seen: NDArray[np.int64]
    """(d, most) the last row that had the category."""
    left_out: NDArray[np.int64]
    """(d,) values whose category had no place."""

    @classmethod
    def empty(cls, most: int, window: int) -> "Categories":
        """No feature seen."""
        return cls(most, window, np.zeros((0, most)), np.zeros((0, most), np.int64), np.zeros(0, np.int64))

    def widen(self, width: int) -> None:
        """Make place for features that came later."""
        more = width - len(self.left_out)
        if more > 0:
            self.codes = np.pad(self.codes, ((0, more), (0, 0)), constant_values=np.nan)
            self.seen = np.pad(self.seen, ((0, more), (0, 0)))
            self.left_out = np.pad(self.left_out, (0, more))

    def pass_through(
        self,
        block: NDArray[np.float64],
        slots: NDArray[np.int64],
        first_row: int,
        start: int,
        out: NDArray[np.float64],
    ) -> None:
        """Write for each row the categories in use before it, and let the row enter after it.

        Parameters
        ----------
        block
            (count, d) consecutive rows; values are codes of categories.
        slots
            The features that are followed.
        first_row, start
            Number of the block's first row, and the first row for which something is written.
        out
            (rows from `start` on, `most` or more, d): the code at each place, NaN where there is none.
        """
        _pass_through(self.window, self.codes, self.seen, self.left_out, block, slots, first_row, start, out)

    def state(self) -> Arrays:
        """What is held."""
        return {"codes": self.codes, "seen": self.seen, "left_out": self.left_out}

    @classmethod
    def restore(cls, most: int, window: int, state: Mapping[str, NDArray[np.generic]]) -> "Categories":
        """The categories as they were when `state` was taken.

        Raises
        ------
        ValueError
            The state has another number of places.
        """
        left_out = np.array(state["left_out"], np.int64)
        codes, seen = (np.array(state[name]).reshape(len(left_out), most) for name in ("codes", "seen"))
        return cls(most, window, codes.astype(np.float64), seen.astype(np.int64), left_out)


@kernel
def _pass_through(window, codes, seen, left_out, block, slots, first_row, start, out):  # type: ignore[no-untyped-def]
    most = codes.shape[1]
    skipped = block.shape[0] - out.shape[0]
    for i in range(block.shape[0]):
        row = first_row + i
        for j in slots:
            value = block[i, j]
            own = free = -1
            for k in range(most):
                if seen[j, k] < row - window:
                    codes[j, k] = np.nan
                if np.isnan(codes[j, k]):
                    free = k if free < 0 else free
                elif codes[j, k] == value:
                    own = k
                if row >= start:
                    out[i - skipped, k, j] = codes[j, k]
            if not np.isfinite(value):
                continue
            place = own if own >= 0 else free
            if place < 0:
                left_out[j] += 1
            else:
                codes[j, place] = value + 0.0
                seen[j, place] = row
