"""Sources of events for `run` and `produce`: a CSV file or the bundled stream, with injected changes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from glasstream.errors import InputError
from glasstream.ingest.admission import Task
from glasstream.sources.changes import Change
from glasstream.sources.csv_file import CsvFile, Event, Look

__all__ = ["BundledStream", "CsvFile", "Event", "Look", "Source", "Swapped"]

BUNDLED_ROWS = 20_000
_BEFORE, _AFTER = 6, 2  # river's numbers: salary, commission, loan; then age, education level


@dataclass(slots=True)
class BundledStream:
    """Agrawal's synthetic loan applications (1993), whose labelling function changes.

    The first labels depend on salary, commission and loan (river's `classification_function` 6), the later ones on age
    and education level (2).

    Parameters
    ----------
    change
        Change of the function; None is a sudden change half-way.
    changes
        Whether the function changes at all.
    """

    seed: int
    rows: int = BUNDLED_ROWS
    stream: str = "agrawal"
    change: Change | None = None
    changes: bool = True
    notices: list[str] = field(default_factory=list)
    """Empty list: this source has no notices."""
    task: Task = Task.CLASSIFICATION
    """Task of the last call of `look`. It decides whether targets are texts or numbers."""

    def look(self, task: Task | None) -> Look:
        """Return two classes, those of the generator."""
        self.task = task or Task.CLASSIFICATION
        return Look(task or Task.CLASSIFICATION, 2, "the bundled stream has two classes")

    @property
    def features(self) -> list[str]:
        """Return the names of the features."""
        return [name for x, _ in _agrawal(self.seed, _BEFORE, 1) for name in x]

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Classes are texts, so that a learner without a task takes them for classes."""
        change = self.change or Change(self.rows // 2, 0, self.seed, self.stream)
        before = _agrawal(self.seed, _BEFORE, self.rows)
        after = _agrawal(self.seed + 1, _AFTER, self.rows)
        for number in range(self.rows):
            x, y = next(after if self.changes and change.has_come(number) else before)
            yield {"id": number, "x": x, "y": str(y) if self.task is Task.CLASSIFICATION else y}


def _agrawal(seed: int, function: int, rows: int) -> Iterator[tuple[dict[str, object], int]]:
    from river.datasets import synth  # slow to import, and a file does not need it

    return iter(synth.Agrawal(classification_function=function, seed=seed).take(rows))


@dataclass(slots=True)
class Swapped:
    """Source in which two features swap their values from the change on."""

    source: BundledStream | CsvFile
    features: tuple[str, str]
    change: Change

    @property
    def stream(self) -> str:
        """Return the stream's name."""
        return self.source.stream

    @property
    def notices(self) -> list[str]:
        """Return the notices of the underlying source."""
        return self.source.notices

    def look(self, task: Task | None) -> Look:
        """Look at the underlying source.

        Raises
        ------
        InputError
            The source cannot be replayed, or has no such features.
        """
        look = self.source.look(task)
        known = self.source.features
        for name in self.features:
            if name not in known:
                raise InputError(f"--swap: expected two of {', '.join(known)[:200]}, got {name!r}")
        return look

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Missing values change places too."""
        one, other = self.features
        for number, event in enumerate(self.source.events()):
            if self.change.has_come(number):
                names = {one: other, other: one}
                event["x"] = {names.get(name, name): value for name, value in event["x"].items()}
            yield event


class Source(Protocol):
    """Source of events to replay."""

    @property
    def stream(self) -> str:
        """Return the stream's name."""

    @property
    def notices(self) -> list[str]:
        """Return notices for the user about values that were reinterpreted. Reading the events may add more."""

    def look(self, task: Task | None) -> Look:
        """Look at the first events, and return the task that they suggest."""

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Call `look` first."""
