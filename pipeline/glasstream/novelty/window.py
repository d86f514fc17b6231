"""The newest labelled events of one stream: what the next map is fitted to."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.gbmap.rows import Floats
from glasstream.ingest.features import FeatureTable, Kind
from glasstream.novelty.fit import Request


class Labelled(NamedTuple):
    """One labelled event."""

    seq: int
    row: list[float]
    """As wide as the stream was then."""
    target: str | float


@dataclass(slots=True)
class Window:
    """Holds at most `size` events."""

    size: int
    events: deque[Labelled] = field(default_factory=deque)

    def add(self, event: Labelled) -> None:
        """The newest takes the place of the oldest."""
        self.events.append(event)
        if len(self.events) > self.size:
            self.events.popleft()

    def request(self, stream: str, seq: int, age: int, features: FeatureTable) -> Request:
        """What a map is to be fitted to now.

        Parameters
        ----------
        seq
            The newest event of the stream: that of the newest label, unless labels come late.
        age
            Events that lie so many before that one, or more, are left out; 0: none is.
        features
            Of the stream. What an event lacks is missing.
        """
        young = [event for event in self.events if not age or event.seq > seq - age]
        classes, targets = _coded([event.target for event in young])
        texts = tuple(slot for slot, kind in enumerate(features.kinds) if kind is Kind.TEXT)
        return Request(stream, seq, matrix([event.row for event in young], len(features)), targets, classes, texts)

    def state(self, width: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What `restore` makes the same window of."""
        classes, targets = _coded([event.target for event in self.events])
        arrays: dict[str, NDArray[Any]] = {
            "seqs": np.array([event.seq for event in self.events], np.int64),
            "rows": matrix([event.row for event in self.events], width),
            "targets": targets,
        }
        return {"classes": list(classes)}, arrays

    def restore(self, classes: list[str], seqs: NDArray[Any], rows: NDArray[Any], targets: NDArray[Any]) -> None:
        """Hold the events of a `state`."""
        given: list[Any] = targets.tolist()
        if classes:
            given = [classes[int(place)] for place in given]
        self.events = deque(Labelled(*event) for event in zip(seqs.tolist(), rows.tolist(), given, strict=True))


def _coded(targets: list[str | float]) -> tuple[tuple[str, ...], Floats]:
    """The classes by name, none for numbers, and the targets as their places or as they are."""
    classes = tuple(sorted({target for target in targets if isinstance(target, str)}))
    places = {name: float(place) for place, name in enumerate(classes)}
    return classes, np.array([places[one] if isinstance(one, str) else one for one in targets], np.float64)


def matrix(given: Sequence[Sequence[float]], width: int) -> Floats:
    """float64[n, width] the rows, NaN where they are too short."""
    rows = np.full((len(given), width), np.nan)
    for place, row in enumerate(given):
        rows[place, : len(row)] = row
    return rows
