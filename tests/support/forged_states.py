"""An aggregator with all methods, fed and committed, whose state tests damage."""

import asyncio
from dataclasses import replace
from itertools import pairwise

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream_topics import contributions
from tests.support.contributions import block

SETTINGS = load(
    assignments=[
        "explain.methods=ipfi,isage,ipdp", "explain.reservoir=5", "explain.loss=zero_one", "publish.every=10",
        "topics.events=1",
    ]
)  # fmt: skip


START = SETTINGS.explain.first_row


def feed(task: AggregatorTask, cuts: list[int]) -> None:
    for first, end in pairwise(cuts):
        data = contributions.encode(replace(block(first, end), stream="s"))
        asyncio.run(task.feed([Message("contributions", 0, first, b"s", data)]))


def committed(task: AggregatorTask) -> dict[bytes, bytes]:
    return {record.key or b"": record.value or b"" for record in task.collect().progress}
