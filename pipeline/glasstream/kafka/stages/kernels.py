"""Load the kernels of a stage before it starts, or start it with plain Python while another process compiles them."""

import asyncio
import fcntl
import logging
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO

import msgspec

from glasstream.base import jit
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.warm_up import warm_up_aggregator, warm_up_explainer

log = logging.getLogger(__name__)

_STAGES = ("learner", "explainer", "aggregator")
_AGAIN_SECONDS = 1.0


def warm_up(stage: str, settings: Settings) -> None:
    """Call the kernels of a stage, so that its first block does not wait for them: load them, or else compile them."""
    if stage == "learner":
        from glasstream.flow.learner.warm_up import warm_up as warm_up_learner  # imports River

        warm_up_learner(settings)
    elif stage == "explainer":
        warm_up_explainer(settings)
    elif stage == "aggregator":
        warm_up_aggregator(settings)


def compile_meanwhile(stage: str, settings: Settings, compiled: Callable[[], None]) -> "Compilation | None":
    """Load the kernels of a stage if all are in numba's cache. Else let them run as plain Python.

    Returns
    -------
    Compilation | None
        Service that compiles them meanwhile, and calls `compiled` when they have replaced plain Python; None if they
        are loaded.
    """
    try:
        with jit.from_cache():
            warm_up(stage, settings)
    except jit.NotCachedError:
        jit.interpret()
        return Compilation(stage, settings, compiled)
    return None


class Compilation:
    """Service of a stage that has its kernels compiled by a process of low priority, and changes over to them.

    The process continues when the stage ends, which may be before anything is compiled: else a user who only makes
    short runs would never have compiled kernels.
    """

    def __init__(self, stage: str, settings: Settings, compiled: Callable[[], None]) -> None:
        self._stage = stage
        self._settings = settings
        self._compiled = compiled
        self._waiting: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start to compile."""
        self._waiting = asyncio.create_task(self._change_over())

    async def stop(self) -> None:
        """Wait no longer."""
        if self._waiting is not None:
            self._waiting.cancel()

    async def _change_over(self) -> None:
        process = await self._begun()
        loop, ended, end = asyncio.get_running_loop(), asyncio.Event(), os.pidfd_open(process.pid)
        loop.add_reader(end, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(end)
            os.close(end)
        if code := process.wait():
            log.warning(
                "the process that compiles the kernels ended with exit code %d, perhaps for lack of memory; this "
                "worker remains slow, and a restart tries again",
                code,
            )
            return
        jit.compiled()
        warm_up(self._stage, self._settings)
        self._compiled()

    async def _begun(self) -> "subprocess.Popen[bytes]":
        """Return the process, when no earlier one compiles kernels of this stage. It has the lock while it lives."""
        with Path(jit.cache_folder(), f"glasstream-{self._stage}.lock").open("w") as lock:
            while not _locked(lock):
                await asyncio.sleep(_AGAIN_SECONDS)
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, self._stage],
                stdin=subprocess.PIPE,
                # Whoever reads those of the worker shall not wait for this process.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                pass_fds=(lock.fileno(),),
            )
        if process.stdin is not None:
            with process.stdin, suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(self._settings))
        return process


def _locked(file: IO[str]) -> bool:
    """Lock a file. Return False if another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def main(stage: str) -> None:
    """Compile the kernels of a stage, whose settings come on standard input, in this process when it is its turn.

    The stages have the processors first. Where these are few, one stage's kernels are compiled after another's: three
    processes at once slowed plain Python by half (measured on two processors).
    """
    settings = msgspec.json.decode(sys.stdin.buffer.read(), type=Settings)
    os.nice(5)
    turn = _STAGES.index(stage) % max(1, (os.cpu_count() or 1) // 2)
    with Path(jit.cache_folder(), f"glasstream-{turn}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        warm_up(stage, settings)


if __name__ == "__main__":
    main(sys.argv[1])
