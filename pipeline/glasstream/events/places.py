"""The places of streams on a partition: which stream gives up its place to a new one when all are taken.

`limits.streams` bounds the streams of a partition. If a producer puts the id of a user or of an event into the key,
each id is a stream of its own, and they soon take all places. Such streams have few events and then none. So a stream
gives up its place to a new one if it has fewer events than `explain.start`, which means that nothing of it was
explained, and if no event or label of it has come for long. Which one that is depends on the log and the settings only.
"""

from collections.abc import Iterable
from typing import Final

from glasstream.events.limits import IngestLimits
from glasstream_topics.events_dead import Reason

TURNS: Final = 10
"""A stream is idle if so many messages for each place have come since its newest event or label."""


class Places:
    """Places of the streams of one partition.

    Parameters
    ----------
    limits
        Limits; see `IngestLimits`.
    few
        A stream with as many events keeps its place for good.
    """

    def __init__(self, limits: IngestLimits, few: int) -> None:
        self._limits = limits
        self._few = few
        self._events: dict[str, int] = {}
        """Accepted events by stream, for all streams."""
        self._total = 0
        self._newest: dict[str, int] = {}
        """Offset of the newest message by stream, oldest first, for all streams that may give up their place."""

    def restart(self, streams: Iterable[tuple[str, int, int]]) -> None:
        """Begin with streams in any order: name, offset of the newest message with an event or label, and events."""
        self._events, self._newest, self._total = {}, {}, 0
        for name, offset, events in sorted(streams, key=lambda one: one[1]):
            self.note(name, offset, events)

    def note(self, name: str, offset: int, events: int) -> None:
        """Note a message of a stream, and the number of events that were accepted up to it."""
        self._total += events - self._events.get(name, 0)
        self._events[name] = events
        self._newest.pop(name, None)
        if events < self._few:
            self._newest[name] = offset

    def forget(self, name: str) -> None:
        """Note that a stream has given up its place."""
        self._total -= self._events.pop(name, 0)
        self._newest.pop(name, None)

    def idle(self, offset: int) -> str | None:
        """Return the stream that gives up its place to one that begins at an offset; None if none does."""
        for name, newest in self._newest.items():
            return name if offset - newest > TURNS * self._limits.streams else None
        return None

    def refusal(self, name: str) -> tuple[Reason, str]:
        """Return the reason why a further stream gets no place."""
        count, few, small = len(self._events), self._few, len(self._newest)
        question = ""
        if 2 * small > count:
            question = (
                f"; {small:,} of these {count:,} streams have fewer than {few:,} events (explain.start), and all have "
                f"{self._total:,} together: is the key the id of a user or of an event? Then send the name "
                "of what has a model of its own as key. A stream of so few events gives up its place when "
                f"{TURNS * self._limits.streams:,} messages have come since its newest"
            )
        return (
            Reason.TOO_MANY_STREAMS,
            f"expected at most {self._limits.streams:,} streams on a partition (limits.streams), got one more, "
            f"{name!r:.300}{question}. If there are that many streams, raise the limit (each takes memory), or spread "
            "them over more partitions",
        )
