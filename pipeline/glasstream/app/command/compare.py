"""`glasstream compare`: which of two streams has the better model."""

from pathlib import Path
from typing import Any

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say


@click.command(short_help="Show which of two models is better on the same events.")
@click.argument("first")
@click.argument("second", required=False)
@click.option(
    "--beside",
    metavar="PREFIX",
    help="Prefix of the deployment of the second stream.  [default: that of the first]",
)
@click.option(
    "--loss",
    type=click.Choice(["brier", "zero_one"]),
    help="Loss to compare: the squared error of the probabilities, or the share of wrong labels.  [default: brier]",
)
@click.option(
    "--scale",
    type=click.FloatRange(min=0, min_open=True),
    help="Largest absolute error of a regression; larger errors count as this one.",
)
@click.option("--by", metavar="FEATURE", help="Compare on each category of this feature, or on quarters of its values.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def compare(
    first: str,
    second: str | None,
    beside: str | None,
    loss: str | None,
    scale: float | None,
    by: str | None,
    as_json: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Show which of two streams, FIRST or SECOND, has the better model, from their predictions for the same events.

    Events are joined by their ids. With --beside, SECOND is by default the stream with the name of FIRST. With
    probability 95 %, the interval holds at every row: you may look at any time, as often as you like.
    """
    from glasstream.app.command.expect import reached

    settings = load_settings(common)
    if second is None and beside is None:
        raise click.UsageError("SECOND: expected a second stream, or --beside with the prefix of its deployment")
    from glasstream.app.operate.compare import Chosen, Side, compare

    sides = Side(settings.prefix, first), Side(beside or settings.prefix, second or first)
    if sides[0] == sides[1]:
        raise click.UsageError(f"SECOND: expected another stream than {first!r}, or another prefix in --beside")
    with reached(settings, data) as reachable:
        result = compare(reachable, Chosen(*sides, loss, scale, by))
    if as_json:
        import msgspec

        for one in result.compared:
            counted = {"left_out": result.left_out, "by_position": result.by_position}
            click.echo(msgspec.json.encode({**msgspec.structs.asdict(one), **counted}))
        return 0
    for line in result.lines():
        say(line)
    return 0
