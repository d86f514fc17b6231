"""Committed progress of the stages, by partition and by stream."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from msgspec import Struct

from glasstream.app.operate.topic_reader import STANDSTILL_SECONDS, Partition, latest, offsets, read_records
from glasstream.app.runner.monitor import PROGRESS
from glasstream.base.errors import BrokerError, RecordError
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.transport.connection import Connection, connection
from glasstream.kafka.transport.options import options
from glasstream.kafka.transport.topic_check import check_topics
from glasstream_topics import (
    checkpoints,
    contributions,
    events,
    progress_aggregator,
    progress_learner,
    progress_novelty,
    requests,
)
from glasstream_topics.chunks import room_for

R = TypeVar("R")

COMMITTED = (*PROGRESS, checkpoints.TOPIC.name)
"""Topics that hold the committed state of the stages."""

_COUNTED = 100
"""Largest lag that is counted message by message, because most of it may be transaction markers."""
_SOON = (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
"""Answers of a broker for a group whose coordinator is not ready yet."""
_PAUSE_SECONDS = 0.2


class Place(Struct, frozen=True, kw_only=True):
    """Progress of a stage on one partition of its input.

    Attributes
    ----------
    stage, topic, partition
        Stage, and partition of its input.
    epoch
        Epoch of the partition; None for explainers, which have no state, and before the first commit.
    offset
        Offset of the next message; None before the first commit.
    first, end
        First offset that Kafka keeps, and the offset after the last record.
    behind
        Number of messages from `offset` on. A large number includes transaction markers. It is 0 for explainers whose
        group has no offsets if no row waits: the group has read nothing, or was deleted after it had read everything.
    """

    stage: str
    topic: str
    partition: int
    epoch: int | None
    offset: int | None
    first: int
    end: int
    behind: int


class Stream(Struct, frozen=True, kw_only=True):
    """Progress of the stages with one stream.

    Attributes
    ----------
    stream, partition, epoch
        Name, partition and epoch of the stream.
    seqs, rows, unlabelled
        Numbers of events accepted, learned, and predicted without a label.
    first_offset
        Offset on `events` at which the stream began.
    version
        Newest published version of the model; None before the first.
    checkpoint
        Row of the newest complete checkpoint; None without one.
    aggregated, published
        Number of rows aggregated, including those before `explain.start`, and row of the newest estimate (counted from
        0); None if the aggregator has not begun with the stream.
    behind
        Number of rows to explain that the learner has learned and the aggregator has not aggregated. With
        `explain.unlabelled`, the last three count events without a label and late labels too.
    stalled
        Reason why the aggregator stands still with the stream, as the learner last reported; empty while it moves.
    model
        SHA-256 of the model that a mark has brought; empty while it is that of the settings.
    failed, unexplained
        Number of rows that could not be explained, and a sentence with the cause; empty without such rows.
    watched, anchor
        Number of events and late labels that the novelty detector has used, and how many of them its newest anchor
        includes; None if it has not begun with the stream.
    """

    stream: str
    partition: int
    epoch: int
    seqs: int
    rows: int
    unlabelled: int
    first_offset: int
    version: int | None
    checkpoint: int | None
    aggregated: int | None
    published: int | None
    behind: int
    stalled: str
    model: str
    failed: int
    unexplained: str
    watched: int | None
    anchor: int | None


class State(Struct, frozen=True, kw_only=True):
    """Committed progress of all stages.

    Attributes
    ----------
    prefix, partitions, streams
        Prefix of the deployment, and the progress by partition and by stream.
    notes
        Lines about records that cannot be read.
    mismatches
        Lines about topics whose number of partitions is not that of the settings.
    """

    prefix: str
    partitions: list[Place]
    streams: list[Stream]
    notes: list[str]
    mismatches: list[str] = []

    def epochs_apart(self) -> Iterator[str]:
        """Yield a sentence about each partition whose aggregator is in a later epoch than its learner.

        The aggregator follows a learner that is ahead, block by block.
        """
        epochs = {(one.stage, one.partition): one.epoch for one in self.partitions if one.epoch is not None}
        for (stage, partition), epoch in sorted(epochs.items()):
            if stage == "aggregator" and epoch > (learner := epochs.get(("learner", partition), epoch)):
                yield (
                    f"partition {partition}: the aggregator is in epoch {epoch}, the learner in epoch {learner}, so "
                    "the aggregator drops every explanation"
                )


class Committed(NamedTuple):
    """Committed state of the stages, as the topics hold it.

    Attributes
    ----------
    counts
        Number of partitions of each topic, by its name without the prefix.
    values
        Last value of every key, by partition of the topics in `COMMITTED`.
    mismatches
        Lines about topics whose number of partitions is not that of the settings.
    """

    counts: Mapping[str, int]
    values: Mapping[Partition, Mapping[bytes, bytes]]
    mismatches: list[str]


def committed(settings: Settings) -> Committed:
    """Read the committed state of all stages, whatever number of partitions the topics have.

    Raises
    ------
    TopicError
        A topic is missing, or hidden from this client.
    BrokerError
        The state cannot be read.
    """
    link, count, width = connection(settings), settings.topics.events, settings.topics.requests
    inputs = {events.TOPIC.name: count, contributions.TOPIC.name: count, requests.TOPIC.name: width}
    wanted = {**dict.fromkeys(COMMITTED, count), **inputs}
    found = check_topics(link, {topic(settings, name): None for name in wanted})
    counts = {name: found[topic(settings, name)] for name in wanted}
    values = latest(link, [(topic(settings, name), number) for name in COMMITTED for number in range(counts[name])])
    mismatches = [
        f"{topic(settings, name)} has {counts[name]} partitions, but the settings require {number}; "
        "`glasstream doctor` shows the remedy"
        for name, number in wanted.items()
        if counts[name] != number
    ]
    return Committed(counts, values, mismatches)


def state(settings: Settings, found: Committed | None = None) -> State:
    """Return the committed progress of all stages.

    Parameters
    ----------
    found
        What `committed` has read; None to read it now.

    Raises
    ------
    TopicError, BrokerError, StateError
        The progress cannot be read.
    """
    link = connection(settings)
    counts, values, mismatches = committed(settings) if found is None else found
    places: list[Place] = []
    streams: list[Stream] = []
    notes: list[str] = []
    for number in range(max(counts[name] for name in (*COMMITTED, events.TOPIC.name, contributions.TOPIC.name))):
        mine = {name: values.get((topic(settings, name), number), {}) for name in COMMITTED}
        one = _Partition(settings, number, mine, notes)
        places += one.places
        streams += one.streams()
    places += _explainers(settings, link, counts[requests.TOPIC.name])
    there = {topic(settings, name): count for name, count in counts.items()}
    measured = _measured(link, [place for place in places if place.partition < there[place.topic]])
    if not any(one.behind for one in streams):  # a group without offsets has read nothing, or was deleted since
        measured = [
            msgspec.structs.replace(one, behind=0) if one.stage == "explainer" and one.offset is None else one
            for one in measured
        ]
    return State(prefix=settings.prefix, partitions=measured, streams=streams, notes=notes, mismatches=mismatches)


class _Partition:
    """Committed state of one partition of `events`: the last value of every key, by topic."""

    def __init__(
        self, settings: Settings, number: int, values: Mapping[str, Mapping[bytes, bytes]], notes: list[str]
    ) -> None:
        self._settings, self._number, self._values, self._notes = settings, number, values, notes
        self.places: list[Place] = []
        self._learner: dict[str, progress_learner.LearnerStreamProgress] = {}
        self._aggregator: dict[str, progress_aggregator.AggregatorStreamProgress] = {}
        self._novelty: dict[str, progress_novelty.NoveltyStreamProgress] = {}
        for learned in self._read(progress_learner.TOPIC.name, progress_learner.decode):
            if isinstance(learned, progress_learner.LearnerStreamProgress):
                self._learner[learned.stream] = learned
            else:
                self._place("learner", events.TOPIC.name, learned.epoch, learned.offset)
        for aggregated in self._read(progress_aggregator.TOPIC.name, progress_aggregator.decode):
            if isinstance(aggregated, progress_aggregator.AggregatorStreamProgress):
                self._aggregator[aggregated.stream] = aggregated
            elif aggregated is not None:
                self._place("aggregator", contributions.TOPIC.name, aggregated.epoch, aggregated.offset)
        for watched in self._read(progress_novelty.TOPIC.name, progress_novelty.decode):
            if isinstance(watched, progress_novelty.NoveltyStreamProgress):
                self._novelty[watched.stream] = watched
            elif watched is not None:
                self._place("novelty", events.TOPIC.name, watched.epoch, watched.offset)
        begun = {place.stage for place in self.places}
        for stage, name in (("learner", events.TOPIC.name), ("aggregator", contributions.TOPIC.name)):
            if stage not in begun:
                self._place(stage, name, None, None)

    def streams(self) -> Iterator[Stream]:
        """Yield the progress of the partition's streams, by name."""
        kept = self._checkpoints()
        start = self._settings.explain.first_row
        for name, learned in sorted(self._learner.items()):
            aggregator, detector = self._aggregator.get(name), self._novelty.get(name)
            if detector is not None and detector.epoch != learned.epoch:
                detector = None
            mine = aggregator if aggregator is not None and aggregator.epoch == learned.epoch else None
            aggregated = start if mine is None else mine.next_row
            if aggregator is not None and aggregator.epoch > learned.epoch and not self._is_apart():
                aggregated = learned.next_entry  # the aggregator has passed a reset mark before the learner
            yield Stream(
                stream=name,
                partition=self._number,
                epoch=learned.epoch,
                seqs=learned.seqs,
                rows=learned.rows,
                unlabelled=learned.counts.get("unlabelled", 0),
                first_offset=learned.first_offset,
                version=max(map(int, learned.snapshots), default=None),
                checkpoint=kept.get((name, learned.epoch)),
                aggregated=None if mine is None else min(mine.next_row, learned.next_entry),
                published=None if mine is None or mine.published_row < 0 else mine.published_row,
                behind=max(0, learned.next_entry - aggregated),
                stalled=learned.stalled,
                model=learned.model,
                failed=0 if mine is None else mine.failed,
                unexplained=""
                if mine is None or not mine.failed
                else progress_aggregator.unexplained(name, mine.failed, mine.next_row - start, mine.cause),
                watched=None if detector is None else detector.seqs,
                anchor=None if detector is None or detector.anchor < 0 else detector.anchor,
            )

    def _is_apart(self) -> bool:
        """Return whether the aggregator works in a later epoch of the partition than the learner."""
        epochs = {place.stage: -1 if place.epoch is None else place.epoch for place in self.places}
        return epochs["aggregator"] > epochs["learner"]

    def _place(self, stage: str, name: str, epoch: int | None, offset: int | None) -> None:
        self.places.append(_place(stage, topic(self._settings, name), self._number, epoch, offset))

    def _read(self, name: str, decode: Callable[[bytes, bytes], R]) -> Iterator[R]:
        for key, value in self._values[name].items():
            try:
                yield decode(key, value)
            except RecordError as error:
                self._notes.append(f"{topic(self._settings, name)}[{self._number}]: {error}")

    def _checkpoints(self) -> dict[tuple[str, int], int]:
        """Return the row of the newest complete checkpoint, by stream and epoch."""
        values = self._values[checkpoints.TOPIC.name]
        assembler = checkpoints.Assembler(room_for(values.values()))
        for key, value in values.items():
            assembler.add(key, value)
        newest: dict[tuple[str, int], int] = {}
        for one in assembler.complete():
            newest[one.stream, one.epoch] = max(one.version, newest.get((one.stream, one.epoch), 0))
        return newest


