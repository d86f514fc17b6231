"""`glasstream export TOPIC...`: write the records of public topics to a file that other tools read."""

from pathlib import Path
from typing import Any

import click

from glasstream.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.terminal import say

_TOPICS = "predictions, importance, effects, drift, incidents and novelty"
_SUFFIXES = {".csv": "csv", ".duckdb": "duckdb"}


@click.command(
    short_help="Write the records of topics to a CSV, Parquet or DuckDB file.",
    help="Write the current records of a public topic to a file, with one column for each field.\n\n"
    f"TOPIC is one of {_TOPICS}, with or without the prefix. A row of importance is one feature of one record, and a "
    "row of effects is one point of one curve. Parquet needs the extra `tables`.\n\n"
    "A DuckDB database has one table for each TOPIC. If the file exists, the command adds only the records that it "
    "does not hold yet; with --follow it goes on until it is stopped. DuckDB needs the extra `duckdb`.",
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--to",
    "form",
    type=click.Choice(["csv", "parquet", "duckdb"]),
    help="Format of the file.  [default: derived from its suffix, else parquet]",
)
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), required=True, help="File to write.")
@click.option("--stream", "streams", multiple=True, help="Only records of this stream. Can be repeated.")
@click.option("--follow", is_flag=True, help="Add new records as they arrive. Only with DuckDB.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def export(
    topics: tuple[str, ...],
    form: str | None,
    out: Path,
    streams: tuple[str, ...],
    follow: bool,
    data: Path | None,
    **common: Any,
) -> int:
    """Write the current records of public topics to a file."""
    from glasstream.command.expect import reached
    from glasstream.errors import InputError
    from glasstream.operate.export import export as write
    from glasstream.operate.export import export_to_database

    chosen = form or _SUFFIXES.get(out.suffix.lower(), "parquet")
    if chosen != "duckdb" and follow:
        raise InputError(f"--follow: expected --to duckdb, got {chosen}, whose file is written at once")
    if chosen != "duckdb" and len(topics) > 1:
        raise InputError(f"export: expected one TOPIC for a file of the format {chosen}, got {len(topics)}")
    with reached(load_settings(common), data) as settings:
        if chosen == "duckdb":
            count = export_to_database(settings, topics, out, streams, _warn, follow=follow)
            click.echo(f"{count:,} rows added to {out}")
            return 0
        count = write(settings, topics[0], out, chosen, streams, _warn)
    if not count:
        _warn(f"{topics[0]} has no records{' of ' + ', '.join(map(repr, streams)) if streams else ''}")
    click.echo(f"{count:,} rows written to {out}")
    return 0


def _warn(line: str) -> None:
    say(line, err=True)
