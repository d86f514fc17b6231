"""Run commands by forking a process that has imported everything and has loaded the kernels.

Each command would otherwise need seconds for its start. The forked commands are processes like any other, with their
own environment, log and exit code. The workers of a `glasstream run` among them are forked from here too. Settings that
take effect before Python runs, such as PYTHONHASHSEED, are the same for all of them. Cold starts are covered by runs
that a test requests as cold, and by the tests of the image.
"""

import contextlib
import gc
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
_LOOK_SECONDS = 0.02


class Forked:
    """A process with the interface of `subprocess.Popen`."""

    stdin = None
    """The fork server holds the other end of it, and lets go when the worker ends."""

    def __init__(self, pid: int, changed: threading.Condition) -> None:
        self.pid = pid
        self.code: int | None = None
        self._changed = changed

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while the process runs."""
        with self._changed:
            return self.code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the process to end and return its exit code."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.code is not None, timeout):
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout or 0.0)
            assert self.code is not None
            return self.code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its code is on the way
                os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process with kill -9."""
        self.send_signal(signal.SIGKILL)


class ForkServer:
    """Asks for processes and hears what becomes of them."""

    def __init__(self, answers: IO[str], questions: IO[str]) -> None:
        self._answers = answers
        self._questions = questions
        self._living: dict[int, Forked] = {}
        """By pid, until it ends: then another one may get that pid."""
        self._born: list[Forked] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._listen, name="fork-server", daemon=True).start()

    def start(
        self,
        arguments: Sequence[str],
        variables: Mapping[str, str],
        log: Path | None = None,
        folder: Path | None = None,
    ) -> Forked:
        """Run `glasstream` with these arguments and variables in a folder, and append its output to `log`.

        For a `run` whose workers are forked from here, None stands for its own log and folder.
        """
        asked = {"arguments": [*arguments], "variables": {**variables}}
        asked |= {"log": str(log) if log else None, "folder": str(folder) if folder else None}
        with self._changed:
            self._questions.write(json.dumps(asked) + "\n")
            self._questions.flush()
            assert self._changed.wait_for(lambda: bool(self._born), 600.0), "no process was born"
            return self._born.pop()

    def _listen(self) -> None:
        for line in self._answers:
            said = json.loads(line)
            with self._changed:
                if "code" in said:
                    self._living.pop(said["pid"]).code = said["code"]
                else:
                    self._living[said["pid"]] = Forked(said["pid"], self._changed)
                    self._born.append(self._living[said["pid"]])
                self._changed.notify_all()


