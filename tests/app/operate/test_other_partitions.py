"""The tools for the person on call work on topics whose numbers of partitions are not those of the settings."""

from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.configuration import load
from glasstream.app.operate.dead import Wanted, letters, replay
from glasstream.app.operate.mark import known, send_mark
from glasstream.app.operate.state import state
from glasstream.base.errors import TopicError
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream_topics import ALL, events, events_dead, progress_aggregator, progress_learner, requests
from glasstream_topics.progress_aggregator import AggregatorPartitionProgress, AggregatorState, AggregatorStreamProgress
from glasstream_topics.progress_learner import LearnerPartitionProgress, LearnerStreamProgress

PARTITION = 1
Counts = Callable[[str], int]


def most(name: str) -> int:
    """Partitions have been added to `events` only."""
    return 7 if name == events.TOPIC.name else 4


def fewer(name: str) -> int:
    """The settings ask for more partitions than the topics have."""
    return 2


def deployed(broker: EmbeddedKafka, counts: Counts, aggregated: int = 30, epoch: int = 0) -> Settings:
    """Return the settings of a deployment with four partitions that has learned a stream, on topics with others.

    Parameters
    ----------
    counts
        Number of partitions of each topic.
    aggregated, epoch
        Progress of the aggregator, in its epoch.
    """
    settings = load(
        assignments=[f"broker={broker.bootstrap}", "topics.events=4", "topics.requests=4", "explain.reservoir=10"]
    )
    for one in ALL:
        broker.create_topic(topic(settings, one.name), counts(one.name))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    learned = LearnerStreamProgress(stream="s", epoch=0, seqs=40, rows=40, first_offset=0, after=0)
    place = LearnerPartitionProgress(epoch=0, first_offset=0, offset=0, used=0, fingerprint={})
    done = AggregatorStreamProgress(stream="s", epoch=epoch, next_row=aggregated, published_row=-1)
    records = [
        *map(progress_learner.encode, (place, learned)),
        progress_aggregator.encode_partition(AggregatorPartitionProgress(epoch=epoch, offset=0, fingerprint={})),
        *progress_aggregator.encode_stream(AggregatorState(progress=done, meta={}, arrays={})),
    ]
    for index, (key, value) in enumerate(records):
        name = progress_learner.TOPIC.name if index < 2 else progress_aggregator.TOPIC.name
        producer.produce(topic(settings, name), value, key, PARTITION)
    said = events_dead.headers(
        epoch=0, reason="not_json", topic="events", partition=PARTITION, offset=0, time=0, detail="why"
    )
    for _ in range(8):
        producer.produce(topic(settings, requests.TOPIC.name), b"a block", b"s", PARTITION)
    last = counts(events_dead.TOPIC.name) - 1
    producer.produce(topic(settings, events_dead.TOPIC.name), b'{"x": {"a": 1}}', b"s", last, headers=list(said))
    assert producer.flush(30.0) == 0
    return settings


@pytest.mark.parametrize("counts", [most, fewer])
def test_state_letters_and_marks_are_as_the_topics_hold_them(embedded: EmbeddedKafka, counts: Counts) -> None:
    settings = deployed(embedded, counts)
    found = state(settings)
    assert [one.stream for one in found.streams] == ["s"] and not found.notes
    assert f"has {counts(events.TOPIC.name)} partitions, but the settings require 4" in found.mismatches[0]
    assert len(found.mismatches) == (1 if counts is most else 7)
    one, _ = known(found, "s")
    assert one.partition == PARTITION and one.behind == 10
    mark = send_mark(settings, "s", events.RESET, "the mark", one.partition)
    assert (mark.partition, mark.offset) == (PARTITION, 0)
    assert {place.stage for place in state(settings).partitions if place.behind} == {"learner", "explainer"}
    (letter,) = letters(settings, Wanted(), print)
    assert letter.partition == counts(events_dead.TOPIC.name) - 1
    done = replay(settings, [letter], lambda event: event, dry=True)
    assert done.letters == 1


def test_topics_that_fit_the_settings_differ_in_nothing(embedded: EmbeddedKafka) -> None:
    assert not state(deployed(embedded, lambda name: 4)).mismatches


def test_a_topic_that_is_missing_is_named(embedded: EmbeddedKafka) -> None:
    settings = load(assignments=[f"broker={embedded.bootstrap}"])
    with pytest.raises(TopicError, match="is missing"):
        next(letters(settings, Wanted(), print))
    with pytest.raises(TopicError, match="is missing"):
        state(settings)


@pytest.mark.parametrize(("aggregated", "behind"), [(30, 8), (40, 0)])
def test_explainers_whose_group_was_deleted_are_behind_only_while_rows_wait(
    embedded: EmbeddedKafka, aggregated: int, behind: int
) -> None:
    """The brokers delete a group that has been idle for days, after it has read everything."""
    found = state(deployed(embedded, lambda name: 4, aggregated))
    assert sum(place.behind for place in found.partitions if place.stage == "explainer") == behind
    assert all(place.offset is None for place in found.partitions if place.stage == "explainer")


def test_rows_of_an_epoch_that_the_aggregator_has_left_before_the_learner_wait(embedded: EmbeddedKafka) -> None:
    """The learner's blocks are dropped. Only after a reset mark is the aggregator ahead with one stream."""
    settings = deployed(embedded, lambda name: 4, aggregated=0, epoch=1)
    assert [one.behind for one in state(settings).streams] == [40 - settings.explain.first_row]
