"""A short form of `python -m tests.fuzz`, with new mutations each time."""

import subprocess
import sys

import pytest

MUTATIONS = 4_000
"""Number of mutations of all targets together. A failure prints the command that repeats a mutation."""


@pytest.mark.slow
def test_mutations_are_refused_or_harmless():
    command = [sys.executable, "-m", "tests.fuzz", "--mutations", str(MUTATIONS)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}"
