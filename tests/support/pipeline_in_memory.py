"""The partition objects of all stages, connected by a log in memory: whatever may happen, driven by a seed.

The objects are those that the workers run (`glasstream.kafka.stages`). Only what moves records between them is of this
module: it keeps what Kafka promises, and no more.

- A transaction becomes visible whole or not at all, and takes one more offset in each partition that it writes; one
  that is aborted leaves a hole. What goes `before` it is visible at once, even if the transaction never comes to be.
- A worker may die at any await of `feed`, between `collect` and its transaction, and between the parts of what it
  writes. Its successor restores the committed state. A worker that was only paused wakes beside its successor: its
  transactions are refused, its other records are not.
- Explainers acknowledge late, and their partitions move: a block may be explained twice, by two of them, in any order.
- Followers of `snapshots` and `progress.aggregator` are behind by any number of records.

`Pipeline.run` chooses among all this with its seed until the input has been used up, then lets everybody finish. If
nothing moves any more before that, it raises `NothingMoves` and names who waits.
"""

import asyncio
import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from unittest import mock

import orjson

from glasstream.detect.novelty.fit import Request, fit
from glasstream.detect.novelty.settings import NoveltySettings
from glasstream.events.message import Message
from glasstream.flow.learner.pushed import file_of
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.explainer import ExplainerTask
from glasstream.kafka.stages.labels import LabelsTask
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.kafka.stages.novelty import NoveltyTask
from glasstream.kafka.transport.records import Headers, Outputs, ProducerRecord
from glasstream_topics import events, models

KEY = b"a key of sixteen bytes"
_PATIENCE = 400
"""Number of rounds without any movement after which the pipeline counts as stuck."""


