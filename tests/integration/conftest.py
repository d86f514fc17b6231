"""Whole deployments for tests: the stages as processes, `run` as a user starts it."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import BrokerError
from tests.conftest import IN_CI, NO_REGISTRY
from tests.support.apicurio import Apicurio, apicurio
from tests.support.deployment import ROOT, Deployment
from tests.support.fork_server import Forked, fork_server


@pytest.fixture
def deploy(kafka: str, prefix: str, tmp_path: Path) -> Iterator[Callable[..., Deployment]]:
    """`deploy("model.name=tree", ...)`: topics and a monitor, workers to be started by the test."""
    with ExitStack() as stack:

        def make(*assignments: str) -> Deployment:
            given = [f"broker={kafka}", f"prefix={prefix}", "worker.session_seconds=6", *assignments]
            deployment = Deployment(load(assignments=given), tmp_path)
            stack.callback(deployment.close)
            return deployment

        yield make


@pytest.fixture(scope="module")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Apicurio]:
    """A real schema registry that the tests of a module share. Their subjects are those of their own topics."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(apicurio(tmp_path_factory.mktemp("registry")))
        except BrokerError as error:
            reason = f"{NO_REGISTRY}: {error}"
            if IN_CI:
                pytest.fail(reason, pytrace=False)
            pytest.skip(reason)
        yield started


@dataclass
class Run:
    """A `glasstream run` under way, or ended."""

    process: "subprocess.Popen[str] | Forked"
    out: Path
    log_path: Path

    def wait(self, deadline: float = 300.0) -> int:
        return self.process.wait(deadline)

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def file(self, topic: str) -> bytes:
        return (self.out / f"{topic}.jsonl").read_bytes()

    def worker_pids(self, stage: str) -> list[int]:
        """Living children of a stage, of a cold run."""
        found = []
        for child in psutil.Process(self.process.pid).children():
            try:
                if re.search(rf"worker\0{stage}", "\0".join(child.cmdline())):
                    found.append(child.pid)
            except psutil.Error:
                continue
        return found


@pytest.fixture
def start_run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """`start_run("--model", "tree", ...)`: the command in a process of its own; `cold` or with a PYTHONHASHSEED from
    nothing, its workers as well."""
    runs: list[Run] = []

    def start(*arguments: str, cold: bool = False, **variables: str) -> Run:
        number = len(runs)
        out, log_path = tmp_path / f"out-{number}", tmp_path / f"run-{number}.log"
        command = ["run", "--out", str(out), *arguments]
        environment = {**os.environ, **variables}
        process: subprocess.Popen[str] | Forked
        with log_path.open("w") as log:
            if cold or "PYTHONHASHSEED" in variables:
                whole = [sys.executable, "-m", "glasstream.app.command.main", *command]
                process = subprocess.Popen(
                    whole, env=environment, stdout=log, stderr=subprocess.STDOUT, cwd=ROOT, text=True
                )
            else:
                process = fork_server().start(command, environment, log_path)
        runs.append(Run(process, out, log_path))
        return runs[-1]

    yield start
    for run in runs:
        run.process.kill()
        run.process.wait()


@pytest.fixture
def finished_run(start_run: Callable[..., Run]) -> Callable[..., Run]:
    """Run like `start_run`, wait for the end, and check that it succeeds."""

    def finish(*arguments: str, **variables: str) -> Run:
        run = start_run(*arguments, **variables)
        assert run.wait() == 0, run.log
        return run

    return finish
