"""The options that every command with settings has, and the settings they make."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from glasstream.settings import Settings

F = TypeVar("F", bound=Callable[..., Any])

A_BROKER = "HOST:PORT,... of a running Kafka."


def settings_options(broker: str = A_BROKER) -> Callable[[F], F]:
    """Adds them; `broker` is the help text of `--broker`, which commands differ in."""

    def add(command: F) -> F:
        for option in (
            click.option(
                "--set", "assignments", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated."
            ),
            click.option("--config", type=click.Path(path_type=Path), help="A TOML file of settings."),
            click.option("--prefix", help="Begins every topic, group and transactional id."),
            click.option("--broker", help=broker),
        ):
            command = option(command)
        return command

    return add


def data_option(command: F) -> F:
    """Adds the folder of a Kafka that is started for the command."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path),
        help="With --broker local: where `run --data` has kept its data; a Kafka is started on it for this command.",
    )(command)


def change_options(command: F) -> F:
    """Adds what puts a change into a source."""
    for option in (
        click.option("--width", type=click.IntRange(min=0), help="Over so many events, with rising probability."),
        click.option(
            "--at",
            type=click.IntRange(min=0),
            help="The event from which on features are swapped; without --swap, from which on the bundled stream is "
            "labelled by another function.",
        ),
        click.option("--swap", metavar="A,B", help="Two features that change places, to see what is told of it."),
    ):
        command = option(command)
    return command


def label_options(command: F) -> F:
    """Adds what makes labels come late."""
    return click.option(
        "--label-delay",
        metavar="N|random:N",
        help="Events come without labels, and each label N events later, or a number drawn from 0 to N.",
    )(command)


def load_settings(
    common: Mapping[str, Any], overrides: Mapping[str, Any] | None = None, defaults: Mapping[str, Any] | None = None
) -> "Settings":
    """Settings from everywhere; options of the command line count as `--set`.

    Parameters
    ----------
    common
        What `settings_options` gave.
    overrides
        Values of further options by key; None: not given.
    defaults
        Values that yield to all others.

    Raises
    ------
    SettingsError
        Something in them cannot be used.
    """
    from glasstream.configuration import load

    config: Path | None = common["config"]
    file = config or (Path(path) if (path := os.environ.get("GLASSTREAM_CONFIG")) else None)
    options = {"broker": common["broker"], "prefix": common["prefix"], **(overrides or {})}
    given = [f"{key}={value}" for key, value in options.items() if value is not None]
    return load(file=file, environment=os.environ, assignments=[*given, *common["assignments"]], defaults=defaults)
