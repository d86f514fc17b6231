"""`glasstream topics`: create the topics, check them, and print their contracts and access rights."""

from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.command.options import load_settings, settings_options
from glasstream_topics.access import ROLES

if TYPE_CHECKING:
    from glasstream.flow.settings import Settings


@click.group(short_help="Create, check and describe the topics.")
def topics() -> None:
    """Create the topics, check them, and print their required configuration."""


@topics.command("create")
@settings_options()
def topics_create(**common: Any) -> int:
    """Create every missing topic as its contract requires."""
    from glasstream.app.operate.topics import create

    for line in create(_topic_settings(common)):
        click.echo(line)
    return 0


@topics.command("expand", short_help="Add partitions to all topics of a deployment that is stopped.")
@settings_options()
def topics_expand(**common: Any) -> int:
    """Add partitions to all topics, up to the numbers in topics.events and topics.requests.

    Keys move to other partitions. Stop the workers first, and start them with the same numbers and a new epoch.
    """
    from glasstream.app.operate.topics import expand

    lines = expand(_topic_settings(common))
    for line in lines:
        click.echo(line)
    click.echo(
        "Start every stage with the same topics.events and topics.requests, and with a new epoch"
        if lines
        else "All topics have these numbers of partitions already"
    )
    return 0


@topics.command("verify", short_help="Compare the broker's topics with their contracts.")
@settings_options()
def topics_verify(**common: Any) -> int:
    """Compare the broker's topics with their contracts.

    The exit code is 1 if any topic differs.
    """
    from glasstream.app.operate.topics import verify

    findings = verify(_topic_settings(common))
    for line in findings:
        click.echo(line)
    if not findings:
        click.echo("All topics match their contracts")
    return DIFFERS if findings else 0


@topics.command("show")
@settings_options("Ignored: this command needs no broker.")
def topics_show(**common: Any) -> int:
    """Print the contract of every topic."""
    from glasstream.app.operate.topics import show

    click.echo("\n".join(show(load_settings(common))))
    return 0


@topics.command("acls", short_help="Print the minimum access rights of each role.")
@click.option(
    "--principal",
    "principals",
    multiple=True,
    metavar="ROLE=NAME",
    help=f"Kafka principal of a role: {', '.join(ROLES[:-1])} or {ROLES[-1]}. Can be repeated.  "
    "[default: User:glasstream-ROLE]",
)
@click.option(
    "--apply", is_flag=True, help="Create the access rules on the broker instead of printing Kafka's commands for them."
)
@settings_options()
def topics_acls(principals: tuple[str, ...], apply: bool, **common: Any) -> int:
    """Print the minimum access rights of each stage, and of a producer, a consumer and an operator."""
    from glasstream.app.operate.topics import apply_acls, expect_roles, print_acls

    roles = expect_roles(principals)
    settings = _topic_settings(common) if apply else load_settings(common)
    for line in apply_acls(settings, roles) if apply else print_acls(settings, roles):
        click.echo(line)
    return 0


def _topic_settings(common: dict[str, Any]) -> "Settings":
    from glasstream.app.command.expect import expect_broker

    settings = load_settings(common)
    expect_broker(settings)
    return settings
