"""Common options of the commands with settings, and the settings that result from them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from glasstream.flow.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

A_BROKER = "Addresses of a running Kafka, as HOST:PORT,..."
A_BROKER_OR_DATA = "Addresses of a running Kafka, as HOST:PORT,..., or `local` together with --data."


def settings_options(broker: str = A_BROKER, prefix: str = "glasstream.") -> Callable[[F], F]:
    """Add the options that set settings, with the help text of `--broker` and the default of `--prefix`."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--set",
                "assignments",
                multiple=True,
                metavar="KEY=VALUE",
                help="Set a setting to a value, such as explain.alpha=0.01; ops/docs/all-settings.md lists them. "
                "Can be repeated.",
            ),
            click.option("--config", type=click.Path(path_type=Path), help="TOML file with settings."),
            click.option(
                "--prefix",
                help=f"Prefix of all topic names, consumer groups and transactional ids.  [default: {prefix}]",
            ),
            click.option("--broker", help=broker),
        ):
            command = option(command)
        return command

    return add


def data_option(command: F) -> F:
    """Add `--data`, the folder of a Kafka that the command starts."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="With --broker local, the folder that an earlier `run --data` wrote. Kafka runs on that data as long as "
        "this command runs.",
    )(command)


types_option = click.option(
    "--types",
    multiple=True,
    metavar="COLUMN=TYPE,...",
    help="State the types of columns of the CSV file: number, text or boolean; comma or point for numbers "
    "such as 1.234,5 € or $1,234.5. Can be repeated.  [default: derived from the first 1,000 rows]",
)
"""Option `--types`; `glasstream.app.command.make_source.parse_types` reads it."""
drop_option = click.option(
    "--drop", multiple=True, metavar="COLUMN", help="Leave out a column of the CSV file. Can be repeated."
)


def source_options(command: F) -> F:
    """Add the options that choose a source of events, its form on Kafka, and what is injected into it."""
    for option in (
        click.option(
            "--label-delay",
            metavar="N|random:N",
            help="Send events without labels, and send each label N events later, or, with random:N, after a "
            "random number of events from 0 to N.",
        ),
        click.option(
            "--width",
            type=click.IntRange(min=0),
            help="Make the change gradual: over this many events, its probability rises from 0 to 1.  [default: 0]",
        ),
        click.option(
            "--at",
            type=click.IntRange(min=0),
            help="Number of the event from which --swap takes effect. Without --swap, the event at which the labelling "
            "rule of the bundled stream changes.  [default without --swap: half of the run]",
        ),
        click.option(
            "--swap",
            metavar="A,B",
            help="Inject drift: swap the values of these two features, from the event given by --at on.",
        ),
        click.option(
            "--rows-per-message",
            type=click.IntRange(min=1),
            default=100,
            show_default=True,
            help="Number of events per Kafka message.",
        ),
        click.option(
            "--stream", help="Name of the stream.  [default: the file's name up to its first dot, or agrawal]"
        ),
        click.option(
            "--rows",
            type=click.IntRange(min=1),
            help="Stop after this many events.  [default: the whole file, or 20,000 of the bundled stream]",
        ),
        click.option(
            "--meta",
            multiple=True,
            metavar="COLUMN,...",
            help="Columns of the CSV file that the model does not see, and by which `groups.by` can group. Can be "
            "repeated.",
        ),
        click.option("--ts", metavar="COLUMN", help="Column of the CSV file with the time of each event."),
        drop_option,
        types_option,
        click.option("--target", help="Column of the CSV file that the model predicts."),
        click.option(
            "--csv",
            "csv_file",
            type=click.Path(path_type=Path),
            help="Read the events from this CSV file, plain or gzipped.",
        ),
    ):
        command = option(command)
    return command


def load_settings(
    common: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, defaults: Mapping[str, Any] | None = None
) -> "Settings":
    """Load the settings from all their sources; `--set` overrides the command's other options.

    Parameters
    ----------
    common
        Values of the options that `settings_options` adds.
    overrides
        Values of further options by key; None for an option that is absent.
    defaults
        Values with the lowest precedence.

    Raises
    ------
    SettingsError
        A setting is unknown or invalid.
    """
    from glasstream.app.configuration import load

    config: Path | None = common["config"]
    file = config or (Path(path) if (path := os.environ.get("GLASSTREAM_CONFIG")) else None)
    options = {"broker": common["broker"], "prefix": common["prefix"], **(overrides or {})}
    given = {key: str(value) for key, value in options.items() if value is not None}
    return load(file=file, environment=os.environ, options=given, assignments=common["assignments"], defaults=defaults)
