"""One of the papers' experiments in its quick form, another one each day; `paper all --quick` runs them all."""

import datetime
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream_lab.papers.registry import EXPERIMENTS

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")
pytest.importorskip("matplotlib", reason="pip install 'glasstream[plot]'")

PARTS = 21
PART = "GLASSTREAM_TEST_PAPERS"
"""Names another part than that of the day, such as 2/21."""


@pytest.mark.slow
def test_the_quick_forms_end_with_a_table_and_a_verdict_each(data_dir: Path, tmp_path: Path) -> None:
    today = datetime.datetime.now(datetime.UTC).date().toordinal()
    part = os.environ.get(PART, f"{today % PARTS + 1}/{PARTS}")
    print(f"part {part} of the experiments; {PART}={part} runs it again")
    arguments = ["paper", "all", "--quick", "--part", part, "--data", str(data_dir), "--results", str(tmp_path)]
    ended = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    number, count = map(int, part.split("/"))
    for name in list(EXPERIMENTS)[number - 1 :: count]:
        assert (tmp_path / f"{name}.csv").read_text().count("\n") > 1
        assert f"\n{name}: " in ended.stdout
