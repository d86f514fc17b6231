"""A novelty detector's stage without Kafka, and its log."""

import random
from concurrent.futures import Future
from dataclasses import dataclass, field

from glasstream.app.configuration import load
from glasstream.detect.novelty.fit import Request, fit
from glasstream.detect.novelty.settings import NoveltySettings
from glasstream.events.message import Message
from glasstream.kafka.stages.novelty import NoveltyTask
from glasstream_topics import events
from tests.support.late_labels import apart
from tests.support.novelty_logs import BASE, mixed, packed

SETTINGS = load(assignments=[*BASE, "novelty.anchor=70"])


class Inline:
    """In the place of the process that fits."""

    def submit(self, request: Request, settings: NoveltySettings, seed: int) -> "Future[bytes]":
        made: Future[bytes] = Future()
        made.set_result(fit(request, settings, seed))
        return made


@dataclass
class Broker:
    """Committed records."""

    records: list[tuple[bytes | None, bytes | None]] = field(default_factory=list)
    state: dict[bytes, bytes] = field(default_factory=dict)

    def commit(self, stage: NoveltyTask) -> None:
        outputs = stage.collect()
        self.records += [(record.key, record.value) for record in outputs.records]
        for record in outputs.progress:
            assert record.key is not None
            if record.value is None:
                self.state.pop(record.key)
            else:
                self.state[record.key] = record.value


def log() -> list[Message]:
    """Streams of different lengths and paces, and messages that are none."""
    streams = [iter(packed(mixed(count), size, key)) for count, size, key in ((500, 23, b"a"), (300, 5, b"b"))]
    streams.append(iter(packed(mixed(20), 20, b"idle")))
    late = mixed(300, labels=0.9)
    streams.append(iter(packed(apart(late, [250 if n > 40 else 30 for n in range(300)]), 11, b"late")))
    chance = random.Random(3)
    values: list[tuple[bytes | None, bytes | None]] = []
    while streams:
        one = chance.choice(streams)
        message = next(one, None)
        if message is None:
            streams.remove(one)
        else:
            values.append((message.key, message.value))
        if chance.random() < 0.1:
            values.append((b"a", b"{"))
    for at, key in ((40, b"late"), (50, b"a"), (60, b"b")):
        values.insert(at, (key, events.RESET))
    return [Message("events", 0, offset, key, value) for offset, (key, value) in enumerate(values)]


LOG = log()
