"""The chaos soak with a fixed seed; longer ones are run by hand: `python tests/chaos/soak.py --faults 100`."""

import subprocess
import sys

import orjson
import pytest

from tests.chaos.faults import FAULTS
from tests.deployment import ROOT


@pytest.mark.slow
@pytest.mark.kafka
def test_faults_lose_double_and_change_nothing() -> None:
    """One of each kind."""
    command = [sys.executable, str(ROOT / "tests/chaos/soak.py"), "--faults", str(len(FAULTS)), "--seed", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.stdout, ended.stderr
    outcome = orjson.loads(ended.stdout)
    assert (outcome["lost"], outcome["double"], outcome["identical"]) == (0, 0, True), ended.stderr
    assert outcome["faults"] == dict.fromkeys(sorted(FAULTS), 1)
    assert outcome["resumed"] >= 1 and ended.returncode == 0
