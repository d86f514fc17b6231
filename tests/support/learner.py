"""Messages for the learner of a partition, and what it publishes for them."""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.settings import Settings
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.generic import GenericPredictor
from glasstream_topics import requests

BASE = [
    "model.name=linear", "topics.events=1", "explain.reservoir=10", "snapshot.doubling=8", "snapshot.cadence=20",
    "snapshot.target=0",
]  # fmt: skip


def settings(*more: str) -> Settings:
    return load(assignments=[*BASE, *more])


def event(number: int, **fields: object) -> dict:
    return {"x": {"a": float(number % 7), "b": float(number % 3)}, "y": number % 7 > 3, **fields}


def message(offset: int, content: object, key: bytes | None = b"s") -> Message:
    value = content if isinstance(content, bytes) or content is None else orjson.dumps(content)
    return Message("events", 0, offset, key, value)


def as_sent(seed: int, count: int = 160) -> Iterator[dict[str, Any]]:
    """Events as users send them: texts, gaps, features that come late or in another order, late labels, bad ones."""
    source = random.Random(seed)
    width = source.choice([3, 5, 90])
    gaps, oddities, late = source.choice([0.0, 0.3]), source.choice([0.0, 0.05]), source.choice([0.1, 0.9])
    for number in range(count):
        x: dict[str, Any] = {f"f{place}": round(source.gauss(number // 80 * 2, 1), 2) for place in range(width)}
        x["day"] = source.choice(["mon", "tue", "wed", "thu", "fri"][: 2 + number // 40])
        x["open"] = source.random() < 0.5
        if number > 100:
            x["late"] = source.randrange(4)
        for name in list(x):
            if source.random() < gaps:
                x[name] = None
            elif source.random() < gaps:
                del x[name]
        if source.random() < oddities:
            x = dict(reversed(x.items()))
        above = (x.get("f0") or 0.0) > number // 80 * 2
        y: Any = "c" if number > 90 and x.get("day") == "mon" else "ab"[above]
        event: dict[str, Any] = {"id": number, "x": x or {"f0": 0.0}, "y": y}
        if source.random() < late:
            del event["y"]
        if source.random() < oddities:
            event = source.choice(
                [{"id": number, "x": {}}, {**event, "y": 1.5}, {**event, "z": 0}, {"id": 10**6, "y": "a"}]
            )
        yield event
        if number > 5 and source.random() < late:
            yield {"id": number - source.choice([0, 1, 5, 5, 5]), "y": source.choice("ab")}


def content(predictor: Predictor) -> object:
    """Return what a snapshot holds; for a model that is not compiled, whose it is."""
    return predictor.pack() if not isinstance(predictor, GenericPredictor) else predictor.features


class Collected:
    """Everything that a learner has produced, with blocks taken apart into rows."""

    def __init__(self) -> None:
        self.predictions: list[bytes] = []
        self.rows: dict[int, tuple] = {}
        self.draws = b""
        self.flushes: set[int] = set()
        self.snapshots: list[tuple[int, object]] = []
        self.dead: list[list] = []

    def take(self, learner: PartitionLearner) -> None:
        learner.cut()
        outbox, dead = learner.take_outbox()
        self.predictions += [record for _, record in outbox.predictions]
        self.snapshots += [(one.version, content(one.predictor)) for one in outbox.snapshots]
        self.dead += [[(found.index, found.reason) for found in one.found] for one in dead]
        for block in outbox.requests:
            block = requests.decode(requests.encode(block))
            if block.flush_before:
                self.flushes.add(block.first_row)
            if "ipfi" in block.draws:  # not if no event of the block has a label
                self.draws += block.draws["ipfi"].tobytes()
            for i in range(block.count):
                row = block.first_row + i
                assert row not in self.rows, "a row was sent twice"
                self.rows[row] = (
                    block.version,
                    int(block.seqs[i]),
                    block.x[i].tobytes(),
                    block.classes[int(block.y[i])] if block.classes and block.y[i] >= 0 else repr(block.y[i]),
                    None if block.parts else block.draws["ipfi"][i].tobytes(),
                    tuple(block.names),
                    block.staleness,
                    block.times[i] if block.times else None,
                    block.parts[i] if block.parts else None,
                )


def learn(messages: Iterable[Message], cut_every: int = 1, given: Settings | None = None) -> Collected:
    learner = PartitionLearner(0, (given or settings()))
    collected = Collected()
    steps = 0
    for one in messages:
        for _ in learner.consume(one):
            steps += 1
            if steps % cut_every == 0:
                collected.take(learner)
    collected.take(learner)
    return collected


def same(a: Collected, b: Collected) -> None:
    assert a.predictions == b.predictions
    assert a.rows == b.rows
    assert a.flushes == b.flushes
    assert [version for version, _ in a.snapshots] == [version for version, _ in b.snapshots]
    assert a.dead == b.dead
