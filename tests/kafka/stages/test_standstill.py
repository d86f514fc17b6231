"""When the aggregator stands still with rows outstanding, what it may wait for is sent again, ever more rarely."""

import asyncio
import logging
from itertools import pairwise

import pytest

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.kafka.stages.standstill import LONGEST, PATIENCE, Standstill
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream_topics import events, progress_aggregator, progress_learner, requests, snapshots
from glasstream_topics.progress_aggregator import AggregatorState, AggregatorStreamProgress
from tests.support.logs import messages

SETTINGS = ("model.name=linear", "model.task=classification", "explain.methods=ipfi")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_after_some_time_then_after_twice_as_long_up_to_a_bound() -> None:
    clock = Clock()
    standstill = Standstill(clock)
    assert standstill.lasts(1) is None
    told = []
    for _ in range(3 * int(LONGEST)):
        clock.now += 1
        lasted = standstill.lasts(1)
        if lasted is not None:
            assert lasted == clock.now - 1000
            told.append(lasted)
    gaps = [told[0], *(b - a for a, b in pairwise(told))]
    assert gaps == [min(PATIENCE * 2**n, LONGEST) for n in range(len(gaps))] and gaps[-1] == LONGEST
    assert standstill.times == len(told)


def test_a_move_or_nothing_to_do_begins_anew() -> None:
    clock = Clock()
    standstill = Standstill(clock)
    for place in (1, 2, None, 2):
        clock.now += PATIENCE - 1
        assert standstill.lasts(place) is None
    clock.now += PATIENCE
    assert standstill.lasts(2) == PATIENCE and standstill.times == 1
    assert standstill.lasts(3) is None and standstill.times == 0


def test_a_successor_of_who_reported_it_does_not_wait_for_the_first_time() -> None:
    clock = Clock()
    standstill = Standstill(clock, known=True)
    assert standstill.lasts(None) is None
    assert standstill.lasts(1) == 0 and standstill.times == 1
    clock.now += PATIENCE - 1
    assert standstill.lasts(1) is None and standstill.times == 1
    clock.now += 1
    assert standstill.lasts(1) == PATIENCE and standstill.times == 2
    assert standstill.lasts(2) is None and standstill.times == 0
    assert standstill.lasts(3) is None


class Fed:
    """A learner that has learned streams of 400 rows, and an aggregator that is where a test says."""

    def __init__(self, *streams: str) -> None:
        self.settings = load(assignments=(*SETTINGS, "topics.events=1"))
        self.clock, self.progress = Clock(), AggregatorProgress()
        self.learner = LearnerTask(0, self.settings, None, self.progress, lambda topic, number: {}, self.clock)
        name = self.settings.prefix + events.TOPIC.name
        self.log = [(stream.encode(), value) for stream in streams for value in (*messages(0, 400), events.FLUSH)]
        for offset, (key, value) in enumerate(self.log):
            asyncio.run(self.learner.feed([Message(name, 0, offset, key, value)]))

    def aggregated(self, stream: str, row: int, published: int) -> None:
        done = AggregatorStreamProgress(stream=stream, epoch=0, next_row=row, published_row=published)
        for key, value in progress_aggregator.encode_stream(AggregatorState(progress=done, meta={}, arrays={}), 0):
            self.progress.on_record(0, 0, key, value)

    def sent(self) -> tuple[list[ProducerRecord], list[ProducerRecord]]:
        """Snapshots and requests, since the last time."""
        outputs = self.learner.collect()
        name = self.settings.prefix + requests.TOPIC.name
        return list(outputs.before), [record for record in outputs.records if record.topic == name]


def test_an_idle_learner_publishes_what_a_standing_aggregator_may_lack() -> None:
    """Until the aggregator has all rows, and has seen the flush mark behind them."""
    fed = Fed("s")
    published, blocks = fed.sent()
    assert {record.topic for record in published} == {fed.settings.prefix + snapshots.TOPIC.name} and len(blocks) > 2
    fed.clock.now += PATIENCE - 1
    assert fed.sent() == ([], [])
    fed.clock.now += 1
    assert fed.sent() == (published, blocks)
    fed.aggregated("s", 400, 299)
    ended, none = fed.sent()
    assert not none and ended and not any(record.value for record in ended)
    fed.clock.now += PATIENCE
    _, mark = fed.sent()
    assert [requests.decode(record.value or b"").first_row for record in mark] == [400] and mark == blocks[-1:]
    fed.aggregated("s", 400, 399)
    fed.sent()
    fed.clock.now += LONGEST
    assert fed.sent() == ([], [])


def test_a_stream_stands_still_beside_others_that_move() -> None:
    """Its turn comes when the aggregator has finished as many blocks as waited when it last moved."""
    clock = Clock()
    standstill, waiting = Standstill(clock), 20
    for finished in range(5 * waiting):
        clock.now += PATIENCE
        lasted = standstill.lasts(1, finished, waiting)
        assert (lasted is None) == (finished <= waiting), "others have moved until then"
        if lasted is not None:
            break
    assert standstill.times == 1 and standstill.lasts(1, finished + 1, waiting) is None and standstill.times == 1
    assert standstill.lasts(2, finished + 1, waiting) is None and standstill.times == 0


