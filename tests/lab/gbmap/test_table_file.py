"""A CSV file as a table: what becomes of its cells, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream_lab.gbmap.table_file import MOST_CATEGORIES, read_table


def csv(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_numbers_texts_booleans_and_nothing(tmp_path: Path) -> None:
    path = csv(tmp_path, "n,t,b,y\n1,x,true,up\n,z,false,down\n3,,true,\n4,x,,up\n")
    told: list[str] = []
    table = read_table(path, "y", notices=told)
    assert table.names == ("n", "t", "b") and table.categorical == (1,)
    assert table.classes == ("down", "up") and table.targets.tolist() == [1.0, 0.0, 1.0]
    expected = [[1.0, 0.0, 1.0], [np.nan, 1.0, 0.0], [4.0, 0.0, np.nan]]
    np.testing.assert_array_equal(table.rows, expected)
    assert any("1 of 4 rows have no target" in line for line in told)


def test_a_column_that_begins_late_is_missing_before(tmp_path: Path) -> None:
    table = read_table(csv(tmp_path, "a,b,y\n1,,1.5\n2,7,2.5\n"), "y")
    np.testing.assert_array_equal(table.rows, [[1.0, np.nan], [2.0, 7.0]])
    assert table.classes == () and table.targets.tolist() == [1.5, 2.5]


def test_codes_can_be_named_as_categories(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b,y\n1,3,1.5\n2,4,2.5\n")
    assert read_table(path, "y", categories=["b"]).categorical == (1,)
    with pytest.raises(InputError, match=r"expected columns of categories among a, b, got 'c'"):
        read_table(path, "y", categories=["c"])


@pytest.mark.parametrize(
    ("text", "task", "message"),
    [
        ("a,y\n1,\n2,\n", None, r"expected rows with a value in 'y', got none"),
        ("a,y\n1,up\n2,down\n", Task.REGRESSION, r"expected numbers for regression, got 'up'; set --task class"),
        ("a,y\n1,0.5\n2,1\n", Task.CLASSIFICATION, r"expected classes .*, got 0\.5; set --task regression"),
        ("a,y\n,1\n,2\n", None, r"expected a value in a column other than 'y', got none"),
        ("a,b\n1,2\n", None, r"has no column 'y'; its columns are a, b"),
        ("a,y\n", None, r"expected rows below the header, got none"),
        (
            "a,y\n" + "".join(f"name-{k},{k % 2}\n" for k in range(MOST_CATEGORIES + 1)),
            None,
            r"expected at most 100 distinct texts in a column, got 101 in 'a'; leave the column out \(--drop a\)",
        ),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str, task: Task | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_table(csv(tmp_path, text), "y", task)


def test_only_so_many_rows(tmp_path: Path) -> None:
    assert read_table(csv(tmp_path, "a,y\n1,1.5\n2,2.5\n3,3.5\n"), "y", rows=2).targets.tolist() == [1.5, 2.5]
