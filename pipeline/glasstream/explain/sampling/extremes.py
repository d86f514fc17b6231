"""Minimum and maximum of each feature in a window of rows (001, Algorithm 2).

Each feature has two monotonic queues. A value that a later one equals or exceeds can never be the maximum again, so it
is dropped when the later one enters. The front of the queue is the maximum. The minimum is the maximum of the negated
values. A queue holds about ln(window) values of a stationary stream, and the whole window of a monotone one.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel

Arrays = dict[str, NDArray[np.generic]]
_CAPACITY = 16
"""Initial number of places in each queue. It doubles when a queue is full, up to the window."""


@dataclass(slots=True)
class Extremes:
    """Minimum and maximum over the last `window` rows, ignoring absent values.

    Parameters
    ----------
    window
        Number of rows in the window.
    """

    window: int
    rows: NDArray[np.int64]
    """(2, d, capacity) ring buffers of row numbers; [0] belongs to the minimum, [1] to the maximum."""
    values: NDArray[np.float64]
    """(2, d, capacity) values of these rows, negated for the minimum."""
    head: NDArray[np.int64]
    """(2, d) place of each queue's front."""
    size: NDArray[np.int64]
    """(2, d) number of values in each queue."""

    @classmethod
    def empty(cls, window: int) -> "Extremes":
        """Return an instance without features."""
        capacity = min(_CAPACITY, window)
        none = np.zeros((2, 0), np.int64)
        return cls(window, np.zeros((2, 0, capacity), np.int64), np.zeros((2, 0, capacity)), none, none.copy())

    @property
    def width(self) -> int:
        """Number of features."""
        return int(self.size.shape[1])

    def widen(self, width: int) -> None:
        """Make room for new features."""
        more = width - self.width
        if more > 0:
            self.rows = np.pad(self.rows, ((0, 0), (0, more), (0, 0)))
            self.values = np.pad(self.values, ((0, 0), (0, more), (0, 0)))
            self.head = np.pad(self.head, ((0, 0), (0, more)))
            self.size = np.pad(self.size, ((0, 0), (0, more)))

    def pass_through(
        self,
        block: NDArray[np.float64],
        slots: NDArray[np.int64],
        first_row: int,
        start: int,
        out: NDArray[np.float64],
    ) -> None:
        """For each row, write the minimum and maximum of the rows before it, and then let the row enter.

        Parameters
        ----------
        block
            (count, d) consecutive rows.
        slots
            Features to follow.
        first_row, start
            Number of the block's first row, and first row for which extremes are written.
        out
            (rows from `start` on, 2 or more, d) output: the minimum at [:, 0] and the maximum at [:, 1], NaN where
            there is none.
        """
        done = 0
        while True:
            done = _pass_through(
                self.window, self.rows, self.values, self.head, self.size, block, slots, first_row, start, done, out
            )
            if done == len(block):
                return
            self._grow(min(self.window, 2 * self.rows.shape[2]))

    def state(self) -> Arrays:
        """Return the state without the free places."""
        held = np.arange(self.rows.shape[2]) < self.size[:, :, None]
        rows, values = self._from_front()
        return {"size": self.size, "rows": rows[held], "values": values[held]}

    @classmethod
    def restore(cls, window: int, state: Mapping[str, NDArray[np.generic]]) -> "Extremes":
        """Restore the extremes from a saved state.

        Raises
        ------
        ValueError
            The state does not belong to extremes of such a window.
        """
        made = cls.empty(window)
        size = np.array(state["size"], np.int64)
        if size.ndim != 2 or len(size) != 2 or bool(((size < 0) | (size > window)).any()):
            raise ValueError(f"expected two queues of at most {window} values for each feature")
        if not state["rows"].shape == state["values"].shape == (size.sum(),) or not np.isfinite(state["values"]).all():
            raise ValueError(f"expected {size.sum()} values and their rows")
        made.widen(size.shape[1])
        made._grow(max(made.rows.shape[2], int(size.max(initial=0))))
        held = np.arange(made.rows.shape[2]) < size[:, :, None]
        made.rows[held] = state["rows"]
        made.values[held] = state["values"]
        made.size = size
        return made

    def _from_front(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return rows and values with every front at place 0."""
        places = (self.head[:, :, None] + np.arange(self.rows.shape[2])) % self.rows.shape[2]
        return np.take_along_axis(self.rows, places, 2), np.take_along_axis(self.values, places, 2)

    def _grow(self, capacity: int) -> None:
        more = capacity - self.rows.shape[2]
        rows, values = self._from_front()
        self.rows = np.pad(rows, ((0, 0), (0, 0), (0, more)))
        self.values = np.pad(values, ((0, 0), (0, 0), (0, more)))
        self.head = np.zeros_like(self.head)


@kernel
def _pass_through(window, rows, values, head, size, block, slots, first_row, start, begin, out):  # type: ignore[no-untyped-def]
    """Process rows from `begin` on. Return the row before which a queue needs more places, or the number of rows."""
    capacity = rows.shape[2]
    count = block.shape[0]
    skipped = count - out.shape[0]
    fullest = 0
    for q in range(2):
        for j in slots:
            fullest = max(fullest, size[q, j])
    for i in range(begin, count):
        if fullest == capacity and capacity < window:
            return i
        row = first_row + i
        for j in slots:
            value = block[i, j]
            for q in range(2):
                if size[q, j] > 0 and rows[q, j, head[q, j]] < row - window:
                    head[q, j] = (head[q, j] + 1) % capacity
                    size[q, j] -= 1
                sign = 1.0 if q == 1 else -1.0
                if row >= start:
                    out[i - skipped, q, j] = sign * values[q, j, head[q, j]] if size[q, j] > 0 else np.nan
                if not np.isfinite(value):
                    continue
                if size[q, j] > 0 and rows[q, j, head[q, j]] == row - window:  # outside the window of the next row
                    head[q, j] = (head[q, j] + 1) % capacity
                    size[q, j] -= 1
                while size[q, j] > 0 and values[q, j, (head[q, j] + size[q, j] - 1) % capacity] <= sign * value:
                    size[q, j] -= 1
                place = (head[q, j] + size[q, j]) % capacity
                rows[q, j, place] = row
                values[q, j, place] = sign * value
                size[q, j] += 1
                fullest = max(fullest, size[q, j])
    return count
