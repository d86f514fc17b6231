"""Summary of one stream for the overview: a few numbers of its newest epoch, in bounded memory."""

from collections import deque
from typing import Final, NamedTuple

from glasstream.app.page.stream import RECENT, Record
from glasstream.detect.baselines import CompactBaselines
from glasstream_topics.comparisons import Comparison
from glasstream_topics.importance import Importance
from glasstream_topics.incidents import Incident
from glasstream_topics.predictions import Prediction

_LEADING: Final = 3
"""Number of leading features to keep."""
_SLOT_MS, _SLOTS = 5_000, 12
_OPEN: Final = 20
"""Largest number of open incidents to keep."""
_CHARACTERS: Final = 200
"""Largest length of a text to keep."""


class Rate:
    """Events per second over the last minute in which there were some, by the times of their records.

    >>> rate = Rate()
    >>> for event in range(600):
    ...     rate.add(1_000_000 + 100 * event)
    >>> round(rate.value)
    10
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self.newest = 0
        """Time of the newest record in milliseconds since 1970."""
        self._slots: deque[list[int]] = deque(maxlen=_SLOTS)
        """Number of a slot of time, and number of its events."""

    def add(self, written: int) -> None:
        """Add an event whose record was written at a time in milliseconds since 1970."""
        if self._first is None:
            self._first = written
        self.newest = max(self.newest, written)
        slot = self.newest // _SLOT_MS
        if self._slots and self._slots[-1][0] == slot:
            self._slots[-1][1] += 1
        else:
            self._slots.append([slot, 1])

    @property
    def value(self) -> float:
        """Events per second; 0 before the first event."""
        if self._first is None:
            return 0.0
        oldest = self.newest // _SLOT_MS - _SLOTS + 1
        events = sum(count for slot, count in self._slots if slot >= oldest)
        return 1000.0 * events / max(1000, self.newest - max(self._first, oldest * _SLOT_MS))


class Reported(NamedTuple):
    """What the overview shows of an incident."""

    incident: int
    status: str
    row: int
    """Row of its newest record."""
    since: str
    """Row, or event without a label, at which it began."""
    verdict: str
    summary: str
    written: int
    """Time at which its first record was written, in milliseconds since 1970."""


class Compared(NamedTuple):
    """What the overview shows of a comparison."""

    better: str | None
    """`stream` or `other`; None if this is not known yet."""
    other: str
    """Name of the other stream."""


class Summary:
    """Newest numbers of one stream. Records of an older epoch are skipped; a new epoch replaces the old one.

    Parameters
    ----------
    name
        Name of the stream.

    Attributes
    ----------
    version
        Version of the store at the last change.
    partition
        Partition of the topics whose key is the stream; None before their first record.
    leading
        Leading features of the newest importance record and their values, best first.
    method
        Method of these values: the first that the stream has.
    compared
        The newest comparison with another stream; None before the first.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.version = 0
        self.partition: int | None = None
        self._begin(-1)

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self.last_seq = -1
        self.baselines = CompactBaselines(RECENT)
        self.rate = Rate()
        self.method: str | None = None
        self.leading: list[tuple[str, float]] = []
        self.compared: Compared | None = None
        self._row = -1
        self._last: Reported | None = None
        self._open: dict[int, Reported] = {}

    @property
    def incident(self) -> Reported | None:
        """The newest open incident; the newest of all if none is open."""
        return self._open[max(self._open)] if self._open else self._last

    @property
    def open_incidents(self) -> int:
        """Number of open incidents."""
        return len(self._open)

    def take(self, record: Record, written: int) -> bool:
        """Add a record, written at a time in milliseconds since 1970, and return whether it changed anything."""
        if record.epoch < self.epoch:
            return False
        begun = record.epoch > self.epoch
        if begun:
            self._begin(record.epoch)
        match record:
            case Prediction():
                return self._add_prediction(record, written) or begun
            case Importance():
                return self._add_importance(record) or begun
            case Incident():
                return self._add_incident(record, written) or begun
            case Comparison():
                self.compared = Compared(record.better, record.other.stream[:_CHARACTERS])
                return True
        return begun

    def _add_prediction(self, record: Prediction, written: int) -> bool:
        if record.seq <= self.last_seq:
            return False
        self.last_seq = record.seq
        self.rate.add(written)
        self.baselines.add(record.prediction, record.target)
        return True

    def _add_importance(self, record: Importance) -> bool:
        if self.method is None:
            self.method = record.method
        if record.method != self.method or record.row <= self._row:
            return False
        self._row = record.row
        ranked = sorted(record.features.items(), key=lambda entry: (entry[1].rank, entry[0]))
        self.leading = [(name[:_CHARACTERS], one.value) for name, one in ranked[:_LEADING]]
        return True

    def _add_incident(self, record: Incident, written: int) -> bool:
        number = record.incident
        known = self._open.get(number)
        if known is None and self._last is not None and self._last.incident == number:
            known = self._last
        if known is not None:
            if record.row < known.row:
                return False
            written = known.written
        since, text = f"{record.unit} {record.onset.row:,}", record.summary[:_CHARACTERS]
        reported = Reported(number, record.status, record.row, since, record.verdict, text, written)
        self._open.pop(number, None)
        if record.status == "open":
            self._open[number] = reported
            if len(self._open) > _OPEN:
                del self._open[min(self._open)]
        if self._last is None or number >= self._last.incident:
            self._last = reported
        return True
