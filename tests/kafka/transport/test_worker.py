"""How the process of a worker ends."""

import subprocess
import sys

import pytest

from glasstream.kafka.transport.worker import ExitCode

PROGRAM = """
import atexit, multiprocessing, sys
from glasstream.base.errors import BrokerError, StateError
from glasstream.kafka.transport.worker import run_worker
from tests.support.transport_harness import options

def build():
    print("a line that is still buffered")
    raise {"broker": BrokerError, "state": StateError}[sys.argv[1]]("no such luck")

semaphore = multiprocessing.get_context("spawn").Semaphore()
atexit.register(print, "the interpreter is finalised")
run_worker(build, options("prefix.", "worker"))
print("the caller goes on")
"""


@pytest.mark.program
@pytest.mark.parametrize(("error", "code"), [("broker", ExitCode.BROKER), ("state", ExitCode.STATE)])
def test_a_worker_ends_without_finalising_the_interpreter_and_loses_no_line(error: str, code: ExitCode) -> None:
    """Threads of clients that are still open call Python, which would crash an interpreter that is being finalised."""
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, error], capture_output=True, text=True, check=False, timeout=120
    )
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == "a line that is still buffered\n"
    assert f"exiting with code {code:d}" in ended.stderr and "no such luck" in ended.stderr
    assert "leaked" not in ended.stderr
