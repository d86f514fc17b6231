"""Waiting for the stages to pass a mark: until they have, and not for ever. On a real Kafka: `test_reset.py`."""

from collections.abc import Iterator

import pytest

from glasstream.app.operate import mark
from glasstream.app.operate.mark import LONG_SECONDS, STILL_SECONDS, Mark, wait_until_passed
from glasstream.app.operate.state import Place, State
from glasstream.base.errors import StalledError
from glasstream.flow.settings import Settings

MARK = Mark("glasstream.events", 0, 10)


def place(stage: str, offset: int | None) -> Place:
    return Place(
        stage=stage, topic=MARK.topic, partition=0, epoch=0, offset=offset, first=0, end=20, behind=20 - (offset or 0)
    )


def waited(monkeypatch: pytest.MonkeyPatch, states: Iterator[list[Place]], step: float) -> list[str]:
    """Return what is said while the stages are where `states` says, one look every `step` seconds."""
    now = [0.0]

    def pause() -> None:
        now[0] += step

    monkeypatch.setattr(mark, "pause", pause)
    monkeypatch.setattr(mark, "state", lambda settings: State(prefix="", partitions=next(states), streams=[], notes=[]))
    said: list[str] = []
    wait_until_passed(MARK, Settings(), said.append, clock=lambda: now[0])
    return said


def test_it_ends_when_all_have_passed_the_mark_however_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = [[place("learner", number), place("novelty", 11)] for number in range(5, 12)]
    said = waited(monkeypatch, iter(offsets), STILL_SECONDS - 1.0)
    assert said[0] == "still before the mark: learner" and len(said) == 2 and "glasstream doctor" in said[1]


def test_who_is_told_first_hears_no_cause_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    offsets = [[place("learner", 3)], [place("learner", 11)]]
    assert waited(monkeypatch, iter(offsets), LONG_SECONDS - 1.0) == ["still before the mark: learner"]


def test_it_gives_up_on_stages_that_do_not_move(monkeypatch: pytest.MonkeyPatch) -> None:
    def still() -> Iterator[list[Place]]:
        while True:
            yield [place("learner", 3), place("novelty", None)]

    with pytest.raises(StalledError, match=r"learner, novelty: no progress for 240 s before the mark .*do not write"):
        waited(monkeypatch, still(), 7.0)
