"""The learner says what keeps predictions from being attributed, or makes it slow, and says it once."""

import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.flow.reference import Reference
from glasstream_topics import attributions, events

ROWS = 300


def told(*assignments: str, target: str | float = "yes") -> tuple[list[str], int]:
    """Return the notices about attributions, and the number of explained events."""
    draws = np.random.default_rng(0)
    rows = [
        {"x": {"a": float(a), "b": float(b)}, "y": ("no", target)[int(a > b)] if target == "yes" else float(a + b)}
        for a, b in draws.normal(size=(ROWS, 2))
    ]
    loop = Reference(load(assignments=["explain.methods=attributions", "publish.every=100000", *assignments]))
    messages = [(events.key("s"), orjson.dumps(rows[first : first + 20])) for first in range(0, ROWS, 20)]
    explained = sum(topic == attributions.TOPIC.name for topic, _ in loop.run(messages))
    return [line for line in loop.notices if "attributions" in line], explained


@pytest.mark.parametrize("output", ["yes", "no"])
def test_a_class_that_occurs_needs_no_word(output: str) -> None:
    lines, explained = told("model.name=tree", f"attributions.output={output}")
    assert lines == [] and 0 < explained < ROWS - 100


def test_a_class_that_does_not_occur_is_told_once() -> None:
    lines, explained = told("model.name=tree", "attributions.output=maybe")
    (line,) = lines
    assert line.endswith("expected a class of the stream, got 'maybe'; no prediction is explained before it occurs")
    assert explained == 0


def test_numbers_have_no_class() -> None:
    lines, explained = told("model.name=tree", "model.task=regression", "attributions.output=yes", target=1.0)
    assert ["expected no class for a regression, got 'yes'" in line for line in lines] == [True] and explained == 0


def test_a_forest_of_medians_is_said_to_be_slow() -> None:
    lines, _ = told("model.name=forest", "model.task=regression", "attributions.share=0.01", target=1.0)
    assert ["mixtures of rows, which is slow" in line for line in lines] == [True]
    assert told("model.name=forest", "attributions.share=0.01")[0] == []
