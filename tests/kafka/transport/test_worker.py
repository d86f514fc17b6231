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


THREAD = """
import asyncio, threading
from glasstream.kafka.transport.worker import run_worker
from tests.support.transport_harness import options

class Waiting:
    failure = None

    def __init__(self):
        self.ended = asyncio.Event()

    async def start(self):
        threading.Thread(target=self.report, name="delivery-reports").start()
        await self.wait_crashed()

    async def wait_crashed(self):
        await asyncio.Event().wait()  # for what the thread never says

    def report(self):
        1 / 0

    def fail(self, error):
        self.failure = self.failure or error
        self.ended.set()

    async def stop(self):
        pass

run_worker(Waiting, options("prefix.", "worker"))
"""


@pytest.mark.program
def test_an_unexpected_error_that_ends_a_thread_ends_the_worker() -> None:
    ended = subprocess.run([sys.executable, "-c", THREAD], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == ExitCode.FAILED, ended.stderr
    assert "the thread delivery-reports was ended by ZeroDivisionError: division by zero" in ended.stderr
    assert "in report" in ended.stderr, "the traceback names the line"
