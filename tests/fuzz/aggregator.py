"""A stream of contributions, and the aggregator's state in the middle of it: what two targets mutate."""

import asyncio
import logging
import random
from collections.abc import Sequence

import orjson

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.explain.explainer import explain
from glasstream.flow import reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest

ASSIGNMENTS = (
    "explain.methods=ipfi,isage,ipdp",
    "explain.reservoir=20",
    "publish.every=10",
    "topics.events=1",
    "model.name=linear",
)
EVENTS, CHANGE, MESSAGE = 1_500, 600, 25
HALF = 2 / 3
"""Share of the blocks that are aggregated before the state is taken."""


def _event(draws: random.Random, number: int) -> dict[str, object]:
    a, b = draws.random(), draws.random()
    x = {"a": a, "b": b, "t": draws.choice("uvw"), "flag": draws.random() < 0.5}
    return {"id": number, "x": x, "y": "p" if (a if number < CHANGE else b) > 0.5 else "q"}


class Aggregated:
    """Contributions of one stream in the order of its rows, and the committed state after most of them.

    Parameters
    ----------
    assignments
        Further settings.
    """

    def __init__(self, *assignments: str) -> None:
        self.settings: Settings = load(assignments=[*ASSIGNMENTS, *assignments])
        logging.getLogger("glasstream.kafka.stages.aggregator").setLevel(logging.CRITICAL)  # a line for each mutation
        self.blocks = self._explained()
        self.half = int(len(self.blocks) * HALF)
        task = self.task({})
        self.feed(task, 0, self.blocks[: self.half])
        self.state = committed(task)
        task = self.task(self.state)
        self.feed(task, self.half, self.blocks[self.half :])  # compiles what is left
        self.task(committed(task) | self.state)

    def _explained(self) -> list[bytes]:
        """Return the contributions that the plain loop explains."""
        explained: list[Contributions] = []

        def listen(block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
            answers = explain(block, model)
            explained.extend(answers)
            return answers

        original, reference.explain = reference.explain, listen  # type: ignore[attr-defined]
        try:
            draws = random.Random(2)
            events = [_event(draws, number) for number in range(EVENTS)]
            messages = (orjson.dumps(events[first : first + MESSAGE]) for first in range(0, EVENTS, MESSAGE))
            for _ in reference.Reference(self.settings).run((b"s", message) for message in messages):
                pass
        finally:
            reference.explain = original  # type: ignore[attr-defined]
        return [contributions.encode(block) for block in explained if block.count]

    def task(self, state: dict[bytes, bytes]) -> AggregatorTask:
        """Return the aggregator that resumes from a state."""
        task = AggregatorTask(0, self.settings)
        task.restore(dict(state), 0, 2 * len(self.blocks))
        return task

    def feed(self, task: AggregatorTask, first: int, values: Sequence[bytes]) -> None:
        """Aggregate messages from an offset on."""
        for offset, value in enumerate(values, first):
            asyncio.run(task.feed([Message("contributions", 0, offset, b"s", value)]))


def committed(task: AggregatorTask) -> dict[bytes, bytes]:
    """Return the state that an aggregator commits."""
    state: dict[bytes, bytes] = {}
    while outputs := task.collect():
        for record in outputs.progress:
            if record.value is not None:
                state[record.key or b""] = record.value
    return state
