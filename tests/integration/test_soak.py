"""The chaos soaks with a fixed seed; longer ones are run by hand: `python tests/chaos/soak.py --faults 100`."""

import subprocess
import sys
from collections.abc import Sequence

import orjson
import pytest

from tests.chaos.faults import FAULTS
from tests.deployment import ROOT

ON_THREE_BROKERS = ("leader_killed", "controller_killed", "connections_half_open", "reassigned")


def soak(faults: Sequence[str], *options: str, deadline: float) -> dict[str, object]:
    """The outcome of a soak with one of each of these faults."""
    command = [sys.executable, str(ROOT / "tests/chaos/soak.py"), "--seed", "1", *options]
    command += ["--faults", str(len(faults)), "--kinds", ",".join(faults)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=deadline, check=False)
    assert ended.stdout, ended.stderr
    outcome: dict[str, object] = orjson.loads(ended.stdout)
    assert outcome["stuck"] is None, ended.stderr
    assert (outcome["lost"], outcome["double"], outcome["identical"]) == (0, 0, True), ended.stderr
    assert outcome["faults"] == dict.fromkeys(sorted(faults), 1)
    assert ended.returncode == 0, ended.stderr
    return outcome


@pytest.mark.slow
@pytest.mark.kafka
def test_faults_lose_double_and_change_nothing() -> None:
    """One of each kind."""
    assert soak(sorted(FAULTS), deadline=900)["resumed"]


@pytest.mark.slow
@pytest.mark.kafka
def test_faults_of_three_brokers_lose_double_and_change_nothing() -> None:
    """A short form: some kinds, on a cluster behind a proxy, with a reader that checks what it is shown."""
    outcome = soak(ON_THREE_BROKERS, "--nodes", "3", deadline=900)
    witness = outcome["witness"]
    assert isinstance(witness, dict) and witness["delivered"] and witness["readiness_samples"]
    assert (witness["again"], witness["aborted"], witness["skipped"], witness["readiness_lies"]) == (0, 0, 0, [])
