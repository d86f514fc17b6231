"""State belongs to one topic: not to another topic of the same name, however long its log is."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import LostInputError
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.labels import LabelsTask
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.kafka.stages.novelty import NoveltyTask
from glasstream_topics.progress import PARTITION_KEY

SETTINGS = ("topics.events=1", "model.name=linear", "explain.methods=ipfi,novelty", "checkpoint.seconds=0")
FIRST = 6
"""Offset of the first message that the first owner uses; a learner and a detector without saved state return to it."""
NEXT = 8
"""Offset after the last message that it uses."""
LONG = 1_000
"""End of the new topic, far beyond the offset in the state."""
MESSAGE = orjson.dumps({"id": 1, "x": {"a": 1.0}, "y": 2.0})
"""An event; an aggregator skips it."""
REFUSING = ("learner", "novelty", "labels")


class NoMaps:
    """Never fits a map."""

    def submit(self, *args: Any) -> "Future[bytes]":
        return Future()


@dataclass
class Owners:
    """Owners of one partition, one after the other, with their committed state."""

    stage: str
    state: dict[bytes, bytes] = field(default_factory=dict)
    end: int = NEXT
    """Offset after the last message that the next owner uses: later for each, so that each has something to commit."""

    def make(self, topic_id: str | None, settings: Settings) -> Any:
        def identify() -> str | None:
            return topic_id

        made: Mapping[str, Callable[[], Any]] = {
            "learner": lambda: LearnerTask(
                0, settings, None, AggregatorProgress(), lambda topic, number: {}, identify=identify
            ),
            "novelty": lambda: NoveltyTask(0, settings, NoMaps(), identify),  # type: ignore[arg-type]
            "labels": lambda: LabelsTask(0, settings, identify),
            "aggregator": lambda: AggregatorTask(0, settings, identify),
        }
        return made[self.stage]()

    def start(self, topic_id: str | None, *more: str, low: int = 0, high: int = NEXT) -> int:
        """Take over, and return where reading begins. Use messages there, of which some may be known; commit."""
        task = self.make(topic_id, load(assignments=[*SETTINGS, *more]))
        begin: int = task.restore(dict(self.state), low, high)
        first = max(begin, FIRST)
        for offset in range(first, self.end):
            asyncio.run(task.feed([Message("in", 0, offset, b"s", MESSAGE)]))
        self.end += 2
        for record in task.collect().progress:
            if record.value is None:
                self.state.pop(record.key, None)
            else:
                self.state[record.key] = record.value
        return begin

    @property
    def topic_id(self) -> str | None:
        """Return the id in the committed state."""
        found: str | None = orjson.loads(self.state[PARTITION_KEY]).get("topic_id")
        return found


@pytest.mark.parametrize("stage", REFUSING)
def test_a_topic_that_was_created_again_while_no_worker_ran_is_refused(stage: str) -> None:
    owners = Owners(stage)
    owners.start("first")
    before = dict(owners.state)
    with pytest.raises(LostInputError, match=r"created again .*its id was first, and is second now.*to continue"):
        owners.start("second", high=LONG)
    assert owners.state == before
    assert owners.start("first", high=LONG) in (FIRST, NEXT)


@pytest.mark.parametrize("stage", ["learner", "novelty"])
def test_a_new_epoch_begins_with_the_first_message_of_the_new_topic(stage: str) -> None:
    owners = Owners(stage)
    owners.start("first")
    assert owners.start("second", "epoch=1", low=2, high=LONG) == 2
    assert owners.topic_id == "second"


def test_an_aggregator_reads_new_contributions_from_their_first_record() -> None:
    owners = Owners("aggregator")
    owners.start("first")
    assert owners.start("first", high=LONG) in (FIRST, NEXT)
    assert owners.start("second", low=2, high=LONG) == 2
    assert owners.topic_id == "second"


@pytest.mark.parametrize("stage", [*REFUSING, "aggregator"])
def test_a_topic_whose_id_is_unknown_is_taken_for_the_same(stage: str) -> None:
    """State of an earlier release has no id, and old brokers give none."""
    owners = Owners(stage)
    owners.start(None)
    assert owners.topic_id is None
    assert owners.start("first", high=LONG) in (FIRST, NEXT)
    assert owners.topic_id == "first", "the first commit binds it"
    assert owners.start(None, high=LONG) >= FIRST
    assert owners.topic_id == "first"
