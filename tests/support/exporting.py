"""Records to export, and the command that exports them."""

from pathlib import Path

import orjson
from click.testing import CliRunner, Result

from glasstream.app.command.cli import cli
from tests.support.golden_records import checked_in
from tests.support.writing import ESTIMATE

FAST = {"fetch.wait.max.ms": "10"}
PREDICTED = orjson.loads(checked_in("predictions.v1.json"))
FEATURES = len(ESTIMATE["features"])
"""Number of rows of a record of `importance`."""
ROWS = 6 * FEATURES
"""Number of rows of the records that are there from the start."""


def arguments(bootstrap: str, out: Path, *options: str) -> list[str]:
    fast = [word for name, value in FAST.items() for word in ("--set", f"kafka.{name}={value}")]
    return ["export", "--broker", bootstrap, "--prefix", "test.", "--out", str(out), *fast, *options]


def exported(bootstrap: str, out: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, arguments(bootstrap, out, *options), standalone_mode=False, catch_exceptions=False)
