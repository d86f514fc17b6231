"""Plain Python in place of kernels: the same bytes, also when compiled kernels replace it in mid-stream."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest

from glasstream.app.runner.precompile import CASES, Case, settings_of
from glasstream.base import jit
from glasstream.events.message import Message
from glasstream.explain.settings import NOVELTY
from glasstream.flow.learner.warm_up import messages
from glasstream.flow.reference import Encoded
from glasstream_topics import events

INTERPRETED = [case for case in CASES if NOVELTY not in case.settings["explain.methods"]]
"""The detector of novelty never runs plain Python: its sums of many rows have other last bits there."""


@contextmanager
def interpreted() -> Iterator[None]:
    jit.interpret()
    try:
        yield
    finally:
        jit.compiled()


def published(case: Case, stream: Sequence[Message], compiled_from: int) -> list[tuple[str, bytes]]:
    """Return what is published if the kernels of the first messages are plain Python."""
    pipeline = Encoded(settings_of(case))
    with interpreted():
        records = [record for message in stream[:compiled_from] for record in pipeline.feed(message)]
    return records + [record for message in stream[compiled_from:] for record in pipeline.feed(message)]


@pytest.mark.parametrize("case", INTERPRETED, ids=lambda case: f"{case.settings['model.name']}-{case.target}")
def test_plain_python_publishes_the_same_bytes(case: Case) -> None:
    stream = list(messages(case.target))
    compiled = published(case, stream, 0)
    assert {topic for topic, _ in compiled} >= {"predictions", "importance", "effects", "attributions"}
    assert published(case, stream, len(stream)) == compiled


@pytest.mark.parametrize("case", {case.settings["model.name"]: case for case in reversed(INTERPRETED)}.values())
def test_compiled_kernels_may_replace_plain_python_in_mid_stream(case: Case) -> None:
    stream = list(messages(case.target))
    assert published(case, stream, len(stream) // 2) == published(case, stream, 0)


def extreme(target: str) -> Iterator[Message]:
    """Yield a stream of numbers near the ends of what a double holds, of zeros, and of features that come and go."""
    ends = (0.0, -0.0, 5e-324, -2.2e-308, 1e-160, 1.0, -1e160, 1.7e308, -1.7e308, 709.8, -745.2, 2.0**53)
    key, partition = events.key("small"), events.partition(events.key("small"), settings_of(CASES[0]).topics.events)
    for row in range(200):
        x: dict[str, Any] = {"a": ends[row % 12], "b": ends[row * 7 % 11], "text": "uvwxyz"[row * row % 6]}
        if row % 5:
            x["c"] = -ends[row * 5 % 12]
        y: Any = "high" if (row * 37 % 101 > 50) != (row > 100) else "low"
        if target == "number":
            y = ends[row * 3 % 7] if row % 9 else 1e300
        yield Message(events.TOPIC.name, partition, row, key, orjson.dumps({"x": x, "y": y}))


@pytest.mark.parametrize("target", ["two", "number"])
@pytest.mark.parametrize("model", ["forest", "tree", "linear"])
def test_plain_python_takes_every_number_that_a_kernel_takes(model: str, target: str) -> None:
    """Python raises errors where compiled code has infinities and NaN."""
    case = Case(target, {"model.name": model, "explain.methods": "ipfi,isage,ipdp,attributions"})
    stream = list(extreme(target))
    compiled = published(case, stream, 0)
    assert len(compiled) > len(stream)
    assert published(case, stream, len(stream)) == compiled


PROGRAM = """
import asyncio, sys
from glasstream.app.configuration import load
from glasstream.kafka.stages.kernels import compile_meanwhile
from glasstream.models.predictors.kernels.linear_forms import linked

async def main():
    ended = asyncio.Event()
    settings = load(assignments=["model.name=linear", "model.task=regression"])
    service = compile_meanwhile("explainer", settings, ended.set)
    if service is None:
        return print("loaded")
    print("interpreted", linked(0.5, 0), len(linked.signatures))
    await service.start()
    await ended.wait()
    await service.stop()
    print("compiled", linked(0.5, 0), len(linked.signatures))

asyncio.run(main())
"""


@pytest.mark.program
@pytest.mark.slow
def test_a_stage_begins_with_plain_python_and_changes_over(tmp_path: Path) -> None:
    """Whoever reads what it prints need not wait for the process that compiles."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", PROGRAM]
    said = [subprocess.check_output(command, env=environment, text=True).split() for _ in range(2)]
    assert said == [["interpreted", "0.5", "0", "compiled", "0.5", "1"], ["loaded"]]


def end_compiling(cache: Path) -> None:
    """End the processes that compile kernels for this cache."""
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if f"NUMBA_CACHE_DIR={cache}".encode() in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


@pytest.mark.program
@pytest.mark.slow
def test_the_first_run_shows_results_of_plain_python(tmp_path: Path) -> None:
    """It leaves a process that compiles, and who waits for the output of the run does not wait for that."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "glasstream.app.command.main", "run", "--model", "linear", "--rows", "600"]
    compiled = [*command, "--broker", "none", "--out", str(tmp_path / "compiled")]
    try:
        said = subprocess.check_output([*command, "--out", str(tmp_path / "first")], env=environment, text=True)
    finally:
        end_compiling(tmp_path / "cache")
    subprocess.run(compiled, check=True, stdout=subprocess.DEVNULL)
    assert "kernels are not compiled yet" in said and "processes of low priority" in said
    for topic in ("predictions", "importance", "drift", "incidents"):
        files = [tmp_path / name / f"{topic}.jsonl" for name in ("first", "compiled")]
        assert files[0].read_bytes() == files[1].read_bytes()
