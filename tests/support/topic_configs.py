"""Configurations of topics on a real Kafka."""

import time
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

TIMEOUT_S = 30.0


def config(client: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    """The broker's configuration of a topic."""
    (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    found: dict[str, ConfigEntry] = future.result(TIMEOUT_S)
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def alter(client: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)
    wait_until(lambda: config(client, topic)[name].value == value)
