"""CSV columns that hold more than numbers: what is taken as empty, and what is said of it."""

from pathlib import Path

import pytest

from glasstream.events.mapping.fields import Kind
from glasstream.events.sources.csv_file import CsvFile


def look(folder: Path, text: str, target: str = "y") -> CsvFile:
    path = folder / "events.csv"
    path.write_text(text, encoding="utf-8")
    source = CsvFile(path, target, "s")
    source.look(None)
    return source


@pytest.mark.parametrize("mark", ["nan", "NaN", "NA", "n/a", "null", "None", "-nan", " "])
def test_a_mark_for_no_value_leaves_a_column_numeric(tmp_path: Path, mark: str) -> None:
    source = look(tmp_path, f"a,b,y\n1,1,u\n{mark},2,u\n2,3,u\n")
    assert [event["x"].get("a") for event in source.events()] == [1.0, None, 2.0]
    if mark.strip():
        assert source.notices == [
            f"s: column 'a' has {mark!r} in 1 of the first 3 rows: treated as empty, because the other cells hold "
            "numbers"
        ]


def test_in_a_column_of_text_it_is_text(tmp_path: Path) -> None:
    source = look(tmp_path, "country,y\nDE,u\nNA,u\n")
    assert [event["x"]["country"] for event in source.events()] == ["DE", "NA"]
    assert source.notices == []


@pytest.mark.parametrize("cell", ["inf", "-inf", "Infinity", "1e999"])
def test_an_infinite_cell_is_empty_and_named_with_its_line(tmp_path: Path, cell: str) -> None:
    source = look(tmp_path, f"a,b,y\n1,1,u\n{cell},2,u\n2,3,u\n")
    assert [event["x"].get("a") for event in source.events()] == [1.0, None, 2.0]
    assert source.notices == [
        f"s: column 'a' holds finite numbers only, but {cell!r} is on line 3 (cells like it: 1): treated as empty"
    ]


def test_infinite_cells_are_counted(tmp_path: Path) -> None:
    source = look(tmp_path, "a,b,y\n" + "1,1,u\n" * 1_000 + "inf,1,u\n" * 2)
    assert source.notices == []
    assert [event["x"] for event in source.events()][-2:] == [{"b": 1.0}] * 2
    assert len(source.notices) == 1 and "'inf' is on line 1,002 (cells like it: 2)" in source.notices[0]


def test_a_target_that_is_not_a_number_is_no_label(tmp_path: Path) -> None:
    source = look(tmp_path, "a,y\n1,0.5\n2,nan\n3,inf\n4,2.5\n")
    assert ["y" in event for event in source.events()] == [True, False, False, True]
    assert all("an event without a label" in notice for notice in source.notices)
    assert len(source.notices) == 2


def test_a_number_column_that_becomes_text_is_said(tmp_path: Path) -> None:
    source = look(tmp_path, "a,y\n1,u\n2,u\noops,u\n4,u\n")
    assert source.notices == [
        "s: column 'a' is treated as text: 'oops' on line 4 is not a number (cells like it: 1, numbers: 3); to "
        "treat such cells as empty, set --types a=number",
    ]


def test_a_column_without_values_is_said(tmp_path: Path) -> None:
    source = look(tmp_path, "a,b,y\n,1,u\n,2,u\n")
    assert source.notices == ["s: column 'a' has no value in any row: no event has this feature"]


def test_a_file_without_labels_is_said(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,y\n1,\n2,\n", encoding="utf-8")
    assert CsvFile(path, "y", "s").look(None).why.startswith("a guess, because no row has a target")
    path.write_text("a,y\n1,t\n2,f\n", encoding="utf-8")
    source = CsvFile(path, "y", "s", types={"y": Kind.BOOLEAN})
    assert source.look(None).why.startswith("a guess, because no target in the first 2 rows is a boolean")