class NothingMoves(Exception):
    """Nothing moves although something is left to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A committed record."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass
class Partition:
    """The offsets of one partition: committed records, and holes."""

    entries: list[Entry | None] = field(default_factory=list)
    low: int = 0
    """First offset that is kept."""

    @property
    def high(self) -> int:
        return len(self.entries)

    def next(self, offset: int) -> tuple[int, Entry] | None:
        """Return the first record from an offset on; None at the end."""
        for at in range(max(offset, self.low), self.high):
            entry = self.entries[at]
            if entry is not None:
                return at, entry
        return None

    def newest(self) -> dict[bytes, bytes]:
        """Return the last value of each key, as reading to the end finds it."""
        table: dict[bytes, bytes] = {}
        for entry in self.entries[self.low :]:
            if entry is not None and entry.key is not None:
                table.pop(entry.key, None)
                if entry.value is not None:
                    table[entry.key] = entry.value
        return table


class Log:
    """The topics, by their names without the prefix."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.partitions: dict[tuple[str, int], Partition] = defaultdict(Partition)
        self.appended = 0
        """Number of records and holes so far, except checkpoints: those may be written because time has passed."""
        self._owners: dict[tuple[str, int], int] = {}

    def append(self, topic: str, partition: int, entry: Entry | None) -> int:
        """Write a record that is visible at once, or a hole (None)."""
        self.partitions[topic, partition].entries.append(entry)
        self.appended += topic != "checkpoints"
        return self.partitions[topic, partition].high - 1

    def write(self, records: Iterable[ProducerRecord]) -> None:
        """Write records outside any transaction."""
        for record in records:
            self.append(*self._place(record), Entry(record.key, record.value, record.headers))

    def open(self, stage: str, partition: int) -> int:
        """Return the number of a new owner; from now on only its transactions are accepted."""
        self._owners[stage, partition] = self._owners.get((stage, partition), 0) + 1
        return self._owners[stage, partition]

    def is_owner(self, stage: str, partition: int, owner: int) -> bool:
        return self._owners[stage, partition] == owner

    def commit(self, records: Sequence[ProducerRecord]) -> None:
        """Write a transaction, with its markers."""
        self.write(records)
        for place in dict.fromkeys(map(self._place, records)):
            self.append(*place, None)

    def abort(self, records: Sequence[ProducerRecord]) -> None:
        """Write part of a transaction that never becomes visible."""
        for place in map(self._place, records):
            self.append(*place, None)

    def send(self, key: bytes | None, value: bytes | None, topic: str = "events") -> None:
        """Write a message of a user."""
        counts = self.settings.topics
        self.append(topic, events.partition(key or b"", counts.events, counts.partitioner), Entry(key, value))

    def store(self, file: bytes) -> str:
        """Write the file of a model, and return its SHA-256."""
        for key, value in models.split(file):
            self.append(models.TOPIC.name, 0, Entry(key, value))
        return models.digest(file)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Forget the records before an offset, as retention does."""
        self.partitions[topic, partition].low = before

    def values(self, topic: str) -> dict[bytes | None, list[bytes]]:
        """Return the committed values of a topic, per key, in order."""
        found: dict[bytes | None, list[bytes]] = defaultdict(list)
        for (name, _), partition in sorted(self.partitions.items()):
            if name == topic:
                for entry in partition.entries:
                    if entry is not None and entry.value is not None:
                        found[entry.key].append(entry.value)
        return dict(found)

    def _place(self, record: ProducerRecord) -> tuple[str, int]:
        return record.topic.removeprefix(self.settings.prefix), record.partition or 0


class State(Protocol):
    """State that a stage keeps of a partition: `glasstream.kafka.transport.stateful.PartitionState`."""

    def restore(self, records: Mapping[bytes, bytes], low: int, high: int) -> int: ...
    async def feed(self, run: Sequence[Message]) -> None: ...
    def used(self) -> int: ...
    def collect(self) -> Outputs: ...
    def committed(self) -> None: ...
    def dropped(self) -> None: ...


class Follower:
    """Reads a topic for somebody, at its own pace."""

    def __init__(self, log: Log, topic: str, partition: int, tell: Callable[[int, Entry], None]) -> None:
        self._partition = log.partitions[topic, partition]
        self._tell = tell
        self._at = 0

    def step(self, most: int) -> bool:
        """Read at most this many records, and return whether there was one."""
        moved = False
        for _ in range(most):
            found = self._partition.next(self._at)
            if found is None:
                break
            at, entry = found
            self._at, moved = at + 1, True
            self._tell(at, entry)
        return moved


CRASHES = ("in feed", "after collect", "after before", "in the transaction", "after the transaction", "after apart")
"""Points at which a worker with state may die."""


class Worker:
    """A stage with state, for one partition, from its take-over to its death."""

    def __init__(
        self,
        log: Log,
        stage: str,
        partition: int,
        reads: str,
        make: Callable[[Log], State],
        most: Callable[[], int] = lambda: 1,
    ) -> None:
        self.log, self.stage, self.partition = log, stage, partition
        self.name = f"{stage}[{partition}]"
        self.owner = log.open(stage, partition)
        self.followers: list[Follower] = []
        self.state = make(log)
        self._input = log.partitions[reads, partition]
        progress = log.partitions[f"progress.{stage}", partition]
        self._at = self.state.restore(progress.newest(), self._input.low, self._input.high)
        self._topic = reads
        self._most = most
        self.idle = False
        self._feeding = asyncio.ensure_future(self._feed())

    async def _feed(self) -> None:
        while True:
            run, at, most = list[Message](), self._at, self._most()
            while len(run) < most and (found := self._input.next(at)) is not None:
                at, entry = found
                name = self.log.settings.prefix + self._topic
                run.append(Message(name, self.partition, at, entry.key, entry.value, None, entry.headers))
                at += 1
            self.idle = not run
            if run:
                await self.state.feed(run)
                assert self.state.used() == at
                self._at = at
            await asyncio.sleep(0)

    def check(self) -> None:
        """Raise what has ended the stage, if anything has."""
        if self._feeding.done():
            self._feeding.result()

    def commit(self, dies: str | None = None) -> bool:
        """Commit what is ready, up to the point where the worker dies, and return whether there was anything."""
        if dies == "in feed":
            return False
        outputs = self.state.collect()
        if not outputs or dies == "after collect":
            return bool(outputs)
        self.log.write(outputs.before)
        if dies == "after before":
            return True
        name = self.log.settings.prefix + f"progress.{self.stage}"
        progress = [ProducerRecord(name, one.key, one.value, self.partition, one.headers) for one in outputs.progress]
        for part, point in (([*outputs.records, *progress], "after the transaction"), (outputs.apart, "after apart")):
            if not part:
                continue
            if not self.log.is_owner(self.stage, self.partition, self.owner):
                return True  # fenced
            if dies == "in the transaction":
                self.log.abort(part[: len(part) // 2])
                return True
            self.log.commit(part)
            if dies == point:
                return True
        self.state.committed()
        return True

    def kill(self) -> None:
        self._feeding.cancel()


class Explaining:
    """An explainer, with the partitions of `explain.requests` that it has."""

    def __init__(self, log: Log, number: int, acknowledged: dict[int, int], chance: random.Random) -> None:
        self.log, self.name = log, f"explainer-{number}"
        self.idle = False
        self._acknowledged = acknowledged
        self._chance = chance
        self._lanes: dict[int, asyncio.Task[None]] = {}
        self._busy: set[int] = set()
        self.core = ExplainerTask(log.settings, KEY, AggregatorProgress())
        self.followers = [
            Follower(log, "snapshots", 0, lambda _, one: self.core.on_snapshot(one.key or b"", one.value))
        ]
        for partition in range(log.settings.topics.events):
            self.followers.append(Follower(log, "progress.aggregator", partition, self._tell(partition)))

    def _tell(self, partition: int) -> Callable[[int, Entry], None]:
        return lambda at, one: self.core.on_progress(partition, at, one.key, one.value)

    def assign(self, partitions: Iterable[int]) -> None:
        """Own exactly these partitions of `explain.requests`, from their acknowledged offsets on."""
        for lane in self._lanes.values():
            lane.cancel()
        self._busy.clear()
        self.idle = True
        self._lanes = {one: asyncio.ensure_future(self._work(one)) for one in partitions}

    async def _work(self, partition: int) -> None:
        at = self._acknowledged.get(partition, 0)
        while True:
            found = self.log.partitions["explain.requests", partition].next(at)
            (self._busy.discard if found is None else self._busy.add)(partition)
            self.idle = not self._busy
            if found is not None:
                offset, entry = found
                records = await self.core.handle(Message("explain.requests", partition, offset, entry.key, entry.value))
                for record in records:
                    self.log.write([record])
                    await asyncio.sleep(0)
                at = offset + 1
                if self._chance.random() < 0.7:  # what is not acknowledged is explained again by the next owner
                    self._acknowledged[partition] = at
            await asyncio.sleep(0)

    def check(self) -> None:
        """Raise what has ended the explainer, if anything has."""
        for lane in self._lanes.values():
            if lane.done() and not lane.cancelled():
                lane.result()

    def kill(self) -> None:
        for lane in self._lanes.values():
            lane.cancel()


class AtOnce(Executor):
    """Calls in the thread that asks: what is waited for does not depend on how busy the machine is."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*arguments, **named))
        except Exception as error:  # noqa: BLE001 - whoever waits for the future gets it
            future.set_exception(error)
        return future


