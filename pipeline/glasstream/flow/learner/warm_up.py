"""Compile the learner's kernels ahead, so that its first block blocks no event loop."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np
import orjson

from glasstream.events.admission import Task
from glasstream.events.message import Message
from glasstream.explain.losses import possible_tasks
from glasstream.flow.learner.make_model import fixed_model
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream.models.river.catalogue import BUNDLED
from glasstream_topics import events

ROWS: Final = 240
"""Number of rows of a small stream: enough for snapshots, full reservoirs, and some rows after each."""
PER_MESSAGE: Final = 20


def warm_up(settings: Settings) -> None:
    """Learn a small stream for each task that is possible. Kernels that numba has on disk are loaded.

    A user's own model is left alone: it need not take these features. One that is already trained evaluates a row.
    """
    if not settings.model.learns:
        predictor = fixed_model(settings).predictor
        predictor.evaluate(np.zeros((1, len(predictor.features))))
    if settings.model.name not in BUNDLED:
        return
    small = msgspec.structs.replace(
        settings,
        explain=msgspec.structs.replace(settings.explain, reservoir=10),
        snapshot=msgspec.structs.replace(settings.snapshot, doubling=32, cadence=40),
    )
    tasks = possible_tasks(settings.model.chosen_task, settings.explain.loss)
    for target, of in (("two", Task.CLASSIFICATION), ("number", Task.REGRESSION)):
        if of in tasks:
            learner = PartitionLearner(0, small)
            for message in messages(target):
                for _ in learner.consume(message):
                    pass
                learner.cut()
                learner.take_outbox()


def messages(target: str, rows: int = ROWS) -> Iterator[Message]:
    """Yield a stream of numbers, texts, booleans and missing values; `target` is ``two``, ``three`` or ``number``."""
    key = events.key("small")
    for offset, first in enumerate(range(0, rows, PER_MESSAGE)):
        block = [_event(number, target) for number in range(first, first + PER_MESSAGE)]
        yield Message(events.TOPIC.name, 0, offset, key, orjson.dumps(block))


def _event(number: int, target: str) -> dict[str, Any]:
    a, b = float(number * 37 % 101), float(number * 53 % 97)
    x: dict[str, Any] = {"a": a, "b": b, "text": "uvw"[number % 3], "boolean": number % 2 == 0}
    if number % 7:
        x["sometimes"] = a - b
    high = (a > 50) != (number > ROWS // 2)  # a change of the concept, to raise alarms
    y = {"two": "high" if high else "low", "three": "none" if b > 60 else str(high), "number": a + 2 * b}[target]
    return {"id": number, "x": x, "y": y}
