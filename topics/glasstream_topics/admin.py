"""Create the topics on a broker as their contracts say, and report where a broker deviates.

The client is confluent-kafka's `AdminClient`. Nothing in this module prints.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from glasstream_topics import ALL, AVRO
from glasstream_topics.contract import DEFAULT_PREFIX, SAFE_COPIES, Topic, least_in_sync
from glasstream_topics.errors import TopicError

TIMEOUT_S: Final = 30.0
_POLL_S: Final = 0.05

CREATES_NONE: Final[Mapping[str, bool]] = MappingProxyType({"allow.auto.create.topics": False})
"""Setting of a client that creates no topic by asking for one."""

HIDDEN: Final = "one that this client is not authorized to see"
"""What is found of a topic if the broker does not say whether it exists."""

COPIES: Final = "copies"
"""Subject of a finding about the number of replicas."""
_IN_SYNC: Final = "min.insync.replicas"
_UNCLEAN: Final = "unclean.leader.election.enable"

Overrides = Mapping[str, Mapping[str, str]]
"""Topic configuration by name (without prefix) with which a user's settings replace the contract's."""


@dataclass(frozen=True)
class Deviation:
    """One deviation of a broker from the contract."""

    topic: str
    what: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.topic}: expected {self.what} {self.expected}, found {self.found}"


@dataclass(frozen=True)
class Description:
    """A topic's contract with its prefixed name and its number of partitions."""

    name: str
    partitions: int
    config: dict[str, str]
    topic: Topic


def show(
    counts: Mapping[str, int],
    prefix: str = DEFAULT_PREFIX,
    overrides: Overrides | None = None,
    topics: Sequence[Topic] = ALL,
) -> list[Description]:
    """Return the contract of every topic, as `create` would apply it.

    Parameters
    ----------
    counts
        the settings `topics.events` and `topics.requests`, under the keys `events` and `requests`.
    topics
        the topics of the deployment.
    """
    return [
        Description(
            topic.full_name(prefix),
            topic.partition_count(counts),
            {**topic.config, **(overrides or {}).get(topic.name, {})},
            topic,
        )
        for topic in topics
    ]


def create(
    admin: AdminClient,
    counts: Mapping[str, int],
    prefix: str = DEFAULT_PREFIX,
    overrides: Overrides | None = None,
    replication: int = -1,
    timeout: float = TIMEOUT_S,
    topics: Sequence[Topic] = ALL,
) -> list[str]:
    """Create every missing topic, and return when the broker lists all topics with leaders.

    A new topic gets the `min.insync.replicas` that fits its number of replicas (`contract.least_in_sync`). With a
    replication of -1 the broker decides this number, and this client may not be allowed to see the broker's
    configuration. The number is therefore read back from the topic.

    Parameters
    ----------
    replication
        replication factor; -1 for the broker's default.
    topics
        the topics of the deployment.

    Returns
    -------
    list of str
        names of the created topics. Existing topics are left unchanged (see `verify`).

    Raises
    ------
    TopicError
        the broker refuses, or does not answer within `timeout` seconds.
    """
    wanted = show(counts, prefix, overrides, topics)
    futures = admin.create_topics(
        [
            NewTopic(topic.name, num_partitions=topic.partitions, replication_factor=replication, config=topic.config)
            for topic in wanted
        ],
        operation_timeout=timeout,
        request_timeout=timeout,
    )
    created = [
        name for name, future in futures.items() if _done(future, f"create {name}", KafkaError.TOPIC_ALREADY_EXISTS)
    ]
    # The controller answers before all brokers know the topics. Without this wait, the next request could miss them.
    listed = _await_topics(admin, prefix, timeout, topics).topics
    if created:
        copies = {name: replication if replication > 0 else _copies(listed[name]) for name in created}
        _alter(admin, {name: {_IN_SYNC: str(least_in_sync(count))} for name, count in copies.items()}, timeout)
    return created


