"""`glasstream tail TOPIC`: print the committed records of a public topic as lines of JSON."""

from typing import Any

import click

from glasstream.app.command.options import load_settings, settings_options
from glasstream_topics import ALL

_PUBLIC = ", ".join(one.name for one in ALL if one.public)


@click.command(
    short_help="Print the records of a topic as JSON.",
    help="Print the committed records of a topic as JSON, one record per line.\n\n"
    f"TOPIC is one of {_PUBLIC}, with or without the prefix.",
)
@click.argument("topic")
@click.option("--from-start", is_flag=True, help="Start with the oldest record on the topic instead of at its end.")
@click.option("--max", "most", type=click.IntRange(min=1), help="Exit after this many records.")
@settings_options()
def tail(topic: str, from_start: bool, most: int | None, **common: Any) -> int:
    """Print the committed records of a topic as JSON, one record per line."""
    from glasstream.app.command.expect import expect_broker
    from glasstream.app.operate.tail import tail as follow

    settings = load_settings(common)
    expect_broker(settings)
    for line in follow(settings, topic, from_start=from_start, most=most):
        click.echo(line)
    return 0
