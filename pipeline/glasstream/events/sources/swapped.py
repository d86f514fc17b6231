"""A source in which two features swap their values: drift made from any source."""

from collections.abc import Iterator
from dataclasses import dataclass

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.events.sources.changes import Change
from glasstream.events.sources.listing import listed
from glasstream.events.sources.source import Derived, Event, Look


@dataclass(slots=True)
class Swapped(Derived):
    """Source in which two features swap their values from the change on."""

    swapped: tuple[str, str]
    change: Change

    def look(self, task: Task | None) -> Look:
        """Look at the underlying source.

        Raises
        ------
        InputError
            The source cannot be replayed, or has no such features.
        """
        look = self.source.look(task)
        known = self.features
        for name in self.swapped:
            if name not in known:
                raise InputError(f"--swap: expected two of {listed(known)}, got {name!r}")
        return look

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Missing values change places too."""
        one, other = self.swapped
        for number, event in enumerate(self.source.events()):
            if self.change.has_come(number):
                names = {one: other, other: one}
                event["x"] = {names.get(name, name): value for name, value in event["x"].items()}
            yield event
