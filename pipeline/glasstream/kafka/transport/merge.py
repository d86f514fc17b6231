"""Messages of several partitions in the order of their timestamps, as far as partitions are fetched."""

import math
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter

from glasstream.events.message import Message

Place = tuple[str, int]

PATIENCE = 5.0
"""Seconds to listen for messages of a partition that has more of them."""
AHEAD_BYTES = 64 * 1024 * 1024
LEAST_AHEAD_BYTES = 2 * 1024 * 1024
"""Bytes of messages that wait for those of other partitions: of all partitions, and at least of each."""
END_OF_TRANSACTION = 1
"""Offsets that a partition may have after its last message: the broker writes a marker there."""


@dataclass(slots=True)
class _Run:
    """Messages of one partition that were fetched and wait for those of other partitions."""

    following: int
    """Next offset to fetch."""
    heard: float
    """When the partition sent a message last, or could not have sent one."""
    messages: list[Message] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    """For each message, the latest timestamp of the partition so far. So the merge keeps the partition's own order."""
    size: int = 0
    ended: bool = False
    """Whether the last fetch reached the end of the partition."""
    paused: bool = False

    def is_awaited(self, end: int, now: float) -> bool:
        """Return whether further messages will come soon."""
        if self.ended or end - self.following <= END_OF_TRANSACTION:
            return False
        return self.paused or now - self.heard < PATIENCE


class Merge:
    """Messages of a backlog by their timestamps.

    While a partition has messages that are not fetched yet, no message is handed on that is later than its last one.
    A partition that is fetched to its end, or that sends nothing for `PATIENCE` seconds, is not waited for: then, the
    order is that of arrival.

    Every `now` is the number of seconds that were spent in asking the client for messages: while others are processed,
    no partition is silent.
    """

    def __init__(self) -> None:
        self._runs: dict[Place, _Run] = {}

    def begin(self, places: Mapping[Place, int], now: float) -> None:
        """Forget everything, and expect messages of these partitions from these offsets on.

        Of messages with the same time, those of the first partition come first.
        """
        self._runs = {place: _Run(offset, now) for place, offset in places.items()}

    def __iter__(self) -> Iterator[Place]:
        """Iterate over the partitions."""
        return iter(self._runs)

    def add(self, message: Message, now: float) -> int:
        """Add a message, and return its size in bytes; 0 if it is not expected."""
        run = self._runs.get((message.topic, message.partition))
        if run is None or message.offset < run.following:
            return 0  # fetched before the partition was released, or fetched again
        run.following = message.offset + 1
        run.heard = now
        run.ended = False
        time = -1 if message.timestamp is None else message.timestamp
        run.times.append(max(time, run.times[-1]) if run.times else time)
        run.messages.append(message)
        size = message.size
        run.size += size
        return size

    def reach_end(self, place: Place) -> int | None:
        """Note that a partition gives no further messages now. Return the next offset; None if it is not expected."""
        run = self._runs.get(place)
        if run is None:
            return None
        run.ended = True
        return run.following

    def take(self, ends: Mapping[Place, int], now: float, count: int, size: int) -> list[Message]:
        """Remove and return messages whose order is known.

        Parameters
        ----------
        ends
            Ends of the partitions, as far as they are known.
        now
            See the class.
        count, size
            Largest number of messages and of bytes. One message may be larger.
        """
        until = math.inf
        for place, run in self._runs.items():
            if run.is_awaited(ends.get(place, 0), now):
                until = min(until, run.times[-1] if run.times else -math.inf)
        known = [
            pair
            for run in self._runs.values()
            for pair in zip(run.times[: bisect_right(run.times, until)], run.messages, strict=False)
        ]
        known.sort(key=itemgetter(0))
        messages = [message for _, message in known[:count]]
        room = bisect_right([*accumulate(message.size for message in messages)], size)
        del messages[max(1, room) :]
        self._remove(messages)
        return messages

    def _remove(self, messages: Collection[Message]) -> None:
        """Remove messages, of each partition the first ones."""
        counts = dict.fromkeys(self._runs, 0)
        for message in messages:
            place = (message.topic, message.partition)
            counts[place] += 1
            self._runs[place].size -= message.size
        for place, number in counts.items():
            run = self._runs[place]
            del run.messages[:number], run.times[:number]

    def turn(self, now: float) -> tuple[list[Place], list[Place]]:
        """Return the partitions to pause, because too much of them waits, and those to resume."""
        most = max(LEAST_AHEAD_BYTES, AHEAD_BYTES // max(1, len(self._runs)))
        pause = [place for place, run in self._runs.items() if not run.paused and run.size > most]
        resume = [place for place, run in self._runs.items() if run.paused and run.size <= most // 2]
        for place in pause:
            self._runs[place].paused = True
        for place in resume:
            self._runs[place].paused = False
            self._runs[place].heard = now
        return pause, resume
