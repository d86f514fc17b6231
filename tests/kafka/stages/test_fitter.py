"""The process that fits maps ends with the worker, and not before it."""

import asyncio
import os
import signal

import pytest

from glasstream.base.errors import StageError
from glasstream.kafka.stages.fitter import Fitter, warm_up


@pytest.fixture
def fitter(monkeypatch: pytest.MonkeyPatch) -> Fitter:
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(variable, "7")
    return Fitter()


def test_it_has_one_thread_whatever_the_worker_was_told(fitter: Fitter) -> None:
    assert fitter._pool.submit(os.getenv, "OMP_NUM_THREADS").result() == "1"
    assert fitter._pool.submit(os.getenv, "OPENBLAS_NUM_THREADS").result() == "1"
    asyncio.run(fitter.stop())


def test_a_signal_to_all_of_the_group_is_for_the_worker_and_a_kill_is_told(fitter: Fitter) -> None:
    pid = fitter._pool.submit(os.getpid).result()
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    assert fitter._pool.submit(os.getpid).result() == pid
    fitter._pool.submit(warm_up).result()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(StageError, match="the process that fits maps has ended"):
        while True:
            submitted = fitter.submit(None, None, 0)  # type: ignore[arg-type]
            assert submitted.exception() is not None
