"""Marks that name a model: from their place on the log on, the stream has that model, whatever dies, wakes or moves."""

from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from glasstream.settings import Settings
from glasstream_topics import events
from tests.fixed.exports import exported
from tests.fixed.test_fixed_model import event, settings
from tests.pipeline_in_memory import Pipeline

PUBLIC = ("predictions", "importance", "effects", "drift", "incidents")
UNLABELLED = ("explain.unlabelled=true", "explain.methods=ipfi,ipdp")
FIRST, SECOND, THIRD = "encoded forest", "encoded network", "ordinal boosting"
"""The second one is evaluated by onnxruntime."""
Log = list[bytes | str]
"""Messages, and names of models to push."""


def of(folder: Path, *more: str) -> Settings:
    return settings(folder, FIRST, *more)


def log(count: int, marks: dict[int, str], size: int = 7) -> Log:
    """Events in messages, some without labels, and models to push before the messages with these numbers."""
    values: Log = []
    for number, first in enumerate(range(0, count, size)):
        values += [marks[number]] if number in marks else []
        values.append(orjson.dumps([event(one) for one in range(first, min(first + size, count))]))
    return [*values, events.FLUSH]


MARKS = {5: SECOND, 6: THIRD, 10: FIRST}
"""Two replacements and a roll-back."""


async def play(pipeline: Pipeline, values: Log, *, after: Any = None) -> None:
    for value in values:
        if isinstance(value, str):
            value = events.model_mark(pipeline.log.store(exported(value)))
        pipeline.log.send(b"s", value)
        await pipeline.step()
        if after is not None:
            await after()
    await pipeline.finish()


def assert_as_the_plain_loop(pipeline: Pipeline) -> dict[tuple[str, str], list[bytes]]:
    expected, found = pipeline.expected(*PUBLIC), pipeline.published(*PUBLIC)
    assert {place: len(values) for place, values in found.items()} == {
        place: len(values) for place, values in expected.items()
    }, "lost or double"
    assert found == expected
    return found


def versions(found: dict[tuple[str, str], list[bytes]], topic: str) -> list[int]:
    return [orjson.loads(value)["model_version"] for value in found[topic, "s"]]


@pytest.mark.parametrize("more", [(), UNLABELLED], ids=["rows", "entries"])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_the_records_are_those_of_the_plain_loop(
    tmp_path: Path, more: tuple[str, ...], seed: int
) -> None:
    """Old events have the old model, and new ones the new model."""
    pipeline = Pipeline(of(tmp_path, *more), seed)
    happened: Counter[str] = Counter()

    async def fault() -> None:
        await pipeline.fault()

    pipeline.drive(lambda: play(pipeline, log(112, MARKS), after=fault))
    found = assert_as_the_plain_loop(pipeline)
    happened += pipeline.happened
    assert len(happened) > 6, happened
    assert versions(found, "predictions") == [0] * 35 + [1] * 7 + [2] * 28 + [3] * 42
    assert set(versions(found, "importance")) >= {0, 2, 3}
