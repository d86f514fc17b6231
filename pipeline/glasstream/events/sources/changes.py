"""Injected drift: a change of the source at a chosen event, either sudden or gradual."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, stream_key, uniform

_CHANGE = int(Purpose.CHANGE)


@dataclass(frozen=True, slots=True)
class Change:
    """Decides which events of a stream come after the change.

    Events before event `at` come before the change (events count from 0), and all events from `at + width` on come
    after it. In between, event n comes after it with probability (n - at + 1) / width. The draw depends only on the
    seed, the stream's name and n.

    Examples
    --------
    >>> [Change(3, 0, 1, "s").has_come(n) for n in (2, 3, 4)]
    [False, True, True]
    >>> gradual = Change(0, 1_000, 1, "s")
    >>> [sum(gradual.has_come(n) for n in range(first, first + 250)) for first in (0, 250, 500, 750, 1_000)]
    [31, 102, 157, 220, 250]
    """

    at: int
    width: int
    seed: int
    stream: str
    _key: NDArray[np.uint64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_key", stream_key(self.seed, self.stream))

    def has_come(self, number: int) -> bool:
        """Return whether an event comes after the change."""
        since = number - self.at + 1
        if since <= 0 or since >= self.width:
            return since > 0
        return bool(uniform(self._key, number, _CHANGE, 0) < since / self.width)
