"""Reservoirs of background rows (paper 004, "Incremental Sampling").

A reservoir holds at most `size` rows of numbers (NaN where a feature was absent). The rows of a block pass through it
in order: each first draws what it is explained with, then enters.

*geometric*: once full, the new row always replaces a uniformly chosen one, so the row of time r is drawn at time s
with probability p (1-p)^(s-r-1), p = 1/size. *uniform*: Vitter's algorithm R, every earlier row equally likely.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.draws import Purpose, below
from pipeline.jit import kernel

SAMPLINGS = ("geometric", "uniform")
_RESERVOIR = int(Purpose.RESERVOIR)
_IPFI = int(Purpose.IPFI)


@dataclass(slots=True)
class Reservoir:
    """Background rows of one stream.

    Parameters
    ----------
    size
        Rows held once full.
    sampling
        ``geometric`` or ``uniform``.
    key
        The stream's key words, from `pipeline.draws.stream_key`.
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
        count, width = block.shape
        if width > self.rows.shape[1]:
            wide = np.full((self.size, width), np.nan)
            wide[:, : self.rows.shape[1]] = self.rows
            self.rows = wide
        explained = min(count, max(0, first_row + count - start))
        out = np.empty((explained, draws, width))
        _pass_through(self.rows, self.sampling == "uniform", self.key, block, first_row, start, out)
        return out


@kernel
def _pass_through(rows, uniform, key, block, first_row, start, out):  # type: ignore[no-untyped-def]
    size = rows.shape[0]
    count, width = block.shape
    draws = out.shape[1]
    skipped = count - out.shape[0]
    for i in range(count):
        row = first_row + i
        held = min(row, size)
        if row >= start:
            for k in range(draws):
                for j in range(width):
                    out[i - skipped, k, j] = rows[below(held, key, row, _IPFI, j * draws + k), j]
        if row < size:
            place = row
        elif uniform:
            place = below(row + 1, key, row, _RESERVOIR, 0)
        else:
            place = below(size, key, row, _RESERVOIR, 0)
        if place < size:
            for j in range(width):
                rows[place, j] = block[i, j]
