"""Where `run` and `produce` take their events from: a CSV file, or the bundled stream."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from river.datasets import synth

from pipeline.command.csv_file import CsvFile, Event, Look
from pipeline.ingest.admission import Task

__all__ = ["BundledStream", "CsvFile", "Event", "Look", "Source"]

BUNDLED_ROWS = 20_000
_BEFORE, _AFTER = 6, 2  # river's numbers: salary, commission, loan; then age, education level


@dataclass(slots=True)
class BundledStream:
    """Agrawal's synthetic loan applications (1993); half-way the labelling function changes.

    The first half is labelled by salary, commission and loan (river's `classification_function` 6), the second by age
    and education level (2).
    """

    seed: int
    rows: int = BUNDLED_ROWS
    stream: str = "agrawal"
    notices: list[str] = field(default_factory=list)
    """None come: it is as it should be."""

    def look(self, task: Task | None) -> Look:
        """Two classes, as the generator says."""
        return Look(task or Task.CLASSIFICATION, 2, "the bundled stream has two classes")

    def events(self) -> Iterator[Event]:
        """The events in order."""
        half = self.rows // 2
        before = synth.Agrawal(classification_function=_BEFORE, seed=self.seed).take(half)
        after = synth.Agrawal(classification_function=_AFTER, seed=self.seed + 1).take(self.rows - half)
        number = 0
        for part in (before, after):
            for x, y in part:
                yield {"id": number, "x": x, "y": y}
                number += 1


Source = BundledStream | CsvFile
