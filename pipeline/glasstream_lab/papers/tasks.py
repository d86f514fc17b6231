"""Run independent tasks in separate processes, and keep their results in a file from which a later run continues."""

import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import orjson

from glasstream.base.errors import InputError, StageError

Json = dict[str, Any]
"""Task (its subject and its settings) or result as JSON."""

PACKAGES: Final = ("glasstream", "river", "numpy", "numba")
"""Packages whose versions are kept with each result."""

Piece = TypeVar("Piece")
Result = TypeVar("Result")

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Origin(NamedTuple):
    """When, with what and for how long a result was computed.

    Attributes
    ----------
    date
        Date (UTC) as YYYY-MM-DD.
    versions
        Version of Python, and of each package of `PACKAGES`.
    seconds
        CPU time of the task.
    """

    date: str
    versions: dict[str, str]
    seconds: float


class Done(NamedTuple):
    """Task, its result, and the origin of the result; None if the file of results does not name it."""

    task: Json
    result: Json
    origin: Origin | None


@dataclass(frozen=True, slots=True)
class _Timed:
    """The work, and the CPU time that it takes."""

    work: Callable[[Json], Json]

    def __call__(self, task: Json) -> tuple[Json, float]:
        started = time.process_time()
        result = self.work(task)
        return result, time.process_time() - started


def run_tasks(
    asked: Sequence[Json],
    work: Callable[[Json], Json],
    processes: int,
    results: Path | None,
    say: Callable[[str], None],
) -> list[Done]:
    """Return all tasks with their results and origins. Run the tasks that are not finished yet, and report progress.

    Parameters
    ----------
    asked
        The tasks.
    work
        Function of a task that any process can run. It returns the result.
    processes
        Number of processes to run at the same time.
    results
        File of finished results, to which new ones are appended; None keeps none.
    say
        Function that prints a line for the user.
    """
    finished = Finished(results)
    left = [one for one in asked if finished.get(one) is None]
    if len(left) < len(asked):
        say(f"{results} already holds {len(asked) - len(left):,} of {len(asked):,} results")
    started = time.monotonic()
    versions = {"python": platform.python_version(), **{package: version(package) for package in PACKAGES}}
    done = {
        id(one): Done(one, known, finished.origin(one)) for one in asked if (known := finished.get(one)) is not None
    }
    for count, (one, (came, seconds)) in enumerate(each(_Timed(work), left, processes), 1):
        origin = Origin(datetime.now(UTC).date().isoformat(), versions, seconds)
        finished.add(one, came, origin)
        done[id(one)] = Done(one, came, origin)
        spent = time.monotonic() - started
        what = " ".join(str(one[key]) for key in ("data", "model", "split", "seed") if key in one)
        rest = f", about {_minutes(spent / count * (len(left) - count))} left" if count < len(left) else ""
        say(f"{count:,} of {len(left):,} done after {_minutes(spent)}{rest}: {what}")
    return [done[id(one)] for one in asked]


def _minutes(seconds: float) -> str:
    """Format a duration.

    >>> _minutes(59.7), _minutes(75), _minutes(7300)
    ('60 s', '1 min', '2.0 h')
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 3600 else f"{seconds / 3600:.1f} h"


class Finished:
    """Store of tasks and their results.

    Parameters
    ----------
    file
        File that holds the results; None stores nothing.

    Raises
    ------
    InputError
        The file cannot be read, or holds something else.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[bytes, dict[str, Any]] = {}
        self._origins: dict[bytes, Origin] = {}
        if file is None or not file.exists():
            return
        try:
            lines = file.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from error
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                continue  # the interruption cut off this line
            try:
                record = orjson.loads(line)
                self._found[_key(record["asked"])] = dict(record["found"])
                if "origin" in record:
                    self._origins[_key(record["asked"])] = Origin(**record["origin"])
            except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
                raise InputError(
                    f"{file}:{number}: expected a line of results, got {line[:60]!r}; delete the line to compute its "
                    "result again, or name another file"
                ) from error
        if lines and not lines[-1].endswith(b"\n"):
            self._write(b"".join(lines[:-1]), "wb")

    def get(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the stored result of a task, or None if there is none."""
        return self._found.get(_key(asked))

    def origin(self, asked: Mapping[str, Any]) -> Origin | None:
        """Return the origin of a task's result, or None if it is not known."""
        return self._origins.get(_key(asked))

    def add(self, asked: Mapping[str, Any], found: Mapping[str, Any], origin: Origin | None = None) -> None:
        """Store a result.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        self._found[_key(asked)] = dict(found)
        record: Json = {"asked": asked, "found": found}
        if origin is not None:
            self._origins[_key(asked)] = origin
            record["origin"] = origin._asdict()
        self._write(orjson.dumps(record) + b"\n", "ab")

    def _write(self, data: bytes, mode: str) -> None:
        if self._file is None:
            return
        try:
            with self._file.open(mode) as file:
                file.write(data)
        except OSError as error:
            raise InputError(f"{self._file}: cannot be written: {error.strerror}") from error


def _key(asked: Mapping[str, Any]) -> bytes:
    return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)


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
