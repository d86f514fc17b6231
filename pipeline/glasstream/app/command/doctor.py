"""`glasstream doctor`: report what is wrong with a deployment, and what to do about it."""

from typing import TYPE_CHECKING, Any

import click

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.command.options import load_settings, settings_options
from glasstream.app.terminal import standard_console

if TYPE_CHECKING:
    from rich.console import Console

    from glasstream.app.operate.doctor.finding import Finding

_STYLES = {"ok": "green", "warn": "yellow", "fail": "bold red"}


@click.command(short_help="Check a deployment, and report how to repair it.")
@click.option(
    "--probe/--no-probe",
    default=True,
    help="Compare the clocks: create a temporary topic to read the broker's time, and delete it.  [default: probe]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@settings_options()
def doctor(probe: bool, as_json: bool, **common: Any) -> int:
    """Check a deployment, using the settings and the environment of its workers.

    Each check prints one line: ok, warn or fail, and what to do. The exit code is 1 if any check fails.
    """
    import os
    import time

    import msgspec

    from glasstream.app.operate.doctor import examine
    from glasstream.app.operate.doctor.finding import DoctorContext, Level, fail
    from glasstream.base.errors import SettingsError

    console = standard_console()
    failed = False

    def say(one: "Finding") -> None:
        nonlocal failed
        failed |= one.level is Level.FAIL
        if as_json:
            click.echo(msgspec.json.encode(one))
        else:
            _print(one, console)

    try:
        settings = load_settings(common)
    except SettingsError as error:
        for line in error.findings:
            say(fail("settings", line, "correct the setting; every command rejects it"))
        return DIFFERS
    for one in examine(DoctorContext(settings, os.environ, time.time, probe)):
        say(one)
    return DIFFERS if failed else 0


def _print(one: "Finding", console: "Console") -> None:
    from rich.text import Text

    line = Text.assemble((f"{one.level:<5}", _STYLES[one.level]), f"{one.check:<19}{one.what}")
    console.print(line.append(f"\n{'':23}→ {one.do}") if one.do else line)
