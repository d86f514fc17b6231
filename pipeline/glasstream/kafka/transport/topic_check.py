"""Check of all topics that an application needs. It prevents the start if one is missing or of an incompatible release.

Faust swallows exceptions in its partition assignor. If a topic is missing or has another number of partitions, a worker
would report that it performs partition assignments, and hang for ever.
"""

import logging
from collections.abc import Collection, Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from glasstream.base.errors import BrokerError, TopicError
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import ALL, requests
from glasstream_topics.admin import hidden
from glasstream_topics.contract import RENAMED

log = logging.getLogger(__name__)

_NOT_LET_IN = (KafkaError._AUTHENTICATION, KafkaError._SSL)
_PREFIXES = 5
"""Largest number of other prefixes to name in an error."""


def check_topics(
    connection: Connection, expected: Mapping[str, int | None], timeout: float = 10.0, prefix: str | None = None
) -> dict[str, int]:
    """Compare the topics of the brokers with those that a stage needs, and return their numbers of partitions.

    A topic that users write may have more partitions than expected, because partitions can be added to it at any time.
    The stages continue with those for which the deployment was made (see `surplus`).

    Parameters
    ----------
    expected
        Number of partitions by name; None for any number.
    prefix
        Prefix of the topics. If given, topics of Glasstream 0.1.0 under this prefix are refused, and the topics that
        users write may have more partitions.

    Raises
    ------
    TopicError
        A topic is missing, hidden from this client, of another number of partitions, or of 0.1.0. The message names all
        of them.
    BrokerError
        No broker answers within `timeout` seconds, or the broker rejects this client.
    """
    refusals: list[KafkaError] = []  # only this callback reports a rejected client, which retries
    admin = AdminClient({**connection.client(), "error_cb": refusals.append})
    try:
        found = admin.list_topics(timeout=timeout).topics
        unseen = hidden(admin, [name for name in expected if name not in found], timeout)
    except KafkaException as error:
        admin.poll(0)
        rejections = [one.str() for one in refusals if one.code() in _NOT_LET_IN]
        if rejections:
            raise BrokerError(
                f"the broker at {connection.bootstrap} rejects this client: {rejections[-1]}; check the kafka.* "
                "settings (sasl.username, sasl.password, ssl.*)"
            ) from error
        raise BrokerError(
            f"no broker answered at {connection.bootstrap} within {timeout:g} s ({error.args[0].str()}); "
            "check the address and that the broker runs"
        ) from error
    if prefix is not None:
        _refuse_old(connection, prefix, found)
    findings = []
    theirs = () if prefix is None else {prefix + one.name for one in ALL if one.received}
    for name, partitions in sorted(expected.items()):
        if name in unseen:
            findings.append(f"this client is not authorized to see {name} (`glasstream topics acls` has the rights)")
        elif name not in found or found[name].error is not None:
            findings.append(f"{name} is missing")
        elif partitions is not None and (count := len(found[name].partitions)) != partitions:
            if count > partitions and name in theirs:
                log.warning("%s", surplus(name, count, partitions))
            else:
                findings.append(f"{name} has {count} partitions instead of {partitions}")
    if findings:
        raise TopicError(
            f"topics at {connection.bootstrap} do not meet their contracts: {'; '.join(findings)}. Check "
            f"--prefix{_elsewhere(found, expected)}. `glasstream topics create` creates missing topics. If partitions "
            "differ, set topics.events and topics.requests to the numbers that the topics have. `glasstream topics "
            "expand` adds missing partitions. `glasstream topics verify` lists all differences"
        )
    return {name: len(found[name].partitions) for name in expected}


def surplus(topic: str, found: int, expected: int) -> str:
    """Return what it means that a topic of the users has more partitions than a deployment was made for."""
    more = f"partitions {expected} to {found - 1}" if found - expected > 1 else f"partition {expected}"
    return (
        f"{topic} has {found} partitions, but this deployment was made for {expected} (topics.events): messages of "
        f"{more} are not read. The workers continue with the others. To read all, stop the workers, run "
        f"`glasstream topics expand --set topics.events={found}`, and start them with topics.events={found} and a new "
        'epoch (operating.md, "Add partitions")'
    )


def _elsewhere(found: Collection[str], expected: Collection[str]) -> str:
    """Return a clause about the other prefixes that have topics of Glasstream; empty if there are none."""
    ends = requests.TOPIC.name
    others = [name.removesuffix(ends) for name in sorted(found) if name.endswith(ends)]
    others = [prefix for prefix in others if not any(name.startswith(prefix) for name in expected)]
    if not others:
        return ""
    more = f" and {len(others) - _PREFIXES:,} more" if len(others) > _PREFIXES else ""
    return f"; this broker has topics of Glasstream with the prefix {', '.join(map(repr, others[:_PREFIXES]))}{more}"


def _refuse_old(connection: Connection, prefix: str, found: Collection[str]) -> None:
    old = [prefix + name for name in RENAMED if prefix + name in found]
    if old:
        raise TopicError(
            f"expected no topics of Glasstream 0.1.0 under the prefix {prefix!r} at {connection.bootstrap}, found "
            f"{', '.join(old)}. Stages of this release have other consumer groups and transactional ids, so they would "
            f"not fence workers of 0.1.0 that still run. Set another `prefix`, or stop those workers and delete these "
            f"topics"
        )


def partition_count(connection: Connection, topic: str, timeout: float = 10.0) -> int:
    """Return the number of partitions of `topic`. Raise TopicError if it is missing, BrokerError without an answer."""
    return check_topics(connection, {topic: None}, timeout)[topic]
