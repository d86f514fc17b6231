"""Create the topics of a deployment, compare them with their contracts, describe the contracts, and grant access."""

from collections.abc import Iterator, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from glasstream.base.errors import BrokerError, InputError, TopicError
from glasstream.flow.settings import Settings
from glasstream_topics import admin
from glasstream_topics.access import Grant, grants
from glasstream_topics.contract import SAFE_COPIES

_TIMEOUT_S = 30.0
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
    "cluster": ResourceType.BROKER,
}


def _client(settings: Settings) -> AdminClient:
    return AdminClient({"log_level": 2, **admin.CREATES_NONE, **settings.kafka, "bootstrap.servers": settings.broker})


def create(settings: Settings) -> list[str]:
    """Create the missing topics. Return a line for each topic, and a warning for each with too few copies."""
    client = _client(settings)
    contract = (settings.partitions, settings.prefix, settings.topic_overrides)
    topics = settings.all_topics
    made = admin.create(client, *contract, replication=settings.topics.replication, topics=topics)
    lines = [
        f"{one.name}: {'created' if one.name in made else 'exists already'}" for one in admin.show(*contract, topics)
    ]
    return lines + [
        f"warning: {name}: expected {SAFE_COPIES} copies or more on a cluster of {SAFE_COPIES} brokers or more, found "
        f"{copies}: the loss of a broker stops writes or loses records. Set topics.replication={SAFE_COPIES} before "
        "you create topics; add copies to existing topics with kafka-reassign-partitions.sh"
        for name, copies in admin.scarce(client, settings.prefix, topics=topics).items()
    ]


def expand(settings: Settings) -> list[str]:
    """Add the partitions that topics lack. Return a line for each topic that has more partitions now.

    Raises
    ------
    TopicError
        A topic is missing, or has more partitions than the settings say; nothing is changed.
    """
    before = admin.expand(_client(settings), settings.partitions, settings.prefix, topics=settings.all_topics)
    now = {
        one.name: one.partitions for one in admin.show(settings.partitions, settings.prefix, None, settings.all_topics)
    }
    return [f"{name}: {count} partitions before, {now[name]} now" for name, count in before.items()]


def verify(settings: Settings) -> list[str]:
    """Return a line for each deviation from the contract."""
    contract = (settings.partitions, settings.prefix, settings.topic_overrides)
    found = admin.verify(
        _client(settings), *contract, replication=settings.topics.replication, topics=settings.all_topics
    )
    return [str(finding) for finding in found]


def show(settings: Settings) -> list[str]:
    """Return the contracts as lines, one block per topic, not cut at any width."""
    lines: list[str] = []
    for one in admin.show(settings.partitions, settings.prefix, settings.topic_overrides, settings.all_topics):
        contract = one.topic
        config = [f"{name}={value}" for name, value in sorted(one.config.items())]
        version = "" if contract.schema_version is None else f" v{contract.schema_version}"
        facts = (
            ("holds", contract.holds),
            ("key", contract.key),
            ("partition", contract.partitioning),
            ("partitions", str(one.partitions)),
            ("read by", ", ".join(contract.read_by)),
            ("schema", f"{contract.codec}{version}"),
            *(("" if number else "settings", text) for number, text in enumerate(config)),
        )
        lines.append(one.name + ("" if contract.public else " (internal)"))
        lines += [f"  {name:<12}{value}" for name, value in facts]
    return lines


def expect_roles(assignments: tuple[str, ...]) -> dict[str, str]:
    """Parse assignments ``ROLE=NAME`` into a mapping.

    Raises
    ------
    InputError
        An assignment has another form or names an unknown role.
    """
    roles: dict[str, str] = {}
    for assignment in assignments:
        role, _, name = assignment.partition("=")
        if not role or not name:
            raise InputError(f"--principal: expected ROLE=NAME, got {assignment!r}")
        roles[role] = name
    try:
        grants(principals=roles)
    except TopicError as error:
        raise InputError(f"--principal: {error}") from error
    return roles


def print_acls(settings: Settings, principals: Mapping[str, str]) -> Iterator[str]:
    """Yield the commands of Kafka's own tool, with a heading for each role."""
    role = ""
    for grant in grants(settings.prefix, principals, settings.in_avro):
        if grant.role != role:
            role = grant.role
            yield f"# {role}"
        yield grant.command(settings.broker if ":" in settings.broker else "HOST:PORT")


def apply_acls(settings: Settings, principals: Mapping[str, str]) -> Iterator[str]:
    """Create the access rules and yield one line for each. Existing rules stay as they are.

    Raises
    ------
    BrokerError
        The broker refuses the rule or has no authorizer.
    """
    client = _client(settings)
    for grant in grants(settings.prefix, principals, settings.in_avro):
        for future in client.create_acls(_bindings(grant), request_timeout=_TIMEOUT_S).values():
            try:
                future.result()
            except KafkaException as error:
                raise BrokerError(
                    f"{grant.principal} on {grant.kind} {grant.name}: expected the broker to create the access rule, "
                    f"got {error.args[0].str()}. It needs an authorizer (authorizer.class.name), and this client needs "
                    "the right to alter the cluster"
                ) from error
        pattern = f"{grant.name}*" if grant.prefixed else grant.name
        yield f"{grant.principal}: {', '.join(grant.operations)} on {grant.kind} {pattern}"


def _bindings(grant: Grant) -> list[AclBinding]:
    pattern = ResourcePatternType.PREFIXED if grant.prefixed else ResourcePatternType.LITERAL
    return [
        AclBinding(
            _KINDS[grant.kind],
            grant.name,
            pattern,
            grant.principal,
            "*",
            AclOperation[operation.upper().replace("-", "_")],
            AclPermissionType.ALLOW,
        )
        for operation in grant.operations
    ]
