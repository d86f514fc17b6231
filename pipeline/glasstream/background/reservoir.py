"""Reservoirs of background rows (paper 004, "Incremental Sampling").

A reservoir holds at most `size` rows of numbers (NaN where a feature was absent). The rows of a block pass through it
in order: each first draws what it is explained with, then enters.

*geometric*: once full, the new row always replaces a uniformly chosen one, so the row of time r is drawn at time s
with probability p (1-p)^(s-r-1), p = 1/size. *uniform*: Vitter's algorithm R, every earlier row equally likely.
*window*: the last `size` rows, each equally likely.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.draws import Purpose, below
from glasstream.jit import kernel

SAMPLINGS = ("geometric", "uniform", "window")
_UNIFORM, _WINDOW = SAMPLINGS.index("uniform"), SAMPLINGS.index("window")
_RESERVOIR = int(Purpose.RESERVOIR)
_IPFI = int(Purpose.IPFI)
_ISAGE = int(Purpose.ISAGE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What each explained row of a block draws.

    Parameters
    ----------
    values
        Background values of every feature, each from a row drawn for it alone (iPFI).
    rows
        Whole background rows (iSAGE).
    fresh
        Draw the whole rows anew for each step of building a row up, instead of once for all its steps.
    """

    values: int = 0
    rows: int = 0
    fresh: bool = False
    sets: int = 0
    """Sets of features of which each has rows of its own, as many as `values` says, instead of each feature."""


class Drawn(NamedTuple):
    """What n explained rows with d features have drawn."""

    values: NDArray[np.float64]
    """(n, values, d): at [i, k, j] the value of feature j in the k-th row drawn for feature j of row i."""
    rows: NDArray[np.float64]
    """(n, s, rows, d): at [i, step] the rows that row i is built up in; s = 1 for all steps, or d - 1 if fresh."""
    sets: NDArray[np.float64]
    """(n, values, sets, d): at [i, k, g] the k-th row drawn for set g; what set g = j draws is what feature j would."""


@dataclass(slots=True)
class Reservoir:
    """Background rows of one stream.

    Parameters
    ----------
    size
        Rows held once full.
    sampling
        ``geometric``, ``uniform`` or ``window``.
    key
        The stream's key words, from `glasstream.draws.stream_key`.
    """

    size: int
    sampling: str
    key: NDArray[np.uint64]
    rows: NDArray[np.float64]
    """(size, d)"""

    @classmethod
    def empty(cls, size: int, sampling: str, key: NDArray[np.uint64]) -> "Reservoir":
        """A reservoir without rows or features."""
        return cls(size, sampling, key, np.empty((size, 0)))

    def pass_through(self, block: NDArray[np.float64], first_row: int, start: int, draws: int) -> NDArray[np.float64]:
        """Draw background values for each row of a block, and let the row enter after it.

        Parameters
        ----------
        block
            (count, d) consecutive rows. d may have grown since the last call; rows held have the new features absent.
        first_row
            The number of the block's first row; it says how many rows the reservoir has seen.
        start
            The first row that is explained; rows before it enter and draw nothing.
        draws
            Background rows drawn for each feature of each row.

        Returns
        -------
        (rows from `start` on, draws, d): at [i, k, j] the value of feature j in the k-th row drawn for feature j.
        """
        return self.serve(block, first_row, start, Wanted(values=draws)).values

    def serve(self, block: NDArray[np.float64], first_row: int, start: int, wanted: Wanted) -> Drawn:
        """As `pass_through`, for several methods at once: the reservoir moves on once for all of them.

        What is drawn for one method does not depend on what is drawn for another.
        """
        count, width = block.shape
        if width > self.rows.shape[1]:
            wide = np.full((self.size, width), np.nan)
            wide[:, : self.rows.shape[1]] = self.rows
            self.rows = wide
        explained = min(count, max(0, first_row + count - start))
        steps = max(width - 1, 0) if wanted.fresh else 1
        drawn = Drawn(
            np.empty((explained, 0 if wanted.sets else wanted.values, width)),
            np.empty((explained, steps, wanted.rows, width)),
            np.empty((explained, wanted.values, wanted.sets, width)),
        )
        _pass_through(self.rows, SAMPLINGS.index(self.sampling), self.key, block, first_row, start, *drawn)
        return drawn


@kernel
def _pass_through(rows, law, key, block, first_row, start, values, whole, sets):  # type: ignore[no-untyped-def]
    size = rows.shape[0]
    count, width = block.shape
    draws = values.shape[1]
    steps, inner = whole.shape[1], whole.shape[2]
    skipped = count - values.shape[0]
    for i in range(count):
        row = first_row + i
        held = min(row, size)
        if row >= start:
            for k in range(draws):
                for j in range(width):
                    values[i - skipped, k, j] = rows[below(held, key, row, _IPFI, j * draws + k), j]
            for k in range(sets.shape[1]):
                for g in range(sets.shape[2]):
                    sets[i - skipped, k, g] = rows[below(held, key, row, _IPFI, g * sets.shape[1] + k)]
            for step in range(steps):
                for k in range(inner):
                    whole[i - skipped, step, k] = rows[below(held, key, row, _ISAGE, step * inner + k)]
        if row < size:
            place = row
        elif law == _WINDOW:
            place = row % size
        elif law == _UNIFORM:
            place = below(row + 1, key, row, _RESERVOIR, 0)
        else:
            place = below(size, key, row, _RESERVOIR, 0)
        if place < size:
            for j in range(width):
                rows[place, j] = block[i, j]
