"""`glasstream export TOPIC...`: write the records of public topics to a file that other tools read."""

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say
from glasstream_topics import ALL

_TOPICS = [one.name for one in ALL if one.public and one.json is not None]
_FOLDER_SECONDS = 60.0
"""A file per minute: many small ones are slow to read."""


@click.command(
    short_help="Write the records of topics to CSV or Parquet.",
    help="Write the current records of a public topic to a file, with one column for each field.\n\n"
    f"TOPIC is one of {', '.join(_TOPICS)}, with or without the prefix. A row of importance is one feature of "
    "one record, and a row of effects is one point of one curve.\n\n"
    "With several TOPICs, with --follow, or if --out is a folder, --out becomes a folder with files for each TOPIC. "
    "The command adds only new records. Parquet needs the extra `tables`.",
)
@click.argument("topics", metavar="TOPIC...", nargs=-1, required=True)
@click.option(
    "--to",
    "form",
    type=click.Choice(["csv", "parquet"]),
    help="Format of the file.  [default: derived from its suffix, else parquet]",
)
@click.option("--out", type=click.Path(path_type=Path), required=True, help="File or folder to write.")
@click.option("--stream", "streams", multiple=True, help="Only records of this stream. Can be repeated.")
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    default=_FOLDER_SECONDS,
    show_default=True,
    help="With --follow, longest time in seconds between two additions.",
)
@click.option("--follow", is_flag=True, help="Add new records to the folder as they arrive.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def export(
    topics: tuple[str, ...],
    form: str | None,
    out: Path,
    streams: tuple[str, ...],
    follow: bool,
    every: float,
    data: Path | None,
    **common: Any,
) -> int:
    """Write the current records of public topics to a file."""
    from glasstream.app.command.expect import reached
    from glasstream.app.operate.export import add
    from glasstream.app.operate.export import export as write
    from glasstream.app.operate.folder import Folder

    chosen = form or ("csv" if out.suffix.lower() == ".csv" else "parquet")
    grows = follow or len(topics) > 1 or out.is_dir()
    with reached(load_settings(common), data) as settings:
        if grows:
            with closing(Folder(out, chosen)) as folder:
                count = add(settings, topics, folder, streams, _warn, every if follow else None)
            click.echo(f"{count:,} rows added to {out}")
            return 0
        count = write(settings, topics[0], out, chosen, streams, _warn)
    if not count:
        _warn(f"{topics[0]} has no records{' of ' + ', '.join(map(repr, streams)) if streams else ''}")
    click.echo(f"{count:,} rows written to {out}")
    return 0


def _warn(line: str) -> None:
    say(line, err=True)
