"""Requests with which a worker recognizes its topic, and checks the size of its messages."""

import logging
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from glasstream.app.brokers.choose import TopicRequest, open_broker
from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import BrokerError, TopicError, UnavailableError
from glasstream.kafka.transport import input_topic
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.input_topic import LIMIT, SizeCheck, TopicIdentity

CONNECTION = Connection("kafka:9092")


def answer(monkeypatch: pytest.MonkeyPatch, outcome: Uuid | KafkaError) -> None:
    """Let the brokers answer with this id, or with this error."""
    told: Future[SimpleNamespace] = Future()
    if isinstance(outcome, KafkaError):
        told.set_exception(KafkaException(outcome))
    else:
        told.set_result(SimpleNamespace(topic_id=outcome))
    admin = SimpleNamespace(
        list_topics=lambda topic, timeout: SimpleNamespace(controller_id=1, brokers={1: None}),
        describe_topics=lambda topics, request_timeout: {"events": told},
    )
    monkeypatch.setattr(input_topic, "AdminClient", lambda settings: admin)


def test_brokers_without_ids_are_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    answer(monkeypatch, Uuid(0, 0))
    identify = TopicIdentity(CONNECTION, "events")
    with caplog.at_level(logging.WARNING):
        assert [identify(), identify()] == [None, None]
    assert len(caplog.records) == 1 and "Kafka before 2.8" in caplog.text
    answer(monkeypatch, Uuid(1, 2))
    assert TopicIdentity(CONNECTION, "events")() == str(Uuid(1, 2))


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._TIMED_OUT, UnavailableError),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, UnavailableError),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, BrokerError),
    ],
)
def test_a_take_over_waits_for_brokers_that_are_away(
    monkeypatch: pytest.MonkeyPatch, code: int, kind: type[BrokerError]
) -> None:
    answer(monkeypatch, KafkaError(code))
    with pytest.raises(BrokerError, match="cannot read the id of events") as caught:
        TopicIdentity(CONNECTION, "events")()
    assert type(caught.value) is kind


def test_the_embedded_broker_has_no_ids_and_nothing_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedKafka() as broker, caplog.at_level(logging.WARNING):
        broker.create_topic("events", 1)
        assert TopicIdentity(Connection(broker.bootstrap), "events")() is None
    assert not caplog.text


def test_the_embedded_broker_is_not_asked_for_what_it_never_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[Any] = []

    class Admin(input_topic.AdminClient):
        def describe_configs(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
            asked.append(args)
            return {"topic": SimpleNamespace(result=lambda: {})}

    monkeypatch.setattr(input_topic, "AdminClient", Admin)
    with open_broker("embedded", data=None, client={}, log=lambda line: None) as broker:
        broker.create_topics([TopicRequest("events", 1, {})])
        with caplog.at_level(logging.WARNING):
            SizeCheck(Connection(broker.bootstrap), "events").check()
    assert not asked and not caplog.text


@pytest.mark.parametrize("above", [0, 1])
def test_a_topic_that_accepts_more_than_a_worker_holds_is_refused(above: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found = SimpleNamespace(value=str(LIMIT + above))
    admin = SimpleNamespace(
        list_topics=lambda topic, timeout: SimpleNamespace(controller_id=1, brokers={1: None}),
        describe_configs=lambda resources, request_timeout: {
            "events": SimpleNamespace(result=lambda: {"max.message.bytes": found})
        },
    )
    monkeypatch.setattr(input_topic, "AdminClient", lambda settings: admin)
    refusal = pytest.raises(TopicError, match=rf"{found.value} bytes .* at most {LIMIT}.*kafka-configs")
    with refusal if above else nullcontext():
        SizeCheck(CONNECTION, "events").check()
