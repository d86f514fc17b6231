"""A learner that has warmed up compiles nothing more when it learns."""

import subprocess
import sys

import pytest

from glasstream.app.configuration import load
from glasstream.explain.losses import LOSSES
from glasstream.flow.learner.warm_up import warm_up

PROGRAM = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from glasstream.app.configuration import load
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.warm_up import messages, warm_up

def kernels():
    return {(one.py_func.__module__, one.py_func.__name__, len(one.signatures))
            for one in gc.get_objects() if isinstance(one, Dispatcher)}

settings = load(assignments=["model.name=" + sys.argv[1], "explain.methods=ipfi,isage,ipdp"])
warm_up(settings)
before = kernels()
assert any(count for _, _, count in before), "nothing was compiled"
for target in sys.argv[2:]:
    learner = PartitionLearner(0, settings)
    for message in messages(target, 1_200):
        list(learner.consume(message))
    learner.cut()
    assert learner.take_outbox()[0].predictions
    print(target, sorted(kernels() - before))
"""


@pytest.mark.program
@pytest.mark.parametrize("model", ["forest", "tree", "linear"])
def test_a_warm_learner_compiles_nothing_more(model: str) -> None:
    """Each kind of target meets the kernels of the warm-up alone, or one before it has compiled more, which fails."""
    targets = ["two", "three", "number"]
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, *targets], capture_output=True, text=True, check=True, timeout=300
    )
    assert found.stdout.splitlines() == [f"{target} []" for target in targets]


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_that_fits_one_task_decides_what_is_warmed_up(loss: str) -> None:
    warm_up(load(assignments=["model.name=linear", "explain.methods=ipfi", f"explain.loss={loss}"]))
