"""Mutated checkpoints are refused or learned on: no access out of bounds, no crash, memory within bounds."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from river import tree

from glasstream.errors import FrameError
from glasstream.learning import checkpoint
from glasstream.learning.layout import BLOCK, COUNT, HEADER, ROOT
from glasstream.learning.live import LiveModel, take
from glasstream_topics import frames
from tests.learning.mutations import FAMILIES, learn

IN_CI = ("forest", "adaptive regressor")
"""Together they have all there is in an arena: tables of classes, search trees, alternates, detectors, subsets."""


def family_of(name: str) -> Any:
    return pytest.param(name, marks=() if name in IN_CI else pytest.mark.long)


@pytest.mark.slow
@pytest.mark.parametrize("family", map(family_of, FAMILIES))
def test_mutated_checkpoints(family: str) -> None:
    program = Path(__file__).with_name("mutations.py")
    command = [sys.executable, str(program), "--family", family, "--seeds", "1000:1005", "--mutations", "80"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1_200)
    assert ran.returncode == 0, ran.stderr[-3_000:]
    counts = json.loads(ran.stdout)
    assert counts["faults"] == 0
    assert min(counts["refused"], counts["ran"]) > 50


@pytest.mark.parametrize("count", [-1.0, -0.5, float("nan")])
def test_a_count_that_could_become_zero_again_is_refused(count: float) -> None:
    """A leaf would take the class for a new one, and enter it into its order a second time, beyond the order's end."""
    model = take(tree.HoeffdingTreeClassifier())
    learn(model, [({"a": float(number % 3)}, number % 2) for number in range(20)])
    frame = frames.decode(model.to_bytes(), checkpoint.KIND, checkpoint.VERSION)
    arena = frame.arrays["arena"].copy()
    slot = arena[frame.arrays["tree"][0, ROOT] + BLOCK]
    place = slot + HEADER + COUNT
    assert arena.view(np.float64)[place] == 10.0
    for value, sound in ((10.0, True), (count, False)):
        arena.view(np.float64)[place] = value
        data = frames.encode(checkpoint.KIND, checkpoint.VERSION, frame.meta, {**frame.arrays, "arena": arena})
        if sound:
            LiveModel.from_bytes(data)
        else:
            with pytest.raises(FrameError, match="trees that fill the arena"):
                LiveModel.from_bytes(data)
