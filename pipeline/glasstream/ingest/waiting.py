"""Events that wait for their labels: which one a label is of, as a function of the log.

An event that has an `id` and no `y` waits until so many further events of its stream have been accepted. A label goes
to the event that waits under its `id`; of two the newer one waits. What has been labelled is remembered as long, so
that a second label is told from one that belongs to nothing; events that came with their `y` are remembered from the
first one on that came without, so that a stream whose labels are never late pays nothing.
"""

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from glasstream.ingest.admission import Admission
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label

Kept = TypeVar("Kept")


class Joined(NamedTuple, Generic[Kept]):
    """A label and the event that it is of."""

    seq: int
    kept: Kept
    """What was kept of the event."""
    target: str | float


@dataclass(slots=True)
class Waiting(Generic[Kept]):
    """The events of one stream that wait.

    Parameters
    ----------
    window
        An event waits while it is among the newest so many of its stream; 0: none waits.
    """

    window: int
    events: OrderedDict[str, tuple[int, Kept | None]] = field(default_factory=OrderedDict)
    """By id, the oldest first: seq, and what is kept; None where the label has come."""
    begun: bool = False
    """Whether any event has waited."""
    waiting: int = 0
    """Events that wait."""
    joined: int = 0
    """Labels that came late."""
    missed: int = 0
    """Events that do not wait any more, and whose labels never came."""

    def add(self, event_id: str, seq: int, kept: Kept) -> None:
        """An event came without its label."""
        if self.window:
            self.begun = True
            self._remember(event_id, seq, kept)
            self.waiting += 1

    def labelled(self, event_id: str, seq: int) -> None:
        """An event came with its label."""
        if self.begun:
            self._remember(event_id, seq, None)

    def join(self, label: Label, admission: Admission) -> Joined[Kept] | tuple[Reason, str]:
        """The event that a label is of, which no longer waits; or why it is of none, and then all is as before.

        Parameters
        ----------
        admission
            Of the stream, as of the label's position.
        """
        event_id = str(label.id)
        self.expire(admission.seq)
        found = self.events.get(event_id)
        if found is None:
            return (
                Reason.UNKNOWN_ID,
                f"expected the `id` of an event without `y` among the newest {self.window} of the stream "
                f"(labels.window), got {event_id!r:.60}: it has not come yet, is older, or never waited",
            )
        seq, kept = found
        if kept is None:
            return Reason.DOUBLED_LABEL, f"expected one label an event, got another of {event_id!r:.60}, seq {seq}"
        target = admission.target(label.y)
        if isinstance(target, tuple):
            return target
        self.events[event_id] = (seq, None)
        self.waiting -= 1
        self.joined += 1
        return Joined(seq, kept, target)

    def awaits(self, seqs: Collection[int]) -> bool:
        """Whether any of these events still waits."""
        return any(seq in seqs and kept is not None for seq, kept in self.events.values())

    def expire(self, seqs: int) -> None:
        """Forget what is too old once `seqs` events have been accepted. When this is called changes nothing."""
        events, oldest = self.events, seqs - self.window
        while events:
            event_id = next(iter(events))
            seq, kept = events[event_id]
            if seq >= oldest:
                return
            del events[event_id]
            self._miss(kept)

    def give_up(self) -> int:
        """Wait for no label any more; how many never came, of all."""
        self.expire(max((seq for seq, _ in self.events.values()), default=0) + self.window + 1)
        return self.missed

    def _remember(self, event_id: str, seq: int, kept: Kept | None) -> None:
        before = self.events.pop(event_id, None)
        if before is not None:
            self._miss(before[1])
        self.events[event_id] = (seq, kept)
        self.expire(seq + 1)

    def _miss(self, kept: Kept | None) -> None:
        if kept is not None:
            self.waiting -= 1
            self.missed += 1
