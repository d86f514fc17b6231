"""Access rights of each role: as Kafka's commands, or created on the broker."""

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

from glasstream.errors import BrokerError, InputError, TopicError
from glasstream.settings import Settings
from glasstream_topics.access import Grant, grants

_TIMEOUT_S = 30.0
_KINDS = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


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
    for grant in grants(settings.prefix, principals):
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
    admin = AdminClient({"log_level": 2, **settings.kafka, "bootstrap.servers": settings.broker})
    for grant in grants(settings.prefix, principals):
        for future in admin.create_acls(_bindings(grant), request_timeout=_TIMEOUT_S).values():
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
