"""The bundled stream: synthetic loan applications whose labelling function changes."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from glasstream.events.admission import Task
from glasstream.events.sources.changes import Change
from glasstream.events.sources.source import Event, Look

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
