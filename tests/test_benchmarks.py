"""Benchmarks still run: each in its smallest form, whose figures mean nothing."""

import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.waiting import DEADLINE

SMALL = {
    "attributions.py": "--learned 500 --events 50 --repeats 1 --rows 10",
    "comparison.py": "--runs 4 --rows 500 --gaps 0.05",
    "explainers.py": "--models linear --repeats 1 --learned 500",
    "snapshots.py": "--events 500 --models 2 --repeats 1 --no-staleness",
    "staleness.py": "--rows 1000 --trees 2",
}


@pytest.mark.slow
@pytest.mark.parametrize("program", SMALL)
def test_a_benchmark_runs_to_its_end(program: str) -> None:
    command = [sys.executable, str(ROOT / "tests" / "benchmarks" / program), *SMALL[program].split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=DEADLINE)
    assert done.returncode == 0 and done.stdout, done.stderr
