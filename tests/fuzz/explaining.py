"""Requests and the models that they name: what two targets mutate."""

import random

import orjson

from glasstream.app.configuration import load
from glasstream.explain.explainer import explain
from glasstream.flow import reference
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest

KINDS = (("forest", "classification"), ("linear", "classification"), ("tree", "regression"))
EVENTS, MESSAGE = 700, 25


def _event(draws: random.Random, number: int, task: str) -> dict[str, object]:
    a, b = draws.random(), draws.random()
    x = {"a": a, "b": b, "t": draws.choice("uvw"), "flag": draws.random() < 0.5, "c": draws.gauss(0, 1)}
    label: object = a + b * b if task == "regression" else "p" if a > 0.5 else "q" if b > 0.3 else "r"
    return {"id": number, "x": x, "y": label}


ATTRIBUTED = ("forest",)
"""Models of which attributions are asked, too."""


def requested(model: str, task: str) -> tuple[ExplainRequest, Predictor]:
    """Return the last block that a plain loop explains, and its model."""
    settings = load(
        assignments=[
            f"explain.methods=ipfi,isage,ipdp{',attributions' * (model in ATTRIBUTED)}",
            "explain.reservoir=20",
            "topics.events=1",
            f"model.name={model}",
            f"model.task={task}",
            "snapshot.cadence=100",
        ]
    )
    asked: list[tuple[ExplainRequest, Predictor]] = []

    def listen(block: ExplainRequest, predictor: Predictor | None) -> list[Contributions]:
        if block.count and predictor is not None:
            asked.append((block, predictor))
        return explain(block, predictor)

    original, reference.explain = reference.explain, listen  # type: ignore[attr-defined]
    try:
        draws = random.Random(2)
        events = [_event(draws, number, task) for number in range(EVENTS)]
        messages = (orjson.dumps(events[first : first + MESSAGE]) for first in range(0, EVENTS, MESSAGE))
        for _ in reference.Reference(settings).run((b"s", message) for message in messages):
            pass
    finally:
        reference.explain = original  # type: ignore[attr-defined]
    return asked[-1]


def answered(block: ExplainRequest, predictor: Predictor) -> str:
    """Let an explainer answer, and return the word for the outcome; every answer can be read."""
    answers = explain(block, predictor)
    for answer in answers:
        contributions.decode(contributions.encode(answer))
    return "failed" if any(answer.kind == "failed" for answer in answers) else "ok"
