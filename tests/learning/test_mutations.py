"""Mutated checkpoints are refused or learned on: no access out of bounds, no crash, memory within bounds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.learning.mutations import FAMILIES

IN_CI = ("forest", "adaptive regressor")
"""Together they have all there is in an arena: tables of classes, search trees, alternates, detectors, subsets."""


def family_of(name: str) -> Any:
    return pytest.param(name, marks=() if name in IN_CI else pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize("family", map(family_of, FAMILIES))
def test_mutated_checkpoints(family: str) -> None:
    program = Path(__file__).with_name("mutations.py")
    command = [sys.executable, str(program), "--family", family, "--seeds", "1000:1005", "--mutations", "80"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_200)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    counts = json.loads(ran.stdout)
    assert counts["faults"] == 0
    assert min(counts["refused"], counts["ran"]) > 50
