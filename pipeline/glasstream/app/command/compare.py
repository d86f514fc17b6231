"""`glasstream compare`: which of two streams has the better model."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say

if TYPE_CHECKING:
    from glasstream.app.operate.compare import Side
    from glasstream.flow.settings import Settings


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
@click.option("--publish", is_flag=True, help="Publish the comparison, row by row, on the topic `comparisons`.")
@click.option("--follow", is_flag=True, help="With --publish: wait for further events.")
@click.option(
    "--start",
    type=click.Choice(["earliest", "latest"]),
    help="With --publish: begin a comparison without records with the oldest event that both streams have, or with "
    "events that come from now on.  [default: earliest]",
)
@click.option("--new", is_flag=True, help="With --publish: begin a new comparison, even if there are records.")
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
    publish: bool,
    follow: bool,
    start: Literal["earliest", "latest"] | None,
    new: bool,
    as_json: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Show which of two streams, FIRST or SECOND, has the better model, from their predictions for the same events.

    Events are joined by their ids. With --beside, SECOND is by default the stream with the name of FIRST. With
    probability 95 %, the interval holds at every row: you may look at any time, as often as you like.

    With --publish, the command writes a record after each 100 rows, and after each 1,000 from row 1,000 on. If it is
    started again, it continues after the newest record.
    """
    from glasstream.app.command.expect import reached

    settings = load_settings(common)
    if second is None and beside is None:
        raise click.UsageError("SECOND: expected a second stream, or --beside with the prefix of its deployment")
    from glasstream.app.operate.compare import Chosen, Side, compare

    sides = Side(settings.prefix, first), Side(beside or settings.prefix, second or first)
    if sides[0] == sides[1]:
        raise click.UsageError(f"SECOND: expected another stream than {first!r}, or another prefix in --beside")
    if not publish and (follow or new or start is not None):
        raise click.UsageError("--follow, --start, --new: expected them with --publish")
    if publish:
        if by is not None:
            raise click.UsageError("--publish: expected no --by, because the comparison of all rows is published")
        with reached(settings, data) as reachable:
            _publish(reachable, sides, loss, scale, start=start or "earliest", new=new, follow=follow, as_json=as_json)
        return 0
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


def _publish(
    settings: "Settings",
    sides: "tuple[Side, Side]",
    loss: str | None,
    scale: float | None,
    *,
    start: Literal["earliest", "latest"],
    new: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """Publish a comparison, and print its records, or only the last one in words if nothing is waited for."""
    from glasstream.app.operate.compare import names_of
    from glasstream.app.operate.comparisons import Order, measure_of, publish
    from glasstream_topics import comparisons

    count, last = 0, None
    for one in publish(settings, Order(*sides, measure_of(loss, scale), start, new, follow)):
        count, last = count + 1, one
        if as_json:
            click.echo(comparisons.encode(one))
        elif follow:
            say(one.sentence(*names_of(*sides)))
    if as_json:
        return
    if last is not None and not follow:
        say(last.sentence(*names_of(*sides)))
    say(f"{count:,} new records on {sides[0].prefix}{comparisons.TOPIC.name}")
