"""The page of CONTRIBUTING.md about a new detector is followed literally, in a copy of the checkout."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import orjson
import pytest

from tests.support.paths import ROOT

FOLDERS = ("pipeline", "topics", "tests", "ops", "examples")


def blocks() -> dict[str, str]:
    """Return the files of the page by their names, without the line that names them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    page = text.partition("## Add a drift detector in 30 minutes\n")[2].partition("\n## ")[0]
    found = re.findall(r"^    # (\S+\.(?:py|sh))\n((?:    .*\n|\n)+)", page, re.MULTILINE)
    return {name: dedent(body).strip() + "\n" for name, body in found}


@pytest.mark.slow
@pytest.mark.program
def test_a_detector_is_added_as_the_page_says(tmp_path: Path) -> None:
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    module, settings, program = blocks().items()
    assert [module[0].rpartition("/")[2], settings[0].rpartition("/")[2], program[0]] == [
        "cusum.py", "settings.py", "check.sh",
    ]  # fmt: skip
    (tmp_path / module[0]).write_text(module[1], encoding="utf-8")
    import_line, registry = settings[1].splitlines()
    file = tmp_path / settings[0]
    text, count = re.subn(r"^DETECTORS: .*$", registry, file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert count == 1
    first = text.index("from glasstream.detect")
    file.write_text(f"{text[:first]}{import_line}\n{text[first:]}", encoding="utf-8")
    paths = os.pathsep.join(str(tmp_path / top) for top in ("pipeline", "topics", "."))
    commands = program[1].replace("python -m", f"{sys.executable} -m")
    ran = subprocess.run(
        ["bash", "-euxc", commands],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-3_000:] + ran.stderr[-3_000:]
    assert "cusum" in (tmp_path / "ops" / "docs" / "all-settings.md").read_text(encoding="utf-8")
    alarms = [orjson.loads(line) for line in (tmp_path / "results" / "drift.jsonl").read_bytes().splitlines()]
    assert {alarm["detector"]["name"] for alarm in alarms} == {"cusum"}