def expand(
    admin: AdminClient,
    counts: Mapping[str, int],
    prefix: str = DEFAULT_PREFIX,
    timeout: float = TIMEOUT_S,
    topics: Sequence[Topic] = ALL,
) -> dict[str, int]:
    """Add the partitions that topics lack, and return when the broker lists all partitions with leaders.

    The topics that users write come last: a producer that sees a new partition there finds all others in place.

    Returns
    -------
    dict of str to int
        former number of partitions of each topic that has more now.

    Raises
    ------
    TopicError
        a topic is missing or has more partitions, and then nothing is changed; or the broker refuses, or does not
        answer within `timeout` seconds.
    """
    present = _metadata(admin, timeout).topics
    wanted = {topic.full_name(prefix): topic.partition_count(counts) for topic in sorted(topics, key=_by_users)}
    missing = [name for name in wanted if name not in present or present[name].error is not None]
    if missing:
        raise TopicError(f"expected all topics to exist, found none of {', '.join(missing)}; create them first")
    before = {name: len(present[name].partitions) for name in wanted}
    more = [f"{name} has {count} instead of {wanted[name]}" for name, count in before.items() if count > wanted[name]]
    if more:
        raise TopicError(
            f"expected no topic with more partitions than wanted, because Kafka cannot remove partitions: "
            f"{'; '.join(more)}; choose numbers at least as large"
        )
    lacking = {name: count for name, count in before.items() if count < wanted[name]}
    for name in lacking:
        (future,) = admin.create_partitions([NewPartitions(name, wanted[name])], request_timeout=timeout).values()
        _result(future, f"add partitions to {name}")

    def listed(cluster: Any) -> bool:
        found = {name: cluster.topics.get(name) for name in wanted}
        return all(_has_leaders(one) and len(one.partitions) == wanted[name] for name, one in found.items())

    _await(admin, listed, "lists the new partitions", timeout)
    return lacking


def _by_users(topic: Topic) -> bool:
    return topic.received


def scarce(
    admin: AdminClient, prefix: str = DEFAULT_PREFIX, timeout: float = TIMEOUT_S, topics: Sequence[Topic] = ALL
) -> dict[str, int]:
    """Return the replica count of each topic that has fewer than three replicas on a cluster of three or more brokers.

    All topics must exist: a broker that does not list one of them is behind the others, and is asked again.

    Raises
    ------
    TopicError
        the broker does not list all topics, or does not answer, within `timeout` seconds.
    """
    cluster = _await_topics(admin, prefix, timeout, topics)
    if len(cluster.brokers) < SAFE_COPIES:
        return {}
    names = [topic.full_name(prefix) for topic in topics]
    return {name: copies for name in names if (copies := _copies(cluster.topics[name])) < SAFE_COPIES}


def delete(admin: AdminClient, prefix: str, timeout: float = TIMEOUT_S) -> list[str]:
    """Delete every existing topic of a prefix, and return their names.

    Raises
    ------
    TopicError
        the broker refuses, or does not answer within `timeout` seconds.
    """
    names = [topic.full_name(prefix) for topic in (*ALL, *AVRO)]
    futures = admin.delete_topics(names, operation_timeout=timeout, request_timeout=timeout)
    deleted = [
        name for name, future in futures.items() if _done(future, f"delete {name}", KafkaError.UNKNOWN_TOPIC_OR_PART)
    ]
    _await(admin, lambda cluster: not any(name in cluster.topics for name in names), "forgets the topics", timeout)
    return deleted


def verify(
    admin: AdminClient,
    counts: Mapping[str, int],
    prefix: str = DEFAULT_PREFIX,
    overrides: Overrides | None = None,
    replication: int = -1,
    timeout: float = TIMEOUT_S,
    topics: Sequence[Topic] = ALL,
) -> list[Deviation]:
    """Return every deviation from the contract: missing topics, partition counts, configuration, and too few replicas.

    Parameters
    ----------
    replication
        replication factor that each topic must have; -1 demands at least three replicas on a cluster of three or more
        brokers.
    topics
        the topics of the deployment.

    Raises
    ------
    TopicError
        the broker does not answer within `timeout` seconds, or does not let this client see the configuration.
    """
    cluster = _metadata(admin, timeout)
    present: Mapping[str, Any] = cluster.topics
    wanted = show(counts, prefix, overrides, topics)
    findings: list[Deviation] = []
    there: list[Description] = []
    absent = [topic.name for topic in wanted if topic.name not in present or present[topic.name].error is not None]
    try:
        unseen = hidden(admin, absent, timeout)
    except KafkaException as error:
        raise TopicError(f"describe topics: {error.args[0].str()}") from error
    for topic in wanted:
        if topic.name in absent:
            seen = HIDDEN if topic.name in unseen else "none"
            findings.append(Deviation(topic.name, "the topic", "to exist", seen))
            continue
        metadata = present[topic.name]
        there.append(topic)
        if len(metadata.partitions) != topic.partitions:
            findings.append(Deviation(topic.name, "partitions", str(topic.partitions), str(len(metadata.partitions))))
    configs = _configs(admin, [topic.name for topic in there], timeout)
    for topic in there:
        for name, expected in sorted(topic.config.items()):
            found = configs[topic.name].get(name)
            if found is None or not _same(expected, found):
                findings.append(Deviation(topic.name, name, expected, "nothing" if found is None else found))
        findings += _durability(
            topic.name, _copies(present[topic.name]), configs[topic.name], replication, len(cluster.brokers)
        )
    return findings


