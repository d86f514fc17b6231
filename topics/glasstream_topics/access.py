"""Access rights on a Kafka with an authorizer: the least that each role needs.

Roles are the stages, `compare` (publishes comparisons of two models), `producer` (sends events and labels), `consumer`
(reads the published topics, in groups whose names begin with the prefix) and `operator` (creates, expands, checks and
deletes the topics, resends dead letters, and resets streams).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from glasstream_topics import ALL, comparisons, predictions
from glasstream_topics.contract import DEFAULT_PREFIX, Topic
from glasstream_topics.errors import TopicError

Kind = Literal["topic", "group", "transactional-id", "cluster"]

ROLES: Final = (
    "learner",
    "explainer",
    "aggregator",
    "novelty",
    "labels",
    "intake",
    "notify",
    "avro",
    "compare",
    "producer",
    "consumer",
    "operator",
)

READERS: Final = "glasstream-reader"
"""Group name of clients without a group. librdkafka looks up the coordinator of every group that a client names."""

CLUSTER: Final = "kafka-cluster"
"""Name that Kafka gives to its cluster as a resource."""

_TRANSACTIONAL: Final = ("learner", "aggregator", "novelty", "labels", "intake", "avro", "compare")
"""Roles that write in transactions."""

_COMPARED: Final = (predictions.TOPIC, comparisons.TOPIC)
"""Published topics that the role `compare` reads."""

_OPERATOR: Final = ("create", "delete", "alter", "describe", "describe-configs", "alter-configs", "read", "write")


@dataclass(frozen=True, slots=True)
class Grant:
    """One rule: a principal may run some operations on a resource.

    Attributes
    ----------
    role
        One of `ROLES`.
    principal
        Name that the authorizer knows, ``User:NAME``.
    kind, name
        The resource.
    prefixed
        Whether the rule applies to every name that begins with `name`.
    operations
        Operations in the words of Kafka's own tool. Permission to read or write a topic implies permission to describe
        it.
    """

    role: str
    principal: str
    kind: Kind
    name: str
    prefixed: bool
    operations: tuple[str, ...]

    def command(self, bootstrap: str) -> str:
        """Return the command line of Kafka's own tool that adds this rule."""
        words = [f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal '{self.principal}'"]
        words += [f"--operation {operation}" for operation in self.operations]
        words += ["--cluster" if self.kind == "cluster" else f"--{self.kind} '{self.name}'"]
        words += ["--resource-pattern-type prefixed"] if self.prefixed else []
        return " ".join(words)


def grants(
    prefix: str = DEFAULT_PREFIX, principals: Mapping[str, str] | None = None, avro: Sequence[Topic] = ()
) -> list[Grant]:
    """Return the rules of every role. The role `avro` has rules only if there are such records.

    Parameters
    ----------
    prefix
        Prefix of every topic, group and transactional id.
    principals
        Principals by role, which replace ``User:glasstream-ROLE``. A name without a type gets the prefix ``User:``.
    avro
        The topics whose records the deployment publishes in Avro too.

    Raises
    ------
    TopicError
        A role does not exist.
    """
    given = dict(principals or {})
    unknown = sorted(set(given) - set(ROLES))
    if unknown:
        raise TopicError(f"roles: expected {', '.join(ROLES)}; got {', '.join(unknown)}")
    return [
        Grant(role, _principal(given.get(role, f"glasstream-{role}")), *rule)
        for role in ROLES
        for rule in _rules(role, prefix, avro)
    ]


def _rules(role: str, prefix: str, avro: Sequence[Topic]) -> Iterator[tuple[Kind, str, bool, tuple[str, ...]]]:
    if role == "avro" and not avro:
        return
    if role == "operator":
        yield "topic", prefix, True, _OPERATOR
        yield "group", prefix, True, ("describe", "read", "delete")
        yield "group", READERS, False, ("describe",)
        yield "transactional-id", f"{prefix}dead.", True, ("write", "describe")
        yield "cluster", CLUSTER, False, ("describe-configs",)  # for the doctor
        return
    for topic in (*ALL, *(one.in_avro() for one in avro)):
        reads = topic.published if role == "consumer" else role in topic.read_by
        reads |= role == "compare" and topic in _COMPARED
        reads |= role == "avro" and topic in avro
        operations = [
            *(["read"] if reads else []),
            *(["describe-configs"] if reads and topic.received else []),  # for the largest message size
            *(["write"] if role in topic.written_by else []),
        ]
        if operations:
            yield "topic", topic.full_name(prefix), False, tuple(operations)
    if role != "producer":
        yield "group", READERS, False, ("describe",)
    if role == "consumer":
        yield "group", prefix, True, ("read",)
    elif role not in ("producer", "compare"):
        yield "group", f"{prefix}{role}", False, ("read",)
    if role in _TRANSACTIONAL:
        yield "transactional-id", f"{prefix}{role}.", True, ("write", "describe")


def _principal(name: str) -> str:
    return name if ":" in name else f"User:{name}"
