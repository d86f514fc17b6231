"""Who may do what on a Kafka with an authorizer: the least that each role needs.

Roles are the stages, `producer` (whoever sends events and labels), `consumer` (whoever reads what is published, in
groups of any name that begins with the prefix) and `operator` (whoever makes, checks and removes the topics,
sends dead letters again, and resets streams).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from glasstream_topics import ALL
from glasstream_topics.contract import DEFAULT_PREFIX, Topic
from glasstream_topics.errors import TopicError

Kind = Literal["topic", "group", "transactional-id"]

ROLES: Final = ("learner", "explainer", "aggregator", "novelty", "labels", "producer", "consumer", "operator")

READERS: Final = "glasstream-reader"
"""The group that clients name which are in none: librdkafka looks for its coordinator all the same."""

_WRITES: Final[Mapping[str, tuple[str, ...]]] = {
    "learner": (
        "events.dead",
        "predictions",
        "explain.requests",
        "contributions",
        "snapshots",
        "checkpoints",
        "progress.learner",
    ),
    "explainer": ("contributions",),
    "aggregator": ("importance", "effects", "drift", "progress.aggregator"),
    "novelty": ("novelty", "progress.novelty"),
    "labels": ("events", "events.dead", "progress.labels"),
    "producer": ("events", "labels"),
}

_SENT_BY_USERS: Final = ("events", "labels")
"""Whoever reads them looks, before it starts, how large their messages may be."""

_WITH_STATE: Final = ("learner", "aggregator", "novelty", "labels")
"""They write in transactions."""

_OPERATOR: Final = ("create", "delete", "describe", "describe-configs", "alter-configs", "read", "write")


@dataclass(frozen=True, slots=True)
class Grant:
    """One rule: a principal may do some operations on what has this name.

    Attributes
    ----------
    role
        One of `ROLES`.
    principal
        As the authorizer knows it, ``User:NAME``.
    kind, name
        The resource.
    prefixed
        Whether the rule is for every name that begins with `name`.
    operations
        Words of Kafka's own tool. To read or write a topic implies to describe it.
    """

    role: str
    principal: str
    kind: Kind
    name: str
    prefixed: bool
    operations: tuple[str, ...]

    def command(self, bootstrap: str) -> str:
        """The line for Kafka's own tool that adds this rule."""
        words = [f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal '{self.principal}'"]
        words += [f"--operation {operation}" for operation in self.operations]
        words += [f"--{self.kind} '{self.name}'"]
        words += ["--resource-pattern-type prefixed"] if self.prefixed else []
        return " ".join(words)


def grants(prefix: str = DEFAULT_PREFIX, principals: Mapping[str, str] | None = None) -> list[Grant]:
    """The rules of every role.

    Parameters
    ----------
    prefix
        Begins every topic, group and transactional id.
    principals
        Names by role, in place of ``User:glasstream-ROLE``; ``User:`` is put before a name without a type.

    Raises
    ------
    TopicError
        A role that there is not.
    """
    given = dict(principals or {})
    unknown = sorted(set(given) - set(ROLES))
    if unknown:
        raise TopicError(f"roles: expected {', '.join(ROLES)}; got {', '.join(unknown)}")
    return [
        Grant(role, _principal(given.get(role, f"glasstream-{role}")), *rule)
        for role in ROLES
        for rule in _rules(role, prefix)
    ]


def _rules(role: str, prefix: str) -> Iterator[tuple[Kind, str, bool, tuple[str, ...]]]:
    if role == "operator":
        yield "topic", prefix, True, _OPERATOR
        yield "group", prefix, True, ("describe", "read", "delete")
        yield "group", READERS, False, ("describe",)
        yield "transactional-id", f"{prefix}dead.", True, ("write", "describe")
        return
    for topic in ALL:
        reads: tuple[str, ...] = ("read",) if _reads(role, topic) else ()
        if reads and topic.name in _SENT_BY_USERS:
            reads = ("read", "describe-configs")
        writes = ("write",) if topic.name in _WRITES.get(role, ()) else ()
        if reads or writes:
            yield "topic", topic.full_name(prefix), False, (*reads, *writes)
    if role != "producer":
        yield "group", READERS, False, ("describe",)
    if role == "consumer":
        yield "group", prefix, True, ("read",)
    elif role != "producer":
        yield "group", f"{prefix}{role}", False, ("read",)
    if role in _WITH_STATE:
        yield "transactional-id", f"{prefix}{role}.", True, ("write", "describe")


def _reads(role: str, topic: Topic) -> bool:
    if role == "consumer":
        return topic.public and topic.name not in _WRITES["producer"]
    return role in topic.read_by


def _principal(name: str) -> str:
    return name if ":" in name else f"User:{name}"
