"""Laws of the summarised log: few lines of a kind, none of them uncounted, all of our own."""

import io
import logging
import re
from collections.abc import Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.redact import RedactingFormatter
from glasstream.kafka.transport.summary import EVERY, KINDS, SummarisingHandler
from glasstream.kafka.transport.worker import configure_logging


class Log:
    """A summarised log, and a clock that stands still."""

    def __init__(self) -> None:
        self.now = 100.0
        self.stream = io.StringIO()
        self.handler = SummarisingHandler(self.stream, "glasstream", lambda: self.now)

    def write(self, name: str, text: str, *arguments: object, level: int = logging.ERROR) -> None:
        self.handler.handle(logging.LogRecord(name, level, "", 0, text, arguments, None))

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


def test_a_broker_that_is_down_for_a_minute_takes_a_line_in_ten_seconds(log: Log) -> None:
    for number in range(60 * 14):
        log.now = 100.0 + number / 14
        log.write("faust", "Unable connect to node with id %s: [Errno %d] Connect call failed", 1, 111)
    assert len(log.lines) == 6
    assert log.lines[0].endswith("failed")
    assert log.lines[1].endswith("failed (and 139 more like it in the last 10 s)")


def test_kinds_are_told_apart_by_logger_level_and_text_and_not_by_numbers(log: Log) -> None:
    log.write("faust", "node %s is gone", 1)
    log.write("faust", "node %s is gone", 2)
    log.write("faust", "fetch 17 failed")
    log.write("faust", "fetch 18 failed")
    assert log.lines == ["node 1 is gone", "fetch 17 failed"]
    log.write("faust.conn", "node %s is gone", 1)
    log.write("faust", "node %s is gone", 3, level=logging.CRITICAL)
    log.write("faust", "topic %s is gone", 1)
    assert log.lines[2:] == ["node 1 is gone", "node 3 is gone", "topic 1 is gone"]


def test_our_own_lines_are_all_written_and_in_their_place(log: Log) -> None:
    for _ in range(3):
        log.write("glasstream.kafka.stages.learner", "rejected")
        log.write("faust", "down")
    log.now += EVERY
    log.write("glasstream", "rejected")
    assert log.lines == [
        "rejected",
        "down",
        "rejected",
        "rejected",
        "down (and 1 more like it in the last 10 s)",
        "rejected",
    ]


def test_what_was_left_out_is_told_at_the_end() -> None:
    log = Log()
    for number in range(5):
        log.write("faust", "node %d is gone", number)
    log.handler.close()
    assert log.lines == ["node 0 is gone", "node 4 is gone (and 3 more like it in the last 0 s)"]


@given(
    st.lists(
        st.tuples(st.sampled_from(["down", "gone", "slow"]), st.floats(0.0, 2.5 * EVERY), st.booleans()), max_size=60
    )
)
def test_every_line_is_written_or_counted_and_none_too_often(happened: list[tuple[str, float, bool]]) -> None:
    log = Log()
    written: dict[str, list[float]] = {}
    for text, pause, own in happened:
        log.now += pause
        before = len(log.lines)
        log.write("glasstream" if own else "faust", text)
        for line in log.lines[before:]:
            written.setdefault(line.split(" ")[0], []).append(log.now)
    log.handler.close()
    counted = {"down": 0, "gone": 0, "slow": 0}
    for line in log.lines:
        more = re.search(r"and (\d+) more", line)
        counted[line.split(" ")[0]] += 1 + (int(more[1]) if more else 0)
    assert counted == {name: sum(text == name for text, _, _ in happened) for name in counted}
    for name, times in written.items():
        if not any(own for text, _, own in happened if text == name):
            assert all(later - earlier >= EVERY for earlier, later in pairwise(times))


def test_kinds_are_bounded_and_still_counted(log: Log) -> None:
    for number in range(3 * KINDS):
        for _ in range(2):
            log.write("faust", "x" * number)
    assert len(log.handler._kinds) <= KINDS
    log.handler.close()
    assert len(log.lines) == 6 * KINDS


def test_a_secret_in_a_line_that_is_counted_is_not_written(log: Log) -> None:
    log.handler.setFormatter(RedactingFormatter("%(message)s", "%H", ["hunter2"]))
    for _ in range(3):
        log.write("faust", "login %s failed", "hunter2")
    log.handler.close()
    assert log.lines == ["login *** failed", "login *** failed (and 1 more like it in the last 0 s)"]


@pytest.mark.parametrize("debug", [False, True])
def test_workers_have_it_unless_they_are_told_to_say_everything(debug: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    root, ours = logging.getLogger(), logging.getLogger("glasstream")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(ours, "level", ours.level)
    configure_logging(StageOptions("learner", "learner", debug=debug))
    assert [isinstance(handler, SummarisingHandler) for handler in root.handlers] == [not debug]


def test_a_line_that_cannot_be_written_ends_nothing(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    for _ in range(2):
        log.write("faust", "%d", "no number")
    log.now += EVERY
    log.write("faust", "%d", "no number")
    log.write("glasstream", "goes on")
    assert log.lines[-1] == "goes on"
