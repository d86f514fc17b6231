"""The forwarder moves each message once, as it is; the learner says what became of labels."""

import asyncio

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import LostInputError, StateError
from glasstream.events.message import Message, Oversized
from glasstream.kafka.health.catalogue import DEAD_LETTERS, EVENTS_WAITING, LABELS_JOINED, LABELS_MISSED, LABELS_MOVED
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.labels import LabelsTask, samples
from glasstream.kafka.stages.learner import LearnerTask
from glasstream.kafka.transport.records import Outputs
from glasstream_topics import events, events_dead, progress_learner

SETTINGS = load(assignments=["topics.events=2", "model.name=linear", "labels.window=10"])
VALUES = [b'{"id":1,"y":2}', None, b"\xff", b'[{"id":1,"y":2}]', b'{"x":{"a":1}}']
LOG = [Message("labels", 1, 3 + n, b"s", value, None, (("h", b"v"),)) for n, value in enumerate(VALUES)]


def feed(stage: LabelsTask, *messages: Message) -> Outputs:
    for message in messages:
        asyncio.run(stage.feed([message]))
    return stage.collect()


def committed(outputs: Outputs) -> dict[bytes, bytes]:
    return {record.key: record.value for record in outputs.progress if record.key and record.value}


def test_messages_are_moved_as_they_are_to_the_same_partition() -> None:
    stage = LabelsTask(1, SETTINGS)
    assert stage.restore({}, 3, 8) == 3
    outputs = feed(stage, *LOG)
    assert [(one.topic, one.key, one.value, one.partition, one.headers) for one in outputs.records] == [
        ("glasstream.events", b"s", value, 1, (("h", b"v"),)) for value in VALUES
    ]
    assert not stage.collect() and stage.pending() == 0
    assert [tuple(sample) for sample in samples([stage])] == [
        (LABELS_MOVED, 5, ("1",)),
        (DEAD_LETTERS, 0, ("too_large", "1")),
    ]
    assert all(len(sample.labels) == len(sample.metric.labels) for sample in samples([stage]))


@pytest.mark.parametrize("most", [2, 3, 7])
def test_records_do_not_depend_on_the_runs_that_messages_come_in(most: int) -> None:
    unread = Message("labels", 1, 8, None, Oversized(70, "expected less"))
    log = [*LOG, unread, Message("labels", 1, 12, b"t", b"{}")]
    runs = [log[begin : begin + most] for begin in range(0, len(log), most)]
    stage = LabelsTask(1, SETTINGS)
    stage.restore({}, 3, 13)
    for run in runs:
        asyncio.run(stage.feed(run))
    together, alone = stage.collect(), LabelsTask(1, SETTINGS)
    alone.restore({}, 3, 13)
    expected = feed(alone, *log)
    fields = ("topic", "key", "value", "partition", "headers")
    assert [[getattr(one, name) for name in fields] for one in together.records] == [
        [getattr(one, name) for name in fields] for one in expected.records
    ]
    assert (stage.used(), stage.moved, stage.refused, together.progress) == (13, 7, 1, expected.progress)


def test_what_events_refuses_for_its_size_is_a_dead_letter_of_its_origin() -> None:
    stage = LabelsTask(1, SETTINGS)
    stage.restore({}, 3, 8)
    large = Message("labels", 1, 3, b"k" * 3_000, b"v" * 5_000_000, 17, (("h", b"v"),))
    unread = Message("labels", 1, 4, None, Oversized(70, "expected less"))
    moved, second = feed(stage, large, unread).records
    assert moved.topic == "glasstream.events" and moved.instead is not None and stage.refused == 1
    first = moved.instead()
    for record, message in ((first, large), (second, unread)):
        said = events_dead.decode(record.headers)
        assert (record.topic, record.partition, record.value) == ("glasstream.events.dead", 1, None)
        assert (said.reason, said.topic, said.offset) == ("too_large", "labels", message.offset)
    assert (said.detail, said.omitted_bytes) == ("expected less", 70)
    said = events_dead.decode(first.headers)
    assert (said.omitted_bytes, said.omitted_key_bytes, said.time) == (5_000_000, 3_000, 17)
    assert "5000000 bytes with a key of 3000" in said.detail
    assert samples([stage]).__next__().value == 2 and list(samples([stage]))[1].value == 2


@pytest.mark.parametrize("killed", range(6))
def test_a_successor_goes_on_behind_what_was_committed(killed: int) -> None:
    first, second = LabelsTask(1, SETTINGS), LabelsTask(1, SETTINGS)
    first.restore({}, 3, 8)
    outputs = feed(first, *LOG[:killed])
    start = second.restore(committed(outputs), 3, 8)
    assert start == 3 + killed
    moved = [*outputs.records, *feed(second, *LOG[killed:]).records]
    assert [record.value for record in moved] == VALUES


def test_labels_that_are_gone_before_they_were_moved_are_not_passed_over() -> None:
    stage = LabelsTask(1, SETTINGS)
    stage.restore({}, 3, 8)
    state = committed(feed(stage, LOG[0]))
    with pytest.raises(LostInputError, match=r"offset 4 of glasstream\.labels\[1\].*keeps it from 6.*progress\.labels"):
        LabelsTask(1, SETTINGS).restore(state, 6, 8)
    with pytest.raises(StateError, match=r"progress\.labels\[1\]"):
        LabelsTask(1, SETTINGS).restore({b"\xffpartition": b"{}"}, 0, 8)


def test_the_learner_says_how_many_labels_came_and_how_many_did_not() -> None:
    home = events.partition(b"s", 2)
    learner = LearnerTask(home, SETTINGS, None, AggregatorProgress(), lambda topic, number: {})
    late = [{"id": n, "x": {"a": float(n)}} for n in range(8)]
    labelled = [{"id": n, "x": {"a": float(n)}, "y": n % 2 > 0} for n in range(8, 15)]
    labels = [{"id": n, "y": n % 2 > 0} for n in (0, 7, 6)]
    for offset, content in enumerate([late, labels[:1], labelled, labels[1:]]):
        asyncio.run(learner.feed([Message("events", home, offset, b"s", orjson.dumps(content))]))
    found = {sample.metric: sample.value for sample in learner.samples()}
    assert (found[LABELS_JOINED], found[LABELS_MISSED], found[EVENTS_WAITING]) == (3, 4, 1)
    for record in learner.collect().progress:
        if record.key == b"s" and record.value is not None:
            progress = progress_learner.decode(record.key, record.value)
            assert isinstance(progress, progress_learner.LearnerStreamProgress)
            assert progress.counts == {"unlabelled": 8, "labels_joined": 3, "labels_missed": 4}
            assert (progress.seqs, progress.rows) == (15, 10)
            break
    else:
        pytest.fail("no progress of the stream")
