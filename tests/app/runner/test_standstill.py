"""A run that does not move on says so, and ends with a code of its own."""

import io

import pytest
from rich.console import Console

from glasstream.app.command import cli as cli_module
from glasstream.app.command.exit_codes import STANDSTILL
from glasstream.app.configuration import load
from glasstream.app.runner import run as run_module
from glasstream.app.runner.run import Moves, Patience, Plan, run
from glasstream.base.errors import StalledError, TopicError
from glasstream.events.sources.bundled import BundledStream
from glasstream.kafka.stages.standstill import PATIENCE
from glasstream.kafka.transport.worker import ExitCode


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_told_now_and_then_and_ends_but_not_while_anything_moves() -> None:
    clock, lines = Clock(), []
    moves = Moves(Patience(notice=60.0, end=240.0), lines.append, clock)
    for second in range(1_000):
        clock.now = float(second)
        moves.look(second // 100, lambda: "5 rows aggregated")
    assert len(lines) == 10 and "no progress for 60 s: 5 rows aggregated" in lines[0]
    assert "ends in 180 s" in lines[0]
    for second in range(1_000, 1_140):
        clock.now = float(second)
        moves.look(9, lambda: "5 rows aggregated")
    clock.now = 1_140.0
    with pytest.raises(StalledError, match=r"no progress for 240 s: 5 rows aggregated.*--broker local"):
        moves.look(9, lambda: "5 rows aggregated")


def test_loading_is_no_standstill_and_is_told_of() -> None:
    clock, lines = Clock(), []
    moves = Moves(Patience(notice=60.0, end=240.0, loading=15.0), lines.append, clock)
    for second in range(601):
        clock.now = float(second)
        moves.wait(["learner-1"])
    assert len(lines) == 40 and lines[-1].startswith("learner-1: loading numerical kernels for 600 s")
    clock.now = 839.0
    moves.look(None, lambda: "")
    clock.now = 841.0
    with pytest.raises(StalledError, match="no progress for 241 s"):
        moves.look(None, lambda: "")


def test_the_learner_has_sent_three_times_again_by_then() -> None:
    assert PATIENCE * (1 + 2 + 4) < Patience().end - 60 < PATIENCE * (1 + 2 + 4 + 8)


def test_a_standstill_has_an_exit_code_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    def stand(**_: object) -> int:
        raise StalledError("nothing has moved")

    monkeypatch.setattr(cli_module, "cli", stand)
    assert cli_module.execute() == STANDSTILL == ExitCode.STALLED == 7


@pytest.mark.program
def test_a_run_without_an_explainer_ends() -> None:
    """On the embedded broker: what is learned cannot be explained. How much is, depends on how soon they are up."""
    shown = io.StringIO()
    plan = Plan(
        source=BundledStream(1, 200), total=200, rows_per_message=50, explainers=0, out=None, keep_topics=False,
        patience=Patience(notice=4.0, end=8.0),
    )  # fmt: skip
    with pytest.raises(StalledError, match=r"200 events written, \d+ learned, 0 aggregated"):
        run(load(assignments=["model.name=linear", "model.task=classification"]), plan, Console(file=shown, width=500))
    assert "no progress for" in shown.getvalue()


def test_topics_that_cannot_be_deleted_do_not_hide_what_ended_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behave as if two of three brokers were away."""

    def refuse(*_: object) -> None:
        raise TopicError("delete run.events: timed out")

    monkeypatch.setattr(run_module.admin, "delete", refuse)
    settings, lines = load(assignments=["broker=127.0.0.1:1", "prefix=run."]), []
    with pytest.raises(StalledError, match="nothing has moved"), run_module._deleting_topics(settings, lines.append):
        raise StalledError("nothing has moved")
    assert len(lines) == 1 and "begin with run.: delete run.events: timed out" in lines[0]
    with pytest.raises(TopicError), run_module._deleting_topics(settings, lines.append):
        pass
