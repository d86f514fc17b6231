"""`glasstream reset STREAM`: make the stages forget one stream and start its next epoch."""

from pathlib import Path
from typing import Any

import click

from glasstream.app.command.options import A_BROKER_OR_DATA, data_option, load_settings, settings_options
from glasstream.app.terminal import say


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
    """Start the next epoch of one stream: the stages discard its learned state. Other streams continue.

    The command writes a reset mark to `events`. The stages treat the next event of the stream as its first. Published
    records stay.
    """
    from glasstream.app.command.expect import reached
    from glasstream.app.operate.mark import known, send_mark, wait_until_passed
    from glasstream.app.operate.state import state
    from glasstream_topics import events

    with reached(load_settings(common), data) as settings:
        one, behind = known(state(settings), stream)
        if not one.seqs and not behind:
            say(f"stream {stream}, epoch {one.epoch}: it has no events yet, so there is nothing to forget")
            return 0
        version = "no published model" if one.version is None else f"model version {one.version:,}"
        say(f"stream {stream}, epoch {one.epoch}: {one.seqs:,} events, {one.rows:,} rows, {version} will be discarded")
        if behind:
            say(
                f"the learner is {behind:,} messages behind on partition {one.partition}; their events of this stream "
                "will be discarded too"
            )
        if not yes and not _agreed():
            click.echo("nothing was written")
            return 0
        mark = send_mark(settings, stream, events.RESET, "the reset mark", one.partition)
        where = "a later epoch (earlier reset marks decide which one)" if behind else f"epoch {one.epoch + 1}"
        say(f"{mark.place}: reset mark written; the next event of the stream starts {where}")
        if wait:
            wait_until_passed(mark, settings, lambda line: say(line, err=True))
    return 0


def _agreed() -> bool:
    from glasstream.base.errors import InputError

    try:
        return click.confirm("reset the stream?")
    except click.Abort as error:
        raise InputError("reset: not confirmed; use --yes in scripts") from error
