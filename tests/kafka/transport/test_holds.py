"""A partition that is held back stays so, whatever Faust does to its own set of partitions."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from faust.types import TP

from glasstream.kafka.transport.app import STREAM_QUEUE, make_app
from glasstream.kafka.transport.connection import Connection
from tests.support.transport_harness import options

FIRST, SECOND = TP("in", 0), TP("in", 1)


def asked_for(act: Callable[[Any], None]) -> set[TP]:
    """The partitions that a consumer asks for after something was done to it, of two that it has."""

    async def run() -> set[TP]:
        app = make_app(Connection("127.0.0.1:1"), options("test."))
        consumer = app.consumer
        consumer._set_active_tps({FIRST, SECOND})
        asked: list[set[TP]] = []

        async def getmany(active_partitions: set[TP], timeout: float) -> dict[TP, Any]:
            asked.append(set(active_partitions))
            return {}

        consumer._getmany = getmany
        act(consumer)
        await consumer._wait_next_records(0.0)
        return asked[0] if asked else set()

    return asyncio.run(run())


def drained_queue(consumer: Any) -> None:
    """Faust's queue gets fuller than it likes and is emptied, which makes it resume what it held back."""
    queue = consumer.app.FlowControlQueue(STREAM_QUEUE)
    for number in range(2 * STREAM_QUEUE):
        queue.put_nowait_enhanced(
            number,
            on_pressure_high=lambda: consumer.on_buffer_full(FIRST),
            on_pressure_drop=lambda: consumer.on_buffer_drop(FIRST),
        )
    assert FIRST not in consumer._get_active_partitions()
    while not queue.empty():
        queue.get_nowait()
    queue.maybe_endorse_pressure_drop()
    assert FIRST in consumer._get_active_partitions()


def test_a_partition_is_held_until_it_is_released() -> None:
    assert asked_for(lambda consumer: None) == {FIRST, SECOND}
    assert asked_for(lambda consumer: consumer.hold(FIRST)) == {SECOND}
    assert asked_for(lambda consumer: (consumer.hold(FIRST), consumer.release(FIRST))) == {FIRST, SECOND}
    assert asked_for(lambda consumer: (consumer.hold(FIRST), consumer.hold(SECOND))) == set()


@pytest.mark.parametrize("held", [True, False])
def test_faust_cannot_release_it(held: bool) -> None:
    def act(consumer: Any) -> None:
        if held:
            consumer.hold(FIRST)
        drained_queue(consumer)

    assert asked_for(act) == ({SECOND} if held else {FIRST, SECOND})
