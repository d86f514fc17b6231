"""Bounded history of an endless stream: recent items are complete, older items are thinned."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Generic, TypeVar

T = TypeVar("T")


class Thinned(Generic[T]):
    """All of the newest items, and every `stride`-th of the older ones, starting with the first.

    `stride` starts at 1 and doubles whenever more than `older` items would be kept. Which of n items are kept
    depends on n alone.

    Parameters
    ----------
    older, newest
        Largest numbers of older and of newest items to keep. `limit` can lower both later.

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
        """Number of items added so far, which is the position of the next item."""
        self._older: list[T] = []
        self._newest: deque[T] = deque()

    def limit(self, older: int, newest: int) -> None:
        """Keep fewer items, from the next item on.

        Raises
        ------
        ValueError
            One of the numbers is less than 1.
        """
        if older < 1 or newest < 1:
            raise ValueError(f"expected to keep 1 or more of each, got older={older}, newest={newest}")
        self._most_older, self._most_newest = older, newest

    def add(self, item: T) -> None:
        """Add the next item."""
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
        """Return the items from a position on; None if some of them may have been thinned out."""
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
    """Group of consecutive events.

    Attributes
    ----------
    index
        Index `seq // width` of the bin.
    first, last
        Smallest and largest seq.
    count
        Number of events with a value.
    total
        Sum of the values.
    note
        Note of the last event that had one.
    ts
        Largest time of an event in milliseconds; None if none has one.
    """

    index: int
    first: int
    last: int
    count: int = 0
    total: float = 0.0
    note: float | None = None
    ts: int | None = None

    @property
    def mean(self) -> float | None:
        """Mean of the values; None if there are none."""
        return self.total / self.count if self.count else None

    def join(self, later: "Bin") -> None:
        """Merge the next bin into this one."""
        self.last = later.last
        self.count += later.count
        self.total += later.total
        self.note = later.note if later.note is not None else self.note
        self.meet(later.ts)

    def meet(self, ts: int | None) -> None:
        """Note the time of an event."""
        if ts is not None:
            self.ts = ts if self.ts is None else max(self.ts, ts)


class Bins:
    """Means of a value over runs of `width` events. `width` doubles when there are too many runs.

    Parameters
    ----------
    width
        Initial number of events per bin.
    most
        Largest number of bins.

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

    def add(self, seq: int, value: float | None, note: float | None = None, ts: int | None = None) -> None:
        """Add the next event. An event whose seq is not above the last one is ignored."""
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
        bin.meet(ts)
        while len(self._bins) > self._most:
            self._widen()

    def shown(self) -> list[Bin]:
        """Return the bins, but omit a newest bin that is less than half full: a mean of few events misleads."""
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
