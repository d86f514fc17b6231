"""The novelty detector of a run says what the plain loop says. On a real Kafka: `test_hostile_messages.py`."""

from collections.abc import Callable

from tests.integration.conftest import Run


def test_a_run_says_what_the_plain_loop_says(finished_run: Callable[..., Run]) -> None:
    """A run has the process that fits beside a worker. Crashes: `tests/kafka/stages/test_novelty_state.py`."""
    arguments = (
        *("--explain", "ipfi,novelty", "--model", "linear", "--rows", "4000", "--set", "novelty.window=300"),
        *("--set", "novelty.stride=500", "--set", "novelty.delay=200", "--set", "novelty.held=0.5"),
    )
    one = finished_run(*arguments, "--broker", "none")
    other = finished_run(*arguments, "--broker", "embedded")
    for topic in ("novelty", "importance", "predictions"):
        assert other.file(topic) == one.file(topic) != b""
    assert "events scored" in one.log and "events scored" in other.log


def test_a_run_that_is_not_asked_for_novelty_writes_none(finished_run: Callable[..., Run]) -> None:
    run = finished_run("--model", "linear", "--rows", "500", "--broker", "none")
    assert not (run.out / "novelty.jsonl").exists() and "novelty" not in run.log