def _explainers(settings: Settings, link: Connection, partitions: int) -> Iterator[Place]:
    """Yield the offsets that the explainers' group has committed, their only state."""
    name, group = topic(settings, requests.TOPIC.name), options("explainer", settings).group
    client = Consumer({**link.consumer(read_committed=True), "group.id": group})
    try:
        asked = [TopicPartition(name, partition) for partition in range(partitions)]
        for one in _offsets_of_group(client, asked):
            yield _place("explainer", name, one.partition, None, one.offset if one.offset >= 0 else None)
    except KafkaException as error:
        raise BrokerError(f"{name}: the offsets of group {group} cannot be read: {error.args[0].str()}") from error
    finally:
        client.close()


def _offsets_of_group(client: Consumer, asked: list[TopicPartition]) -> list[TopicPartition]:
    """Return the committed offsets of a group. Ask again if its coordinator is not ready yet."""
    until = time.monotonic() + STANDSTILL_SECONDS
    while True:
        try:
            return list(client.committed(asked, timeout=STANDSTILL_SECONDS))
        except KafkaException as error:
            if error.args[0].code() not in _SOON or time.monotonic() > until:
                raise
            client.poll(_PAUSE_SECONDS)


def _place(stage: str, name: str, partition: int, epoch: int | None, offset: int | None) -> Place:
    """Return the progress on a partition whose ends are not known yet."""
    return Place(stage=stage, topic=name, partition=partition, epoch=epoch, offset=offset, first=0, end=0, behind=0)


def _measured(link: Connection, places: Iterable[Place]) -> list[Place]:
    """Add the ends of the partitions and the lag."""
    places = list(places)
    ends = offsets(link, {(place.topic, place.partition) for place in places})
    found: list[Place] = []
    close: dict[Partition, int] = {}
    for place in places:
        first, end = ends[place.topic, place.partition]
        begin = first if place.offset is None else place.offset
        found.append(msgspec.structs.replace(place, first=first, end=end, behind=max(0, end - begin)))
        if 0 < end - begin <= _COUNTED:
            one = place.topic, place.partition
            close[one] = min(begin, close.get(one, begin))
    records: dict[Partition, list[int]] = {one: [] for one in close}
    for message in read_records(link, close, read_committed=True):
        records[message.topic, message.partition].append(message.offset)
    return [
        place
        if not 0 < place.behind <= _COUNTED
        else msgspec.structs.replace(
            place, behind=sum(offset >= (place.offset or 0) for offset in records[place.topic, place.partition])
        )
        for place in found
    ]
