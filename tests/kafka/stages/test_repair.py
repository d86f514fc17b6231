"""Records of the internal queues that are lost come again: the stages on a log in memory that drops some of them."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.flow.reference import Reference
from glasstream.kafka.stages import explainer as explainer_stage
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.explainer import ExplainerTask
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.kafka.stages.standstill import LONGEST
from glasstream.kafka.transport.records import Outputs
from glasstream_topics import events
from tests.support.examples import examples
from tests.support.logs import event

KEY = b"a key of sixteen bytes"
SETTINGS = (
    "model.name=tree", "model.task=classification", "explain.methods=ipfi,isage,ipdp", "explain.reservoir=10",
    "topics.events=1", "publish.every=25", "snapshot.doubling=8", "snapshot.cadence=20", "snapshot.target=0",
    "limits.rows_ahead=60", "checkpoint.share=1",
)  # fmt: skip
PUBLISHED = ("predictions", "importance", "effects", "drift")
QUEUES = ("explain.requests", "contributions", "snapshots")


def packed(key: bytes, first: int, end: int) -> list[tuple[bytes, bytes]]:
    return [(key, orjson.dumps([event(n) for n in range(at, min(at + 12, end))])) for at in range(first, end, 12)]


LOG = [
    *(one for pair in zip(packed(b"s", 0, 72), packed(b"t", 0, 72), strict=True) for one in pair),
    (b"s", events.FLUSH), (b"s", events.RESET), *packed(b"s", 72, 120), (b"s", events.FLUSH), (b"t", events.FLUSH),
]  # fmt: skip


def reference() -> dict[tuple[str, str], list[bytes]]:
    found = defaultdict(list)
    for topic, record in Reference(load(assignments=SETTINGS)).run(LOG):
        found[topic, orjson.loads(record)["stream"]].append(record)
    return dict(found)


EXPECTED = reference()


@dataclass
class Lossy:
    """The stages of one partition, and a log that drops records of the queues.

    Parameters
    ----------
    drops
        (topic, n): the n-th record that is written to the topic is lost.
    seconds
        Of `checkpoint.seconds`.
    kill
        With which commit of the learner a successor takes over.
    """

    drops: Collection[tuple[str, int]]
    seconds: str = "0"
    kill: int | None = None
    state: dict[str, dict[bytes, bytes]] = field(default_factory=lambda: defaultdict(dict))
    published: dict[tuple[str, str], list[bytes]] = field(default_factory=lambda: defaultdict(list))
    written: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    commits: int = 0
    now: float = 0.0

    def __post_init__(self) -> None:
        self.settings = load(assignments=[*SETTINGS, f"checkpoint.seconds={self.seconds}"])
        self.progress = AggregatorProgress()
        self.explainer = ExplainerTask(self.settings, KEY, AggregatorProgress())
        self.aggregator = AggregatorTask(0, self.settings)
        self.requests: asyncio.Queue[Message] = asyncio.Queue()

    def learner(self) -> LearnerTask:
        self.progress = AggregatorProgress()
        return LearnerTask(
            0, self.settings, KEY, self.progress, lambda topic, number: dict(self.state[topic]), lambda: self.now
        )

    async def run(self) -> None:
        """Until all is published; the clock goes on when nothing moves."""
        learner = self.learner()
        feeding, explaining = self._feed(learner), asyncio.ensure_future(self._explain())
        while True:
            before = self.written.total(), self.commits, learner.core.position
            for _ in range(50):
                await asyncio.sleep(0)
            outputs = learner.collect()
            self.commits += bool(outputs)
            self._write(outputs, "progress.learner")
            if self.kill == self.commits:
                self.kill = None
                feeding.cancel()
                learner = self.learner()
                feeding = self._feed(learner)
                continue
            if outputs:
                learner.committed()
            self._write(self.aggregator.collect(), "progress.aggregator")
            for task in (feeding, explaining):
                if task.done():
                    task.result()
            if (self.written.total(), self.commits, learner.core.position) != before:
                continue
            if feeding.done() and not learner._backlog.outstanding():
                break
            self.now += LONGEST
            assert self.now < 100 * LONGEST, f"nothing moves any more: {learner.stalled()}"
        explaining.cancel()

    def _feed(self, learner: LearnerTask) -> "asyncio.Task[None]":
        start = learner.restore(self.state["progress.learner"], 0, len(LOG))

        async def feed() -> None:
            for offset in range(start, len(LOG)):
                await learner.feed([Message("events", 0, offset, *LOG[offset])])
                await asyncio.sleep(0)

        return asyncio.ensure_future(feed())

    async def _explain(self) -> None:
        while True:
            for record in await self.explainer.handle(await self.requests.get()):
                if not self._lost("contributions"):
                    offset = self.written["contributions"] - 1
                    await self.aggregator.feed([Message("contributions", 0, offset, b"", record.value)])

    def _lost(self, topic: str) -> bool:
        lost = (topic, self.written[topic]) in self.drops
        self.written[topic] += 1
        self.dropped[topic] += lost
        return lost

    def _write(self, outputs: Outputs, progress: str) -> None:
        records = [(one.topic.removeprefix(self.settings.prefix), one.key or b"", one.value)
                   for one in (*outputs.before, *outputs.records, *outputs.apart)]  # fmt: skip
        for topic, key, value in [*records, *((progress, one.key or b"", one.value) for one in outputs.progress)]:
            if topic in PUBLISHED:
                self.published[topic, orjson.loads(value or b"")["stream"]].append(value or b"")
            elif topic == "explain.requests":
                if not self._lost(topic):
                    self.requests.put_nowait(Message(topic, 0, self.written[topic] - 1, key, value))
            elif topic == "snapshots":
                if not self._lost(topic):
                    self.explainer.on_snapshot(key, value)
            elif value is None:
                self.state[topic].pop(key, None)
            else:
                self.state[topic][key] = value
            if topic == "progress.aggregator":
                self.progress.on_record(0, 0, key, value)
                self.explainer.on_progress(0, 0, key, value)


@pytest.fixture(autouse=True, scope="module")
def at_once() -> Any:
    """Explain on the event loop: what happens when is the same each time."""

    async def call(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explainer_stage.asyncio, "to_thread", call)
        yield


def repaired(*args: Any) -> Lossy:
    lossy = Lossy(*args)
    asyncio.run(lossy.run())
    assert dict(lossy.published) == EXPECTED
    assert lossy.aggregator.damaged == lossy.explainer.damaged == 0
    return lossy


def test_without_a_loss_nothing_is_sent_again() -> None:
    whole = repaired(())
    assert whole.now == 0 and min(whole.written[topic] for topic in QUEUES) > 10


@pytest.mark.parametrize("topic", QUEUES)
def test_every_record_may_be_lost_whole_or_in_part(topic: str) -> None:
    """Requests of marks, which carry no rows, are among the lost ones."""
    for first in range(4):
        assert repaired({(topic, n) for n in range(first, 1_000, 4)}).dropped[topic] > 3
    assert repaired({(topic, n) for n in range(1_000) if n % 50 < 45}).now > 0


def test_a_mark_alone_is_sent_again() -> None:
    """It carries no rows by which it would be missed."""
    last = repaired(()).written["explain.requests"] - 1
    assert repaired({("explain.requests", last)}).dropped["explain.requests"] == 1


def test_a_mark_that_a_checkpoint_lies_behind_is_sent_again() -> None:
    whole = repaired((), "0.000001")
    last = {("explain.requests", whole.written["explain.requests"] - 1 - n) for n in range(2)}
    for kill in range(whole.commits - 2, whole.commits + 1):
        assert repaired(last, "0.000001", kill).dropped["explain.requests"] == 2


losses = st.sets(st.tuples(st.sampled_from(QUEUES), st.integers(0, 60)), max_size=25)


@given(losses, st.sampled_from(["0", "0.000001"]), st.integers(1, 15))
@example({("explain.requests", n) for n in range(30)}, "0", 1)
@example({("explain.requests", n) for n in range(30)}, "0.000001", 2)
@examples(8)
def test_a_successor_sends_again_what_its_predecessor_has_sent(
    drops: set[tuple[str, int]], seconds: str, kill: int
) -> None:
    repaired(drops, seconds, kill)
