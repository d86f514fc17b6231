"""`glasstream paper`: the commands on small settings, and that they go on where they were broken off."""

import gzip
import json
import os
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from glasstream.command.cli import cli
from glasstream.errors import InputError, SettingsError, StageError
from glasstream.research.gbmap_paper.sets import DRIFT, SETS, TABLE_4
from glasstream.research.gbmap_paper.tasks import Finished, each

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


def test_table_4_on_a_small_setting(data: Path, tmp_path: Path) -> None:
    kept = tmp_path / "results.jsonl"
    arguments = ("gbmap-table4", "--data", data, "--datasets", "german_credit", "--splits", 2, "--candidates", 1,
                 "--models", "gbmap,linear", "--rows", 60, "--processes", 1, "--results", kept)  # fmt: skip
    first = run(*arguments)
    assert "0.730" in first.stdout and "0.767" in first.stdout and "logistic regression" in first.stdout
    assert "4 of 4 done" in first.stderr and "left: german_credit gbmap" in first.stderr
    found = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(found) == 4 and all(0.0 <= one["found"]["test"] <= 1.0 for one in found)

    whole = kept.read_bytes()
    kept.write_bytes(whole[:-20])  # broken off in the middle of a line
    again = run(*arguments)
    assert "already holds 3 of 4 results" in again.stderr and "1 of 1 done" in again.stderr
    assert again.stdout == first.stdout and kept.read_bytes() == whole


@pytest.mark.parametrize(("test", "verdict"), [(0.5, "below"), (1.0, "reached")])
def test_scores_that_are_all_the_same_are_no_multiple_of_their_standard_error(
    data: Path, tmp_path: Path, test: float, verdict: str
) -> None:
    kept = tmp_path / "results.jsonl"
    for split in range(2):
        asked = {"experiment": "gbmap-table4", "data": "german_credit", "split": split, "model": "gbmap",
                 "candidates": 1, "rows": None, "seed": 0}  # fmt: skip
        Finished(kept).add(asked, {"test": test})
    shown = run("gbmap-table4", "--data", data, "--datasets", "german_credit", "--splits", 2, "--candidates", 1,
                "--models", "gbmap", "--results", kept).stdout  # fmt: skip
    row = next(line for line in shown.splitlines() if "german" in line)
    assert [cell.strip() for cell in row.split("│")[4:-1]] == [f"{test:.3f}", "0.0000", "0.730", "", verdict]


def test_a_negative_seed_is_an_error_of_usage(data: Path) -> None:
    result = CliRunner().invoke(cli, ["paper", "gbmap-table4", "--data", str(data), "--seed", "-1"])
    assert result.exit_code == 2 and "Invalid value for '--seed'" in result.output


def test_the_drift_of_a_small_setting_in_two_processes(data: Path) -> None:
    done = run("gbmap-drift", "--data", data, "--datasets", "concrete", "--seeds", 2)
    row = next(line for line in done.stdout.splitlines() if "concrete" in line)
    assert "0.73" in row and "0.81" in row and " to " in row
    assert "2 of 2 done" in done.stderr


def test_what_differs_in_the_data_is_said(data: Path) -> None:
    name = "auto_mpg"
    with gzip.open(data / f"{name}.csv.gz", "wt") as file:
        file.write(gzip.decompress((data / "concrete.csv.gz").read_bytes()).decode().replace("a,b,c", "a,b,origin", 1))
    done = run("gbmap-table4", "--data", data, "--datasets", name, "--splits", 2, "--candidates", 1, "--models",
               "linear", "--rows", 50, "--processes", 1)  # fmt: skip
    assert f"{name}: {SETS[name].differs}" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--datasets", "iris"], r"--datasets: expected names of concrete, .*, got 'iris'"),
        (["--datasets", ","], r"--datasets: expected names of .*, got none"),
        (["--models", "tree"], r"--models: expected names of gbmap, linear, boosting, got 'tree'"),
    ],
)
def test_unknown_names_are_refused(data: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        run("gbmap-table4", "--data", data, *arguments)


def test_a_drift_needs_a_number_as_target(data: Path) -> None:
    with pytest.raises(SettingsError, match=r"got 'german_credit'"):
        run("gbmap-drift", "--data", data, "--datasets", "german_credit")


def test_data_that_is_not_there_is_named(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSTREAM_DATA", str(data))
    with pytest.raises(InputError, match=r"expected abalone\.csv\.gz, and so on for abalone, got none"):
        run("gbmap-drift", "--datasets", "concrete,abalone")
    monkeypatch.delenv("GLASSTREAM_DATA")
    with pytest.raises(InputError, match="expected a folder of data sets in --data or GLASSTREAM_DATA"):
        run("gbmap-drift")


def test_the_experiments_have_the_data_sets_they_should() -> None:
    assert set(TABLE_4) == set(SETS) - {"california_housing"}
    assert set(DRIFT) < set(SETS)


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
