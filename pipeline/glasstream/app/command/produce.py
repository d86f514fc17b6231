"""`glasstream produce`: write a source to the `events` topic of a running deployment."""

from pathlib import Path
from typing import Any

import click

from glasstream.app.command.options import load_settings, settings_options, source_options
from glasstream.app.terminal import say


@click.command(short_help="Write a CSV file or the bundled stream to `events`.")
@source_options
@click.option(
    "--seed",
    type=int,
    help="Random seed for the bundled stream, for gradual changes and for random label delays.  [default: 1]",
)
@settings_options()
def produce(
    csv_file: Path | None,
    target: str | None,
    types: tuple[str, ...],
    drop: tuple[str, ...],
    meta: tuple[str, ...],
    ts: str | None,
    rows: int | None,
    seed: int | None,
    stream: str | None,
    rows_per_message: int,
    swap: str | None,
    at: int | None,
    width: int | None,
    label_delay: str | None,
    **common: Any,
) -> int:
    """Write a CSV file or the bundled stream to the `events` topic of a running deployment."""
    from glasstream.app.command.expect import expect_broker
    from glasstream.app.command.make_source import Asked, delay_labels, make_source
    from glasstream.app.runner.replay import produce as write
    from glasstream.events.admission import Task

    settings = load_settings(common, {"seed": seed})
    expect_broker(settings)
    source = delay_labels(
        make_source(
            csv_file, target, stream, rows, settings.seed, Asked(swap, at, width), types, drop, meta=meta, ts=ts
        ),
        label_delay,
        settings,
    )
    look = source.look(None)
    _echo(source.notices)
    if settings.model.task is None and look.task is Task.CLASSIFICATION and look.numbers:
        say(
            f"{look.why}. The deployment treats a numeric target as regression; to classify, start every stage with "
            "--set model.task=classification",
            err=True,
        )
    count, broken = write(settings, source, rows_per_message)
    _echo(source.notices)
    say(f"Wrote {count:,} events of stream {source.stream} and a flush mark to {settings.prefix}events")
    if broken is not None:
        raise broken
    return 0


def _echo(notices: list[str]) -> None:
    while notices:
        say(notices.pop(0), err=True)
