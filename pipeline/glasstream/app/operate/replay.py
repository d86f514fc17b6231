"""Compute the results of a deployment again from the events that its topic holds, and compare them with the published.

Results are a function of the events and the settings. A replay checks that, or shows what other settings or another
model would have given. It runs in one process, and writes nothing to any topic.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final

import msgspec

from glasstream.app.operate.models import file_reader
from glasstream.app.operate.topic_reader import latest, offsets, read_records
from glasstream.app.runner.monitor import written
from glasstream.events.message import Message
from glasstream.explain.settings import NOVELTY
from glasstream.flow.learner.pushed import Decisions
from glasstream.flow.reference import Published, Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import differences, fingerprint, known_state, novelty_fingerprint, topic
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.topic_check import check_topics, partition_count
from glasstream_topics import ALL, events, progress_learner, progress_novelty
from glasstream_topics.progress import Setting

_DIGEST: Final = "model.digest"
_VERSION: Final = "version."
_INCLUDED: Final = ("forest", "tree", "linear")
"""Models that a record may name. They need no import by name, so that no topic can make a process import code."""
COMPARED: Final = tuple(one.name for one in ALL if one.published and one.json is not None)
"""Topics whose records are compared. Dead letters are not among them, because the intake writes some."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Where to begin to read a partition of `events`, or a stream of it.

    Attributes
    ----------
    partition, offset
        Number of the partition, and the first offset to read.
    lost
        Number of offsets before it at which there were events that Kafka has deleted.
    epoch
        Epoch of the partition or of the stream.
    decisions
        Marks that the learner has refused.
    """

    partition: int
    offset: int
    lost: int
    epoch: int
    decisions: Decisions


@dataclass(frozen=True, slots=True)
class Log:
    """The events of a deployment.

    Attributes
    ----------
    begins
        Its partitions, in order.
    learner, detector
        Settings and versions that change the numbers of the learner and of the novelty detector; empty if the stage has
        not committed anything.
    streams
        Streams that the learner has seen, each from the beginning of its newest epoch on.
    """

    begins: tuple[Begin, ...]
    learner: Mapping[str, Setting]
    detector: Mapping[str, Setting]
    streams: Mapping[str, Begin]

    @property
    def defaults(self) -> dict[str, Setting]:
        """Settings of the stages, as defaults for a replay.

        Versions of packages are not settings, and a model that is named PACKAGE.MODULE:FACTORY or is a file, which the
        replay gets by its own name, is not adopted.
        """
        values: dict[str, Setting] = {
            key: value
            for key, value in {**self.detector, **self.learner}.items()
            if value is not None and key != _DIGEST and not key.startswith(_VERSION)
            if key != "model.name" or value in _INCLUDED
        }
        if self.learner and self.detector:
            values["explain.methods"] = f"{values['explain.methods']},{NOVELTY}".strip(",")
        return values

    def differing(self, settings: Settings) -> list[str]:
        """Return the settings and versions that differ from those of the stages, one text each."""
        theirs, ours = dict(self.learner), fingerprint(settings)
        if theirs.get(_DIGEST) and theirs.get(_DIGEST) == ours[_DIGEST]:
            theirs["model.name"] = ours["model.name"]  # the same file by another path
        found = differences(theirs, ours) if theirs else []
        if self.detector and settings.explain.detects_novelty:
            found += differences(dict(self.detector), novelty_fingerprint(settings))
        return list(dict.fromkeys(found))


def open_log(settings: Settings) -> Log:
    """Find the events that Kafka holds, and what the stages have committed about them.

    Raises
    ------
    TopicError, BrokerError, StateError
        A topic is missing or cannot be read.
    """
    link, count = connection(settings), settings.topics.events
    name = topic(settings, events.TOPIC.name)
    progress, watched = (topic(settings, one.TOPIC.name) for one in (progress_learner, progress_novelty))
    check_topics(link, {name: count, progress: count, watched: count})
    kept = offsets(link, [(name, partition) for partition in range(count)])
    committed = latest(link, [(one, partition) for one in (progress, watched) for partition in range(count)])
    begins: list[Begin] = []
    learner: dict[str, Setting] = {}
    detector: dict[str, Setting] = {}
    streams: dict[str, Begin] = {}
    for partition in range(count):
        low, _ = kept[name, partition]
        with known_state(f"{progress}[{partition}]"):
            restored = progress_learner.restore(committed[progress, partition])
        with known_state(f"{watched}[{partition}]"):
            watching = progress_novelty.restore(committed[watched, partition]).partition
        found = restored.partition
        first, epoch = (low, settings.epoch) if found is None else (found.first_offset, found.epoch)
        refused = {stream: one.refused for stream, one in restored.streams.items() if one.refused}
        begins.append(Begin(partition, max(low, first), max(0, low - first), epoch, Decisions(refused=refused)))
        for stream, one in restored.streams.items():
            first, decisions = one.first_offset, Decisions(one.after, {stream: one.refused})
            streams[stream] = Begin(partition, max(low, first), max(0, low - first), one.epoch, decisions)
        if found is not None:
            learner |= found.fingerprint
        if watching is not None and watching.epoch >= epoch:
            detector |= watching.fingerprint
    return Log(tuple(begins), learner, detector, dict(sorted(streams.items())))


def replay(settings: Settings, log: Log, streams: Collection[str] = ()) -> Iterator[Published]:
    """Yield the records that result from the events up to the current end of the topic.

    Parameters
    ----------
    streams
        Names of the streams to compute; none for all of them.

    Raises
    ------
    BrokerError
        The topic cannot be read.
    """
    file = file_reader(settings)
    loops = [Reference(msgspec.structs.replace(settings, epoch=one.epoch), file, one.decisions) for one in log.begins]
    for message in messages(settings, log.begins, streams):
        yield from loops[message.partition].feed(message)


def messages(settings: Settings, begins: Iterable[Begin], streams: Collection[str] = ()) -> Iterator[Message]:
    """Yield the messages of some streams, or of all of them, up to the current end of the topic.

    Raises
    ------
    BrokerError
        The topic cannot be read.
    """
    name, keys = topic(settings, events.TOPIC.name), {events.key(stream) for stream in streams}
    begin = {(name, one.partition): one.offset for one in begins}
    for one in read_records(connection(settings), begin, read_committed=True):
        if not keys or one.key in keys:
            yield Message(one.topic, one.partition, one.offset, one.key, one.value, one.timestamp)


class _Place(msgspec.Struct):
    epoch: int
    stream: str


_place: Final = msgspec.json.Decoder(_Place).decode


@dataclass(slots=True)
class Comparison:
    """Published records compared with those of a replay. Records of earlier epochs are left out.

    Attributes
    ----------
    published
        Number of published records, by topic.
    equal
        Number of those that the replay has computed, too.
    computed
        Number of records that the replay has computed.
    damaged
        Number of published messages that are no records.
    """

    settings: Settings
    log: Log
    streams: Collection[str]
    published: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    computed: Counter[str] = field(default_factory=Counter)
    damaged: Counter[str] = field(default_factory=Counter)
    _left: dict[str, Counter[bytes]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read the topics up to their current ends. The replay must begin later, so that it reads all their events.

        Raises
        ------
        TopicError, BrokerError
            A topic is missing or cannot be read.
        """
        for name in sorted(set(COMPARED) & set(written(self.settings))):
            digests = self._left[name] = Counter(map(_digest, self._records(name, self.damaged)))
            self.published[name] = digests.total()

    def add(self, name: str, record: bytes) -> None:
        """Count a record of the replay."""
        if name not in self._left:
            return
        self.computed[name] += 1
        left = self._left[name]
        digest = _digest(record)
        if left[digest]:
            left[digest] -= 1
            self.equal[name] += 1

    def example(self, name: str) -> bytes:
        """Return the first published record of a topic that the replay has not computed."""
        left = self._left[name]
        return next((value for value in self._records(name, Counter()) if left[_digest(value)]), b"")

    def _records(self, name: str, damaged: Counter[str]) -> Iterator[bytes]:
        link, full = connection(self.settings), topic(self.settings, name)
        begin = {(full, partition): 0 for partition in range(partition_count(link, full))}
        for one in read_records(link, begin, read_committed=True):
            try:
                place = _place(one.value or b"")
            except msgspec.DecodeError:
                damaged[name] += 1
                continue
            if one.value is not None and self._is_meant(place):
                yield one.value

    def _is_meant(self, place: _Place) -> bool:
        topics = self.settings.topics
        begin = self.log.begins[events.partition(events.key(place.stream), topics.events, topics.partitioner)]
        return place.epoch >= begin.epoch and (not self.streams or place.stream in self.streams)


def _digest(record: bytes) -> bytes:
    return blake2b(record, digest_size=16).digest()
