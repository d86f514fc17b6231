"""The incidents of one stream: its rows go through the watch, and what it finds becomes records."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream.explain.method import OutputRecord, Signals
from glasstream.flow.settings import Settings
from glasstream_topics import incidents
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import LABELLED


@dataclass(slots=True)
class Incidents:
    """Incidents of one stream. They are a function of its explained rows in order, however blocks are cut."""

    watch: IncidentWatch

    @classmethod
    def empty(cls, stream: str, settings: Settings) -> "Incidents | None":
        """Return the state before any row, or None if the stream is not watched."""
        if not settings.drift.finds_incidents:
            return None
        return cls(IncidentWatch(stream, settings.epoch, settings.seed, settings.drift.budget))

    def update(
        self, block: Contributions, rows: slice, first_row: int, signals: Mapping[str, Signals]
    ) -> Iterator[OutputRecord]:
        """Add rows of a block, and return the records of the incidents that they open, change or end.

        Parameters
        ----------
        rows
            Places of the rows among those of the block that have a label.
        first_row
            Number of the first of these rows.
        signals
            What the methods returned for these rows, by the name of the method. The first importance is watched.
        """
        places = np.flatnonzero(block.has(LABELLED))[rows]
        importance = (values["importance"] for values in signals.values() if "importance" in values)
        found = self.watch.update(
            Rows(
                first_row=first_row,
                seqs=block.seqs[places],
                times=[block.times[place] for place in places] if block.times else [],
                names=block.names,
                kinds=block.kinds,
                inputs=block.values["inputs"][rows],
                target=block.values["target"][rows],
                classes=[*block.classes, *block.new_classes],
                loss=block.values["loss"][rows],
                loss_name=block.loss,
                importance=next(importance, None),
            )
        )
        yield from map(_record, found)

    def replaced(self, row: int, seq: int, time: int | None, loss_name: str) -> Iterator[OutputRecord]:
        """Return the records about a model that was replaced; see `IncidentWatch.replace`."""
        yield from map(_record, self.watch.replace(row, seq, time, loss_name))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        return self.watch.state()

    def restore(
        self, meta: object, arrays: Mapping[str, NDArray[Any]], row: int, features: Sequence[tuple[str, int]]
    ) -> None:
        """Restore the incidents from a saved state.

        Parameters
        ----------
        row
            The newest row.
        features
            Names and kinds of the stream's features.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        self.watch.restore(meta, arrays, row, features)


def _record(incident: incidents.Incident) -> OutputRecord:
    return OutputRecord(incidents.TOPIC.name, incidents.key(incident.stream), incidents.encode(incident))
