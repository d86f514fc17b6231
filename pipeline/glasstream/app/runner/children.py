"""Child processes for the stages of `glasstream run`: start, watch, restart, end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType

from glasstream.base.errors import BrokerError, GlasstreamError, StageDiedError
from glasstream.kafka.transport.worker import ExitCode

_STOP_SECONDS = 20.0
_QUICK_DEATH_SECONDS = 5.0
"""Lifetime in seconds below which a worker is restarted only after a pause. The pause grows each time."""
_LONGEST_PAUSE = 10.0


_INTERPRETED = "interpreted"
PAGE = "page"
"""Name of the page process. The run continues when it ends."""


@dataclass(slots=True)
class _Child:
    stage: str
    instance: str
    command: tuple[str, ...]
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    due: float = 0.0
    """Time of the next start."""
    deaths: int = 0
    quick_deaths: int = 0
    kernels: Path | None = None
    """File in which the worker says which kernels it runs."""


@dataclass(slots=True)
class Children:
    """Workers on this machine.

    Parameters
    ----------
    environment
        Environment of every child; it carries the settings.
    restart
        Whether to restart a dead explainer.
    say
        Function that prints a line for the user.
    """

    environment: Mapping[str, str]
    restart: bool
    say: Callable[[str], None]
    _children: list[_Child] = field(default_factory=list)
    _folder: "TemporaryDirectory[str]" = field(default_factory=lambda: TemporaryDirectory(prefix="glasstream-run-"))

    def add(self, stage: str, instance: str) -> None:
        """Start a worker."""
        kernels = Path(self._folder.name, instance)
        self._add(_Child(stage, instance, ("worker", stage, "--kernels", str(kernels)), kernels=kernels))

    def add_page(self, *, show: bool) -> None:
        """Start the page; with `show`, open it in a browser."""
        self._add(_Child(PAGE, PAGE, (PAGE, "--open") if show else (PAGE,)))

    def _add(self, child: _Child) -> None:
        self._children.append(child)
        self._start(child)

    def pids(self, stage: str) -> list[int]:
        """Return the process ids of the living workers of a stage."""
        return [
            child.process.pid
            for child in self._children
            if child.stage == stage and child.process is not None and child.process.poll() is None
        ]

    def loading(self) -> list[str]:
        """Return the names of the workers that load their kernels before they start."""
        return [one.instance for one in self._children if one.process and one.kernels and not one.kernels.exists()]

    def interpreting(self) -> list[str]:
        """Return the names of the workers that run plain Python while their kernels are compiled."""
        files = [(one.instance, one.kernels) for one in self._children if one.process and one.kernels]
        return [name for name, file in files if file.exists() and file.read_text() == _INTERPRETED]

    def check(self) -> None:
        """Check for dead workers, and restart explainers.

        Raises
        ------
        StageDiedError
            A learner or aggregator died, or restarts are off.
        """
        now = time.monotonic()
        for child in tuple(self._children):
            if child.process is None:
                if now >= child.due:
                    self._start(child)
                continue
            code = child.process.poll()
            if code is None:
                continue
            self._bury(child, code, now)

    def _bury(self, child: _Child, code: int, now: float) -> None:
        child.process = None
        child.deaths += 1
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code} ({_name(code)})"
        why = "its last lines above give the reason"
        if code == -signal.SIGKILL:
            why = "by a user, or by the kernel because memory ran out (see dmesg)"
        if child.stage == PAGE:
            self.say(f"the page process ended: {how}; {why}. The run continues")
            self._children.remove(child)
            return
        if not self.restart or child.stage != "explainer" or code == ExitCode.USAGE:
            raise StageDiedError(f"{child.stage} {child.instance} ended: {how}; {why}")
        quick = now - child.started < _QUICK_DEATH_SECONDS
        child.quick_deaths = child.quick_deaths + 1 if quick else 0
        pause = min(_LONGEST_PAUSE, max(0.0, child.quick_deaths - 1.0))
        child.due = now + pause
        after = f" in {pause:.0f} s" if pause else ""
        self.say(f"explainer {child.instance} ended: {how}; restarting it{after} (restart {child.deaths})")
        if not pause:
            self._start(child)

    def _start(self, child: _Child) -> None:
        environment = {**self.environment, "GLASSTREAM_WORKER_INSTANCE": child.instance}
        try:
            child.process = start_process((*child.command, "--tether"), environment)
        except OSError as error:
            raise BrokerError(f"cannot start {child.stage}: {error}") from error
        child.started = time.monotonic()

    def stop(self, *, at_once: bool = False, but: tuple[str, ...] = ()) -> None:
        """Stop all workers except those of the stages in `but`, gracefully or at once."""
        ended = [child for child in self._children if child.stage not in but]
        alive = [child.process for child in ended if child.process is not None]
        for process in alive:
            process.send_signal(signal.SIGKILL if at_once else signal.SIGTERM)
        deadline = time.monotonic() + _STOP_SECONDS
        for process in alive:
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdin is not None:
                process.stdin.close()
        self._children = [child for child in self._children if child.stage in but]

    def __enter__(self) -> "Children":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(at_once=kind is not None and not issubclass(kind, GlasstreamError))


def start_process(arguments: Sequence[str], environment: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    """Start `glasstream` with these arguments in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "glasstream.app.command.main", *arguments],
        env=environment,
        stdin=subprocess.PIPE,  # its end tells the child that this process is gone, for whatever reason
        start_new_session=True,  # Ctrl-C reaches only this process, which stops the stages in order
    )


def write_kernels(file: Path, interpreted: bool) -> None:
    """Tell the parent whether plain Python runs in place of kernels."""
    written = file.with_suffix(".written")
    written.write_text(_INTERPRETED if interpreted else "compiled", encoding="utf-8")
    written.replace(file)  # whole, whenever it is read


def _name(code: int) -> str:
    return ExitCode(code).name.lower() if code in ExitCode._value2member_map_ else "unknown"


def die_with_parent() -> None:
    """End this child process at once when its parent, and so its standard input, is gone."""

    def wait_for_the_end() -> None:
        while os.read(0, 4096):
            pass
        os._exit(ExitCode.FAILED)

    threading.Thread(target=wait_for_the_end, name="tether", daemon=True).start()
