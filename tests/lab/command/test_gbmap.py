"""`glasstream gbmap`: scores beside other models, the embedding and its picture, and what is refused."""

import csv
import importlib
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.base.errors import GlasstreamError, InputError

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")


def write(path: Path, rows: list[list[object]], header: str) -> Path:
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n", encoding="utf-8")
    return path


def columns(folder: Path) -> list[str]:
    """Return the header of the embedding that was written."""
    with (folder / "embedding.csv").open(newline="") as file:
        return next(csv.reader(file))


def bent_rows(*, classes: bool) -> list[list[object]]:
    """The target depends on |x| and on a category; a linear model does not see the one."""
    draws = np.random.Generator(np.random.PCG64(1))
    rows: list[list[object]] = []
    for number in range(240):
        x, noise, kind = draws.normal(), draws.normal(), "ab"[number % 2]
        y = abs(x) + 0.5 * (kind == "b")
        target = ("high" if y > 1 else "low") if classes else f"{y:.4f}"
        rows.append([f"{x:.4f}", "" if number % 9 == 4 else f"{noise:.4f}", kind, target])
    return rows


@pytest.fixture
def bent(tmp_path: Path) -> Path:
    return write(tmp_path / "bent.csv", bent_rows(classes=False), "x,noise,kind,y")


@pytest.fixture
def bent_classes(tmp_path: Path) -> Path:
    return write(tmp_path / "classes.csv", bent_rows(classes=True), "x,noise,kind,y")


