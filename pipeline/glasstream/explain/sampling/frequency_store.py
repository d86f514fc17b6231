"""Thinned store of each feature's recent values, and their quantiles (001, Algorithm 3).

A store holds `size` values. Every value enters until the store is full. After that, each value enters with probability
p and replaces the oldest. So the values cover about the last size / p rows. A feature that has been absent for longer
loses its values.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, uniform
from glasstream.base.jit import kernel
from glasstream.explain.sampling.knots import between

Arrays = dict[str, NDArray[np.generic]]
_ENTER = int(Purpose.FREQUENCY_STORE)
_NEVER = np.iinfo(np.int64).min // 2


@dataclass(slots=True)
class FrequencyStore:
    """Thinned window of each feature's values.

    Parameters
    ----------
    size
        Number of values held per feature.
    probability
        Probability p with which a value enters a full store.
    key
        Key words of the stream, from `glasstream.base.draws.stream_key`.
    """

    size: int
    probability: float
    key: NDArray[np.uint64]
    values: NDArray[np.float64]
    """(d, size) ring buffers of values."""
    ordered: NDArray[np.float64]
    """(d, size) same values in ascending order."""
    held: NDArray[np.int64]
    """(d,) number of values."""
    oldest: NDArray[np.int64]
    """(d,) place of the oldest value in a full store."""
    seen: NDArray[np.int64]
    """(d,) number of the last row in which the feature had a value."""

    @classmethod
    def empty(cls, size: int, probability: float, key: NDArray[np.uint64]) -> "FrequencyStore":
        """Return a store without features."""
        values, numbers = np.zeros((0, size)), np.zeros(0, np.int64)
        return cls(size, probability, key, values, values.copy(), numbers, numbers.copy(), numbers.copy())

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.held)

    @property
    def window(self) -> int:
        """Average number of rows that a full store covers."""
        return ceil(self.size / self.probability)

    def widen(self, width: int) -> None:
        """Make room for new features."""
        more = width - self.width
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
        """For each row, write the quantiles of the values before it, and then let the row enter.

        Parameters
        ----------
        block
            (count, d) consecutive rows.
        slots
            Features to follow.
        first_row, start
            Number of the block's first row, and first row for which quantiles are written.
        levels
            (q,) levels between 0 and 1. Quantiles are interpolated linearly (Hyndman and Fan's type 7).
        out
            (rows from `start` on, q or more, d) output, NaN where the store is empty.
        """
        _pass_through(
            self.probability, self.window, self.key, self.values, self.ordered, self.held, self.oldest, self.seen,
            block, slots, first_row, start, levels, out,
        )  # fmt: skip

    def state(self) -> Arrays:
        """Return the state."""
        return {"values": self.values, "held": self.held, "oldest": self.oldest, "seen": self.seen}

    @classmethod
    def restore(
        cls, size: int, probability: float, key: NDArray[np.uint64], state: Mapping[str, NDArray[np.generic]]
    ) -> "FrequencyStore":
        """Restore the store from a saved state.

        Raises
        ------
        ValueError
            The state belongs to a store of another size.
        """
        held, oldest, seen = (np.array(state[name], np.int64) for name in ("held", "oldest", "seen"))
        if held.ndim != 1 or not held.shape == oldest.shape == seen.shape:
            raise ValueError("expected numbers of each feature")
        if bool(((held < 0) | (held > size) | (oldest < 0) | (oldest >= size)).any()):
            raise ValueError(f"expected at most {size} values of each feature")
        values = np.array(state["values"], np.float64).reshape(len(held), size)
        ordered = np.zeros_like(values)
        for j, count in enumerate(held):
            ordered[j, :count] = np.sort(values[j, :count])
        if not np.isfinite(values).all():
            raise ValueError("expected finite values")
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
            value = block[i, j] + 0.0  # turns -0.0 into 0.0, so that equal values have equal bits
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
