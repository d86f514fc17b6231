"""`glasstream reset STREAM`: the stages forget one stream, and begin it anew."""

from pathlib import Path
from typing import Any

import click

from pipeline.command.options import data_option, load_settings, settings_options


@click.command()
@click.argument("stream")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--wait", is_flag=True, help="Return when learner, fold and sentinel have passed the mark.")
@data_option
@settings_options()
def reset(stream: str, yes: bool, wait: bool, data: Path | None, **common: Any) -> int:
    """Make the stages forget one stream and begin it anew from here, in its next epoch; the others go on.

    It writes a mark to `events`: what comes after it is as the first event of a stream. What has been published stays.
    """
    from pipeline.command.expect import reached
    from pipeline.operate.reset import before, known, pause, send_mark
    from pipeline.operate.state import state

    with reached(load_settings(common), data) as settings:
        one = known(state(settings), stream)
        version = "no published model" if one.version is None else f"version {one.version:,} of the model"
        click.echo(
            f"stream {stream}, epoch {one.epoch}: {one.seqs:,} events, {one.rows:,} rows, {version} will be forgotten"
        )
        if not yes:
            click.confirm("begin it anew?", abort=True)
        mark = send_mark(settings, stream)
        click.echo(f"{mark.place}: from here on it is in epoch {one.epoch + 1}")
        told: list[str] = []
        while wait and (stages := before(mark, state(settings))):
            if stages != told:
                click.echo(f"not there yet: {', '.join(stages)}", err=True)
            told = stages
            pause()
    return 0
