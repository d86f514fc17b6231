"""The window of the newest labelled events of one stream, to which the next map is fitted."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import MOST, Field
from glasstream.detect.gbmap.rows import Floats
from glasstream.detect.novelty.fit import Request
from glasstream.events.features import FeatureTable, Kind
from glasstream_topics.events import LARGEST

_OF: Final = "window of labelled events"
ROWS: Final = {
    "rows": Field("f8", ("events", "d"), -LARGEST, LARGEST, missing=True),
    "targets": Field("f8", ("events",), -LARGEST, LARGEST),
}
"""Events with targets."""
_FORM: Final = {"seqs": Field("i8", ("events",), 0, MOST), **ROWS}


class WindowMeta(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of a window."""

    classes: list[str]


class Labelled(NamedTuple):
    """Labelled event."""

    seq: int
    row: list[float]
    """Values of the features that the stream had at the event."""
    target: str | float


@dataclass(slots=True)
class Window:
    """The newest `size` labelled events."""

    size: int
    events: deque[Labelled] = field(default_factory=deque)

    def add(self, event: Labelled) -> None:
        """Add an event, which replaces the oldest one if the window is full."""
        self.events.append(event)
        if len(self.events) > self.size:
            self.events.popleft()

    def request(self, stream: str, seq: int, age: int, features: FeatureTable) -> Request:
        """Return the request for a map that is fitted to the current window.

        Parameters
        ----------
        seq
            The newest event of the stream. Unless labels are late, this is the event of the newest label.
        age
            Events at least this much older than `seq` are left out; with 0, none is.
        features
            Features of the stream. Features that an event lacks are missing values.
        """
        young = [event for event in self.events if not age or event.seq > seq - age]
        classes, targets = _coded([event.target for event in young])
        texts = tuple(slot for slot, kind in enumerate(features.kinds) if kind is Kind.TEXT)
        return Request(stream, seq, matrix([event.row for event in young], len(features)), targets, classes, texts)

    def state(self, width: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state from which `restore` makes the same window."""
        classes, targets = _coded([event.target for event in self.events])
        arrays: dict[str, NDArray[Any]] = {
            "seqs": np.array([event.seq for event in self.events], np.int64),
            "rows": matrix([event.row for event in self.events], width),
            "targets": targets,
        }
        return {"classes": list(classes)}, arrays

    def restore(
        self,
        saved: WindowMeta,
        arrays: Mapping[str, NDArray[Any]],
        seqs: int,
        features: FeatureTable,
        known: Sequence[str] | None,
    ) -> None:
        """Restore the events of a saved state.

        Parameters
        ----------
        seqs
            Number of accepted events of the stream.
        known
            Classes of the stream; None for a regression.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        found = form.read(_FORM, arrays, _OF, d=len(features))
        events, targets = found["seqs"], found["targets"]
        form.expect(len(events) <= self.size, f"at most {self.size} events", len(events), _OF)
        form.expect(events.max(initial=-1) < seqs, f"events before {seqs}", events.max(initial=-1), _OF)
        form.expect(features.can_hold(found["rows"]), "values of the stream's features", "others", _OF)
        check_targets(saved.classes, targets, known, _OF)
        given: list[Any] = targets.tolist()
        if saved.classes:
            given = [saved.classes[int(place)] for place in given]
        self.events = deque(
            Labelled(*event) for event in zip(events.tolist(), found["rows"].tolist(), given, strict=True)
        )


def check_targets(classes: Sequence[str], targets: Floats, known: Sequence[str] | None, of: str) -> None:
    """Raise FrameError unless targets are indices of some of the known classes, or numbers of a regression (None)."""
    if known is None:
        form.expect(not classes, "no classes of a regression", classes, of)
        return
    form.expect(
        list(classes) == sorted(set(classes)) and set(classes) <= set(known), "classes of the stream", classes, of
    )
    fits = (targets >= 0) & (targets < len(classes)) & (targets == np.floor(targets))
    form.expect(fits.all(), f"indices of {len(classes)} classes", targets[~fits][:1], of)


def _coded(targets: list[str | float]) -> tuple[tuple[str, ...], Floats]:
    """Return the classes by name (none for numbers), and the targets as class indices or numbers."""
    classes = tuple(sorted({target for target in targets if isinstance(target, str)}))
    places = {name: float(place) for place, name in enumerate(classes)}
    return classes, np.array([places[one] if isinstance(one, str) else one for one in targets], np.float64)


def matrix(given: Sequence[Sequence[float]], width: int) -> Floats:
    """Return float64[n, width] the rows, with NaN where they are too short."""
    rows = np.full((len(given), width), np.nan)
    for place, row in enumerate(given):
        rows[place, : len(row)] = row
    return rows
