"""What `produce` says when the broker refuses messages."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command import cli
from glasstream.app.command.exit_codes import NO_BROKER
from glasstream.app.configuration import load
from glasstream.app.runner import replay
from glasstream.base.errors import BrokerError
from glasstream.events.sources.csv_file import CsvFile

REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class Fatal:
    """Producer that has ended: the broker has refused its first message, and it takes no other."""

    def __init__(self, _: object) -> None:
        self.told: list[Any] = []

    def produce(self, topic: str, on_delivery: Any, **_: object) -> None:
        if self.told:
            raise KafkaException(KafkaError(KafkaError._FATAL))
        self.told.append(on_delivery)

    def poll(self, _: float) -> None:
        for told in self.told:
            told(REFUSED, SimpleNamespace())


def test_a_producer_that_has_ended_is_an_error_with_the_cause(
    monkeypatch: pytest.MonkeyPatch, embedded: EmbeddedKafka, tmp_path: Any
) -> None:
    monkeypatch.setattr(replay, "Producer", Fatal)
    file = tmp_path / "rows.csv"
    file.write_text("a,y\n" + "1,2\n" * 200)
    source = CsvFile(file, "y", "s")
    source.look(None)
    with pytest.raises(BrokerError, match=r"p\.events: the broker refused a message: .*uthorization failed"):
        replay.produce(load(assignments=[f"broker={embedded.bootstrap}", "prefix=p."]), source, 1)


def test_an_error_of_the_kafka_client_is_a_line_and_the_code_of_brokers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(**_: object) -> None:
        raise KafkaException(REFUSED)

    monkeypatch.setattr(cli, "cli", fails)
    assert cli.execute() == NO_BROKER
    said = capsys.readouterr().err
    assert said.startswith("glasstream: the Kafka client failed: ") and "doctor" in said and "Traceback" not in said
