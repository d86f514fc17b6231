"""`glasstream export TOPIC...`: write the records of public topics to a file that other tools read."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from glasstream.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.terminal import say

_TOPICS = "predictions, importance, effects, drift, incidents and novelty"
_SUFFIXES = {".csv": "csv", ".duckdb": "duckdb"}
_PATIENCE_SECONDS = 30.0
"""Time to wait for another program that has the database open. With --follow, wait as long as it takes."""
_DATABASE_SECONDS = 2.0
_FOLDER_SECONDS = 60.0
"""A file per minute: many small ones are slow to read."""


@click.command(
    short_help="Write the records of topics to CSV, Parquet or DuckDB.",
    help="Write the current records of a public topic to a file, with one column for each field.\n\n"
    f"TOPIC is one of {_TOPICS}, with or without the prefix. A row of importance is one feature of one record, and a "
    "row of effects is one point of one curve.\n\n"
    "A DuckDB database has one table for each TOPIC, and a folder has CSV or Parquet files for each TOPIC. If --out is "
    "one of these, the command adds only the records that are not there yet; with --follow it goes on until it is "
    "stopped. Parquet needs the extra `tables`, DuckDB the extra `duckdb`.",
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--to",
    "form",
    type=click.Choice(["csv", "parquet", "duckdb"]),
    help="Format of the file.  [default: derived from its suffix, else parquet]",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File or folder to write.")
@click.option("--stream", "streams", multiple=True, help="Only records of this stream. Can be repeated.")
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    help="With --follow, seconds after which new records are added, at the latest.  [default: 60 for a folder, 2 for "
    "DuckDB]",
)
@click.option("--follow", is_flag=True, help="Add new records as they arrive: to a DuckDB database, or to a folder.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def export(
    topics: tuple[str, ...],
    form: str | None,
    out: Path,
    streams: tuple[str, ...],
    follow: bool,
    every: float | None,
    data: Path | None,
    **common: Any,
) -> int:
    """Write the current records of public topics to a file."""
    from glasstream.command.expect import reached
    from glasstream.errors import InputError
    from glasstream.operate.database import Database
    from glasstream.operate.export import add
    from glasstream.operate.export import export as write
    from glasstream.operate.folder import Folder
    from glasstream.operate.progress import Sink

    chosen = form or _SUFFIXES.get(out.suffix.lower(), "parquet")
    grows = chosen == "duckdb" or follow or out.is_dir()
    if every is not None and not follow:
        raise InputError("--every: expected --follow with it, got none")
    if not grows and len(topics) > 1:
        raise InputError(
            f"export: expected one TOPIC for a {chosen} file, got {len(topics)}; for several, --out must be a folder "
            "that exists, or a DuckDB database"
        )
    with reached(load_settings(common), data) as settings:
        if grows:
            sink: Sink
            if chosen == "duckdb":
                sink, usual = Database(out, _warn, None if follow else _PATIENCE_SECONDS), _DATABASE_SECONDS
            else:
                sink, usual = Folder(out, chosen), _FOLDER_SECONDS
            with closing(sink):
                count = add(settings, topics, sink, streams, _warn, (every or usual) if follow else None)
            click.echo(f"{count:,} rows added to {out}")
            return 0
        count = write(settings, topics[0], out, chosen, streams, _warn)
    if not count:
        _warn(f"{topics[0]} has no records{' of ' + ', '.join(map(repr, streams)) if streams else ''}")
    click.echo(f"{count:,} rows written to {out}")
    return 0


def _warn(line: str) -> None:
    say(line, err=True)
