"""`glasstream reset STREAM`: make the stages forget one stream and start its next epoch."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from glasstream.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options

if TYPE_CHECKING:
    from glasstream.operate.mark import Mark
    from glasstream.settings import Settings

_LONG = 20
"""Number of looks, half a second apart, after which the command explains why it waits."""


@click.command(short_help="Start the next epoch of one stream.")
@click.argument("stream")
@click.option("--yes", is_flag=True, help="Reset without asking for confirmation.")
@click.option(
    "--wait",
    is_flag=True,
    help="Wait until the learner, the aggregator and the novelty detector have passed the reset mark.",
)
@data_option
@settings_options(A_BROKER_OR_DATA)
def reset(stream: str, yes: bool, wait: bool, data: Path | None, **common: Any) -> int:
    """Start the next epoch of one stream: the stages forget what they have learned of it. Other streams continue.

    The command writes a reset mark to `events`. The stages treat the next event of the stream as its first. Published
    records stay.
    """
    from glasstream.command.expect import reached
    from glasstream.operate.mark import known, send_mark
    from glasstream.operate.state import state
    from glasstream_topics import events

    with reached(load_settings(common), data) as settings:
        one, behind = known(state(settings), stream)
        if not one.seqs and not behind:
            click.echo(f"stream {stream}, epoch {one.epoch}: it has no events yet, so there is nothing to forget")
            return 0
        version = "no published model" if one.version is None else f"model version {one.version:,}"
        click.echo(
            f"stream {stream}, epoch {one.epoch}: {one.seqs:,} events, {one.rows:,} rows, {version} will be discarded"
        )
        if behind:
            click.echo(
                f"the learner is {behind:,} messages behind on partition {one.partition}; their events of this stream "
                "will be discarded too"
            )
        if not yes and not _agreed():
            click.echo("nothing was written")
            return 0
        mark = send_mark(settings, stream, events.RESET, "the reset mark")
        where = "a later epoch (earlier reset marks decide which one)" if behind else f"epoch {one.epoch + 1}"
        click.echo(f"{mark.place}: reset mark written; the next event of the stream starts {where}")
        if wait:
            _wait(mark, settings)
    return 0


def _agreed() -> bool:
    from glasstream.errors import InputError

    try:
        return click.confirm("reset the stream?")
    except click.Abort as error:
        raise InputError("reset: not confirmed; use --yes where nobody can answer the question") from error


def _wait(mark: "Mark", settings: "Settings") -> None:
    """Wait until the stages have passed the mark; print which ones have not."""
    from glasstream.operate.mark import before, pause
    from glasstream.operate.state import state

    told: list[str] = []
    looks = 0
    while stages := before(mark, state(settings)):
        if stages != told:
            click.echo(f"still before the reset mark: {', '.join(stages)}", err=True)
        looks += 1
        if looks == _LONG:
            click.echo(
                "the learner continues when the explainers and the aggregator have processed everything before the "
                "mark; `glasstream doctor` shows whether a stage has no worker",
                err=True,
            )
        told = stages
        pause()
