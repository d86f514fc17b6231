"""One description of the brokers for librdkafka and for Faust; names and codes of a worker."""

import logging

import pytest
from faust.types.auth import AuthProtocol

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
from glasstream.kafka.transport.app import make_app
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.records import ConsumerRecord, Outputs, ProducerRecord
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
    assert [str(url) for url in connection.broker_urls()] == ["kafka://h:1", "kafka://g:2"]


def test_faust_gets_the_same_credentials_with_their_protocol_set() -> None:
    assert Connection("h:1").faust_credentials() is None
    login = {"sasl.username": "me", "sasl.password": "secret", "sasl.mechanism": "SCRAM-SHA-512"}
    for name, protocol in (
        ("SASL_SSL", AuthProtocol.SASL_SSL),
        ("SASL_PLAINTEXT", AuthProtocol.SASL_PLAINTEXT),
    ):
        credentials = Connection("h:1", {"security.protocol": name, **login}).faust_credentials()
        assert credentials.protocol is protocol
        assert (credentials.username, credentials.password) == ("me", "secret")
        assert credentials.mechanism.value == "SCRAM-SHA-512"
        assert (credentials.ssl_context is None) is (name == "SASL_PLAINTEXT")
    assert Connection("h:1", {"security.protocol": "ssl"}).faust_credentials().protocol is AuthProtocol.SSL


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"security.protocol": "PLAIN"}, "expected PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL, got 'PLAIN'"),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "SCRAM-SHA-512, got 'GSSAPI'"),
    ],
)
def test_what_faust_cannot_speak_is_said_before_it_tries(extra: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Connection("h:1", extra).faust_credentials()


def test_the_application_starts_nothing_by_surprise() -> None:
    app = make_app(Connection("h:1"), StageOptions("aggregator", "aggregator-0", prefix="p."))
    assert app.conf.id == "p.aggregator"
    assert app.conf.consumer_group_instance_id == "p.aggregator.aggregator-0"
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
    assert not logging.getLogger("aiokafka.consumer").isEnabledFor(logging.WARNING)
    assert not logging.getLogger("glasstream.kafka.transport.app").isEnabledFor(logging.INFO)


def test_records_say_where_they_are_and_outputs_whether_there_are_any() -> None:
    assert ConsumerRecord("events", 3, 17, None, b"").place == "events[3]@17"
    assert not Outputs()
    assert Outputs(progress=[ProducerRecord("", b"", b"")])
    assert StageOptions("learner", "a", prefix="p.").transactional_id(2) == "p.learner.2"
