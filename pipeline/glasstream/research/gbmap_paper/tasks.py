"""Run independent tasks in separate processes."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process
from typing import TypeVar

from glasstream.errors import StageError

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def each(work: Callable[[Piece], Result], pieces: Sequence[Piece], processes: int) -> Iterator[tuple[Piece, Result]]:
    """Yield each task with the result of `work`, as they finish.

    Each process uses one thread. Libraries read their number of threads when they load, so even a single process must
    be a new one. Tasks that are running end when the iterator is closed or the user interrupts.

    Raises
    ------
    StageError
        A process ended in the middle of a task.
    Exception
        Any exception that `work` raised.
    """
    with _raising_interrupts():
        if not pieces:
            return
        others = set(active_children())
        executor = ProcessPoolExecutor(min(processes, len(pieces)), get_context("spawn"), initializer=_begin)
        try:
            with _one_thread():  # for new children: the code that starts them loads numpy before our `_begin`
                waiting = {executor.submit(work, piece): piece for piece in pieces}
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BrokenProcessPool as error:
            raise StageError(
                "a process ended before its work was done, perhaps for lack of memory; lower --processes"
            ) from error
        except BaseException:
            for child in set(active_children()) - others:
                child.terminate()
            raise
        finally:
            executor.shutdown(cancel_futures=True)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Set the environment variables from which libraries read their number of threads."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                del os.environ[name]
            else:
                os.environ[name] = text


def _begin() -> None:
    """Prepare a child process: ignore Ctrl-C, which the parent handles, and end with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, name="tether", daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


@contextmanager
def _raising_interrupts() -> Iterator[None]:
    """Turn Ctrl-C into an exception, so that the children end."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