@cache
def fork_server() -> ForkServer:
    """Return the fork server of this process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.fork_server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return ForkServer(process.stdout, process.stdin)


@dataclass(eq=False)
class _Asker:
    """Who asks for processes: the tests, or a process that was forked here and has children of its own."""

    reads: int
    writes: int
    log: str = ""
    folder: str = str(ROOT)
    waiting: bytes = b""

    def say(self, **what: int) -> None:
        with contextlib.suppress(BrokenPipeError):
            os.write(self.writes, json.dumps(what).encode() + b"\n")


@dataclass
class _Born:
    asker: _Asker
    hold: int
    """Its standard input ends when this is closed."""


class _Server:
    """Forks processes on request, until the tests have ended."""

    def __init__(self) -> None:
        self._tests = _Asker(0, 1)
        self._askers = selectors.DefaultSelector()
        self._askers.register(0, selectors.EVENT_READ, self._tests)
        self._born: dict[int, _Born] = {}

    def serve(self) -> list[str]:
        """In a child, return its arguments."""
        while True:
            ready = self._askers.select(_LOOK_SECONDS)
            self._bury()
            for key, _ in ready:
                asker = key.data
                try:
                    read = os.read(asker.reads, 1 << 16)
                except ConnectionResetError:
                    read = b""
                if not read:
                    self._has_gone(asker)
                asker.waiting += read
                while b"\n" in asker.waiting:
                    line, asker.waiting = asker.waiting.split(b"\n", 1)
                    arguments = self._fork(asker, json.loads(line))
                    if arguments is not None:
                        return arguments

    def _fork(self, asker: _Asker, asked: dict) -> list[str] | None:
        stdin, hold = os.pipe()  # `hold` stays open in this process alone
        own, theirs = socket.socketpair()
        log, folder = asked["log"] or asker.log, asked["folder"] or asker.folder
        pid = os.fork()
        if pid == 0:
            own.close()
            os.close(hold)
            self._leave()
            if asker is not self._tests:
                os.setsid()
            _become(stdin, log, asked["variables"], folder)
            _ask_for_children(theirs)
            return list(asked["arguments"])
        os.close(stdin)
        theirs.close()
        self._born[pid] = _Born(asker, hold)
        further = _Asker(own.fileno(), own.detach(), log, folder)
        self._askers.register(further.reads, selectors.EVENT_READ, further)
        asker.say(pid=pid)
        return None

    def _leave(self) -> None:
        """Close what is the server's."""
        for born in self._born.values():
            os.close(born.hold)
        for key in list(self._askers.get_map().values()):
            if key.data is not self._tests:
                os.close(key.data.reads)
        self._askers.close()

    def _has_gone(self, asker: _Asker) -> None:
        if asker is self._tests:
            sys.exit(0)  # and with it the standard input of all processes ends
        self._askers.unregister(asker.reads)
        os.close(asker.reads)
        asker.writes = os.open(os.devnull, os.O_WRONLY)
        for born in self._born.values():
            if born.asker is asker and born.hold >= 0:
                os.close(born.hold)
                born.hold = os.open(os.devnull, os.O_WRONLY)

    def _bury(self) -> None:
        while self._born:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            born = self._born.pop(pid)
            os.close(born.hold)
            born.asker.say(pid=pid, code=os.waitstatus_to_exitcode(status))


def _become(stdin: int, log: str, variables: Mapping[str, str], folder: str) -> None:
    said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for number, here in ((stdin, 0), (said, 1), (said, 2)):
        os.dup2(number, here)
    for number in (stdin, said):
        os.close(number)
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)


def _ask_for_children(server_socket: socket.socket) -> None:
    """Let the workers of a `run` in this process be forked as well."""
    from glasstream.app.runner import children

    asked: list[ForkServer] = []

    def start(arguments: Sequence[str], environment: Mapping[str, str]) -> Forked:
        if not asked:
            asked.append(ForkServer(server_socket.makefile("r"), server_socket.makefile("w")))
        return asked[0].start(arguments, environment)

    children.start_process = start  # type: ignore[assignment]


def _warm_up() -> None:
    """Import what the stages and their tools need, and have the kernels loaded."""
    import river.datasets  # noqa: F401

    import glasstream.app.runner.run
    import glasstream.kafka.stages.aggregator
    import glasstream.kafka.stages.explainer
    import glasstream.kafka.stages.labels
    import glasstream.kafka.stages.learner
    import glasstream.kafka.stages.novelty  # noqa: F401
    from glasstream.app.command.cli import cli
    from glasstream.app.configuration import load
    from glasstream.kafka.stages.warm_up import warm_up_aggregator, warm_up_explainer

    for model in ("forest", "tree", "linear"):
        arguments = ["--broker", "none", "--model", model, "--rows", "400", "--explain", "ipfi,isage,ipdp"]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            cli(["run", *arguments], standalone_mode=False)
        warm_up_explainer(load(assignments=[f"model.name={model}"]))
    warm_up_aggregator(load())
    assert threading.active_count() == 1, "a fork would lose the other threads"
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    from glasstream.app.command.main import main

    _warm_up()
    arguments = _Server().serve()
    sys.argv = ["glasstream", *arguments]
    main()
