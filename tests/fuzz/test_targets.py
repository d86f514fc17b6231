"""A short form of `python -m tests.fuzz`, with new mutations each time."""

import os
import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("mutations", "bounds"),
    [
        pytest.param(150, False, marks=pytest.mark.slow),
        pytest.param(20_000, True, marks=pytest.mark.long, id="with bounds checks"),  # compiles all kernels for itself
    ],
)
def test_mutations_are_refused_or_harmless(mutations, bounds):
    """A failure prints the command that repeats a mutation."""
    command = [sys.executable, "-m", "tests.fuzz", "--mutations", str(mutations)]
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": str(int(bounds))}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, f"{done.stdout}{done.stderr[-4000:]}"
