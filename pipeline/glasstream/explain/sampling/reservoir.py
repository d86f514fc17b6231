"""Reservoirs of background rows (paper 004, "Incremental Sampling").

A reservoir holds at most `size` rows of numbers (NaN where a feature was absent). The rows of a block pass through it
in order. Each row first draws its background rows and then enters.

*geometric*: when the reservoir is full, a new row always replaces a uniformly chosen row. So the row of time r is drawn
at time s with probability p (1-p)^(s-r-1), p = 1/size. *uniform*: Vitter's algorithm R, in which every earlier row is
equally likely. *window*: the last `size` rows, each equally likely.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, below
from glasstream.base.errors import SettingsError
from glasstream.base.jit import kernel

SAMPLINGS = ("geometric", "uniform", "window")
_UNIFORM, _WINDOW = SAMPLINGS.index("uniform"), SAMPLINGS.index("window")
_RESERVOIR = int(Purpose.RESERVOIR)
_IPFI = int(Purpose.IPFI)
_ISAGE = int(Purpose.ISAGE)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Draws that each explained row of a block needs.

    Parameters
    ----------
    values
        Number of background values per feature, each from a row drawn for this feature alone (iPFI).
    rows
        Number of whole background rows (iSAGE). They are different rows if the reservoir holds that many.
    fresh
        Whether to draw new whole rows for each step of iSAGE instead of once for all steps.
    """

    values: int = 0
    rows: int = 0
    fresh: bool = False
    sets: int = 0
    """Number of feature sets. Each set, instead of each feature, then draws `values` rows of its own."""


def together(wanted: Sequence[Wanted]) -> Wanted:
    """Return the draws that several methods share.

    Raises
    ------
    SettingsError
        Two methods want different numbers of one kind of draw, so that each would change the draws of the other.
    """
    values = {one.values for one in wanted if one.values}
    rows = {(one.rows, one.fresh) for one in wanted if one.rows}
    if len(values) > 1 or len(rows) > 1:
        raise SettingsError([f"background rows: expected methods that want equally many, got {wanted}"])
    (rows_per_step, fresh) = next(iter(rows), (0, False))
    return Wanted(values=next(iter(values), 0), rows=rows_per_step, fresh=fresh)


class Drawn(NamedTuple):
    """Draws for n explained rows with d features."""

    values: NDArray[np.float64]
    """(n, values, d): at [i, k, j] the value of feature j in the k-th row drawn for feature j of row i."""
    rows: NDArray[np.float64]
    """(n, s, rows, d): at [i, step] the background rows of row i; s = 1 for all steps, or d - 1 if fresh."""
    sets: NDArray[np.float64]
    """(n, values, sets, d): at [i, k, g] the k-th row drawn for set g. Set g = j draws the same rows as feature j."""


@dataclass(slots=True)
class Reservoir:
    """Reservoir of background rows of one stream.

    Parameters
    ----------
    size
        Number of rows held once the reservoir is full.
    sampling
        ``geometric``, ``uniform`` or ``window``.
    key
        Key words of the stream, from `glasstream.base.draws.stream_key`.
    """

    size: int
    sampling: str
    key: NDArray[np.uint64]
    rows: NDArray[np.float64]
    """(size, d) rows held."""

    @classmethod
    def empty(cls, size: int, sampling: str, key: NDArray[np.uint64]) -> "Reservoir":
        """Return a reservoir without rows or features."""
        return cls(size, sampling, key, np.empty((size, 0)))

    def held(self, rows: int) -> NDArray[np.float64]:
        """Return (up to size, d) rows that the reservoir holds after `rows` rows have entered."""
        return self.rows[: min(rows, self.size)]

    def hold(self, rows: NDArray[np.float64]) -> None:
        """Hold these rows, as `held` returns them, instead of the present ones."""
        self.rows = np.full((self.size, rows.shape[1]), np.nan)
        self.rows[: len(rows)] = rows

    def pass_through(self, block: NDArray[np.float64], first_row: int, start: int, draws: int) -> NDArray[np.float64]:
        """Draw background values for each row of a block, and let each row enter after its draws.

        Parameters
        ----------
        block
            (count, d) consecutive rows. d may have grown since the last call. New features are absent in the rows held.
        first_row
            Number of the block's first row, which equals the number of rows that the reservoir has seen.
        start
            First row that is explained. Earlier rows enter and draw nothing.
        draws
            Number of background rows drawn for each feature of each row.

        Returns
        -------
        (rows from `start` on, draws, d): at [i, k, j] the value of feature j in the k-th row drawn for feature j.
        """
        return self.serve(block, first_row, start, Wanted(values=draws)).values

    def serve(self, block: NDArray[np.float64], first_row: int, start: int, wanted: Wanted) -> Drawn:
        """Draw as `pass_through` does, for several methods in one pass.

        The draws of one method do not depend on those of another.
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
    chosen = np.empty(inner, np.int64)
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
                    place = _other_place(held, key, row, step * inner, k, inner, chosen)
                    whole[i - skipped, step, k] = rows[place]
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


@kernel
def _other_place(held, key, row, first, k, inner, chosen):  # type: ignore[no-untyped-def]
    """Return the k-th of `inner` different places below `held`, by Floyd's algorithm; any places if `held` is smaller.

    All sets of places are equally likely. `chosen` keeps the places up to the k-th.
    """
    if held < inner:
        return below(held, key, row, _ISAGE, first + k)
    newest = held - inner + k
    place = below(newest + 1, key, row, _ISAGE, first + k)
    for earlier in range(k):
        if chosen[earlier] == place:
            place = newest
            break
    chosen[k] = place
    return place
