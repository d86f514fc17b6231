"""`replay` and other tools on the folder that a run has left."""

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.app.command.exit_codes import DIFFERS
from glasstream.base.errors import InputError
from tests.integration.conftest import Run


@pytest.mark.slow
def test_after_a_run_its_folder_is_enough(
    local_broker: object, finished_run: Callable[..., Run], tmp_path: Path
) -> None:
    """Only a Kafka with a folder outlives its run. `local_broker` says whether there can be one on this machine."""
    options = ("--broker", "local", "--data", str(tmp_path / "data"), "--prefix", "kept.")
    novelty = ("novelty.window=300", "novelty.stride=300", "novelty.delay=200", "novelty.held=0.5")
    asked = ("--explain", "ipfi,novelty", *(part for one in novelty for part in ("--set", one)))
    run = finished_run(*options, *asked, "--rows", "1000", "--model", "tree")

    def said(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, [*arguments, *options], standalone_mode=False)
        assert result.exception is None and result.return_value == code, result.output
        return result.stdout

    assert orjson.loads(said("replay", "--stream", "agrawal", "--seq", "777", "--json"))["published"]["equal"]
    said("state", "show", "--json")
    said("dead", "list")
    again = tmp_path / "again"
    told = said("replay", "--compare", "--out", str(again))
    assert "predictions: 1,000 published records, 1,000 of them computed again" in told and "differs" not in told
    for topic in ("predictions", "importance", "incidents", "novelty"):
        assert (again / f"{topic}.jsonl").read_bytes() == run.file(topic), topic
    assert run.file("novelty")
    told = said("replay", "--compare", "--stream", "agrawal", "--set", "explain.alpha=0.1", code=DIFFERS)
    assert "differs from the running stages: explain.alpha: was 0.001, is 0.1" in told
    assert "1,000 of them computed again" in told and "others: {" in told
    nobody = CliRunner().invoke(cli, ["replay", "--stream", "nobody", *options], standalone_mode=False)
    assert isinstance(nobody.exception, InputError)
