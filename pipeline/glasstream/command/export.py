"""`glasstream export TOPIC`: write the records of a public topic to a file that other tools read."""

from pathlib import Path
from typing import Any

import click

from glasstream.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.terminal import say

_TOPICS = "predictions, importance, effects, drift, incidents and novelty"


@click.command(
    short_help="Write the records of a topic to a CSV or Parquet file.",
    help="Write the current records of a public topic to a file, with one column for each field.\n\n"
    f"TOPIC is one of {_TOPICS}, with or without the prefix. A row of importance is one feature of one record, and a "
    "row of effects is one point of one curve. Parquet needs the extra `tables`.",
)
@click.argument("topic")
@click.option(
    "--to",
    "form",
    type=click.Choice(["csv", "parquet"]),
    help="Format of the file.  [default: derived from its suffix, else parquet]",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
@click.option("--stream", "streams", multiple=True, help="Only records of this stream. Can be repeated.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def export(topic: str, form: str | None, out: Path, streams: tuple[str, ...], data: Path | None, **common: Any) -> int:
    """Write the current records of a public topic to a file."""
    from glasstream.command.expect import reached
    from glasstream.operate.export import export as write

    with reached(load_settings(common), data) as settings:
        chosen = form or ("csv" if out.suffix.lower() == ".csv" else "parquet")
        count = write(settings, topic, out, chosen, streams, lambda line: say(line, err=True))
    if not count:
        say(f"{topic} has no records{' of ' + ', '.join(map(repr, streams)) if streams else ''}", err=True)
    click.echo(f"{count:,} rows written to {out}")
    return 0
