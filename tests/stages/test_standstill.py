"""When the fold stands still with work outstanding, what it may wait for is sent again: sooner, then more rarely."""

import asyncio
from itertools import pairwise

from pipeline.configuration import load
from pipeline.stages.fold_progress import FoldProgress
from pipeline.stages.learner import LearnerPartition
from pipeline.stages.standstill import LONGEST, PATIENCE, Standstill
from pipeline.transport.records import Message
from tests.integration.test_recovery import messages
from topics import events, progress_fold, snapshots
from topics.progress_fold import FoldState, StreamProgress

SETTINGS = ("model.name=linear", "model.task=classification", "explain.methods=ipfi")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_after_some_time_then_after_twice_as_long_up_to_a_bound() -> None:
    clock = Clock()
    standstill = Standstill(clock)
    assert standstill.lasts(1, True) is None
    told = []
    for _ in range(3 * int(LONGEST)):
        clock.now += 1
        if standstill.lasts(1, True) is not None:
            told.append(clock.now - 1000)
    gaps = [told[0], *(b - a for a, b in pairwise(told))]
    assert gaps == [min(PATIENCE * 2**n, LONGEST) for n in range(len(gaps))] and gaps[-1] == LONGEST


def test_a_move_or_nothing_to_do_begins_anew() -> None:
    clock = Clock()
    standstill = Standstill(clock)
    for moves, outstanding in ((1, True), (2, True), (2, False), (2, True)):
        clock.now += PATIENCE - 1
        assert standstill.lasts(moves, outstanding) is None
    clock.now += 1
    assert standstill.lasts(2, True) == PATIENCE


def test_an_idle_learner_publishes_what_a_standing_fold_may_lack() -> None:
    settings = load(assignments=SETTINGS)
    progress = FoldProgress()
    partition = events.partition(b"s", settings.topics.events)
    learner = LearnerPartition(partition, settings, None, progress, lambda topic, number: {})
    clock = Clock()
    learner._standstill = Standstill(clock)
    name = settings.prefix + events.TOPIC.name
    for offset, value in enumerate([*messages(0, 400), events.FLUSH]):
        asyncio.run(learner.feed(Message(name, partition, offset, b"s", value)))
    published = learner.collect().before
    assert {record.topic for record in published} == {settings.prefix + snapshots.TOPIC.name}
    clock.now += PATIENCE - 1
    assert not learner.collect().before
    clock.now += 1
    assert learner.collect().before == published
    done = StreamProgress(stream="s", epoch=settings.epoch, next_row=400, published_row=399)
    for key, value in progress_fold.encode_stream(FoldState(progress=done, meta={}, arrays={}), 0):
        progress.on_record(partition, 0, key, value)
    learner.collect()
    clock.now += LONGEST
    assert not learner.collect().before
