"""Fuzz what the product reads: `python -m tests.fuzz --mutations 1000000`.

A target is a class of a module of this folder that derives from `tests.fuzz.target.Target`. Each mutation is refused as
documented, or the product works with it within its bounds of time and memory. Kernels check their bounds, and have a
cache of their own (NUMBA_BOUNDSCHECK=0 takes those that the tests use). The exit code is 1 if there are findings.
"""

import argparse
import multiprocessing
import os
import secrets
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from pathlib import Path

# Before numba is imported.
if os.environ.setdefault("NUMBA_BOUNDSCHECK", "1") == "1":
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir(), f"glasstream-fuzz-{os.getuid()}")))

from tests.fuzz.harness import Outcome, fuzz, one
from tests.fuzz.target import Target
from tests.fuzz.targets import targets

_SHOWN = 20
"""Findings that are printed for each target."""
_SLICE = 400
"""Mutations that a process gets at once."""
_LEAST = 20
"""Mutations of a target at least: those of slow targets have small shares."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    known = {target.name: target for target in targets()}
    parser.add_argument("--mutations", type=int, default=10_000, help="number of mutations of all targets together")
    parser.add_argument("--seed", type=int, help="seed of the mutations; a new one by default, which is printed")
    parser.add_argument("--targets", default=",".join(known), help=f"targets, of {', '.join(known)}; default: all")
    parser.add_argument("--processes", type=int, default=1, help="processes that run mutations at the same time")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="repeat one mutation, without a child process")
    arguments = parser.parse_args()
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    names = arguments.targets.split(",")
    if unknown := set(names) - set(known):
        parser.error(f"--targets: expected some of {', '.join(known)}, got {', '.join(sorted(unknown))}")
    weight = sum(known[name].share for name in names)
    print(f"seed {seed}, NUMBA_BOUNDSCHECK={os.environ['NUMBA_BOUNDSCHECK']}", flush=True)
    findings = 0
    for name in names:
        if arguments.only is not None:
            print(name, one(known[name](), seed, arguments.only))
            continue
        count = max(_LEAST, round(arguments.mutations * known[name].share / weight))
        started = time.monotonic()
        outcome = _in_processes(name, seed, count, arguments.processes)
        took = time.monotonic() - started
        counts = ", ".join(f"{word} {number:,}" for word, number in sorted(outcome.counts.items()))
        print(f"{name}: {count:,} mutations in {took:.0f} s: {counts}", flush=True)
        for number, finding in outcome.findings[:_SHOWN]:
            print(f"    --targets {name} --seed {seed} --only {number}: {finding}", flush=True)
        findings += len(outcome.findings)
    print(f"{findings} findings", flush=True)
    return 1 if findings else 0


def _in_processes(name: str, seed: int, count: int, processes: int) -> Outcome:
    """Run the mutations of a target, and print a line a minute."""
    outcome, done, last = Outcome(), 0, time.monotonic()
    slices = [(first, min(_SLICE, count - first)) for first in range(0, count, _SLICE)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("fork")) as pool:
        for (_, size), found in zip(
            slices, pool.map(partial(_slice, name, seed), *zip(*slices, strict=True)), strict=True
        ):
            outcome.counts += found.counts
            outcome.findings += found.findings
            done += size
            if time.monotonic() - last > 60:
                last = time.monotonic()
                print(f"{name}: {done:,} of {count:,}, {len(outcome.findings)} findings", file=sys.stderr, flush=True)
    return outcome


def _slice(name: str, seed: int, first: int, count: int) -> Outcome:
    return fuzz(_made(name), seed, first, count)


@cache
def _made(name: str) -> Target:
    return next(target for target in targets() if target.name == name)()


if __name__ == "__main__":
    sys.exit(main())
