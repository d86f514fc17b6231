"""`glasstream export` into a folder: every record is in one file, and a file with a name is complete and stays."""

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pyarrow.parquet
import pytest

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.operate import folder as folders
from glasstream.app.operate.folder import Folder
from glasstream.base.errors import InputError
from glasstream_topics.consume import importance, tables
from tests.support.exporting import FAST, FEATURES, PREDICTED, ROWS, exported
from tests.support.writing import Writer, estimate


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / "results").mkdir()
    return tmp_path / "results"


def files(out: Path, table: str = "importance") -> list[Path]:
    return sorted(path for path in out.glob(f"{table}-*") if path.suffix != ".part")


def rows(out: Path, table: str = "importance") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for path in files(out, table):
        if path.suffix == ".parquet":
            found += pyarrow.parquet.read_table(path).to_pylist()
        else:
            with path.open(encoding="utf-8", newline="") as file:
                found += csv.DictReader(file)
    return found


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_files_hold_what_a_reader_returns_and_a_second_export_adds_one(
    form: str, writer: Writer, embedded: EmbeddedKafka, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.create_topic("test.predictions", 1)
    Writer(writer.bootstrap, "test.predictions").send(orjson.dumps(PREDICTED))
    monkeypatch.setattr(tables, "BATCH", 4)
    options: dict[str, Any] = {"prefix": "test.", "kafka": FAST, "follow": False, "damaged": "skip"}
    expected = importance(writer.bootstrap, **options).to_arrow().to_pylist()
    result = exported(writer.bootstrap, out, "importance", "predictions", "--to", form)
    assert result.stdout == f"{ROWS + 1} rows added to {out}\n"
    assert result.stderr == "skipped records of test.importance that cannot be read: 1\n"
    assert [path.name for path in files(out)] == [f"importance-0000000{number}.{form}" for number in range(2)]
    if form == "csv":
        assert {(row["stream"], row["row"], row["feature"], row["value"]) for row in rows(out)} == {
            (row["stream"], str(row["row"]), row["feature"], str(row["value"])) for row in expected
        }
    else:
        assert sorted(map(repr, rows(out))) == sorted(map(repr, expected))
    assert len(rows(out)) == ROWS and len(rows(out, "predictions")) == 1
    before = {path: path.read_bytes() for path in files(out)}
    again = exported(writer.bootstrap, out, "importance", "--to", form)
    assert (again.stdout, again.stderr) == (f"0 rows added to {out}\n", "")
    assert {path: path.read_bytes() for path in files(out)} == before
    writer.send(estimate(8))
    assert exported(writer.bootstrap, out, "importance", "--to", form).stdout.startswith(f"{FEATURES} rows")
    assert {path: path.read_bytes() for path in files(out)[:2]} == before and len(files(out)) == 3
    assert not [*out.glob("*.part")]


def _at_the(number: int, function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, of: Any) -> None:
    """Let a function fail at one of its calls."""
    calls: list[int] = []

    def failing(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == number:
            raise OSError(28, "No space left on device")
        return function(*arguments, **options)

    monkeypatch.setattr(of, name, failing)


@pytest.mark.parametrize("step", range(1, 7))
def test_interrupted_at_any_step_it_is_continued(
    step: int, writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps of the second batch: its file, the state, the names in the folder, and the name of the file."""
    monkeypatch.setattr(tables, "BATCH", 3)
    exported(writer.bootstrap, out, "importance", "--to", "parquet")
    writer.send(*(estimate(row) for row in range(10, 14)))
    if step <= 3:
        _at_the(step, folders._sync, monkeypatch, "_sync", folders)
    elif step <= 5:
        _at_the(step - 3, Path.replace, monkeypatch, "replace", Path)
    else:
        _at_the(1, os.fsync, monkeypatch, "fsync", os)
    before = {path: path.read_bytes() for path in files(out)}
    with pytest.raises(InputError, match=f"--out {out}: cannot be written: No space left"):
        exported(writer.bootstrap, out, "importance", "--to", "parquet")
    monkeypatch.undo()
    assert {path: path.read_bytes() for path in files(out)[: len(before)]} == before
    exported(writer.bootstrap, out, "importance", "--to", "parquet")
    found = [(row["stream"], row["row"], row["feature"]) for row in rows(out)]
    assert len(found) == len({*found}) == ROWS + 4 * FEATURES
    assert {path: path.read_bytes() for path in files(out)[: len(before)]} == before


def test_files_of_something_else_are_not_continued(writer: Writer, out: Path) -> None:
    exported(writer.bootstrap, out, "importance", "--to", "csv")
    with pytest.raises(InputError, match=f"--out {out}: importance has csv files; give --to csv"):
        exported(writer.bootstrap, out, "importance")
    with pytest.raises(InputError, match="holds all streams, not the streams 'other'"):
        exported(writer.bootstrap, out, "importance", "--to", "csv", "--stream", "other")
    state = msgspec.json.decode((out / "importance.json").read_bytes())
    assert state["files"] == 1 and sum(state["offsets"].values()) == 7
    (out / "importance.json").write_text("{}")
    with pytest.raises(InputError, match=r"importance\.json: expected the state of an export, got"):
        exported(writer.bootstrap, out, "importance", "--to", "csv")


def test_two_exports_do_not_write_to_one_folder(writer: Writer, out: Path) -> None:
    other = Folder(out, "csv")
    with pytest.raises(InputError, match=f"--out {out}: another export writes to it"):
        exported(writer.bootstrap, out, "importance", "--to", "csv")
    other.close()
    assert exported(writer.bootstrap, out, "importance", "--to", "csv").exit_code == 0
    assert len(rows(out)) == ROWS


def test_a_place_that_is_no_folder_is_an_error(writer: Writer, out: Path) -> None:
    (out / "file").write_text("")
    with pytest.raises(InputError, match=f"--out {out / 'file'}: cannot be written: File exists"):
        exported(writer.bootstrap, out / "file", "importance", "--follow")


def test_parquet_names_its_extra(writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"expected pyarrow, got none; pip install 'glasstream\[tables\]'"):
        exported(writer.bootstrap, out, "importance")
    assert exported(writer.bootstrap, out, "importance", "--to", "csv").exit_code == 0
