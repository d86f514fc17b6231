"""A run that keeps the data of its Kafka says how other commands find its topics."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from glasstream.app.configuration import load
from glasstream.app.runner import run as runner
from glasstream.app.runner.run import Plan
from glasstream.events.sources.bundled import BundledStream


@pytest.mark.parametrize(
    ("data", "keep_topics", "told"),
    [(Path("kept"), False, True), (Path("kept"), True, False), (None, False, False)],
)
def test_the_random_prefix_of_kept_topics_is_told(
    monkeypatch: pytest.MonkeyPatch, data: Path | None, keep_topics: bool, told: bool
) -> None:
    monkeypatch.setattr(runner, "_through_kafka", lambda *_: None)
    shown = io.StringIO()
    settings = load(assignments=["broker=local", "prefix=run-12ab."])
    plan = Plan(BundledStream(1, 10, "s", None, changes=False), 10, 1, 1, None, keep_topics, data)
    assert runner.run(settings, plan, Console(file=shown, width=200)) == 0
    assert ("give other commands --broker local --data kept --prefix run-12ab." in shown.getvalue()) is told
