"""Bounded list of a stream's explained predictions for the page."""

from collections import Counter
from typing import Final, NamedTuple

import msgspec

from glasstream_topics.attributions import JSON, Attribution
from glasstream_topics.predictions import Prediction

MOST: Final = 200
"""Largest number of explained events to keep."""
MOST_BYTES: Final = 512 * 1024
"""Largest size of the kept events as JSON. One is kept in any case."""
_WAITING: Final = 2_000
"""Largest number of predicted events whose facts wait for their explanations."""
_WAITING_BYTES: Final = 256 * 1024
"""Largest size of the waiting facts as JSON."""


class Facts(NamedTuple):
    """Id, time and label of an event, from the topic `predictions`."""

    id: str
    ts: int | None
    target: str | float | None


class Row(NamedTuple):
    """One explained event in the list: its facts are None until its prediction has been read."""

    seq: int
    output: str | None
    prediction: float
    facts: Facts | None
    flagged: bool
    """Whether the novelty detector flags the event."""


class Explained:
    """The newest explained events of a stream, with what is known of them.

    Beyond the bounds, the oldest event of the class that has most of them goes first. So rare classes stay.

    Attributes
    ----------
    total
        Number of explained events so far, dropped ones included.
    version
        Counter that rises with every change of the list.
    """

    def __init__(self) -> None:
        self.total = 0
        self.version = 0
        self._last = -1
        self._rows: dict[int, Row] = {}
        self._data: dict[int, bytes] = {}
        """Record of each kept event, as JSON."""
        self._sizes: dict[int, int] = {}
        self._classes: Counter[str | None] = Counter()
        self._waiting: dict[int, tuple[Facts, int]] = {}
        """Facts of predicted events, and their size."""
        self._waiting_bytes = 0
        self._flagged: dict[int, None] = {}
        """Newest flagged events that are not explained yet."""

    def take(self, record: Attribution) -> bool:
        """Add a record, and return False if it is not newer than the last one."""
        seq = record.seq
        if seq <= self._last:
            return False
        self._last = seq
        self.total += 1
        facts, size = self._waiting.pop(seq, (None, 0))
        self._waiting_bytes -= size
        self._data[seq] = msgspec.json.encode(record)
        self._classes[record.output] += 1
        flagged = seq in self._flagged
        self._flagged.pop(seq, None)
        self._keep(Row(seq, record.output, record.prediction, facts, flagged))
        return True

    def meet(self, record: Prediction) -> None:
        """Add the facts of a predicted event, which may be explained already or later."""
        facts = Facts(record.id, record.ts, record.target)
        row = self._rows.get(record.seq)
        if row is not None:
            self._keep(row._replace(facts=facts))
            return
        size = len(msgspec.json.encode(facts))
        self._waiting[record.seq] = facts, size
        self._waiting_bytes += size
        while len(self._waiting) > _WAITING or self._waiting_bytes > _WAITING_BYTES:
            self._waiting_bytes -= self._waiting.pop(next(iter(self._waiting)))[1]

    def flag(self, seq: int) -> None:
        """Note that the novelty detector flags an event, which may be explained already or later."""
        row = self._rows.get(seq)
        if row is not None:
            self._keep(row._replace(flagged=True))
            return
        self._flagged[seq] = None
        if len(self._flagged) > _WAITING:
            del self._flagged[next(iter(self._flagged))]

    def _keep(self, row: Row) -> None:
        self.version += 1
        self._rows[row.seq] = row
        self._sizes[row.seq] = len(self._data[row.seq]) + len(msgspec.json.encode(row))
        while len(self._rows) > MOST or (sum(self._sizes.values()) > MOST_BYTES and len(self._rows) > 1):
            output = max(self._classes, key=lambda one: self._classes[one])
            seq = next(seq for seq, one in self._rows.items() if one.output == output)
            self._classes[output] -= 1
            if not self._classes[output]:
                del self._classes[output]
            for column in (self._rows, self._data, self._sizes):
                del column[seq]

    def rows(self) -> list[Row]:
        """Return the kept events, oldest first."""
        return list(self._rows.values())

    def row(self, seq: int | None) -> tuple[Row, Attribution] | None:
        """Return an event and its record, the newest event without a number; None if it is not kept."""
        if seq is None:
            seq = self._last
        return (self._rows[seq], JSON.decode(self._data[seq])) if seq in self._rows else None
