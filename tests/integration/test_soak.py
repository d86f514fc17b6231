"""The chaos soaks with a fixed seed; longer ones are run by hand: `python tests/chaos/soak.py --faults 100`."""

import datetime
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import orjson
import pytest

from glasstream.kafka.transport.worker import ExitCode
from tests.chaos.faults import FAULTS, MOST_ENDS, STAGES, EndedForGoodError, Scene
from tests.support.deployment import ROOT

ON_THREE_BROKERS = ("leader_killed", "controller_killed", "connections_half_open", "reassigned")
FAULT = "GLASSTREAM_TEST_FAULT"
"""Names another fault of three brokers than that of the day, such as reassigned."""


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
    """One of each kind; only a broker has sessions, fencing and transactions that outlive a worker."""
    assert soak(sorted(FAULTS), deadline=900)["resumed"]


def fault_of_the_day() -> str:
    today = datetime.datetime.now(datetime.UTC).date().toordinal()
    return os.environ.get(FAULT, ON_THREE_BROKERS[today % len(ON_THREE_BROKERS)])


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.long)])
def test_faults_of_three_brokers_lose_double_and_change_nothing(every: bool) -> None:
    """Another fault each day, or all of some kinds.

    On a cluster behind a proxy, with a reader that checks what it is shown. Only several brokers have leaders and a
    controller to lose.
    """
    faults = ON_THREE_BROKERS if every else (fault_of_the_day(),)
    print(f"{FAULT}={faults[-1]} runs it again")
    outcome = soak(faults, "--nodes", "3", deadline=900)
    witness = outcome["witness"]
    assert isinstance(witness, dict) and witness["delivered"] and witness["readiness_samples"]
    assert (witness["again"], witness["aborted"], witness["skipped"], witness["readiness_lies"]) == (0, 0, 0, [])


# --- Waiting for workers that end again and again -------------------------------------------------------------------
class Worker:
    def __init__(self, code: int | None) -> None:
        self.code = code

    def poll(self) -> int | None:
        return self.code


class Ending:
    """A deployment whose aggregator ends with the next of these codes each time that it is started."""

    def __init__(self, *codes: int) -> None:
        self.folder = Path("nowhere")
        self.workers: dict[str, Worker] = {}
        self.started: list[str] = []
        self._codes = iter(codes)

    def start(self, stage: str, name: str, **variables: str) -> None:
        self.started.append(name)
        self.workers[name] = Worker(next(self._codes, None) if stage == "aggregator" else None)

    def log(self, name: str) -> str:
        return f"{name}: exiting with code: the reason"

    def aggregated(self, stream: str) -> int:
        return 100 if all(worker.code is None for worker in self.workers.values()) else 0


def scene(*codes: int) -> tuple[Scene, Ending]:
    ending = Ending(*codes)
    return Scene(cast(Any, ending), cast(Any, None), lambda rows: rows, random.Random(1), "s"), ending


@pytest.mark.parametrize("codes", [(ExitCode.STATE,), (ExitCode.USAGE,), (ExitCode.BROKER,) * MOST_ENDS])
def test_a_wait_ends_with_a_worker_that_would_end_again(codes: tuple[int, ...]) -> None:
    waiting, ending = scene(*codes)
    with pytest.raises(EndedForGoodError, match=r"aggregator-1.*the reason"):
        waiting.until("all rows", lambda: ending.aggregated("s") >= 100, deadline=1e9)
    assert ending.started.count("aggregator-1") == len(codes)


def test_workers_that_end_for_passing_reasons_are_started_again() -> None:
    """The ends of one wait do not count in the next, nor does a worker that a fault has put to sleep."""
    often = (ExitCode.BROKER,) * (MOST_ENDS - 1)
    waiting, ending = scene(*often, ExitCode.FENCED)
    waiting.until_aggregated(100)
    assert ending.started.count("aggregator-1") == len(often) + 2
    ending._codes = iter(often)
    ending.workers.pop("aggregator-1")
    waiting.until_aggregated(100, asleep="aggregator-1")
    assert "aggregator-1" not in ending.workers and ending.workers.keys() == STAGES.keys() - {"aggregator-1"}
    waiting.until_aggregated(100)
    assert waiting.ended == {"aggregator, code 4": 1, "aggregator, code 5": 2 * len(often)}
