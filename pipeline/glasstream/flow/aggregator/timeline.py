"""How the entries of a stream are numbered in the records that are published.

Usually a stream has one timeline, of its rows. With `explain.unlabelled` it has two: importance and all else that needs
labels is indexed by row, and effects by event, in which the number of a row is the `seq` of its event.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream_topics.blocks import Block
from glasstream_topics.methods import BOTH, LABELLED


class Span(NamedTuple):
    """Consecutive entries on a timeline."""

    mask: NDArray[np.bool_]
    """(count,) the entries that are on it."""
    rows: NDArray[np.int64]
    """(count,) number of the newest row after each entry."""
    seqs: NDArray[np.int64]
    """(count,) events of the entries."""
    times: Sequence[int | None]
    """Times of the events in milliseconds; empty if none has one."""
    before: int
    """Number of the newest row before them."""

    def moment(self, entry: int) -> tuple[int, int, int | None]:
        """Return the row, event and time of an entry."""
        return int(self.rows[entry]), int(self.seqs[entry]), self.times[entry] if self.times else None

    def due(self, every: int) -> NDArray[np.bool_]:
        """Return (count,) the entries at which the number of rows passes a multiple of `every`."""
        passed = (self.rows + 1) // every
        due: NDArray[np.bool_] = np.diff(passed, prepend=(self.before + 1) // every) > 0
        return due


@dataclass(slots=True)
class Timeline:
    """One timeline of a stream, up to the newest aggregated entry."""

    part: int
    """Part of the explanations that is indexed by it."""
    row: int
    """Newest row; on the timeline of events -1 before the first."""
    seq: int = 0
    """Event of this row."""
    ts: int | None = None
    """Time of this event in milliseconds, if it has one."""
    published: int = -1
    """Row as of which records were last due; -1 before the first."""

    def span(self, block: Block, skip: int) -> Span:
        """Return the entries of a block from `skip` on, which are the next ones, on this timeline."""
        mask, seqs, before = block.has(self.part)[skip:], block.seqs[skip:], self.row
        if self.part == BOTH:
            rows = block.first_row + np.arange(skip, block.count)
        elif self.part == LABELLED:
            rows = before + np.cumsum(mask)
        else:
            if before < 0 and mask.any():
                before = int(seqs[mask][0]) - 1
            rows = np.maximum.accumulate(np.where(mask, seqs, before))
        return Span(mask, rows, seqs, block.times[skip:], before)

    def advance(self, span: Span, entries: slice) -> None:
        """Move to the last of some entries."""
        own = np.flatnonzero(span.mask[entries])
        if len(own):
            last = entries.start + int(own[-1])
            self.row, self.seq, self.ts = span.moment(last)
