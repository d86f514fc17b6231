"""Numbers of what is explained of a stream whose effects need no label (`explain.unlabelled`).

An event without a label is an entry for its effects when it arrives. A late label is an entry for the importance of its
row. An event with its label is one entry for both. The first entry has the number t0. From there on, entries are
counted without gaps, so there are never fewer of them than rows.

Effects begin with the first event that arrives when t0 rows have been learned. A model that learns nothing needs no
labels, so with such a model they begin with the event whose `seq` is t0.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Entries:
    """Numbers of the entries and of the events of one stream."""

    next: int | None = None
    """Number of the next entry; None before the first."""
    events: int = 0
    """Number of events that have passed through what needs no label."""
    effects: int | None = None
    """The first of these events that has effects; None while none has."""

    def arrive(self, *, explained: bool) -> bool:
        """Count an event, and return whether it has effects: if it is explained, or an earlier one was."""
        if self.effects is None and explained:
            self.effects = self.events
        self.events += 1
        return self.effects is not None

    def count(self, first: int) -> None:
        """Count an entry. The first one has the number `first`."""
        self.next = (first if self.next is None else self.next) + 1
