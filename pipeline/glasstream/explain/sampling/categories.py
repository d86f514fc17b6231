"""Categories in use for each feature.

A category is in use while it has been seen in the last `window` rows. It takes the first free place when it appears and
keeps it until it falls out of use. While all places are taken, a new category gets none: the earlier categories stay,
and the values without a place are counted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel

Arrays = dict[str, NDArray[np.generic]]


@dataclass(slots=True)
class Categories:
    """Categories in use, up to a fixed number for each feature.

    Parameters
    ----------
    most
        Number of places per feature.
    window
        Number of rows after which an unseen category falls out of use.
    """

    most: int
    window: int
    codes: NDArray[np.float64]
    """(d, most) code at each place; NaN for a free place."""
    seen: NDArray[np.int64]
    """(d, most) number of the last row with the category."""
    left_out: NDArray[np.int64]
    """(d,) numbers of values whose category had no place."""

    @classmethod
    def empty(cls, most: int, window: int) -> "Categories":
        """Return an instance without features."""
        return cls(most, window, np.zeros((0, most)), np.zeros((0, most), np.int64), np.zeros(0, np.int64))

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.left_out)

    def widen(self, width: int) -> None:
        """Make room for new features."""
        more = width - self.width
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
        """For each row, write the categories in use before it, and then let the row enter.

        Parameters
        ----------
        block
            (count, d) consecutive rows of category codes.
        slots
            Features to follow.
        first_row, start
            Number of the block's first row, and first row for which categories are written.
        out
            (rows from `start` on, `most` or more, d) output: the code at each place, NaN where there is none.
        """
        _pass_through(self.window, self.codes, self.seen, self.left_out, block, slots, first_row, start, out)

    def state(self) -> Arrays:
        """Return the state."""
        return {"codes": self.codes, "seen": self.seen, "left_out": self.left_out}

    @classmethod
    def restore(cls, most: int, window: int, state: Mapping[str, NDArray[np.generic]]) -> "Categories":
        """Restore the categories from a saved state.

        Raises
        ------
        ValueError
            The state has another number of places.
        """
        left_out = np.array(state["left_out"], np.int64)
        if left_out.ndim != 1:
            raise ValueError("expected a number of each feature")
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
