"""`glasstream paper`: the commands on small settings, and that they go on where they were broken off."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from glasstream.app.command.cli import cli
from glasstream.base.errors import InputError, SettingsError, StageError
from glasstream_lab.papers.registry import EXPERIMENTS
from glasstream_lab.papers.tasks import Finished, each

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two data sets under names of the paper's: one of numbers, one of classes, with a category."""
    draws = np.random.Generator(np.random.PCG64(2))
    lines = ["a,b,c,target"]
    two = ["a,kind,target"]
    for _ in range(200):
        a, b, c = draws.normal(size=3)
        lines.append(f"{a:.5f},{b:.5f},{c:.5f},{abs(a) + b + 0.1 * c:.5f}")
        two.append(f"{a:.5f},{'yes' if b > 0 else 'no'},{'good' if a + (b > 0) > 0.5 else 'bad'}")
    for name, text in (("concrete", lines), ("german_credit", two)):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as file:
            file.write("\n".join(text) + "\n")
    return tmp_path


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["paper", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.slow
def test_table_4_on_a_small_setting(data: Path, tmp_path: Path) -> None:
    kept = tmp_path / "results"
    arguments = ("gbmap-table4", "--data", data, "--only", "concrete", "--quick", "--processes", 1, "--results", kept)
    first = run(*arguments)
    assert "0.907" in first.stdout and "0.582" in first.stdout and "least squares" in first.stdout
    assert "4 of 4 done" in first.stderr and "left: concrete gbmap" in first.stderr
    file = kept / "gbmap-table4.jsonl"
    found = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(found) == 4 and all(one["found"]["test"] <= 1.0 for one in found)

    file.write_bytes(file.read_bytes()[:-20])  # broken off in the middle of a line
    again = run(*arguments)
    assert "already holds 3 of 4 results" in again.stderr and "1 of 1 done" in again.stderr
    results = [json.loads(line) for line in file.read_text().splitlines()]
    assert again.stdout == first.stdout and [{**one, "origin": None} for one in results] == [
        {**one, "origin": None}
        for one in found  # the origin has the CPU time
    ]


@pytest.mark.slow
def test_the_drift_of_a_small_setting_in_two_processes(data: Path, tmp_path: Path) -> None:
    done = run("gbmap-drift", "--data", data, "--only", "concrete", "--quick", "--results", tmp_path)
    assert "0.73" in done.stdout and "0.81" in done.stdout
    assert "2 of 2 done" in done.stderr
    assert (tmp_path / "gbmap-drift.png").exists()


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ("iris", r"--only: expected names of concrete, pima_diabetes, got 'iris'"),
        (",", r"--only: expected names of .*, got none"),
    ],
)
def test_unknown_names_are_refused(data: Path, only: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        run("gbmap-table4", "--data", data, "--quick", "--only", only)


def test_data_that_is_not_there_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSTREAM_DATA", str(data))
    with pytest.raises(InputError, match=r"expected abalone\.csv\.gz, got none"):
        run("gbmap-drift", "--only", "concrete,abalone")
    monkeypatch.delenv("GLASSTREAM_DATA")
    with pytest.raises(InputError, match="expected a folder of data sets in --data or GLASSTREAM_DATA"):
        run("gbmap-drift")


@pytest.mark.program
def test_all_runs_a_part_of_the_experiments_and_sums_up(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {name: where for name, where in EXPERIMENTS.items() if name in ("ipfi-table1", "ipfi-laws")}
    monkeypatch.setattr("glasstream_lab.papers.registry.EXPERIMENTS", kept)
    shown = run("all", "--quick", "--part", "2/2", "--processes", 1).stdout
    assert "The laws" not in shown and "16 of 16 numbers of the paper hold" in shown
    assert shown.splitlines()[-1].startswith("ipfi-laws: 16 of 16") and "ipfi-table1:" not in shown


@pytest.mark.parametrize("part", ["0/3", "4/3", "a/b", "2"])
def test_a_part_that_is_none_is_an_error_of_usage(part: str) -> None:
    result = CliRunner().invoke(cli, ["paper", "all", "--part", part])
    assert result.exit_code == 2 and f"expected K/N with K from 1 to N, got '{part}'" in result.output


def test_results_of_something_else_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "results"
    file.write_text('{"other": 1}\n')
    with pytest.raises(InputError, match=rf"{file}:1: expected a line of results"):
        Finished(file)


def test_what_is_asked_otherwise_is_another_result(tmp_path: Path) -> None:
    file = tmp_path / "results"
    Finished(file).add({"seed": 1, "data": "a"}, {"x": 0.5})
    again = Finished(file)
    assert again.get({"data": "a", "seed": 1}) == {"x": 0.5}
    assert again.get({"data": "a", "seed": 2}) is None


@pytest.mark.parametrize("processes", [1, 2])
def test_what_a_piece_raises_comes_out(processes: int) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        list(each(int, ["1", "one", "2"], processes))


def test_every_piece_comes_with_its_result() -> None:
    assert sorted(each(int, ["1", "2", "3"], 2)) == [("1", 1), ("2", 2), ("3", 3)]


@pytest.mark.program
def test_a_process_works_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "3")
    ask = "[__import__(name) for name in ('scipy.linalg', 'sklearn.ensemble')] and "
    ask += "[one['num_threads'] for one in __import__('threadpoolctl').threadpool_info()]"
    ((_, threads),) = each(eval, [ask], 1)
    assert threads and set(threads) == {1}
    assert os.environ["OMP_NUM_THREADS"] == "3", "it is for the children"


def test_nothing_to_do_is_done() -> None:
    assert list(each(int, [], 2)) == []


def test_a_process_that_dies_is_told_of() -> None:
    with pytest.raises(StageError, match="a process ended before its work was done"):
        list(each(os._exit, [3, 3], 2))
