"""A source in which two features swap their values: drift made from any source."""

from collections.abc import Iterator
from dataclasses import dataclass

from glasstream.errors import InputError
from glasstream.ingest.admission import Task
from glasstream.sources.bundled import BundledStream
from glasstream.sources.changes import Change
from glasstream.sources.csv_file import CsvFile
from glasstream.sources.source import Event, Look


@dataclass(slots=True)
class Swapped:
    """Source in which two features swap their values from the change on."""

    source: BundledStream | CsvFile
    swapped: tuple[str, str]
    change: Change

    @property
    def stream(self) -> str:
        """Return the stream's name."""
        return self.source.stream

    @property
    def notices(self) -> list[str]:
        """Return the notices of the underlying source."""
        return self.source.notices

    @property
    def features(self) -> list[str]:
        """Return the names of the features of the underlying source."""
        return self.source.features

    def look(self, task: Task | None) -> Look:
        """Look at the underlying source.

        Raises
        ------
        InputError
            The source cannot be replayed, or has no such features.
        """
        look = self.source.look(task)
        known = self.source.features
        for name in self.swapped:
            if name not in known:
                raise InputError(f"--swap: expected two of {', '.join(known)[:200]}, got {name!r}")
        return look

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Missing values change places too."""
        one, other = self.swapped
        for number, event in enumerate(self.source.events()):
            if self.change.has_come(number):
                names = {one: other, other: one}
                event["x"] = {names.get(name, name): value for name, value in event["x"].items()}
            yield event
