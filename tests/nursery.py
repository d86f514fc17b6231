"""Commands by fork from a process that has imported everything once: what each of them would take seconds for.

They are processes like any other, with an environment, a log and an exit code of their own. Only what is decided before
Python runs, such as PYTHONHASHSEED, is the same for all of them. That they start from nothing as well is for
the workers of `glasstream run`, runs with a hash seed, and the image to show.
"""

import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LOOK_SECONDS = 0.02


class Forked:
    """A worker; to be used as a `subprocess.Popen`."""

    stdin = None
    """The nursery holds the other end of it, and lets go when the worker ends."""

    def __init__(self, pid: int, codes: dict[int, int], changed: threading.Condition) -> None:
        self.pid = pid
        self._codes = codes
        self._changed = changed

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        with self._changed:
            return self._codes.get(self.pid)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, waited for."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.pid in self._codes, timeout):
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            return self._codes[self.pid]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """kill -9."""
        self.send_signal(signal.SIGKILL)


class Nursery:
    """The process that workers are forked from."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, text=True
        )
        self._codes: dict[int, int] = {}
        self._born: list[int] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, name="nursery", daemon=True).start()

    def start(self, arguments: Sequence[str], variables: Mapping[str, str], log: Path, folder: Path = ROOT) -> Forked:
        """`glasstream` with these arguments and variables in a folder; what it says is added to `log`."""
        stdin = self._process.stdin
        assert stdin is not None
        with self._changed:
            asked = {"arguments": [*arguments], "variables": {**variables}, "log": str(log), "folder": str(folder)}
            stdin.write(json.dumps(asked) + "\n")
            stdin.flush()
            assert self._changed.wait_for(lambda: bool(self._born), 150.0), "no worker was born"
            return Forked(self._born.pop(), self._codes, self._changed)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            said = json.loads(line)
            with self._changed:
                if "code" in said:
                    self._codes[said["pid"]] = said["code"]
                else:
                    self._born.append(said["pid"])
                self._changed.notify_all()


@cache
def nursery() -> Nursery:
    """The one of this process."""
    return Nursery()


def _serve() -> list[str]:
    """Fork what standard input asks for; in a child, return its arguments."""
    waiting = b""
    while True:
        ready, _, _ = select.select([0], [], [], _LOOK_SECONDS)
        _bury()
        if not ready:
            continue
        read = os.read(0, 1 << 16)
        if not read:
            sys.exit(0)  # and with it the standard input of all workers ends
        waiting += read
        while b"\n" in waiting:
            line, waiting = waiting.split(b"\n", 1)
            asked = json.loads(line)
            stdin, hold = os.pipe()  # `hold` stays open in this process alone
            pid = os.fork()
            if pid == 0:
                _become(asked, stdin)
                return list(asked["arguments"])
            os.close(stdin)
            os.set_inheritable(hold, False)
            _HELD[pid] = hold
            _say(pid=pid)


_HELD: dict[int, int] = {}


def _become(asked: dict, stdin: int) -> None:
    for hold in _HELD.values():
        os.close(hold)
    log = os.open(asked["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number, here in ((stdin, 0), (log, 1), (log, 2)):
        os.dup2(number, here)
    for number in (stdin, log):
        os.close(number)
    os.environ.clear()
    os.environ.update(asked["variables"])
    os.chdir(asked["folder"])


def _bury() -> None:
    while _HELD:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        os.close(_HELD.pop(pid))
        _say(pid=pid, code=os.waitstatus_to_exitcode(status))


def _say(**what: int) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")


if __name__ == "__main__":
    import river.datasets  # noqa: F401

    from pipeline.command.main import main

    gc.freeze()
    arguments = _serve()
    sys.argv = ["glasstream", *arguments]
    main()