def run(*arguments: object) -> str:
    """Return what the command prints.

    Raises
    ------
    GlasstreamError
        As of the command.
    """
    result = CliRunner().invoke(cli, ["gbmap", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def score(output: str, model: str) -> float:
    line = next(line for line in output.splitlines() if model in line)
    return float(line.split("│")[2])


def test_a_regression_is_scored_beside_other_models_and_written(bent: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'glasstream[plot]'")
    out = tmp_path / "made" / "here"
    said = run("--csv", bent, "--target", "y", "--out", out)
    assert score(said, "GBMAP") > 0.9 > score(said, "ridge regression") + 0.3
    assert "gradient boosting" in said and "R², test" in said
    assert (out / "embedding.png").read_bytes().startswith(b"\x89PNG")
    with (out / "embedding.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 240 and [row["part"] for row in rows].count("test") == 60
    names = [f"f{j}" for j in range(1, 21)]
    assert list(rows[0])[:3] == ["part", "target", "prediction"] and set(names) <= set(rows[0])
    sums = np.array([sum(float(row[name]) for name in names) for row in rows])
    apart = np.array([float(row["prediction"]) for row in rows]) - sums
    np.testing.assert_allclose(apart, apart[0], atol=1e-9)  # f is the embedding's sum, and the target's mean


def test_a_classification_is_scored_by_accuracy(bent_classes: Path) -> None:
    said = run("--csv", bent_classes, "--target", "y", "--preset", "paper-scaling")
    assert "accuracy, test" in said and "logistic regression" in said
    assert score(said, "GBMAP") > score(said, "logistic regression")


def test_several_classes_have_a_map_each(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'glasstream[plot]'")
    rows = [[k % 30, "abc"[k % 30 // 10]] for k in range(120)]
    run("--csv", write(tmp_path / "three.csv", rows, "x,y"), "--target", "y", "--out", tmp_path, "--preset",
        "paper-scaling")  # fmt: skip
    assert columns(tmp_path)[3:] == ["a.f1", "a.f2", "b.f1", "b.f2", "c.f1", "c.f2"]


def test_a_class_without_training_rows_lends_its_name_to_no_map(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'glasstream[plot]'")
    from glasstream_lab.papers.gbmap_contestants import parted

    _, test = parted(40, 0, 0)
    rows = [[k, "b" if k == test[0] else "acd"[k % 3]] for k in range(40)]
    run("--csv", write(tmp_path / "rows.csv", rows, "x,y"), "--target", "y", "--out", tmp_path, "--preset",
        "paper-scaling")  # fmt: skip
    assert columns(tmp_path)[3:] == ["a.f1", "a.f2", "c.f1", "c.f2", "d.f1", "d.f2"]


def test_many_classes_and_letters_without_a_glyph_are_no_warnings(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pip install 'glasstream[plot]'")
    path = write(tmp_path / "rows.csv", [[k, f"c{k % 30}"] for k in range(40)], "x,目標")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run("--csv", path, "--target", "目標", "--out", tmp_path, "--preset", "paper-scaling")


@pytest.mark.parametrize("seed", [-1, 2**32])
def test_a_seed_out_of_range_is_an_error_of_usage(bent: Path, seed: int) -> None:
    result = CliRunner().invoke(cli, ["gbmap", "--csv", str(bent), "--target", "y", "--seed", str(seed)])
    assert result.exit_code == 2 and "Invalid value for '--seed'" in result.output


def test_a_name_is_no_markup(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", [[k, k / 2] for k in range(40)], "x,y[/x] [red]")
    assert "y[/x] [red]: 40 rows, 1 features, regression" in run("--csv", path, "--target", "y[/x] [red]")


def test_the_same_seed_gives_the_same_numbers(bent: Path) -> None:
    arguments = ("--csv", bent, "--target", "y", "--preset", "paper-scaling", "--rows", 100)
    assert run(*arguments) == run(*arguments)


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        ([[k, k / 2] for k in range(9)], [], r"expected at least 10 rows with a target to fit and to test, got 9"),
        ([[k, "up"] for k in range(20)], [], r"expected rows of two classes or more in 'y', got 'up'"),
        ([[k, k / 2] for k in range(40)], ["--test", 0.99], r"expected 2 rows or more on either side of --test"),
        ([[k, f"c{k}"] for k in range(12)], ["--task", "regression"], r"expected numbers for regression, got 'c0'"),
        ([[k, k * 1e-200] for k in range(40)], [], r"values that differ by 1e-15 to 1e\+15, got 3\.9e-199 in 'y'"),
        ([[k, (k - 20) * 8e306] for k in range(40)], [], r"values that differ by 1e-15 to 1e\+15, got"),
        ([[k, k / 2] for k in range(40)], ["--category", "z"], r"expected columns of categories among x, got 'z'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(
    tmp_path: Path, rows: list[list[object]], more: list[object], message: str
) -> None:
    path = write(tmp_path / "rows.csv", rows, "x,y")
    with pytest.raises(InputError, match=message):
        run("--csv", path, "--target", "y", *more)


def test_a_file_that_is_not_there_and_an_out_that_is_a_file_are_refused(bent: Path, tmp_path: Path) -> None:
    with pytest.raises(GlasstreamError, match="cannot be read"):
        run("--csv", tmp_path / "none.csv", "--target", "y")
    with pytest.raises(InputError, match="expected a directory, got the file"):
        run("--csv", bent, "--target", "y", "--out", bent)


def test_a_constant_target_is_no_error(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.csv", [[k, 2.5] for k in range(40)], "x,y")
    said = run("--csv", path, "--target", "y", "--task", "regression")
    assert "GBMAP" in said and "'y' has the same value in all rows" in said


def test_without_scikit_learn_the_error_says_what_to_install(bent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    research = "glasstream_lab.papers"
    for name in ("glasstream.detect.gbmap.estimators", f"{research}.gbmap_contestants", f"{research}.gbmap_comparison"):
        importlib.import_module(name)
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    with pytest.raises(InputError, match=r"scikit-learn is not installed; pip install 'glasstream\[gbmap\]'"):
        run("--csv", bent, "--target", "y")


def test_without_matplotlib_nothing_is_fitted_first(bent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "glasstream.app.plots.drawing", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'glasstream\[plot\]'"):
        run("--csv", bent, "--target", "y", "--out", bent.parent)
