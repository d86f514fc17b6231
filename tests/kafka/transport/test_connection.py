"""One description of the brokers for librdkafka and for Faust; names and codes of a worker."""

import logging

import pytest

from glasstream.base.errors import (
    BrokerError,
    FencedError,
    LostInputError,
    NotCompilable,
    SettingsError,
    StalledError,
    StateError,
    TopicError,
)
from glasstream.events.message import Message
from glasstream.kafka.transport.app import make_app
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.reader import settings_of
from glasstream.kafka.transport.records import Outputs, ProducerRecord
from glasstream.kafka.transport.worker import ExitCode, configure_logging, exit_code


def test_every_producer_partitions_as_java_does_and_waits_for_all_replicas() -> None:
    settings = Connection("h:1").producer(transactional_id="x")
    assert settings["partitioner"] == "murmur2_random"
    assert settings["acks"] == "all"
    assert settings["enable.idempotence"] is True
    assert settings["transactional.id"] == "x"


def test_every_client_gets_the_extra_settings() -> None:
    connection = Connection("h:1,g:2", {"sasl.username": "me"})
    for settings in (connection.client(), connection.producer(), connection.consumer(read_committed=True)):
        assert settings["sasl.username"] == "me"
        assert settings["bootstrap.servers"] == "h:1,g:2"


def test_a_reader_gets_the_extra_settings_and_the_name_of_its_instance() -> None:
    connection = Connection("h:1", {"sasl.username": "me"}, check_crcs=False)
    settings = settings_of(connection, StageOptions("aggregator", "aggregator-0", prefix="p."))
    assert settings["sasl.username"] == "me" and settings["check.crcs"] is False
    assert (settings["group.id"], settings["group.instance.id"]) == ("p.aggregator", "p.aggregator.aggregator-0")
    assert settings["auto.offset.reset"] == "error" and settings["enable.auto.commit"] is False


def test_the_application_starts_nothing_by_surprise() -> None:
    app = make_app(Connection("h:1"), StageOptions("aggregator", "aggregator-0", prefix="p."))
    assert app.conf.id == "p.aggregator"
    assert not app.boot_strategy._should_enable_web()
    assert not app.conf.topic_allow_declare
    assert app.conf.topic_disable_leader
    assert not app.conf.stream_wait_empty
    assert not app.FlowControlQueue(10, clear_on_resume=True)._clear_on_resume


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (None, ExitCode.OK),
        (SettingsError(["x"]), ExitCode.USAGE),
        (StateError("x"), ExitCode.STATE),
        (LostInputError("x"), ExitCode.STATE),
        (FencedError("x"), ExitCode.FENCED),
        (BrokerError("x"), ExitCode.BROKER),
        (TopicError("x"), ExitCode.BROKER),
        (StalledError("x"), ExitCode.STALLED),
        (NotCompilable("x"), ExitCode.FAILED),
        (TimeoutError("x"), ExitCode.FAILED),
    ],
)
def test_every_end_has_its_code(error: Exception | None, code: ExitCode) -> None:
    assert exit_code(error) is code


def test_our_lines_are_seen_and_others_only_from_warnings_on(monkeypatch: pytest.MonkeyPatch) -> None:
    root, ours = logging.getLogger(), logging.getLogger("glasstream")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(ours, "level", ours.level)
    configure_logging(StageOptions("learner", "learner"))
    assert logging.getLogger("glasstream.kafka.stages.learner").isEnabledFor(logging.INFO)
    assert not logging.getLogger("asyncio").isEnabledFor(logging.INFO)
    assert logging.getLogger("asyncio").isEnabledFor(logging.WARNING)
    assert not logging.getLogger("faust.transport").isEnabledFor(logging.WARNING)
    assert not logging.getLogger("glasstream.kafka.transport.app").isEnabledFor(logging.INFO)


def test_records_say_where_they_are_and_outputs_whether_there_are_any() -> None:
    assert Message("events", 3, 17, None, b"").place == "events[3]@17"
    assert not Outputs()
    assert Outputs(progress=[ProducerRecord("", b"", b"")])
    assert StageOptions("learner", "a", prefix="p.").transactional_id(2) == "p.learner.2"
