"""The offset at which a stage without state resumes, while brokers do not answer."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from faust.types import TP

from glasstream.base.errors import BrokerError, UnavailableError
from glasstream.kafka.transport import stateless
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.stateless import StatelessStage, WorkLane
from tests.support.transport_harness import options

HERE = TP("in", 0)


def asked(met: list[BrokerError], act: Callable[[StatelessStage], None] = lambda stage: None) -> tuple[Any, list[Any]]:
    """Ask where to go on, of a broker that raises what is met before it answers; what `act` does comes with each."""

    async def nothing(message: Any) -> list[Any]:
        return []

    async def run() -> Any:
        stage = StatelessStage(Connection("127.0.0.1:1"), options("test."), input_topic="in", handle=nothing)

        async def committed(tps: set[TP]) -> dict[TP, int]:
            return dict.fromkeys(tps, 7)

        async def bounds(tp: TP) -> tuple[int, int]:
            if met:
                act(stage)
                raise met.pop(0)
            return 3, 9

        stage.app = SimpleNamespace(consumer=SimpleNamespace(committed=committed, bounds=bounds))
        lane = stage.lanes[0] = WorkLane(stage, 0, 1)
        await asyncio.sleep(0)  # its tasks begin
        try:
            return await stage.positions({HERE})
        finally:
            await lane.drop()
            stage.producer.close(0.1)

    return asyncio.run(run()), met


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stateless, "ASK_AGAIN_AFTER", 0.0)


def test_brokers_that_are_away_are_asked_until_they_say() -> None:
    assert asked([UnavailableError("away")] * 40) == ({HERE: 7}, [])


def test_what_does_not_heal_is_raised() -> None:
    with pytest.raises(BrokerError):
        asked([BrokerError("no right")])


def test_nobody_asks_on_when_the_partition_is_revoked() -> None:
    def revoke(stage: StatelessStage) -> None:
        for patience in stage._patiences:
            patience.give_up()

    found, left = asked([UnavailableError("away")] * 20, revoke)
    assert found == {} and len(left) == 19


def began(committed: int | None, outcomes: list[bool]) -> tuple[Any, list[dict[TP, int]]]:
    """Return where a worker of a group that may be new begins with `latest`, and what it asked to commit."""
    asked_for: list[dict[TP, int]] = []

    async def nothing(message: Any) -> list[Any]:
        return []

    async def run() -> Any:
        stage = StatelessStage(
            Connection("127.0.0.1:1"), options("test."), input_topic="in", handle=nothing, start="latest", writes=False
        )

        async def known(tps: set[TP]) -> dict[TP, int | None]:
            return dict.fromkeys(tps, committed)

        async def bounds(tp: TP) -> tuple[int, int]:
            return 3, 9

        async def commit(offsets: dict[TP, int]) -> bool:
            asked_for.append(dict(offsets))
            return outcomes.pop(0)

        consumer = SimpleNamespace(committed=known, bounds=bounds, commit_offsets=commit)
        stage.app = SimpleNamespace(consumer=consumer)
        lane = stage.lanes[0] = WorkLane(stage, 0, 1)
        await asyncio.sleep(0)
        try:
            return await stage.positions({HERE})
        finally:
            await lane.drop()

    return asyncio.run(run()), asked_for


def test_a_new_group_that_begins_at_the_end_reads_nothing_before_that_is_committed() -> None:
    assert began(None, [False, False, True]) == ({HERE: 9}, [{HERE: 9}] * 3)


def test_a_group_that_has_committed_goes_on_there() -> None:
    assert began(5, []) == ({HERE: 5}, [])
