"""Bounded history of an endless stream: complete where it is new, thinned where it is old."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Thinned(Generic[T]):
    """The newest items all; of older ones the first and every `stride`-th after it.

    `stride` begins with 1 and doubles whenever more than `older` would be kept, so that what is kept of n items is a
    function of n alone.

    Parameters
    ----------
    older, newest
        How many items are kept of each, at most; both may be lowered later with `limit`.

    >>> kept = Thinned(older=4, newest=2)
    >>> for item in range(12):
    ...     kept.add(item)
    >>> list(kept), kept.stride, kept.total
    ([0, 4, 8, 10, 11], 4, 12)
    """

    def __init__(self, older: int, newest: int) -> None:
        self.limit(older, newest)
        self.stride = 1
        self.total = 0
        """Items added so far; the next one's position."""
        self._older: list[T] = []
        self._newest: deque[T] = deque()

    def limit(self, older: int, newest: int) -> None:
        """Keep fewer, from the next item on.

        Raises
        ------
        ValueError
            Less than one of either.
        """
        if older < 1 or newest < 1:
            raise ValueError(f"expected to keep 1 or more of each, got older={older}, newest={newest}")
        self._most_older, self._most_newest = older, newest

    def add(self, item: T) -> None:
        """Take the next item."""
        self._newest.append(item)
        self.total += 1
        while len(self._newest) > self._most_newest:
            position = self.total - len(self._newest)
            aged = self._newest.popleft()
            if position % self.stride == 0:
                self._older.append(aged)
        while len(self._older) > self._most_older:
            self._older = self._older[::2]
            self.stride *= 2

    def since(self, position: int) -> list[T] | None:
        """The items from a position on; None if some of them may have been thinned out."""
        first = self.total - len(self._newest)
        if position < first:
            return None
        return list(islice(self._newest, position - first, None))

    def __iter__(self) -> Iterator[T]:
        yield from self._older
        yield from self._newest

    def __len__(self) -> int:
        return len(self._older) + len(self._newest)


@dataclass(slots=True)
class Bin:
    """Consecutive events taken together.

    Attributes
    ----------
    index
        `seq // width` of all of them.
    first, last
        The smallest and the largest seq.
    count, total
        Events with a number, and the sum of these.
    note
        What was noted with the last event that had a note.
    """

    index: int
    first: int
    last: int
    count: int = 0
    total: float = 0.0
    note: float | None = None

    @property
    def mean(self) -> float | None:
        """Of the numbers; None where there are none."""
        return self.total / self.count if self.count else None

    def join(self, later: "Bin") -> None:
        """Take in the bin behind this one."""
        self.last = later.last
        self.count += later.count
        self.total += later.total
        self.note = later.note if later.note is not None else self.note


class Bins:
    """Means of a number of every event, over runs of `width` events; `width` doubles when there are too many runs.

    Parameters
    ----------
    width
        To begin with.
    most
        Bins that are kept, at most.

    >>> bins = Bins(width=2, most=2)
    >>> for seq, value in enumerate([1.0, 3.0, 5.0, 5.0, 9.0]):
    ...     bins.add(seq, value)
    >>> bins.width, [(one.first, one.last, one.mean) for one in bins]
    (4, [(0, 3, 3.5), (4, 4, 9.0)])
    """

    def __init__(self, width: int, most: int) -> None:
        self.width = width
        self._most = most
        self._bins: list[Bin] = []

    def add(self, seq: int, value: float | None, note: float | None = None) -> None:
        """Take the next event; a seq that is not above the last one is ignored."""
        if self._bins and seq <= self._bins[-1].last:
            return
        index = seq // self.width
        if not self._bins or self._bins[-1].index != index:
            self._bins.append(Bin(index, seq, seq))
        bin = self._bins[-1]
        bin.last = seq
        if value is not None:
            bin.count += 1
            bin.total += value
        if note is not None:
            bin.note = note
        while len(self._bins) > self._most:
            self._widen()

    def shown(self) -> list[Bin]:
        """Return the bins, without the newest one while it is less than half full: a mean of few events misleads."""
        if len(self._bins) > 1 and self._bins[-1].last - self._bins[-1].index * self.width < self.width // 2:
            return self._bins[:-1]
        return self._bins

    def __iter__(self) -> Iterator[Bin]:
        return iter(self._bins)

    def __len__(self) -> int:
        return len(self._bins)

    def _widen(self) -> None:
        self.width *= 2
        joined: list[Bin] = []
        for bin in self._bins:
            bin.index //= 2
            if joined and joined[-1].index == bin.index:
                joined[-1].join(bin)
            else:
                joined.append(bin)
        self._bins = joined
