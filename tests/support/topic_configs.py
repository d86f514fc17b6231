"""Configurations of topics on a real Kafka."""

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from tests.support.waiting import wait_for

TIMEOUT_S = 30.0


def config(client: AdminClient, topic: str) -> dict[str, ConfigEntry]:
    """The broker's configuration of a topic."""
    (future,) = client.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]).values()
    found: dict[str, ConfigEntry] = future.result(TIMEOUT_S)
    return found


def alter(client: AdminClient, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in client.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)
    wait_for(f"{name} of {topic}", lambda: config(client, topic)[name].value == value)
