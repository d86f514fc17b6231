"""Some alerts, fired and cleared by a real Prometheus; the long form, of all, is `python tests/chaos/alerts.py`."""

import subprocess
import sys

import pytest

from tests.support.deployment import ROOT

ALERTS = ("GlasstreamStageGone", "GlasstreamWorkerDown", "GlasstreamStalled", "GlasstreamDeadLetters")
"""The most urgent alerts, and one on a counter. promtool plays the cases of all alerts."""


@pytest.mark.slow
def test_alerts_fire_and_clear(alertmanager: str) -> None:
    program = str(ROOT / "tests/chaos/alerts.py")
    command = [sys.executable, program, "--factor", "30", "--only", ",".join(ALERTS)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"{len(ALERTS)} of {len(ALERTS)} alerts fired and cleared" in ended.stdout
