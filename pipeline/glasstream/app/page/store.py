"""Everything the page knows: streams within bounds, what was rejected, and what could not be shown."""

from collections import Counter
from dataclasses import dataclass, field

from glasstream.app.page.stream import Record, StreamHistory
from glasstream.app.page.summary import Summary

_REASONS = 40
"""Kinds of rejection that are distinguished; more than `glasstream_topics.events_dead.Reason` has."""
_LOOKING_SECONDS = 5.0
"""Time for which a stream counts as looked at after the last viewer asked for it."""


@dataclass(slots=True)
class Reading:
    """Progress of reading back the records that existed at the start."""

    read: int = 0
    total: int = 0
    done: bool = False


@dataclass(slots=True)
class Store:
    """Content of the public topics, as far as the page keeps it.

    Every stream has a summary. The first `most_streams` streams also have a history from the start. A further stream
    gets one when it is viewed, in place of a stream without viewers.

    Attributes
    ----------
    most_streams, most_features
        Largest number of streams with a history, and of features per stream.
    most_summaries
        Largest number of streams. Records of further streams are counted and skipped.
    streams
        The kept histories, by name of the stream.
    summaries
        The summary of each stream, by name.
    version
        Counter that rises with every change of a summary.
    left_out
        Number of skipped records of further streams.
    rejected
        Number of dead letters by reason, over all streams.
    damaged
        Number of records that cannot be read, or that a newer release wrote.
    watched
        Whether the page's settings say that streams are watched for incidents.
    trouble
        Why the page cannot read at the moment; None while it reads.
    """

    most_streams: int
    most_features: int
    most_summaries: int
    streams: dict[str, StreamHistory] = field(default_factory=dict)
    summaries: dict[str, Summary] = field(default_factory=dict)
    version: int = 0
    left_out: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    watched: bool = True
    trouble: str | None = None
    reading: Reading = field(default_factory=Reading)
    _looked: dict[str, float] = field(default_factory=dict)
    """Time at which a stream was viewed last, for streams of the last seconds."""

    def take(self, topic: str, record: Record, written: int, partition: int | None = None) -> None:
        """Add a record of a topic, written at a time in milliseconds since 1970.

        `partition` is given for topics whose key is the stream.
        """
        summary = self.summaries.get(record.stream)
        if summary is None:
            if len(self.summaries) >= self.most_summaries:
                self.left_out += 1
                return
            summary = self.summaries[record.stream] = Summary(record.stream)
            if len(self.streams) < self.most_streams:
                self.streams[record.stream] = StreamHistory(record.stream, self.most_features)
        if partition is not None:
            summary.partition = partition
        if summary.take(record, written):
            self.version += 1
            summary.version = self.version
        history = self.streams.get(record.stream)
        if history is not None:
            history.take(topic, record, written)

    def look(self, name: str, now: float) -> StreamHistory | None:
        """Return the history of a viewed stream; None if there is none yet. `now` is in seconds."""
        if name in self.summaries:
            self._looked[name] = now
        return self.streams.get(name)

    def wanted(self, now: float) -> str | None:
        """Return a viewed stream without a history, if there is room for the history."""
        self._looked = {name: at for name, at in self._looked.items() if now - at <= _LOOKING_SECONDS}
        missing = [name for name in self._looked if name not in self.streams]
        return missing[0] if missing and (len(self.streams) < self.most_streams or self._spare() is not None) else None

    def admit(self, history: StreamHistory) -> None:
        """Add the history of a stream, in place of one without viewers if there is no room."""
        if len(self.streams) >= self.most_streams:
            spare = self._spare()
            if spare is None:
                return
            del self.streams[spare]
        self.streams[history.name] = history

    def crowded(self, name: str) -> bool:
        """Return whether a stream gets no history because others look at all that there is room for."""
        full = len(self.streams) >= self.most_streams and self._spare() is None
        return full and name in self.summaries and name not in self.streams

    def _spare(self) -> str | None:
        """Return the history that was admitted first among those without viewers."""
        return next((name for name in self.streams if name not in self._looked), None)

    def reject(self, reason: str) -> None:
        """Count a dead letter."""
        known = reason in self.rejected or len(self.rejected) < _REASONS
        self.rejected[reason if known else "other"] += 1
