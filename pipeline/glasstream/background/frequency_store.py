"""Recent values of each feature, thinned out, and their quantiles (001, Algorithm 3).

A store holds `size` values. Until it is full every value enters, then each with a probability p, and the oldest
leaves; so the values cover about the last size / p rows. A feature that has been absent for longer than that is
forgotten.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from glasstream.background.knots import between
from glasstream.draws import Purpose, uniform
from glasstream.jit import kernel

Arrays = dict[str, NDArray[np.generic]]
_ENTER = int(Purpose.FREQUENCY_STORE)
_NEVER = np.iinfo(np.int64).min // 2


@dataclass(slots=True)
class FrequencyStore:
    """A thinned window of each feature's values.

    Parameters
    ----------
    size
        Values held of a feature.
    probability
        p, with which a value enters a full store.
    key
        The stream's key words, from `glasstream.draws.stream_key`.
    """

    size: int
    probability: float
    key: NDArray[np.uint64]
    values: NDArray[np.float64]
    """(d, size) ring buffers."""
    ordered: NDArray[np.float64]
    """(d, size) the same values by size."""
    held: NDArray[np.int64]
    """(d,) how many values."""
    oldest: NDArray[np.int64]
    """(d,) place of the oldest value of a full store."""
    seen: NDArray[np.int64]
    """(d,) the last row in which the feature had a value."""

    @classmethod
    def empty(cls, size: int, probability: float, key: NDArray[np.uint64]) -> "FrequencyStore":
        """No feature seen."""
        values, numbers = np.zeros((0, size)), np.zeros(0, np.int64)
        return cls(size, probability, key, values, values.copy(), numbers, numbers.copy(), numbers.copy())

    @property
    def window(self) -> int:
        """Rows that a full store covers, on average."""
        return ceil(self.size / self.probability)

    def widen(self, width: int) -> None:
        """Make place for features that came later."""
        more = width - len(self.held)
        if more > 0:
            self.values = np.pad(self.values, ((0, more), (0, 0)))
            self.ordered = np.pad(self.ordered, ((0, more), (0, 0)))
            self.held = np.pad(self.held, (0, more))
            self.oldest = np.pad(self.oldest, (0, more))
            self.seen = np.pad(self.seen, (0, more), constant_values=_NEVER)

    def pass_through(
        self,
        block: NDArray[np.float64],
        slots: NDArray[np.int64],
        first_row: int,
        start: int,
        levels: NDArray[np.float64],
        out: NDArray[np.float64],
    ) -> None:
        """Write each row's quantiles of the values before it, and let the row enter after it.

        Parameters
        ----------
        block
            (count, d) consecutive rows.
        slots
            The features that are followed.
        first_row, start
            Number of the block's first row, and the first row for which something is written.
        levels
            (q,) between 0 and 1. Between two values a quantile is interpolated linearly (Hyndman and Fan's type 7).
        out
            (rows from `start` on, q or more, d), NaN where the store has nothing.
        """
        _pass_through(
            self.probability, self.window, self.key, self.values, self.ordered, self.held, self.oldest, self.seen,
            block, slots, first_row, start, levels, out,
        )  # fmt: skip

    def state(self) -> Arrays:
        """What is held."""
        return {"values": self.values, "held": self.held, "oldest": self.oldest, "seen": self.seen}

    @classmethod
    def restore(
        cls, size: int, probability: float, key: NDArray[np.uint64], state: Mapping[str, NDArray[np.generic]]
    ) -> "FrequencyStore":
        """The store as it was when `state` was taken.

        Raises
        ------
        ValueError
            The state is one of another size.
        """
        held = np.array(state["held"], np.int64)
        values = np.array(state["values"], np.float64).reshape(len(held), size)
        ordered = np.zeros_like(values)
        for j, count in enumerate(held):
            ordered[j, :count] = np.sort(values[j, :count])
        oldest, seen = np.array(state["oldest"], np.int64), np.array(state["seen"], np.int64)
        return cls(size, probability, key, values, ordered, held, oldest, seen)


@kernel
def _pass_through(  # type: ignore[no-untyped-def]
    probability, window, key, values, ordered, held, oldest, seen, block, slots, first_row, start, levels, out
):
    size = values.shape[1]
    skipped = block.shape[0] - out.shape[0]
    for i in range(block.shape[0]):
        row = first_row + i
        for j in slots:
            if seen[j] < row - window:
                held[j] = 0
                oldest[j] = 0
            if row >= start:
                for q in range(len(levels)):
                    out[i - skipped, q, j] = _quantile(ordered[j], held[j], levels[q]) if held[j] > 0 else np.nan
            value = block[i, j] + 0.0  # no negative zero: equal values are the same bits in any order
            if not np.isfinite(value):
                continue
            seen[j] = row
            if held[j] < size:
                values[j, held[j]] = value
                _insert(ordered[j], held[j], value)
                held[j] += 1
            elif uniform(key, row, _ENTER, j) < probability:
                _remove(ordered[j], size, values[j, oldest[j]])
                _insert(ordered[j], size - 1, value)
                values[j, oldest[j]] = value
                oldest[j] = (oldest[j] + 1) % size


@kernel
def _quantile(ordered, count, level):  # type: ignore[no-untyped-def]
    place = level * (count - 1)
    below = min(int(place), count - 1)
    above = min(below + 1, count - 1)
    return between(ordered[below], ordered[above], place - below)


@kernel
def _insert(ordered, count, value):  # type: ignore[no-untyped-def]
    place = np.searchsorted(ordered[:count], value)
    for k in range(count, place, -1):
        ordered[k] = ordered[k - 1]
    ordered[place] = value


@kernel
def _remove(ordered, count, value):  # type: ignore[no-untyped-def]
    place = np.searchsorted(ordered[:count], value)
    for k in range(place, count - 1):
        ordered[k] = ordered[k + 1]
