"""A separate process that fits maps, so that scoring continues meanwhile."""

import os
import signal
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread

import numpy as np

from glasstream.base.errors import StageError
from glasstream.detect.novelty.fit import Request, fit
from glasstream.detect.novelty.settings import NoveltySettings

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Fitter:
    """Service of a stage that fits maps, one after another, in a new process.

    The process has one thread for linear algebra.
    """

    def __init__(self) -> None:
        for variable in _ONE_THREAD:
            os.environ[variable] = "1"  # this process has read them already; the new one will read them
        self._pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=_begin)

    async def start(self) -> None:
        """Start the process, so that the first map does not wait for its imports."""
        self._pool.submit(warm_up)

    async def stop(self) -> None:
        """Stop fitting."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def submit(self, request: Request, settings: NoveltySettings, seed: int) -> "Future[bytes]":
        """Queue a fit behind the earlier ones.

        Raises
        ------
        StageError
            The process has died.
        """
        try:
            return self._pool.submit(fit, request, settings, seed)
        except BrokenProcessPool as error:
            raise fitter_died() from error


def fitter_died() -> StageError:
    """Return the error for a process that has died."""
    return StageError(
        "the process that fits maps has ended, perhaps for lack of memory; a restart resumes from the committed state"
    )


def warm_up() -> None:
    """Fit a small map to load numba's kernels."""
    rows = np.arange(32.0).reshape(16, 2) % 5
    settings = NoveltySettings(learners=1, iterations=1, held=0.5, neighbours=1, rate=0.5, categories=1, classes=2)
    fit(Request("", 0, rows, rows[:, 0], (), ()), settings, 0)
    fit(Request("", 0, rows, (rows[:, 0] > 2).astype(np.float64), ("a", "b"), (1,)), settings, 0)


def _begin() -> None:
    """Prepare the new process.

    Ignore signals to the process group: the worker handles them, and may still need a map for an orderly stop. End when
    the worker is gone.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.sentinel,), name="tether", daemon=True).start()


def _end_with(parent: int) -> None:
    wait([parent])
    os._exit(0)