class Inline:
    """Fits maps at once, in place of a process."""

    def submit(self, request: Request, settings: NoveltySettings, seed: int) -> "Future[bytes]":
        made: Future[bytes] = Future()
        made.set_result(fit(request, settings, seed))
        return made


class Pipeline:
    """A deployment.

    Parameters
    ----------
    settings
        The configuration of every stage.
    seed
        Chooses what happens and when.
    explainers
        How many there are.
    labels
        Whether labels come on a topic of their own.
    """

    def __init__(self, settings: Settings, seed: int = 0, explainers: int = 2, *, labels: bool = False) -> None:
        self.log = Log(settings)
        self.settings = settings
        self.happened: Counter[str] = Counter()
        """Number of faults, by kind."""
        self.now = 0.0
        """Clock of standstills, in seconds. It advances while nothing moves."""
        self.chance = random.Random(seed)
        self.workers: dict[tuple[str, int], Worker] = {}
        self.paused: list[Worker] = []
        self._explainers: list[Explaining] = []
        self._count = explainers
        self._acknowledged: dict[int, int] = {}
        self._stages = [
            "learner",
            "aggregator",
            *(["novelty"] if settings.explain.detects_novelty else []),
            *(["labels"] if labels else []),
        ]

    async def start(self) -> None:
        """Start every worker."""
        for stage in self._stages:
            for partition in range(self.settings.topics.events):
                self.take_over(stage, partition)
        self._explainers = [self._explainer(number) for number in range(self._count)]
        self.reassign()

    def take_over(self, stage: str, partition: int) -> Worker:
        """Start the successor of the current owner of a stage's partition."""
        settings = self.settings
        followers: list[Follower] = []

        def learner(log: Log) -> State:
            progress = AggregatorProgress()
            tell = lambda at, one: progress.on_record(partition, at, one.key, one.value)  # noqa: E731
            followers.append(Follower(log, "progress.aggregator", partition, tell))
            read = lambda topic, number: log.partitions[topic, number].newest()  # noqa: E731
            file = lambda name: file_of(name, log.partitions["models", 0].newest())  # noqa: E731
            return LearnerTask(partition, settings, KEY, progress, read, lambda: self.now, file=file, judges=AtOnce())

        fitter: Any = Inline()
        make: dict[str, tuple[str, Callable[[Log], State]]] = {
            "learner": ("events", learner),
            "aggregator": ("contributions", lambda log: AggregatorTask(partition, settings)),
            "novelty": ("events", lambda log: NoveltyTask(partition, settings, fitter)),
            "labels": ("labels", lambda log: LabelsTask(partition, settings)),
        }
        worker = self.workers[stage, partition] = Worker(self.log, stage, partition, *make[stage], self._most_of_a_run)
        worker.followers = followers
        return worker

    def _most_of_a_run(self) -> int:
        """Return how many messages the next run has at most."""
        return self.chance.choice((1, 2, 7, 100))

    def reassign(self) -> None:
        """Distribute the partitions of `explain.requests` among the explainers anew."""
        if not self._explainers:
            return
        owners = {partition: self.chance.choice(self._explainers) for partition in range(self.settings.topics.requests)}
        for one in self._explainers:
            one.assign(partition for partition, owner in owners.items() if owner is one)

    def add_explainer(self) -> None:
        """Start one more explainer."""
        self._explainers.append(self._explainer(len(self._explainers)))
        self.reassign()

    def _explainer(self, number: int) -> Explaining:
        return Explaining(self.log, number, self._acknowledged, self.chance)

    def kill(self, stage: str, partition: int = 0, point: str = "in feed", *, paused: bool = False) -> None:
        """End a worker at a point of its commit, or pause it, and start its successor."""
        worker = self.workers[stage, partition]
        self.happened[f"{stage}: {'paused' if paused else point}"] += 1
        if paused:
            self.paused.append(worker)
        else:
            worker.commit(point)
            worker.kill()
        self.take_over(stage, partition)

    async def fault(self) -> None:
        """Inject a random fault."""
        stage, partition = self.chance.choice(list(self.workers))
        kind = self.chance.randrange(8)
        if kind < 4:
            self.kill(stage, partition, self.chance.choice(CRASHES))
        elif kind == 4:
            self.kill(stage, partition, paused=True)
        elif kind == 5 and self.paused:
            worker = self.paused.pop(self.chance.randrange(len(self.paused)))
            self.happened[f"{stage}: woke"] += 1
            worker.commit()
            worker.kill()
        elif kind == 6:
            self.happened["explainer: killed"] += 1
            number = self.chance.randrange(len(self._explainers))
            self._explainers[number].kill()
            self._explainers[number] = self._explainer(number)
            self.reassign()
        else:
            self.happened["explainers: reassigned"] += 1
            self.reassign()

    async def step(self, pace: float = 0.3) -> None:
        """Let every worker make a step with some probability."""
        for _ in range(self.chance.randrange(1, 6)):
            await asyncio.sleep(0)
        for one in (*self.workers.values(), *self._explainers):
            one.check()
            for follower in one.followers:
                if self.chance.random() < pace:
                    follower.step(self.chance.randrange(1, 40))
        for worker in list(self.workers.values()):
            if self.chance.random() < pace:
                worker.commit()

    async def finish(self) -> None:
        """Let every worker continue until no work is left.

        Raises
        ------
        NothingMoves
            Something is left, and nothing moves.
        """
        quiet = 0
        while quiet < 3:
            before = self.log.appended
            moved = False
            for _ in range(4):
                await asyncio.sleep(0)
            for one in (*self.workers.values(), *self._explainers):
                one.check()
                for follower in one.followers:
                    moved |= follower.step(1_000)
            for worker in list(self.workers.values()):
                worker.commit()
            moved |= self.log.appended != before
            waiting = [one.name for one in (*self.workers.values(), *self._explainers) if not one.idle]
            if moved:
                quiet = 0
            elif not waiting:
                quiet += 1
            else:
                quiet -= 1
                self.now += 1.0
                if quiet < -_PATIENCE:
                    raise NothingMoves(f"{', '.join(waiting)} wait for what never comes")

    def run(self, messages: Iterable[tuple[bytes | None, bytes | None]], faults: int = 0) -> "Pipeline":
        """Send messages, inject this many faults meanwhile, and finish."""
        topic_messages = [(key, value, "events") for key, value in messages]
        return self.drive(lambda: self._play(topic_messages, faults))

    def drive(self, play: Callable[[], Awaitable[None]]) -> "Pipeline":
        """Run a course of events from the start of the workers to their end."""

        async def whole() -> None:
            if not self.workers:
                await self.start()
            try:
                await play()
            finally:
                for one in (*self.workers.values(), *self.paused, *self._explainers):
                    one.kill()
                await asyncio.sleep(0)

        with deterministic():
            asyncio.run(whole())
        self.workers.clear()
        self.paused.clear()
        return self

    async def _play(self, messages: Sequence[tuple[bytes | None, bytes | None, str]], faults: int) -> None:
        at = sorted(self.chance.randrange(len(messages) + 1) for _ in range(faults))
        more = 0
        for number, message in enumerate(messages):
            self.log.send(*message)
            if more := more - 1 if more else self.chance.choice((0, 0, 1, 6, 30)):
                continue  # the workers find several messages at once
            await self.step()
            while at and at[0] <= number:
                at.pop(0)
                await self.fault()
                await self.step()
        for _ in at:
            await self.fault()
            await self.step()
        await self.finish()

    def published(self, *topics: str) -> dict[tuple[str, str], list[bytes]]:
        """Return the records of the public topics, by topic and stream (and feature, for curves)."""
        found: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        for topic in topics:
            for values in self.log.values(topic).values():
                found[topic, _of(values[0])] += values
        return dict(found)

    def expected(self, *topics: str) -> dict[tuple[str, str], list[bytes]]:
        """Return what the plain loop publishes of the same log."""
        found: dict[tuple[str, str], list[bytes]] = defaultdict(list)
        loop = Reference(self.settings, partial(file_of, records=self.log.partitions["models", 0].newest()))
        for partition in range(self.settings.topics.events):
            for offset, entry in enumerate(self.log.partitions["events", partition].entries):
                if entry is not None:
                    message = Message(events.TOPIC.name, partition, offset, entry.key, entry.value)
                    for topic, record in loop.feed(message):
                        if topic in topics:
                            found[topic, _of(record)].append(record)
        return dict(found)


def _of(record: bytes) -> str:
    """Return what a public record is about."""
    read = orjson.loads(record)
    about = [read["stream"], *([read["feature"], read["output"]] if "curve" in read else [])]
    return "/".join(str(part) for part in about if part is not None)


@contextmanager
def deterministic() -> Iterator[None]:
    """Make what happens a function of the seed: a turn of the loop after every event, no threads, no clock."""
    ticks = itertools.count()

    async def inline(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        await asyncio.sleep(0)
        return function(*arguments, **named)

    with (
        mock.patch("glasstream.kafka.stages.learner._YIELD_SECONDS", -1.0),
        mock.patch("glasstream.kafka.stages.novelty._YIELD_SECONDS", -1.0),
        mock.patch("glasstream.kafka.stages.checkpoints.perf_counter", lambda: float(next(ticks))),
        mock.patch("glasstream.kafka.stages.novelty.perf_counter", lambda: float(next(ticks))),
        mock.patch("asyncio.to_thread", inline),
    ):
        yield
