"""Everything the page knows: streams within bounds, what was rejected, and what could not be shown."""

from collections import Counter
from dataclasses import dataclass, field

from glasstream.page.stream import Record, StreamHistory

_REASONS = 40
"""Kinds of rejection told apart; more than `glasstream_topics.events_dead.Reason` has."""


@dataclass(slots=True)
class Reading:
    """Progress of reading back the records that existed at the start."""

    read: int = 0
    total: int = 0
    done: bool = False


@dataclass(slots=True)
class Store:
    """Content of the public topics, as far as the page keeps it.

    Attributes
    ----------
    most_streams, most_features
        Largest number of streams and of features per stream. Records of further streams are counted and skipped.
    streams
        The kept streams, by name.
    left_out
        Number of skipped records of further streams.
    rejected
        Number of dead letters by reason, over all streams.
    damaged
        Number of records that cannot be read, or that a newer release wrote.
    trouble
        Why the page cannot read at the moment; None while it reads.
    """

    most_streams: int
    most_features: int
    streams: dict[str, StreamHistory] = field(default_factory=dict)
    left_out: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    trouble: str | None = None
    reading: Reading = field(default_factory=Reading)

    def take(self, topic: str, record: Record, written: int) -> None:
        """Add a record of a topic, written at a time in milliseconds since 1970."""
        history = self.streams.get(record.stream)
        if history is None:
            if len(self.streams) >= self.most_streams:
                self.left_out += 1
                return
            history = self.streams[record.stream] = StreamHistory(record.stream, self.most_features)
        history.take(topic, record, written)

    def reject(self, reason: str) -> None:
        """Count a dead letter."""
        known = reason in self.rejected or len(self.rejected) < _REASONS
        self.rejected[reason if known else "other"] += 1
