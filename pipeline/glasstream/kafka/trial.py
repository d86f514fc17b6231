"""Try a model from an ONNX file in a process with limits of memory and time, before another process uses it.

A file may demand any amount of memory or time, and a damaged one may end the process that evaluates it. The child reads
and checks the file, and evaluates it on a few rows, as the caller does afterwards. It gets none of our variables, so
that it has no secrets.

The limit of time is one of processor time, which does not depend on how busy the machine is.
"""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Event, Lock, Thread, Timer
from typing import TYPE_CHECKING, Final

import msgspec

from glasstream.base.errors import ModelError, UnavailableError
from glasstream.models.onnx.file import content

if TYPE_CHECKING:  # it imports River, which the child does not need
    from glasstream.models.river.catalogue import ModelSettings

MEMORY: Final = 3 * 2**30
"""Bytes that the child may allocate. A forest in a file of 43 MiB was measured at 1.07 GiB."""
PROCESSOR_SECONDS: Final = 120
"""Processor time of the child. A forest in a file of 43 MiB was measured at 9.3 s."""
DEADLINE_SECONDS: Final = 900.0
"""Longest time in seconds that the child may take on a machine that is busy with other things."""

_ONE_THREAD: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
_STOPPED: Final = "the worker stops before the model was tried"
_REMEDY: Final = "export a smaller or simpler model"


Names = tuple[str | None, str | None, str | None]
"""The settings `model.features`, `model.classes` and `model.outputs`."""


class Trials:
    """Tries models, one at a time, and remembers the verdicts.

    Parameters
    ----------
    memory, processor_seconds, deadline_seconds
        Limits of the child; see `MEMORY`, `PROCESSOR_SECONDS` and `DEADLINE_SECONDS`.
    """

    def __init__(
        self,
        memory: int = MEMORY,
        processor_seconds: int = PROCESSOR_SECONDS,
        deadline_seconds: float = DEADLINE_SECONDS,
    ) -> None:
        self._limits = memory, processor_seconds
        self._deadline_seconds = deadline_seconds
        self._lock = Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._stopped = Event()
        self._verdicts: dict[tuple[str, Names], _Verdict] = {}

    def __call__(self, data: bytes, names: Names) -> str:
        """Return the task of a model.

        Raises
        ------
        ModelError
            The model cannot be used, or exceeds a limit.
        UnavailableError
            `stop` was called before there was a verdict.
        """
        asked = hashlib.sha256(data).hexdigest(), names
        with self._lock:
            if asked not in self._verdicts:
                self._verdicts[asked] = self._tried(data, names)
            verdict = self._verdicts[asked]
        if verdict.task is None:
            raise ModelError(verdict.error)
        return verdict.task

    async def start(self) -> None:
        """Do nothing; a child is started for each trial."""

    async def stop(self) -> None:
        """End the child, if there is one, and start no further one."""
        self._stopped.set()
        if self._child is not None:
            self._child.kill()

    def _tried(self, data: bytes, names: Names) -> "_Verdict":
        if self._stopped.is_set():
            raise UnavailableError(_STOPPED)
        asked = {"names": names, "limits": self._limits, "bytes": len(data)}
        with _child() as self._child:
            if self._stopped.is_set():
                self._child.kill()
            timer = Timer(self._deadline_seconds, self._child.kill)
            timer.daemon = True
            timer.start()
            try:
                verdict = _answer(self._child, json.dumps(asked).encode() + b"\n" + data)
            finally:
                late = not timer.is_alive()
                timer.cancel()
        code, self._child = self._child.wait(), None
        if self._stopped.is_set():
            raise UnavailableError(_STOPPED)
        return verdict or _Verdict(error=self._why(code, late))

    def _why(self, code: int, late: bool) -> str:
        """Return why a child ended without a verdict."""
        memory, seconds = self._limits
        if late:
            return f"model.name: the trial of the model took more than {self._deadline_seconds:,.0f} s; {_REMEDY}"
        if code == -signal.SIGXCPU:
            return f"model.name: the trial of the model took more than {seconds} s of processor time; {_REMEDY}"
        ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return (
            f"model.name: the process that tried the model ended with {ended}, perhaps for lack of memory (it may take "
            f"{memory / 2**30:.1f} GiB), or because the file is damaged; {_REMEDY}"
        )


class _Verdict(msgspec.Struct, frozen=True):
    task: str | None = None
    error: str = ""


@cache
def _of_this_process() -> Trials:
    return Trials()


def tried(data: bytes, model: "ModelSettings") -> str:
    """Return the task of the model in a file, which this process tries once; errors are those of `Trials`."""
    return _of_this_process()(data, model.named)


def expect_tried(model: "ModelSettings") -> None:
    """Try the model of the settings, if it is one in a file.

    Raises
    ------
    ModelError
        It cannot be used, or exceeds a limit.
    """
    if not model.learns:
        tried(content(model.name, model.digest), model)


@contextlib.contextmanager
def _child() -> "Iterator[subprocess.Popen[bytes]]":
    variables = {name: value for name, value in os.environ.items() if not name.startswith("GLASSTREAM_")}
    child = subprocess.Popen(
        [sys.executable, "-m", "glasstream.kafka.trial"],
        env={**variables, **dict.fromkeys(_ONE_THREAD, "1")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # the worker handles signals to the process group
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def _answer(child: "subprocess.Popen[bytes]", question: bytes) -> _Verdict | None:
    """Return what a child says about a model; None if it ended before."""
    if child.stdin is None or child.stdout is None:
        return None
    with contextlib.suppress(BrokenPipeError):
        child.stdin.write(question)
        child.stdin.flush()
    line = child.stdout.readline()
    return msgspec.json.decode(line, type=_Verdict) if line.endswith(b"\n") else None


def main() -> None:
    """Read a question and a file from standard input, try the model, and print the verdict."""
    source = sys.stdin.buffer
    asked = json.loads(source.readline())
    memory, seconds = asked["limits"]
    _limit(memory, seconds)
    answers = os.dup(1)
    os.dup2(2, 1)  # what libraries print is no verdict
    data = source.read(asked["bytes"])
    Thread(target=_end_with_parent, name="tether", daemon=True).start()
    try:
        verdict = _Verdict(_judged(data, asked["names"]))
    except MemoryError:
        verdict = _Verdict(error=f"model.name: the model needs more than {memory / 2**30:.1f} GiB of memory; {_REMEDY}")
    except ModelError as error:
        verdict = _Verdict(error=str(error))
    except Exception as error:  # noqa: BLE001 - the caller knows no more of this process than its answer
        verdict = _Verdict(
            error=f"model.name: the trial of the model failed with {type(error).__name__}: {error!s:.500}; this is a "
            "fault of Glasstream, and another export of the model may avoid it"
        )
    os.write(answers, msgspec.json.encode(verdict) + b"\n")
    os._exit(0)


def _limit(memory: int, seconds: int) -> None:
    """Limit what this process may take. Where memory is short, the system ends this process first."""
    import resource

    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    for kind, limit in ((resource.RLIMIT_DATA, memory), (resource.RLIMIT_CPU, seconds), (resource.RLIMIT_CORE, 0)):
        _, most = resource.getrlimit(kind)
        resource.setrlimit(kind, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def _judged(data: bytes, names: Names) -> str:
    """Return the task of a model, after everything that may take memory or time was done once."""
    from glasstream.models.onnx.file import parse
    from glasstream.models.onnx.loading import loaded

    return loaded(parse(data, *names)).file.task.value


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os._exit(1)


if __name__ == "__main__":
    main()
