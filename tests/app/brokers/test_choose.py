"""The values of `--broker`, and the broker that each one opens."""

import socket
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from glasstream.app.brokers.choose import Broker, TopicRequest, open_broker
from glasstream.base.errors import BrokerError
from tests.support.waiting import wait_for


def partitions(broker: Broker, names: list[str]) -> dict[str, int]:
    """Return the partitions of the topics, once the broker lists them."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    wait_for(f"a list with {names}", lambda: {*names} <= admin.list_topics(timeout=20).topics.keys())
    topics = admin.list_topics(timeout=20).topics
    return {name: len(topics[name].partitions) for name in names}


def test_embedded() -> None:
    with open_broker("embedded") as broker:
        assert broker.kind == "embedded"
        broker.create_topics([TopicRequest("a", 3, {"cleanup.policy": "compact"}), TopicRequest("b", 1, {})])
        assert partitions(broker, ["a", "b"]) == {"a": 3, "b": 1}


def refusal(spec: str, **options: Any) -> str:
    with pytest.raises(BrokerError) as raised, open_broker(spec, **options):
        pass
    return str(raised.value)


def test_nobody_at_the_address() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers, and nobody else can
        address = f"127.0.0.1:{held.getsockname()[1]}"
        said = refusal(address, deadline_s=0.3)
    assert f"no broker answers at {address} within 0.3 s" in said
    assert "--broker" not in said, "the callers accept different brokers"


def test_somebody_who_does_not_speak_kafka() -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        assert "within 0.3 s" in refusal(f"127.0.0.1:{mute.getsockname()[1]}", deadline_s=0.3)


@pytest.mark.parametrize(
    "spec", ["", "kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "a:1,,b:2", "none", "a b:1", "::1:9092"]
)
def test_what_is_no_broker(spec: str) -> None:
    assert refusal(spec) == f"expected --broker embedded, local, or HOST:PORT,...; got {spec!r}"


def test_a_client_setting_that_does_not_exist_is_named() -> None:
    assert "no.such.setting" in refusal("127.0.0.1:9", client={"no.such.setting": "1"})


def test_data_is_for_local_only(tmp_path: Path) -> None:
    assert "expected --data with --broker local only" in refusal("embedded", data=tmp_path)
