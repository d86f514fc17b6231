"""All stages in memory, with a stream that is reset."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field

import orjson

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.models.codec import snapshot as codec
from glasstream.models.codec.authentication import Key
from glasstream_topics import contributions, requests, snapshots
from tests.support.logs import event

KEY = b"a key of sixteen bytes"


SETTINGS = (
    "model.name=tree", "model.task=classification", "explain.methods=ipfi", "explain.reservoir=10", "topics.events=1",
    "publish.every=25", "snapshot.doubling=8", "snapshot.cadence=20", "snapshot.target=0", "limits.rows_ahead=60",
    "checkpoint.seconds=0.000001", "checkpoint.share=1",
)  # fmt: skip


S, T = b"s", b"t"


def packed(first: int, end: int, key: bytes = S) -> list[tuple[bytes, bytes]]:
    return [(key, orjson.dumps([event(n) for n in range(at, min(at + 12, end))])) for at in range(first, end, 12)]


def reference(log: list[tuple[bytes, bytes]], *more: str) -> dict[tuple[str, str], list[bytes]]:
    found = defaultdict(list)
    for topic, record in Reference(load(assignments=[*SETTINGS, *more])).run(log):
        if topic == "events.dead":
            continue
        found[topic, orjson.loads(record)["stream"]].append(record)
    return dict(found)


@dataclass
class Cluster:
    """The log of a broker, and the stages that run against it: one partition, one explainer."""

    log: list[tuple[bytes, bytes]]
    settings: Settings = field(default_factory=lambda: load(assignments=SETTINGS))
    state: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: defaultdict(dict))
    """By topic: the last value of every key."""
    contributions: list[bytes] = field(default_factory=list)
    published: dict[tuple[str, str], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    progress: AggregatorProgress = field(default_factory=AggregatorProgress)
    commits: int = 0
    damage: int = 0
    low: int = 0
    """The first offset that `events` still keeps."""
    key: Key = KEY
    turns: int = 0
    """How often the learner was asked for what it has made: a clock that no load of the machine changes."""

    def learner(self) -> LearnerTask:
        self.progress = AggregatorProgress()
        for key, value in self.state["progress.aggregator"].items():
            self.progress.on_record(0, 0, key, value)
        return LearnerTask(0, self.settings, self.key, self.progress, lambda topic, number: dict(self.state[topic]))

    def aggregator(self) -> tuple[AggregatorTask, int]:
        aggregator = AggregatorTask(0, self.settings)
        return aggregator, aggregator.restore(dict(self.state["progress.aggregator"]), 0, len(self.contributions))

    async def run(
        self, kill_learner: int | None = None, kill_aggregator: int | None = None, lost: bool = False
    ) -> None:
        """Until all is published.

        Parameters
        ----------
        kill_learner, kill_aggregator
            With which commit of the learner a successor takes over.
        lost
            Whether that commit never came to be.
        """
        learner, (aggregator, at) = self.learner(), self.aggregator()
        feeding = self._feed(learner)
        while True:
            await asyncio.sleep(0)
            self.turns += 1
            done = feeding.done()
            if done:
                feeding.result()
            outputs = learner.collect()
            self.commits += bool(outputs)
            dies = kill_learner == self.commits and bool(outputs)
            if not (dies and lost):
                self._take(outputs, "progress.learner")
            if dies:
                feeding.cancel()
                learner = self.learner()
                feeding = self._feed(learner)
                continue
            if outputs:
                learner.committed()
            if kill_aggregator == self.commits:
                kill_aggregator = None
                aggregator, at = self.aggregator()
            for offset in range(at, len(self.contributions)):
                await aggregator.feed([Message("contributions", 0, offset, b"", self.contributions[offset])])
            at = len(self.contributions)
            self._take(aggregator.collect(), "progress.aggregator")
            if done and not outputs:
                break
        self.damage += aggregator.damaged
        self.over, self.core = aggregator.core.over, learner.core

    def _feed(self, learner: LearnerTask) -> "asyncio.Task[None]":
        start = learner.restore(self.state["progress.learner"], self.low, len(self.log))

        async def feed() -> None:
            for offset in range(start, len(self.log)):
                key, value = self.log[offset]
                await learner.feed([Message("events", 0, offset, key, value)])
                await asyncio.sleep(0)

        return asyncio.ensure_future(feed())

    def _take(self, outputs: Outputs, progress: str) -> None:
        for record in [*outputs.before, *outputs.records, *outputs.apart]:
            self._write(record.topic.removeprefix(self.settings.prefix), record)
        for record in outputs.progress:
            self._write(progress, record)

    def _write(self, topic: str, record: ProducerRecord) -> None:
        key, value = record.key or b"", record.value
        if topic in ("predictions", "importance", "effects", "drift"):
            self.published[topic, key.decode()].append(value or b"")
        elif topic == "explain.requests":
            self._explain(value or b"")
        elif value is None:
            self.state[topic].pop(key, None)
        else:
            self.state[topic][key] = value
        if topic == "progress.aggregator":
            self.progress.on_record(0, 0, key, value)

    def _explain(self, data: bytes) -> None:
        block = requests.decode(data)
        model = None
        if block.count:
            whole = snapshots.Assembler(2**24)
            for key, value in self.state["snapshots"].items():
                whole.add(key, value)
            found = whole.get(block.stream, block.epoch, block.version)
            if found is None:
                assert self.progress.left(block.stream, block.epoch), (
                    "a row's model was ended before the row was aggregated"
                )
                return
            model = codec.decode(found, key=self.key)
        self.contributions += [contributions.encode(one) for one in explain(block, model)]