def test_a_stream_that_waits_for_its_turn_among_many_does_not_stand_still() -> None:
    names = [f"s{number}" for number in range(8)]
    fed = Fed(*names)
    fed.sent()
    for at, name in enumerate(names):
        fed.clock.now += PATIENCE - 1
        fed.aggregated(name, 400, 399)
        _, again = fed.sent()
        assert not again and fed.learner.stalled() is None, f"stream {at} of {len(names)} has had its turn"
    fed.clock.now += LONGEST
    assert fed.sent() == ([], [])


def test_a_lost_stream_is_sent_again_when_the_others_are_finished_and_few_are_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    names = [f"s{number:02d}" for number in range(30)]
    fed = Fed(*names)
    _, blocks = fed.sent()
    fed.clock.now += PATIENCE - 1
    fed.aggregated("s00", 400, 399)
    fed.sent()
    fed.clock.now += PATIENCE
    caplog.set_level(logging.WARNING)
    mine = [record for record in blocks if not (record.key or b"").startswith(b"s00/")]
    assert sorted(fed.sent()[1], key=str) == sorted(mine, key=str)
    said = fed.learner.stalled() or ""
    assert "'s01'" in said and "'s05'" not in said and "26 more streams" in said and len(said) < 2_000
    assert len(caplog.records) == 4 and "26 more streams" in caplog.records[-1].getMessage()


def test_a_commit_names_only_the_streams_that_have_changed() -> None:
    """A thousand streams of which one has a message would otherwise cost a thousand records."""
    fed = Fed("s", "t", "u")
    assert set(named(fed.learner.collect())) == {"s", "t", "u"}
    asyncio.run(fed.learner.feed([Message("events", 0, len(fed.log), b"t", next(messages(400, 420)))]))
    assert named(fed.learner.collect()) == ["t"]


def test_it_is_said_while_it_lasts_and_the_progress_record_says_it_too() -> None:
    fed = Fed("s")
    fed.learner.collect()
    fed.aggregated("s", 150, 149)
    fed.learner.collect()
    fed.clock.now += PATIENCE
    outputs = fed.learner.collect()
    said = fed.learner.stalled()
    assert said is not None
    for part in (
        "stream 's'",
        "row 150 is not aggregated",
        "rows up to 399 were learned; ",
        "sent again once",
        "explainers",
    ):
        assert part in said, part
    assert told(outputs) == [said]
    assert not fed.learner.collect()
    name = fed.settings.prefix + events.TOPIC.name
    asyncio.run(fed.learner.feed([Message(name, 0, 21, b"s", next(messages(400, 420)))]))
    assert "20 events ago" in (fed.learner.stalled() or "")
    fed.aggregated("s", 151, 149)
    assert told(fed.learner.collect()) == [""] and fed.learner.stalled() is None


def test_a_successor_says_it_at_once() -> None:
    """What its predecessor reported lasts across a change of the owner, and ends there too."""
    fed = Fed("s")
    state: dict[bytes, bytes] = {}

    def committed() -> None:
        for record in fed.learner.collect().progress:
            state[record.key or b""] = record.value or b""

    committed()
    fed.clock.now += PATIENCE
    committed()
    assert fed.learner.stalled()
    for moved in (False, True):
        successor = LearnerTask(0, fed.settings, None, fed.progress, lambda topic, number: {}, fed.clock)
        begin = successor.restore(state, 0, len(fed.log))
        for offset, (key, value) in enumerate(fed.log[begin:], begin):
            asyncio.run(successor.feed([Message("events", 0, offset, key, value)]))
        if moved:
            fed.aggregated("s", 400, 399)
        outputs = successor.collect()
        assert bool(successor.stalled()) is not moved
        assert told(outputs) == [successor.stalled() or ""]


def streams(outputs: Outputs) -> list[progress_learner.LearnerStreamProgress]:
    decoded = [progress_learner.decode(record.key or b"", record.value or b"") for record in outputs.progress]
    return [one for one in decoded if isinstance(one, progress_learner.LearnerStreamProgress)]


def named(outputs: Outputs) -> list[str]:
    return [one.stream for one in streams(outputs)]


def told(outputs: Outputs) -> list[str]:
    return [one.stalled for one in streams(outputs)]


def test_where_the_learner_sheds_forgotten_blocks_come_again_as_refused_ones() -> None:
    fed = Fed("s")
    fed.learner._backlog._settings = load(assignments=(*SETTINGS, "limits.lag=shed", "limits.request_bytes=1"))
    _, blocks = fed.sent()
    fed.learner._backlog.shed()
    assert fed.learner._backlog.exhausted
    fed.clock.now += PATIENCE
    _, again = fed.sent()
    first, second = ([requests.decode(record.value or b"") for record in records] for records in (blocks, again))
    assert len(second) < len(first)
    assert [seq for one in first for seq in one.seqs.tolist()] == [seq for one in second for seq in one.seqs.tolist()]
    assert all("limits.lag" in one.refused for one in second if one.count) and second[-1].flush_before
