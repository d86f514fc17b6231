"""What a stage imports."""

import os
import subprocess
import sys

import pytest

from glasstream.configuration import load
from glasstream.transport.options import options


def test_a_worker_has_one_name_and_a_fork_another() -> None:
    """Its name decides what is fenced, so whoever asks twice must not be told of two workers."""
    settings = load()
    name = options("learner", settings).instance
    assert options("learner", settings).instance == options("aggregator", settings).instance == name
    assert options("learner", load(assignments=["worker.instance=mine"])).instance == "mine"
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, options("learner", settings).instance.encode())
        os._exit(0)
    os.waitpid(child, 0)
    other = os.read(reader, 100).decode()
    assert len(other) == len(name) and other != name


@pytest.mark.parametrize("stage", ["explainer", "aggregator", "novelty"])
def test_who_makes_no_model_imports_no_river(stage: str) -> None:
    """Nor what River brings: two seconds of every start."""
    program = (
        "import sys\n"
        "from glasstream.stages import build\n"
        "from glasstream.configuration import load\n"
        f"made = build._{stage}(load(), None)\n"
        "print(*sorted({'river', 'scipy.stats', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr
