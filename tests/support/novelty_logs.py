"""Logs of events for the novelty detector, and what it says of them."""

import random
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from glasstream.app.configuration import load
from glasstream.detect.novelty.fit import fit
from glasstream.events.message import Message
from glasstream.events.sources.csv_file import CsvFile
from glasstream.flow.novelty.partition import PartitionDetector
from glasstream.flow.settings import Settings
from glasstream_topics import novelty
from glasstream_topics.novelty import Novelty

BASE = (
    "topics.events=1", "novelty.window=60", "novelty.stride=40", "novelty.delay=25", "novelty.held=0.4",
    "novelty.rate=0.1", "novelty.learners=3", "novelty.iterations=20", "novelty.test_interval=4", "novelty.grace=20",
    "novelty.delta=0.3",
)  # fmt: skip


@cache
def watch(*assignments: str) -> Settings:
    return load(assignments=[*BASE, *assignments])


def mixed(count: int, *, classes: int = 2, shift: int | None = None, labels: float = 0.6) -> list[dict[str, Any]]:
    """Numbers, texts, booleans, gaps, a feature that comes late; from `shift` on numbers are elsewhere."""
    rng = random.Random(7)
    made = []
    for n in range(count):
        away = 8.0 if shift is not None and n >= shift else 0.0
        x: dict[str, Any] = {
            "size": rng.gauss(away, 1), "open": rng.random() < 0.5, "town": f"t{rng.randrange(4)}",
            "rooms": rng.gauss(-away, 2),
        }  # fmt: skip
        if n > count // 3:
            x["late"] = rng.gauss(0, 1)
        x = {name: value for name, value in x.items() if rng.random() > 0.05} or {"size": 0.0}
        score = x.get("size", 0.0) ** 2 - x.get("rooms", 0.0) + (x.get("town") == "t1") + rng.gauss(0, 0.3)
        event = {"x": x, "id": str(n)}
        if rng.random() < labels:
            event["y"] = score if classes == 0 else "abc"[min(classes - 1, int(score > 0.5) + int(score > 2))]
        made.append(event)
    return made


def packed(made: list[dict[str, Any]], size: int, key: bytes = b"s") -> list[Message]:
    parts = [made[n : n + size] for n in range(0, len(made), size)]
    return [Message("events", 0, offset, key, orjson.dumps(part)) for offset, part in enumerate(parts)]


def told(core: PartitionDetector, log: Iterable[Message]) -> list[bytes]:
    """The records of a log; maps are fitted when they are due."""
    records = []
    for message in log:
        for due in core.consume(message):
            if due is not None:
                due.give(fit(due.pending, core.settings.novelty, core.settings.seed))
        records += [record for _, record in core.take_records()]
    return records


def whole(made: list[dict[str, Any]], size: int, *assignments: str) -> list[bytes]:
    return told(PartitionDetector(watch(*assignments)), packed(made, size))


def of_data_set(path: Path, rows: int, *assignments: str) -> list[Novelty]:
    """Return the records of the first rows of a data set, with the default settings except those that are given."""
    source = CsvFile(path, "target", "s", rows)
    source.look(None)
    core = PartitionDetector(load(assignments=["topics.events=1", *assignments]))
    return read(told(core, packed([*source.events()], 50)))


def read(records: Iterable[bytes]) -> list[Novelty]:
    return [novelty.decode(record) for record in records]
