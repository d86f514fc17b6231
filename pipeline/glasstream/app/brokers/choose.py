"""Open the broker that `--broker` names."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from glasstream.app.brokers.answer import answers
from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.brokers.local import local_kafka
from glasstream.base.errors import BrokerError

Kind = Literal["embedded", "local", "given"]

#: How long a given broker may take to answer. One that is there does so in well below a second.
ANSWER_DEADLINE_S = 10.0

_CREATE_DEADLINE_S = 30.0
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%]+\]|[^\s:,\[\]]+):(\d{1,5})")


@dataclass(frozen=True)
class TopicRequest:
    """A topic to create: full name, number of partitions, configuration."""

    name: str
    partitions: int
    config: Mapping[str, str]


class Broker(Protocol):
    """A Kafka broker that has answered."""

    @property
    def bootstrap(self) -> str:
        """`HOST:PORT,...`."""

    @property
    def kind(self) -> Kind:
        """Kind of broker, which decides what it can do; see the module `embedded` for the limits of that broker."""

    def create_topics(self, topics: Iterable[TopicRequest]) -> None:
        """Create topics that do not exist yet; the embedded broker ignores their configuration.

        Raise BrokerError, naming the topic, if a topic exists or is refused.
        """


@contextmanager
def open_broker(
    spec: str,
    *,
    data: Path | None = None,
    client: Mapping[str, str] | None = None,
    log: Callable[[str], None] | None = None,
    deadline_s: float = ANSWER_DEADLINE_S,
) -> Iterator[Broker]:
    """Open the broker that `spec` names, and close it when the block is left.

    Parameters
    ----------
    spec
        `embedded`; `local`; or `HOST:PORT,...` of any Kafka.
    data
        Folder in which `local` keeps its data after the run; other brokers do not use it.
    client
        Further settings of librdkafka for a Kafka given by address (security).
    log
        Called with a line of text before each slow step.
    deadline_s
        Seconds within which a Kafka given by address must answer.

    Raises
    ------
    BrokerError
        `spec` is none of these, or no such broker can be opened; the message says what to do.
    """
    if data is not None and spec != "local":
        raise BrokerError(f"expected --data with --broker local only; got it with --broker {spec}. Leave it out.")
    if spec == "embedded":
        with EmbeddedKafka() as embedded:
            yield _Embedded(embedded)
    elif spec == "local":
        with local_kafka(data, log=log) as kafka:
            yield _Real(kafka.bootstrap, "local", {})
    else:
        yield _given(spec, client or {}, deadline_s)


def addresses(spec: str) -> list[tuple[str, int]]:
    """Return the hosts and ports in `HOST:PORT,...`; IPv6 hosts stand in brackets.

    Raise BrokerError if `spec` does not have that form.

    >>> addresses("one:9092,[::1]:9093")
    [('one', 9092), ('[::1]', 9093)]
    """
    matches = [_ADDRESS.fullmatch(part.strip()) for part in spec.split(",")]
    found = [(match[1], int(match[2])) for match in matches if match]
    if len(found) != len(matches) or not all(0 < port < 65536 for _, port in found):
        raise BrokerError(f"expected --broker embedded, local, or HOST:PORT,...; got {spec!r}")
    return found


def _given(spec: str, client: Mapping[str, str], deadline_s: float) -> Broker:
    bootstrap = ",".join(f"{host}:{port}" for host, port in addresses(spec))
    try:
        answered = answers(bootstrap, deadline_s, client=client)
    except KafkaException as error:
        raise BrokerError(
            f"the Kafka client rejects the settings {sorted(client)}: {error.args[0].str()}. Correct them."
        ) from error
    if not answered:
        raise BrokerError(
            f"no broker answers at {bootstrap} within {deadline_s:g} s. Check that Kafka runs, that the address is one "
            "that it advertises to clients, and the security settings (kafka.security.protocol)."
        )
    return _Real(bootstrap, "given", client)


class _Embedded:
    kind: Kind = "embedded"

    def __init__(self, cluster: EmbeddedKafka) -> None:
        self._cluster = cluster

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    def create_topics(self, topics: Iterable[TopicRequest]) -> None:
        for topic in topics:
            self._cluster.create_topic(topic.name, topic.partitions, topic.config)


@dataclass(frozen=True)
class _Real:
    bootstrap: str
    kind: Kind
    client: Mapping[str, str]

    def create_topics(self, topics: Iterable[TopicRequest]) -> None:
        admin = AdminClient({**self.client, "bootstrap.servers": self.bootstrap})
        # The broker's default replication applies: one copy on `local`, the operator's choice elsewhere.
        wanted = [NewTopic(topic.name, topic.partitions, -1, config=dict(topic.config)) for topic in topics]
        if not wanted:
            return
        created = admin.create_topics(wanted, operation_timeout=_CREATE_DEADLINE_S, request_timeout=_CREATE_DEADLINE_S)
        for name, future in created.items():
            try:
                future.result()
            except KafkaException as error:
                raise BrokerError(f"cannot create {name} on {self.bootstrap}: {error.args[0].str()}") from error
