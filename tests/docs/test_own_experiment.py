"""The program of `papers.md` that compares sampling strategies: a researcher's own experiment."""

import gzip
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from tests.support.docs_pages import page

LINES = 30
"""Largest number of lines of the program."""
COLUMNS = ("nswprice", "nswdemand", "vicprice", "target")


def run(data: Path, folder: Path) -> dict[str, tuple[float, float]]:
    """Run the program, and return the errors before and after the drift by strategy."""
    (block,) = (block for block in page("papers.md").blocks if block.kind == "file")
    (folder / block.file_name).write_text(block.text, encoding="utf-8")
    command = [sys.executable, block.file_name, str(data)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = re.findall(r"^(\w+): error ([\d.]+) before the drift, ([\d.]+) after it$", done.stdout, re.MULTILINE)
    return {name: (float(before), float(after)) for name, before, after in found}


def test_it_has_few_lines_and_uses_public_names_only() -> None:
    (block,) = (block for block in page("papers.md").blocks if block.kind == "file")
    lines = [line for line in block.text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(lines) <= LINES
    assert re.findall(r"^(?:from|import) (glasstream\S*)", block.text, re.MULTILINE) == [
        "glasstream", "glasstream_lab.interval_pfi",
    ]  # fmt: skip


def test_it_runs_on_any_stream_with_these_columns(tmp_path: Path) -> None:
    draws = np.random.Generator(np.random.PCG64(1))
    rows = [f"{a:.4f},{b:.4f},{c:.4f},{'UP' if a > 0 else 'DOWN'}" for a, b, c in draws.normal(size=(3_000, 3))]
    data = tmp_path / "elec2.csv.gz"
    data.write_bytes(gzip.compress("\n".join([",".join(COLUMNS), *rows, ""]).encode()))
    errors = run(data, tmp_path)
    assert list(errors) == ["uniform", "window", "geometric"]
    assert all(0.0 <= error <= 2.0 for both in errors.values() for error in both)
