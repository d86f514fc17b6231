"""How far the stages are, as committed: by partition, and by stream."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition
from msgspec import Struct

from pipeline.errors import BrokerError, RecordError
from pipeline.operate.kept import STANDSTILL_SECONDS, kept
from pipeline.settings import Settings
from pipeline.stages.build import connection, options
from pipeline.stages.names import topic
from pipeline.transport.connection import Connection
from pipeline.transport.progress import read_to_end, watermarks
from pipeline.transport.topic_check import check_topics
from topics import checkpoints, contributions, events, progress_fold, progress_learner, progress_sentinel, work

R = TypeVar("R")

_COUNTED = 100
"""So few messages behind are counted one by one: most of them may be marks that transactions leave."""
_LARGEST = 4 * 2**30
"""Bytes of checkpoints that are put together, of a partition."""


class Place(Struct, frozen=True, kw_only=True):
    """How far a stage is on a partition of its input.

    Attributes
    ----------
    stage, topic, partition
        Which.
    epoch
        Of the partition's streams; None for explainers, which have no state, and where nothing was committed yet.
    offset
        Of the message to go on with; None where nothing was committed yet.
    first, end
        The first offset that is kept, and the one after the last.
    behind
        Messages from `offset` on; where they are many, the marks that transactions leave are counted with them.
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
    """How far the stages are with a stream.

    Attributes
    ----------
    stream, partition, epoch
        Which.
    seqs, rows, unlabelled
        Events accepted, learned, and predicted without a label.
    first_offset
        Of `events`, that the stream began with.
    version
        The newest published version of the model; None before the first.
    checkpoint
        The row of the newest whole checkpoint; None without one.
    folded, published
        Rows folded, and the row of the newest estimate; None where the fold has not begun.
    behind
        Rows learned that the fold has not folded: of those that are explained.
    watched, anchor
        Events that the sentinel has used, and how many of them its newest anchor knows; None without a sentinel.
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
    folded: int | None
    published: int | None
    behind: int
    watched: int | None
    anchor: int | None


class State(Struct, frozen=True, kw_only=True):
    """What all stages have committed, and lines about records that cannot be read."""

    prefix: str
    partitions: list[Place]
    streams: list[Stream]
    notes: list[str]


def state(settings: Settings) -> State:
    """Read it.

    Raises
    ------
    TopicError, BrokerError, StateError
        It cannot be read.
    """
    link, count = connection(settings), settings.topics.events
    check_topics(
        link,
        {
            topic(settings, one): settings.topics.work if one == work.TOPIC.name else count
            for one in (
                *(events.TOPIC.name, contributions.TOPIC.name, work.TOPIC.name, checkpoints.TOPIC.name),
                *(progress_learner.TOPIC.name, progress_fold.TOPIC.name, progress_sentinel.TOPIC.name),
            )
        },
    )
    places: list[Place] = []
    streams: list[Stream] = []
    notes: list[str] = []
    for partition in range(count):
        found = _Partition(settings, link, partition, notes)
        places += found.places
        streams += found.streams()
    places += _explainers(settings, link)
    return State(prefix=settings.prefix, partitions=places, streams=streams, notes=notes)


class _Partition:
    """What is committed of one partition of `events`."""

    def __init__(self, settings: Settings, link: Connection, number: int, notes: list[str]) -> None:
        self._settings, self._link, self._number, self._notes = settings, link, number, notes
        self.places: list[Place] = []
        self._learner: dict[str, progress_learner.StreamProgress] = {}
        self._fold: dict[str, progress_fold.StreamProgress] = {}
        self._sentinel: dict[str, progress_sentinel.StreamProgress] = {}
        for learned in self._read(progress_learner.TOPIC.name, progress_learner.decode):
            if isinstance(learned, progress_learner.StreamProgress):
                self._learner[learned.stream] = learned
            else:
                self._place("learner", events.TOPIC.name, learned.epoch, learned.offset)
        for folded in self._read(progress_fold.TOPIC.name, progress_fold.decode):
            if isinstance(folded, progress_fold.StreamProgress):
                self._fold[folded.stream] = folded
            elif folded is not None:
                self._place("fold", contributions.TOPIC.name, folded.epoch, folded.offset)
        for watched in self._read(progress_sentinel.TOPIC.name, progress_sentinel.decode):
            if isinstance(watched, progress_sentinel.StreamProgress):
                self._sentinel[watched.stream] = watched
            elif watched is not None:
                self._place("sentinel", events.TOPIC.name, watched.epoch, watched.offset)
        begun = {place.stage for place in self.places}
        for stage, name in (("learner", events.TOPIC.name), ("fold", contributions.TOPIC.name)):
            if stage not in begun:
                self._place(stage, name, None, None)

    def streams(self) -> Iterator[Stream]:
        """By name."""
        kept = self._checkpoints()
        start = self._settings.start
        for name, learned in sorted(self._learner.items()):
            fold, sentinel = self._fold.get(name), self._sentinel.get(name)
            mine = fold if fold is not None and fold.epoch == learned.epoch else None
            folded = start if mine is None else mine.next_row
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
                folded=None if mine is None else mine.next_row,
                published=None if mine is None or mine.published_row < 0 else mine.published_row,
                behind=max(0, learned.rows - folded),
                watched=None if sentinel is None else sentinel.seqs,
                anchor=None if sentinel is None or sentinel.anchor < 0 else sentinel.anchor,
            )

    def _place(self, stage: str, name: str, epoch: int | None, offset: int | None) -> None:
        full = topic(self._settings, name)
        first, end = watermarks(self._link, full, self._number, STANDSTILL_SECONDS)
        self.places.append(_placed(self._link, stage, full, self._number, epoch, offset, first, end))

    def _read(self, name: str, decode: Callable[[bytes, bytes], R]) -> Iterator[R]:
        full = topic(self._settings, name)
        for key, value in self._latest(full).items():
            try:
                yield decode(key, value)
            except RecordError as error:
                self._notes.append(f"{full}[{self._number}]: {error}")

    def _latest(self, name: str) -> Mapping[bytes, bytes]:
        return read_to_end(self._link, name, self._number, STANDSTILL_SECONDS)

    def _checkpoints(self) -> dict[tuple[str, int], int]:
        """Per stream and epoch: the row of the newest whole checkpoint."""
        assembler = checkpoints.Assembler(_LARGEST)
        for key, value in self._latest(topic(self._settings, checkpoints.TOPIC.name)).items():
            assembler.add(key, value)
        newest: dict[tuple[str, int], int] = {}
        for one in assembler.complete():
            newest[one.stream, one.epoch] = max(one.version, newest.get((one.stream, one.epoch), 0))
        return newest


def _explainers(settings: Settings, link: Connection) -> list[Place]:
    """What the explainers' group has committed: they have no other state."""
    name = topic(settings, work.TOPIC.name)
    group = options("explainer", settings).group
    client = Consumer({**link.consumer(read_committed=True), "group.id": group})
    places: list[Place] = []
    try:
        asked = [TopicPartition(name, partition) for partition in range(settings.topics.work)]
        for one in client.committed(asked, timeout=STANDSTILL_SECONDS):
            first, end = client.get_watermark_offsets(one, timeout=STANDSTILL_SECONDS, cached=False)
            offset = one.offset if one.offset >= 0 else None
            places.append(_placed(link, "explainer", name, one.partition, None, offset, first, end))
    except KafkaException as error:
        raise BrokerError(f"{name}: what group {group} has committed cannot be read: {error.args[0].str()}") from error
    finally:
        client.close()
    return places


def _placed(
    link: Connection, stage: str, name: str, partition: int, epoch: int | None, offset: int | None, first: int, end: int
) -> Place:
    begin = first if offset is None else offset
    behind = max(0, end - begin)
    if 0 < behind <= _COUNTED:
        behind = sum(1 for _ in kept(link, name, {partition: begin}, read_committed=True))
    return Place(
        stage=stage, topic=name, partition=partition, epoch=epoch, offset=offset, first=first, end=end, behind=behind
    )
