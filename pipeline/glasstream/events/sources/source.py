"""What every source of events offers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from glasstream.base.errors import InputError
from glasstream.events.admission import Task

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """Result of a first look at the target of a source."""

    task: Task
    classes: int
    """Number of distinct classes seen; 0 for regression."""
    why: str
    numbers: bool = False
    """Whether the target holds numbers."""
    binary: bool = False
    """Whether the target has 0 and 1 only, or false and true."""


class Source(Protocol):
    """Source of events to replay."""

    @property
    def stream(self) -> str:
        """Return the stream's name."""

    @property
    def notices(self) -> list[str]:
        """Return notices for the user about values that were reinterpreted. Reading the events may add more."""

    @property
    def features(self) -> list[str]:
        """Return the names of the features. Call `look` first."""

    def look(self, task: Task | None) -> Look:
        """Look at the first events, and return the task that they suggest."""

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Call `look` first."""


@dataclass(slots=True)
class UntilError:
    """Events up to the first that cannot be read.

    Attributes
    ----------
    error
        Why no further event can be read; None if there is no such event. What was read before gives results all the
        same.
    """

    events: Iterator[Event]
    error: InputError | None = None

    def __iter__(self) -> Iterator[Event]:
        """Yield the events."""
        try:
            yield from self.events
        except InputError as error:
            self.error = error


@dataclass(slots=True)
class Derived:
    """Base of sources that change the events of another source."""

    source: Source

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
        """Return the names of the features. Call `look` first."""
        return self.source.features

    def look(self, task: Task | None) -> Look:
        """Look at the underlying source."""
        return self.source.look(task)
