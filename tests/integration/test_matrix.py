"""A part of the matrix of data sets and models, another one each day; `python tests/chaos/matrix.py` runs all of it.

All of it takes about half an hour of processors; one cell of it fits CI, at times two.
"""

import datetime
import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from tests.support.deployment import ROOT

PARTS = 101  # no multiple of the number of models, or each part would have one model only
PART = "GLASSTREAM_TEST_MATRIX"
"""Names another part than that of the day, such as 3/38."""


@pytest.mark.slow
def test_the_default_command_ends_with_the_output_of_the_plain_loop(data_dir: Path) -> None:
    """With wide rows, many classes and all methods, on the embedded broker, which keeps 5 MiB a partition."""
    today = datetime.datetime.now(datetime.UTC).date().toordinal()
    part = os.environ.get(PART, f"{today % PARTS + 1}/{PARTS}")
    print(f"part {part} of the matrix; {PART}={part} runs it again")
    command = [sys.executable, str(ROOT / "tests/chaos/matrix.py"), "--part", part, "--deadline", "300"]
    variables = {**os.environ, "GLASSTREAM_DATA": str(data_dir)}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1_500, check=False, env=variables)
    cells = [orjson.loads(line) for line in ended.stdout.splitlines()]
    assert cells, ended.stderr
    bad = [cell for cell in cells if not cell["identical"]]
    assert not bad and ended.returncode == 0, f"{bad}\n{ended.stderr}"
