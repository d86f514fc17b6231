"""Processes that follow a comparison on a real Kafka, and are killed or fenced: each record is published once."""

import os
from itertools import count
from pathlib import Path

import msgspec

from glasstream_topics import consume, events
from glasstream_topics.comparisons import Comparison
from tests.support.compared import ELEMENTS, ROWS, computed, of
from tests.support.fork_server import Forked, fork_server
from tests.support.transport_harness import make_topics
from tests.support.waiting import DEADLINE, wait_for
from tests.support.writing import Writer

PARTS = 5


def published(kafka: str, prefix: str) -> list[Comparison]:
    with consume.comparisons(kafka, prefix=prefix, follow=False) as records:
        return list(records)


def test_followers_that_are_killed_or_fenced_publish_each_record_once(kafka: str, prefix: str, tmp_path: Path) -> None:
    make_topics(kafka, dict.fromkeys((f"{prefix}{name}" for name in ("predictions", "events", "comparisons")), 2))
    streams = {"live": of("live"), "challenger": of("challenger")}
    wanted = computed(streams["live"], streams["challenger"], prefix=prefix)
    numbers, parts = count(), iter(range(PARTS))

    def go_on() -> None:
        """Write the next part of the predictions, events and labels."""
        part = next(parts)
        for name, answers in streams.items():
            some = answers[part * ROWS // PARTS : (part + 1) * ROWS // PARTS]
            Writer(kafka, f"{prefix}predictions").send(*map(msgspec.json.encode, some), key=name.encode())
        some_elements = ELEMENTS[part * len(ELEMENTS) // PARTS : (part + 1) * len(ELEMENTS) // PARTS]
        values = (events.encode(msgspec.to_builtins(one)) for one in some_elements)
        Writer(kafka, f"{prefix}events").send(*values, key=b"live")

    def start(*options: str) -> Forked:
        arguments = ["compare", "--broker", kafka, "--prefix", prefix, "live", "challenger", "--publish", *options]
        return fork_server().start(arguments, dict(os.environ), tmp_path / f"{next(numbers)}.log", tmp_path)

    def wait_for_more() -> None:
        before = len(published(kafka, prefix))
        go_on()
        wait_for("another record", lambda: len(published(kafka, prefix)) > before)

    go_on()
    killed = start("--follow")
    wait_for_more()
    killed.kill()
    fenced = start("--follow")
    wait_for_more()
    newest = start("--follow")
    wait_for_more()
    wait_for("the end of the process that was fenced", lambda: fenced.poll() is not None)
    assert fenced.poll() != 0 and newest.poll() is None
    newest.kill()
    go_on()
    assert start().wait(DEADLINE) == 0
    assert published(kafka, prefix) == wanted and wanted
