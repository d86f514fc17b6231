"""`glasstream compare --publish`: records that are a function of the log, and a process that goes on where it was."""

from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaException

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.app.operate import comparisons as operate
from glasstream.base.errors import InputError, StateError
from glasstream_topics import comparisons, consume, events
from glasstream_topics.comparisons import Comparison
from glasstream_topics.events import Event
from glasstream_topics.labels import Label
from glasstream_topics.predictions import Prediction
from tests.support.compared import BRIER, ELEMENTS, ROWS, answer, computed, of
from tests.support.writing import Writer


def send(broker: EmbeddedKafka, topic: str, stream: str, values: Sequence[bytes]) -> None:
    Writer(broker.bootstrap, topic).send(*values, key=stream.encode())


def predict(broker: EmbeddedKafka, answers: Sequence[Prediction]) -> None:
    send(broker, "test.predictions", answers[0].stream, [msgspec.json.encode(one) for one in answers])


def tell(broker: EmbeddedKafka, elements: Sequence[Event | Label]) -> None:
    send(broker, "test.events", "live", [events.encode(msgspec.to_builtins(one)) for one in elements])


@pytest.fixture
def broker(embedded: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    for name in ("predictions", "events", "comparisons"):
        embedded.create_topic(f"test.{name}", 2)
    yield embedded


def published(broker: EmbeddedKafka) -> list[Comparison]:
    with consume.comparisons(broker.bootstrap, prefix="test.", follow=False) as records:
        return list(records)


def publish(broker: EmbeddedKafka, *options: str) -> list[str]:
    arguments = ["compare", "--broker", broker.bootstrap, "--prefix", "test.", "live", "challenger", "--publish"]
    result = CliRunner().invoke(cli, [*arguments, *options], standalone_mode=False, catch_exceptions=False)
    assert result.return_value == 0
    return result.stdout.splitlines()


def test_what_is_published_is_a_function_of_the_log_however_often_it_is_published(broker: EmbeddedKafka) -> None:
    first, second = of("live"), of("challenger", range(7, ROWS))
    wanted = computed(first[7:], second)
    assert [one.rows for one in wanted] == [*range(100, 1_001, 100)] and wanted[-1].better == "other"
    tell(broker, ELEMENTS[:800])
    predict(broker, first[:450])
    predict(broker, second[:300])
    publish(broker)
    some = published(broker)
    assert 0 < len(some) < len(wanted) and some == wanted[: len(some)]
    predict(broker, first[450:])
    predict(broker, second[300:])
    tell(broker, ELEMENTS[800:])
    lines = publish(broker, "--json")
    assert published(broker) == wanted
    assert [line.encode() for line in lines] == [comparisons.encode(one) for one in wanted[len(some) :]]
    assert publish(broker) == ["0 new records on test.comparisons"]
    assert published(broker) == wanted


def test_a_process_that_ends_while_it_writes_leaves_nothing_out(
    broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    predict(broker, of("live", target="UP", loss=None))
    predict(broker, of("challenger", target="UP", loss=None))
    monkeypatch.setattr(operate, "_TOGETHER", 3)
    commit, left = operate.TransactionalProducer.commit, iter(range(2))

    def fail(self: Any, *given: Any) -> None:
        if next(left, None) is None:
            raise KafkaException("gone")
        commit(self, *given)

    with monkeypatch.context() as patch, pytest.raises(KafkaException, match="gone"):
        patch.setattr(operate.TransactionalProducer, "commit", fail)
        publish(broker)
    assert [one.rows for one in published(broker)] == [100, 200, 300, 400, 500, 600]
    assert publish(broker)[-1] == "4 new records on test.comparisons"
    assert [one.rows for one in published(broker)] == [*range(100, 1_001, 100)]


def test_each_loss_and_each_pair_of_epochs_is_a_comparison_of_its_own(broker: EmbeddedKafka) -> None:
    whole = {"target": "UP", "loss": None}
    predict(broker, of("live", range(400), **whole))
    predict(broker, of("challenger", range(400), **whole))
    publish(broker)
    publish(broker, "--loss", "zero_one")
    predict(broker, of("challenger", range(250), epoch=1, **whole))
    publish(broker)
    publish(broker, "--new")
    assert [(one.loss, one.other.epoch, one.rows) for one in published(broker)] == [
        *(("brier", 0, rows) for rows in (100, 200, 300, 400)),
        *(("zero_one", 0, rows) for rows in (100, 200, 300, 400)),
        *(2 * [("brier", 1, rows) for rows in (100, 200)]),
    ]


def test_a_comparison_begins_where_it_is_told_to(broker: EmbeddedKafka) -> None:
    whole = {"target": "UP", "loss": None}
    predict(broker, of("live", range(300), **whole))
    predict(broker, of("challenger", range(290), **whole))
    assert publish(broker, "--start", "latest") == ["0 new records on test.comparisons"]
    order = operate.Order(operate.Side("test.", "live"), operate.Side("test.", "challenger"), BRIER, "latest")
    settings = msgspec.structs.replace(operate.Settings(), broker=broker.bootstrap, prefix="test.")
    known = operate._known(settings, order.first), operate._known(settings, order.second)
    assert operate._start(settings, order, known) == (300, 290)
    assert list(operate._records(settings, order, known, (300, 290))) == []


@pytest.mark.parametrize("later", ["first", "second"])
def test_streams_may_begin_far_apart(broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch, later: str) -> None:
    monkeypatch.setattr(operate, "MOST_APART", 50)
    whole = {"target": "UP", "loss": None}
    predict(broker, of("live", range(200 if later == "first" else 0, 500), **whole))
    predict(broker, of("challenger", range(200 if later == "second" else 0, 500), **whole))
    publish(broker)
    assert [(one.rows, one.start, one.other.start) for one in published(broker)] == [
        (rows, 200, 200) for rows in (100, 200, 300)
    ]


def test_numbers_that_changed_and_events_that_are_gone_are_refused(broker: EmbeddedKafka) -> None:
    whole = {"target": "UP", "loss": None}
    predict(broker, of("live", range(5, 300), **whole))
    predict(broker, of("challenger", range(300), **whole))
    publish(broker)
    newest = published(broker)[-1]
    forged = msgspec.structs.replace(newest, own_loss=newest.own_loss + 2**-40)
    send(broker, "test.comparisons", "live", [comparisons.encode(forged)])
    with pytest.raises(StateError, match=r"of 200 rows, got others \(own_loss\).*--new --start latest"):
        publish(broker)
    send(broker, "test.comparisons", "live", [comparisons.encode(msgspec.structs.replace(newest, start=2))])
    with pytest.raises(StateError, match=r"from event 2 on, .* from event 5 on, because older ones have expired"):
        publish(broker)
    send(broker, "test.comparisons", "live", [comparisons.encode(msgspec.structs.replace(newest, rows=900))])
    with pytest.raises(StateError, match="expected 900 rows, as its newest record has, found fewer"):
        publish(broker)


def test_what_cannot_be_published_is_refused(broker: EmbeddedKafka) -> None:
    predict(broker, of("live"))
    with pytest.raises(InputError, match=r"with predictions on test\.predictions, got 'challenger'"):
        publish(broker)
    predict(broker, [answer("challenger", 0, id="z")])
    with pytest.raises(InputError, match="found none; send the same events to both"):
        publish(broker)
    with pytest.raises(InputError, match="--scale: expected it for a regression"):
        publish(broker, "--scale", "3", "--loss", "brier")
    with pytest.raises(click.UsageError, match="expected no --by"):
        publish(broker, "--by", "age")
    arguments = ["compare", "--broker", broker.bootstrap, "live", "challenger", "--follow"]
    with pytest.raises(click.UsageError, match="expected them with --publish"):
        CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
