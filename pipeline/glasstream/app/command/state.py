"""`glasstream state show`: print the committed progress of the stages."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import standard_console, table

if TYPE_CHECKING:
    from rich.table import Table

    from glasstream.app.operate.state import State


@click.group("state")
def state_commands() -> None:
    """Show the state that the stages have committed."""


@state_commands.command("show", short_help="Show how far each stage has read and processed.")
@click.option("--stream", help="Show only this stream.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@data_option
@settings_options(A_BROKER_OR_DATA)
def show(stream: str | None, as_json: bool, data: Path | None, **common: Any) -> int:
    """Show how far each stage has read and processed, per partition and per stream."""
    import msgspec
    from rich.text import Text

    from glasstream.app.command.expect import reached
    from glasstream.app.operate.state import state
    from glasstream.base.errors import InputError

    with reached(load_settings(common), data) as settings:
        found = state(settings)
    if stream is not None:
        mine = [one for one in found.streams if one.stream == stream]
        if not mine:
            there = ", ".join(repr(one.stream) for one in found.streams) or "no stream"
            raise InputError(f"--stream: the learner has not seen a stream {stream!r}; it has seen {there}")
        found = msgspec.structs.replace(found, streams=mine)
    if as_json:
        click.echo(msgspec.json.encode(found))
        return 0
    console = standard_console()
    for shown in _tables(found):
        console.print(shown)
    lines = [f"stalled: {one.stalled}" for one in found.streams if one.stalled]
    lines += [f"unexplained: {one.unexplained}" for one in found.streams if one.unexplained]
    for line in lines:
        console.print(Text(line, style="yellow"))
    apart = [f"{line}; `glasstream doctor` shows the remedy" for line in found.epochs_apart()]
    for note in (*apart, *found.mismatches, *found.notes):
        console.print(Text(note, style="yellow"))
    return 0


def _tables(found: "State") -> "list[Table]":
    columns = ("stream", "partition", "epoch", "events", "rows", "version", "checkpoint", "aggregated", "published",
               "rows behind", "watched")  # fmt: skip
    streams = (
        (one.stream, one.partition, one.epoch, one.seqs, one.rows, one.version, one.checkpoint, one.aggregated,
         one.published, one.behind, one.watched)
        for one in found.streams
    )  # fmt: skip
    of = ("stage", "of", "partition", "epoch", "offset", "end", "behind")
    places = (
        (one.stage, one.topic, one.partition, one.epoch, one.offset, one.end, one.behind) for one in found.partitions
    )
    return [
        table(columns, streams, right=columns[1:], title="streams"),
        table(of, places, right=of[2:], title="partitions"),
    ]
