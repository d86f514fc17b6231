"""Every topic an application needs is there, or it does not start.

An exception in Faust's partition assignor is swallowed: with a topic missing, or with another number of partitions,
a worker would say that it performs partition assignments and hang for ever.
"""

from collections.abc import Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.errors import BrokerError, TopicError
from pipeline.transport.connection import Connection


def check_topics(connection: Connection, expected: Mapping[str, int | None], timeout: float = 10.0) -> None:
    """Compare the topics of the brokers with `expected`: name to number of partitions, None for any number.

    Raises
    ------
    TopicError
        Naming every topic that is missing or has another number of partitions.
    BrokerError
        When no broker answers within `timeout` seconds.
    """
    try:
        found = AdminClient(connection.client()).list_topics(timeout=timeout).topics
    except KafkaException as error:
        raise BrokerError(
            f"no broker answered at {connection.bootstrap} within {timeout:g} s ({error.args[0].str()}); "
            "check the address and that the broker runs"
        ) from error
    findings = []
    for name, partitions in sorted(expected.items()):
        if name not in found or found[name].error is not None:
            findings.append(f"{name} is missing")
        elif partitions is not None and len(found[name].partitions) != partitions:
            findings.append(f"{name} has {len(found[name].partitions)} partitions instead of {partitions}")
    if findings:
        raise TopicError(
            f"topics at {connection.bootstrap} are not as this stage needs them: {'; '.join(findings)}. "
            "Create them with `glasstream topics create`; see what is wrong with `glasstream topics verify`"
        )


def partition_count(connection: Connection, topic: str, timeout: float = 10.0) -> int:
    """Return how many partitions `topic` has; TopicError when it is missing, BrokerError when no broker answers."""
    check_topics(connection, {topic: None}, timeout)
    return len(AdminClient(connection.client()).list_topics(topic, timeout=timeout).topics[topic].partitions)
