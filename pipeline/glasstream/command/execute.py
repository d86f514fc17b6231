"""Run the command line, and turn each error into a line and an exit code."""

import click

from glasstream.command.cli import cli
from glasstream.command.exit_codes import FAILED, INTERRUPTED, NO_BROKER, STANDSTILL, USAGE
from glasstream.errors import (
    BrokerError,
    GlasstreamError,
    InputError,
    ModelError,
    SettingsError,
    StalledError,
    TopicError,
)
from glasstream.terminal import say


def execute() -> int:
    """Run the command that the process arguments name, and return its exit code."""
    try:
        code: int | None = cli(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (InputError, ModelError, SettingsError) as error:
        _tell(error)
        return USAGE
    except (BrokerError, TopicError) as error:
        _tell(error)
        return NO_BROKER
    except StalledError as error:
        _tell(error)
        return STANDSTILL
    except GlasstreamError as error:
        _tell(error)
        return FAILED
    return code or 0


def _tell(error: GlasstreamError) -> None:
    lines = error.findings if isinstance(error, SettingsError) else str(error).splitlines()
    for line in lines:
        say(f"glasstream: {line}", err=True)
