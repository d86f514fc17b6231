"""Join delayed labels with their events, as a function of the log.

An event that has an `id` and no `y` waits until a fixed number of further events of its stream have been accepted. A
label goes to the event that waits under its `id`; if two events wait under it, to the newer one. Labelled events are
remembered for as long, to distinguish a second label from one that belongs to no event. Events that arrive with their
`y` are remembered only after the first event without one, so that a stream without late labels has no extra cost.

What a stream remembers is bounded in bytes too. Its oldest events are forgotten to make room for a new one. The bytes
are a function of the stream's events alone, so that a stream forgets the same events wherever it resumes, and no stream
makes another one forget.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

import msgspec

from glasstream.events.admission import Admission
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label


class Sized(Protocol):
    """Data that an event keeps."""

    @property
    def size(self) -> int:
        """Approximate bytes of the data. They depend on nothing but the data."""


Kept = TypeVar("Kept", bound=Sized)

_EVENT_BYTES: Final = 256
"""Approximate bytes that an event takes without its id and its data."""


class Joined(msgspec.Struct, Generic[Kept], frozen=True, gc=False):
    """Label and the event that it belongs to."""

    seq: int
    kept: Kept
    """Data that was kept of the event."""
    target: str | float


@dataclass(slots=True)
class Waiting(Generic[Kept]):
    """Events of one stream that wait for their labels.

    Parameters
    ----------
    window
        Number of newest events of the stream among which an event can wait; 0 means that none waits.
    most_bytes
        Most bytes that the remembered events may take; see `bytes`.
    """

    window: int
    most_bytes: int
    events: OrderedDict[str, tuple[int, Kept | None]] = field(default_factory=OrderedDict)
    """seq and kept data by id, oldest first. The data are None if the label has arrived."""
    begun: bool = False
    """Whether any event has waited."""
    waiting: int = 0
    """Number of events that wait."""
    joined: int = 0
    """Number of labels that came late."""
    missed: int = 0
    """Number of events that no longer wait and whose labels never came."""
    dropped: int = 0
    """Number of those that no longer wait because of `most_bytes`."""
    bytes: int = 0
    """Approximate bytes that the remembered events take."""
    _oldest: int = field(default=0, init=False, repr=False, compare=False)
    """Lower bound of the `seq` of every remembered event, so that most calls of `expire` look at no event."""

    def add(self, event_id: str, seq: int, kept: Kept) -> None:
        """Add an event that arrived without its label."""
        self.add_all(((event_id, seq, kept),))

    def labelled(self, event_id: str, seq: int) -> None:
        """Add an event that arrived with its label."""
        self.add_all(((event_id, seq, None),))

    def add_all(self, arrived: Iterable[tuple[str, int, Kept | None]]) -> None:
        """Add events in their order: id, seq, and what is kept, or None of an event that arrived with its label."""
        if not self.window:
            return
        events, seq = self.events, -1
        for event_id, seq, kept in arrived:
            if kept is not None:
                self.begun = True
                self.waiting += 1
            elif not self.begun:
                continue
            if event_id in events:
                self._miss(event_id, events.pop(event_id)[1])
            events[event_id] = (seq, kept)
            self.bytes += size_of(event_id, kept)
            if self.bytes > self.most_bytes:
                self.expire(seq + 1)
                while self.bytes > self.most_bytes:
                    oldest, (_, kept) = events.popitem(last=False)
                    self.dropped += kept is not None
                    self._miss(oldest, kept)
        self.expire(seq + 1)

    def resume(self, event_id: str, seq: int, kept: Kept | None) -> None:
        """Add an event of a saved state, after the older ones."""
        self.events[event_id] = (seq, kept)
        self.bytes += size_of(event_id, kept)
        self.waiting += kept is not None

    def join(self, label: Label, admission: Admission) -> Joined[Kept] | tuple[Reason, str]:
        """Return the event of a label and stop its waiting, or return why it has none.

        Events that are too old are forgotten, and the admission learns the kind and the class of the label.

        Parameters
        ----------
        admission
            Admission of the stream as of the label's position.
        """
        found = self.find(label, admission)
        if isinstance(found, Joined):
            self.settle(str(label.id))
        return found

    def find(self, label: Label, admission: Admission) -> Joined[Kept] | tuple[Reason, str]:
        """Return the same as `join`, but let the event wait on. A second call returns the same again."""
        event_id = str(label.id)
        found = self.events.get(event_id)
        if found is not None and found[0] < admission.seq - self.window:
            self.expire(admission.seq)
            found = None
        if found is None:
            return (
                Reason.UNKNOWN_ID,
                f"no event with the id {event_id!r:.60} waits for a label: it has not arrived yet, it came with a "
                f"label, it was rejected, or it is not among the newest {self.window} events of the stream "
                f"(labels.window){self._about_bytes()}",
            )
        seq, kept = found
        if kept is None:
            return Reason.DOUBLED_LABEL, f"the event with the id {event_id!r:.60} (seq {seq}) already has a label"
        y = label.y
        if type(y) is str and admission.target_kind is str and y in admission.classes:
            return Joined(seq, kept, y)  # most labels need no further check
        target = admission.target(y)
        return target if isinstance(target, tuple) else Joined(seq, kept, target)

    def settle(self, event_id: str) -> None:
        """Stop the waiting of an event that `find` has just returned."""
        seq, kept = self.events[event_id]
        if kept is not None:
            self.bytes -= kept.size
        self.events[event_id] = (seq, None)
        self.waiting -= 1
        self.joined += 1

    def has_room(self, more: int) -> bool:
        """Return whether nothing has to be forgotten for events of `more` bytes."""
        return self.bytes + more <= self.most_bytes

    def awaits(self, seqs: Collection[int]) -> bool:
        """Return whether any of these events still waits."""
        return any(seq in seqs and kept is not None for seq, kept in self.events.values())

    def expire(self, seqs: int) -> None:
        """Forget the events that are too old after `seqs` accepted events.

        The time of the call changes no result. Call it before a checkpoint, which may hold none of them.
        """
        events, oldest = self.events, seqs - self.window
        if self._oldest >= oldest:
            return
        expired = 0
        for event_id, (seq, kept) in events.items():
            if seq >= oldest:
                self._oldest = seq
                break
            self._miss(event_id, kept)
            expired += 1
        for _ in range(expired):
            events.popitem(last=False)

    def give_up(self) -> int:
        """Stop waiting for labels, and return the total number that never came."""
        self.expire(max((seq for seq, _ in self.events.values()), default=0) + self.window + 1)
        return self.missed

    def _miss(self, event_id: str, kept: Kept | None) -> None:
        """Count that an event is not remembered any more."""
        self.bytes -= size_of(event_id, kept)
        if kept is not None:
            self.waiting -= 1
            self.missed += 1

    def _about_bytes(self) -> str:
        if not self.dropped:
            return ""
        return (
            f", or it was forgotten because the events that wait take more than {self.most_bytes:,} bytes "
            f"(limits.waiting_bytes), as {self.dropped:,} events of this stream were"
        )


def size_of(event_id: str, kept: Sized | None) -> int:
    """Return the approximate bytes of a remembered event."""
    return _EVENT_BYTES + 4 * len(event_id) + (0 if kept is None else kept.size)