def hidden(admin: AdminClient, names: Iterable[str], timeout: float = TIMEOUT_S) -> list[str]:
    """Return the topics that this client may not see. A list of all topics silently omits them.

    The question would create a missing topic, with the broker's default configuration, where the broker allows that
    (`auto.create.topics.enable`, Kafka's default), unless the client has the setting in `CREATES_NONE`.

    Raises
    ------
    KafkaException
        the broker does not answer within `timeout` seconds.
    """
    errors = {name: admin.list_topics(name, timeout=timeout).topics[name].error for name in names}
    return [name for name, error in errors.items() if error and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED]


def _durability(
    name: str, copies: int, config: Mapping[str, str], replication: int, brokers: int
) -> Iterable[Deviation]:
    """Yield deviations that risk committed records, or stop writes, when one broker is lost."""
    if replication > 0 and copies != replication:
        yield Deviation(name, COPIES, str(replication), str(copies))
    elif replication < 0 and copies < SAFE_COPIES <= brokers:
        yield Deviation(name, COPIES, f"{SAFE_COPIES} or more on {brokers} brokers", str(copies))
    least = least_in_sync(copies)
    most = max(least, copies - 1)
    if not least <= int(config.get(_IN_SYNC, "1")) <= most:
        expected = str(least) if least == most else f"{least} to {most}"
        yield Deviation(name, _IN_SYNC, f"{expected} with {copies} copies", config.get(_IN_SYNC, "nothing"))
    if config.get(_UNCLEAN, "false") != "false":
        yield Deviation(name, _UNCLEAN, "false", config[_UNCLEAN])


def _metadata(admin: AdminClient, timeout: float) -> Any:
    """Return the brokers and topics that a broker lists."""
    try:
        return admin.list_topics(timeout=timeout)
    except KafkaException as error:
        raise TopicError(f"list topics: {error.args[0].str()}; check the broker's address and that it runs") from error


def _copies(metadata: Any) -> int:
    """Return the smallest number of replicas of any partition."""
    return min(len(partition.replicas) for partition in metadata.partitions.values())


def _alter(admin: AdminClient, configs: Overrides, timeout: float) -> None:
    """Set the configuration of topics."""
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            topic,
            incremental_configs=[
                ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in config.items()
            ],
        )
        for topic, config in configs.items()
    ]
    for resource, future in admin.incremental_alter_configs(resources, request_timeout=timeout).items():
        _result(future, f"configure {resource.name}")


def _has_leaders(topic: Any) -> bool:
    """Return whether a listed topic accepts writes."""
    return (
        topic is not None
        and topic.error is None
        and bool(topic.partitions)
        and all(partition.leader >= 0 for partition in topic.partitions.values())
    )


def _await_topics(admin: AdminClient, prefix: str, timeout: float, topics: Sequence[Topic]) -> Any:
    """Poll a broker's metadata until it lists the topics with leaders, and return them."""
    names = [topic.full_name(prefix) for topic in topics]

    def listed(cluster: Any) -> bool:
        return all(_has_leaders(cluster.topics.get(name)) for name in names)

    return _await(admin, listed, "lists the topics", timeout)


def _await(admin: AdminClient, condition: Callable[[Any], bool], what: str, timeout: float) -> Any:
    """Poll a broker's metadata until they fulfil a condition, and return them.

    Brokers learn of a change one after the other, and the next request may go to another broker.
    """
    deadline = time.monotonic() + timeout
    while not condition(cluster := _metadata(admin, timeout)):
        if time.monotonic() > deadline:
            raise TopicError(f"expected that the broker {what} within {timeout:g} s; it does not: look at its log")
        time.sleep(_POLL_S)
    return cluster


def _configs(admin: AdminClient, names: Iterable[str], timeout: float) -> dict[str, dict[str, str]]:
    """Return the broker's configuration of each topic."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    configs: dict[str, dict[str, str]] = {}
    for resource, future in admin.describe_configs(resources, request_timeout=timeout).items():
        entries = _result(future, f"describe {resource.name}")
        configs[resource.name] = {entry.name: entry.value for entry in entries.values() if entry.value is not None}
    return configs


def _same(expected: str, found: str) -> bool:
    """Return whether two values mean the same: numbers are compared as numbers, lists in any order."""
    try:
        return float(expected) == float(found)
    except ValueError:
        return sorted(expected.split(",")) == sorted(found.split(","))


def _done(future: "Future[Any]", what: str, harmless: int) -> bool:
    """Wait for an operation; return False if it failed with the harmless error."""
    try:
        future.result()
    except KafkaException as error:
        if error.args[0].code() == harmless:
            return False
        raise TopicError(f"{what}: {error.args[0].str()}") from error
    return True


def _result(future: "Future[Any]", what: str) -> Any:
    try:
        return future.result()
    except KafkaException as error:
        raise TopicError(f"{what}: {error.args[0].str()}") from error
