"""Run mutations in forked children, with limits of time and memory, and tell findings from refusals."""

import faulthandler
import os
import random
import resource
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.target import Target

_CHUNK = 200
"""Mutations of one child: forking costs more than most mutations, and a crash ends the child."""
_SIGNALS = {signal.SIGALRM: "hang", signal.SIGKILL: "killed"}
_OWN_FRAMES = 3


@dataclass(slots=True)
class Outcome:
    """What came of the mutations of a target.

    Attributes
    ----------
    counts
        Number of mutations by outcome.
    findings
        Number of the mutation, and what happened, for each one that did not end as documented.
    """

    counts: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[int, str]] = field(default_factory=list)

    def add(self, number: int, word: str, finding: str | None = None) -> None:
        self.counts[word] += 1
        if finding is not None:
            self.findings.append((number, finding))


def fuzz(target: Target, seed: int, first: int, count: int) -> Outcome:
    """Run the mutations `first` to `first + count - 1` of a seed. A number and the seed repeat one mutation exactly."""
    outcome = Outcome()
    number, end = first, first + count
    while number < end:
        number = _in_child(target, seed, number, min(number + _CHUNK, end), outcome)
    return outcome


def one(target: Target, seed: int, number: int) -> str:
    """Run one mutation in this process: for a debugger."""
    return target.run(_source(target, seed, number))


def _source(target: Target, seed: int, number: int) -> random.Random:
    return random.Random(f"{target.name}/{seed}/{number}")


def _in_child(target: Target, seed: int, first: int, end: int, outcome: Outcome) -> int:
    """Run mutations in a child until it ends; return the number of the next one."""
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _limit(target)
        with os.fdopen(write, "w", buffering=1, encoding="utf-8") as out:
            for number in range(first, end):
                _run(target, seed, number, out.write)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as lines:
        text = lines.read()
    _, status = os.waitpid(child, 0)
    done = first
    for line in text.splitlines():
        word, _, finding = line.partition("\t")
        outcome.add(done, word, finding or None)
        done += 1
    if status and done < end:
        by = signal.Signals(os.WTERMSIG(status)) if os.WIFSIGNALED(status) else None
        word = _SIGNALS.get(by, by.name) if by else f"exit {os.waitstatus_to_exitcode(status)}"
        documented = target.ended(_source(target, seed, done))
        outcome.add(done, documented or word, None if documented else word)
        done += 1
    return done


def _limit(target: Target) -> None:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + target.mib * 2**20
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.disable()  # a crash is counted, and its number repeats it
    # Its default action ends the process: a kernel that never returns does not come back to Python.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _run(target: Target, seed: int, number: int, write: Callable[[str], object]) -> None:
    """Run one mutation and write a line for its outcome."""
    signal.alarm(target.seconds)
    try:
        word = target.run(_source(target, seed, number))
    except target.refused:
        write("refused\n")
    except BaseException as error:  # noqa: BLE001 - any other exception is what the harness looks for
        frames = traceback.extract_tb(error.__traceback__)[-_OWN_FRAMES:]
        where = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in reversed(frames))
        text = " ".join(str(error).split())
        write(f"{type(error).__name__}\t{type(error).__name__}: {text:.200} ({where})\n")
    else:
        write(f"{word}\n")
    signal.alarm(0)
