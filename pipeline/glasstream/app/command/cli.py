"""The commands of `glasstream`, and the exit code of each error.

Each command imports its modules when it runs: River and numba take seconds to import, and `--help` should not.
"""

import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Final

import click

from glasstream.app.command.compare import compare
from glasstream.app.command.dead import dead
from glasstream.app.command.doctor import doctor
from glasstream.app.command.exit_codes import FAILED, INTERRUPTED, NO_BROKER, STANDSTILL, USAGE
from glasstream.app.command.explain import explain
from glasstream.app.command.export import export
from glasstream.app.command.health import health
from glasstream.app.command.incidents import incidents
from glasstream.app.command.intake import intake
from glasstream.app.command.model import model
from glasstream.app.command.page import page
from glasstream.app.command.plot import plot
from glasstream.app.command.produce import produce
from glasstream.app.command.replay import replay
from glasstream.app.command.reset import reset
from glasstream.app.command.run import run
from glasstream.app.command.state import state_commands
from glasstream.app.command.tail import tail
from glasstream.app.command.topics import topics
from glasstream.app.command.worker import worker
from glasstream.app.terminal import say
from glasstream.base.errors import (
    BrokerError,
    GlasstreamError,
    InputError,
    ModelError,
    SettingsError,
    StalledError,
    TopicError,
)

COMMANDS: Final = "glasstream.commands"
"""Group of entry points with which an installed package adds commands."""


def _loaded(point: EntryPoint) -> click.Command:
    """Return the command of another package, or one that says why that cannot be loaded."""
    try:
        command: click.Command = point.load()
    except ImportError as error:
        reason = f"{point.name}: expected {point.value} of an installed package, but {error}; install the package again"

        @click.command(short_help="Cannot be loaded.", context_settings={"ignore_unknown_options": True})
        @click.argument("arguments", nargs=-1)
        def command(arguments: tuple[str, ...]) -> None:
            raise InputError(reason)

    return command


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="glasstream")
def cli() -> None:
    """Explain models while they learn from events on Kafka."""


for command in (
    compare, dead, doctor, explain, export, health, incidents, intake, model, page, plot, produce, replay, reset, run,
    state_commands, tail, topics, worker,
):  # fmt: skip
    cli.add_command(command)
for point in entry_points(group=COMMANDS):
    cli.add_command(_loaded(point), point.name)


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
    except _client_errors() as error:
        _tell(
            BrokerError(
                f"the Kafka client failed: {error.args[0].str()}; `glasstream doctor` checks the brokers, the topics "
                "and the rights of this client"
            )
        )
        return NO_BROKER
    except StalledError as error:
        _tell(error)
        return STANDSTILL
    except GlasstreamError as error:
        _tell(error)
        return FAILED
    return code or 0


def _client_errors() -> tuple[type[Exception], ...]:
    """Return the errors of the Kafka client, if a command has imported it."""
    client = sys.modules.get("confluent_kafka")
    return () if client is None else (client.KafkaException,)


def _tell(error: GlasstreamError) -> None:
    lines = error.findings if isinstance(error, SettingsError) else str(error).splitlines()
    for line in lines:
        say(f"glasstream: {line}", err=True)
