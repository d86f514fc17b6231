"""`dead list` says first what is wrong most often, however many streams there are."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
from click.testing import CliRunner

from glasstream.app.command import dead
from glasstream.app.command.cli import cli
from glasstream.app.operate.repair import Letter
from glasstream_topics import events_dead

STREAMS = 400


def letter(offset: int, stream: str, reason: str, time: int) -> Letter:
    said = events_dead.headers(
        epoch=0, reason=reason, topic="events", partition=0, offset=offset, time=time, detail="why"
    )
    return Letter("p.events.dead", 0, offset, stream.encode(), b"{}", events_dead.decode(list(said)))


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> list[Letter]:
    """Three letters of one stream with one reason, and one of each of many others with another."""
    made = [letter(number, f"user-{number:03}", "too_many_streams", 1_000 * number) for number in range(STREAMS)]
    made += [letter(STREAMS + number, "s", "not_json", 0) for number in range(3)]

    @contextmanager
    def given(*_: object) -> Iterator[tuple[None, list[Letter]]]:
        yield None, made

    monkeypatch.setattr(dead, "_letters", given)
    return made


def test_totals_by_reason_come_first_the_most_frequent_before_the_others(letters: list[Letter]) -> None:
    said = CliRunner().invoke(cli, ["dead", "list"], terminal_width=200).output
    totals, _, streams = said.partition("by stream and reason")
    assert totals.index("too_many_streams") < totals.index("not_json")
    assert (
        re.search(rf"too_many_streams │ +{STREAMS} │ +{STREAMS} │", totals)
        and letters[STREAMS - 1].place in totals
        and "user-" not in totals
    )
    assert "│ s " in streams, "the stream with the most letters is there"
    assert streams.count("user-") == dead._ROWS - 1
    assert f"and {STREAMS + 1 - dead._ROWS} more; --stream and --reason select, and --json prints all" in streams


def test_json_has_every_stream_and_reason(letters: list[Letter]) -> None:
    lines = CliRunner().invoke(cli, ["dead", "list", "--json"]).output.splitlines()
    found = [orjson.loads(line) for line in lines]
    assert len(found) == STREAMS + 1 and sum(one["letters"] for one in found) == len(letters)
    assert {one["reason"] for one in found} == {"too_many_streams", "not_json"}
