"""A request that ends a transaction and arrives late ends no other one: nothing is torn, lost or written twice."""

import itertools
from types import SimpleNamespace
from typing import get_args

import pytest
from confluent_kafka import KafkaException

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.base.errors import BrokerError
from glasstream.kafka.transport import stateful, transactions
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.patience import Patience
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.stateful import StateLane
from glasstream.kafka.transport.transactions import Consumed, ReplacedError, TransactionalProducer
from tests.support.coordinator import Client, Coordinator, Fate

ROUNDS = 4
RECORDS = 3
NOWHERE = Connection("127.0.0.1:1")


class NoRest(Patience):
    """Patience that does not sleep."""

    def wait(self, cause: str, seconds: float) -> None:
        super().wait(cause, 0.0)


def publish_all(monkeypatch: pytest.MonkeyPatch, coordinator: Coordinator) -> list[bytes]:
    """Publish some transactions as the owner of a partition does, and return what the log should hold."""
    monkeypatch.setattr(transactions, "Producer", lambda settings: Client(coordinator, settings))
    monkeypatch.setattr(transactions, "ATTEMPT_PAUSE", 0.0)

    def make(partition: int, patience: Patience) -> TransactionalProducer:
        return TransactionalProducer(NOWHERE, "id", patience=patience)

    def read_state(*args: object) -> dict[bytes, bytes]:
        states = [value for value in coordinator.committed if value.startswith(b"state")]
        return {b"": states[-1]} if states else {}

    monkeypatch.setattr(stateful, "read_to_end", read_state)
    lane = object.__new__(StateLane)
    lane.partition, lane.tp, lane._written, lane.patience = 0, SimpleNamespace(topic="in"), {}, NoRest("")
    lane.producer = make(0, lane.patience)
    lane.stage = SimpleNamespace(
        options=SimpleNamespace(take_over_timeout=1.0), expect_owned=lambda lane: None, connection=None,
        state_topic="state", make_producer=make,
    )  # fmt: skip
    lane.producer.open(1.0)
    expected: list[bytes] = []
    for number in range(ROUNDS):
        values = [b"%d-%d" % (number, record) for record in range(RECORDS)]
        progress = [ProducerRecord("state", b"", b"state %d" % number, 0)]
        lane._publish([*(ProducerRecord("out", b"k", value, 0) for value in values), *progress], progress)
        expected += [*values, b"state %d" % number]
    return expected


@pytest.mark.parametrize("arrives", range(1, RECORDS + 2))
@pytest.mark.parametrize("fates", itertools.product(get_args(Fate), repeat=2))
def test_a_late_end_tears_loses_and_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, fates: tuple[Fate, Fate], arrives: int
) -> None:
    coordinator = Coordinator(iter(fates), arrives)
    assert publish_all(monkeypatch, coordinator) == coordinator.committed
    lost = sum("sent again" in fate for fate in fates)
    assert coordinator.refused == lost, "each request that came late was one of a producer that is used no more"


def test_the_client_reports_each_end_of_a_transaction(embedded: EmbeddedKafka) -> None:
    """The lines of librdkafka's log that show them: without them, no producer would be used twice."""
    embedded.create_topic("out", 1)
    producer = TransactionalProducer(Connection(embedded.bootstrap, fetch_wait_ms=10), "id", patience=Patience(""))
    producer.open(60.0)
    for _ in range(3):
        producer.commit([ProducerRecord("out", b"k", b"v", 0)])
        assert producer._ends.answered and not producer._ends.unanswered
    producer._producer.begin_transaction()
    producer._ends.begin()
    producer._producer.produce("out", b"v", b"k", 0)
    producer._producer.flush(60.0)
    producer.abort()
    assert producer._ends.answered and not producer._ends.unanswered
    producer.close()


def test_offsets_that_may_have_been_sent_twice_are_the_last_of_their_producer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client repeats the request after half a second; the first one may come in the next transaction."""
    now = [0.0]
    took = [0.1, transactions.OFFSETS_AGAIN]

    class Offsets(Client):
        def send_offsets_to_transaction(self, *args: object) -> None:
            now[0] += took.pop(0)

    coordinator = Coordinator(iter(()), 1)
    monkeypatch.setattr(transactions, "Producer", lambda settings: Offsets(coordinator, settings))
    monkeypatch.setattr(transactions, "time", SimpleNamespace(monotonic=lambda: now[0]))
    producer = TransactionalProducer(NOWHERE, "id", patience=NoRest(""))
    producer.open(1.0)
    record, consumed = ProducerRecord("out", b"k", b"v", 0), Consumed([], None)
    producer.commit([record], consumed)
    producer.commit([record], consumed)
    with pytest.raises(ReplacedError, match="a repeated request with the offsets"):
        producer.commit([record], consumed)
    assert coordinator.committed == [b"v"] * 2


def test_a_command_ends_when_it_cannot_know_what_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    coordinator = Coordinator(iter(("sent again",)), 1)
    monkeypatch.setattr(transactions, "Producer", lambda settings: Client(coordinator, settings))
    producer = TransactionalProducer(NOWHERE, "id")
    producer.open(1.0)
    producer.commit([ProducerRecord("out", b"k", b"1", 0)])
    with pytest.raises(BrokerError, match="run the command again") as refused:
        producer.commit([ProducerRecord("out", b"k", b"2", 0)])
    assert not isinstance(refused.value.__cause__, KafkaException)
    assert coordinator.committed == [b"1"]
