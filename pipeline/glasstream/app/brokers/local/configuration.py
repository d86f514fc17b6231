"""The configuration of a local Kafka: everything that differs from Kafka's defaults, and why.

The limits on the size of messages are Kafka's own: what works here must work on a cluster with default settings.
"""

from collections.abc import Mapping

_FIXED: dict[str, str] = {
    # KRaft, broker and controller in one process.
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "inter.broker.listener.name": "PLAINTEXT",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # One node can keep one copy; Kafka's default for its own topics is three.
    "default.replication.factor": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # The defaults are 50 partitions each: seconds of creating files at the first consumer and the first transaction.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    # A group forms at once instead of waiting 3 s for more members.
    "group.initial.rebalance.delay.ms": "0",
    # Kafka's minimum is 6 s. A test that waits for the take-over from a killed worker may ask for 1 s. A session as
    # short as that fails on a busy machine: production brokers keep the 6 s.
    "group.min.session.timeout.ms": "1000",
    # After a kill the controller refuses the node until the session of the killed one has run out: 9 s by default.
    "broker.session.timeout.ms": "4000",
    "broker.heartbeat.interval.ms": "500",
    # A misspelt topic is an error, not a new topic with one partition.
    "auto.create.topics.enable": "false",
    # Two cores are what a laptop or a CI machine has to spare; the defaults are 3, 8 and 10 threads.
    "num.network.threads": "2",
    "num.io.threads": "4",
    "background.threads": "2",
    # Runs take a fresh prefix and delete their topics: give the space back after a second instead of a minute.
    "log.segment.delete.delay.ms": "1000",
}

_LISTENERS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


def server_settings(
    *,
    broker_port: int,
    controller_port: int,
    data: str,
    listen: str = "127.0.0.1",
    advertised: str = "127.0.0.1",
    node: int = 1,
    voters: str | None = None,
    overrides: Mapping[str, str],
) -> dict[str, str]:
    """All settings of a node.

    Parameters
    ----------
    broker_port, controller_port
        Free TCP ports.
    data
        Folder of Kafka's logs and metadata.
    listen, advertised
        Host that the broker binds, and host to which clients connect.
    node
        Id of the node.
    voters
        The controllers of the cluster, as `controller.quorum.voters` names them; None for a node that is alone.
    overrides
        Broker settings that replace or add to the ones here. Listeners, and what maps them to protocols, are added:
        the one that this machine's clients use stays.
    """
    ours = {
        **_FIXED,
        "node.id": str(node),
        "listeners": f"PLAINTEXT://{listen}:{broker_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{advertised}:{broker_port}",
        "controller.quorum.voters": voters or f"{node}@127.0.0.1:{controller_port}",
        "log.dirs": data,
    }
    added = {name: f"{ours[name]},{overrides[name]}" for name in _LISTENERS if name in overrides}
    return {**ours, **overrides, **added}


def as_properties(settings: Mapping[str, str]) -> str:
    """The settings in Java's properties format, whose escape character a path could contain."""
    return "".join(
        f"{name}={value.replace(chr(92), chr(92) * 2).replace(chr(10), chr(92) + 'n')}\n"
        for name, value in settings.items()
    )


def as_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings as the environment variables that Kafka's container image reads.

    >>> as_environment({"log.dirs": "/tmp"})
    {'KAFKA_LOG_DIRS': '/tmp'}
    """
    return {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in settings.items()}
