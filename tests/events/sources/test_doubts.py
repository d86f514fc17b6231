"""A file that is probably not what it seems is read as it is written, and the user is notified: no doubt is silent."""

from pathlib import Path

import pytest

from glasstream.app.command.make_source import parse_types
from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.events.sources.csv_file import LOOK, CsvFile

ROWS = range(10, 50)


def source(folder: Path, text: str, target: str = "y", types: str = "", dropped: tuple[str, ...] = ()) -> CsvFile:
    path = folder / "events.csv"
    path.write_text(text, encoding="utf-8", newline="")
    return CsvFile(path, target, "s", None, parse_types([types] if types else []), dropped=dropped)


def notices(folder: Path, text: str, target: str = "y", types: str = "") -> list[str]:
    """Return the notices about a file, without the name of the stream, after all its events."""
    found = source(folder, text, target, types)
    found.look(None)
    list(found.events())
    return [notice.removeprefix("s: ") for notice in found.notices]


def column(*cells: str, name: str = "a") -> str:
    return f"{name},b,y\n" + "".join(f'"{cell.replace(chr(34), chr(34) * 2)}",1,u\n' for cell in cells)


def error(folder: Path, text: str, target: str = "y") -> str:
    with pytest.raises(InputError) as caught:
        source(folder, text, target).look(None)
    return str(caught.value)


ARABIC = str.maketrans("0123456789.", "٠١٢٣٤٥٦٧٨٩٫")
PERSIAN = str.maketrans("0123456789", "۰۱۲۳۴۵۶۷۸۹")


@pytest.mark.parametrize(
    ("form", "todo"),
    [
        *(
            (form, "set --types a=point")
            for form in (
                '="{}"', "{}*", "{}[1]", "~{}", "{}±2", "USD {}.54", "Rs. {}", "US${}", "23,69,7{}.54", "1'2{}.5",
                ' "{}"', "\u200f{}", "{}%",
            )
        ),
        ("2.369.7{}", "set --types a=comma"),
        ("2 369 7{},5", "set --types a=comma"),
        ("$1,2{}", "set --types a=point, or --types a=comma if a comma is the decimal mark"),
        *((form, "write them as 1234.5") for form in (">{}", "{}½", "2.3{}D+06", "0x{}F")),
    ],
)  # fmt: skip
def test_each_way_to_write_a_number_is_named(tmp_path: Path, form: str, todo: str) -> None:
    cells = [form.format(number) for number in ROWS]
    (notice,) = notices(tmp_path, column(*cells))
    assert notice.startswith(f"column 'a' is treated as text: {cells[0]!r} on line 2 is not a plain number")
    assert notice.endswith(f"(cells like it: {len(ROWS)}, numbers: 0); if these are numbers, {todo}")
    if (types := todo.removeprefix("set --types ").partition(",")[0]) != todo:
        read = source(tmp_path, column(*cells), types=types)
        read.look(None)
        assert all(isinstance(event["x"]["a"], float) for event in read.events())
        assert read.notices == []


@pytest.mark.parametrize("digits", [ARABIC, PERSIAN])
@pytest.mark.parametrize("form", ["{}", "{}.5", "-{}"])
def test_digits_of_other_scripts_are_named(tmp_path: Path, digits: dict[int, str], form: str) -> None:
    (notice,) = notices(tmp_path, column(*(form.format(number).translate(digits) for number in ROWS)))
    assert "is not a plain number (cells like it: 40" in notice


@pytest.mark.parametrize("form", ["PT{}M", "PT1H{}.5S", "P1DT{}H", "1 day, 03:{}:00", "1:{}.3", "1h {}min", "{}m1s"])
def test_durations_are_named(tmp_path: Path, form: str) -> None:
    (notice,) = notices(tmp_path, column(*(form.format(number) for number in ROWS)))
    assert notice.startswith("column 'a' holds dates or times, which are treated as texts")


@pytest.mark.parametrize("classes", [(">50K", "<=50K"), ("<5", "5-10", ">10"), ("A-", "A+"), ("30-39", "40-49")])
def test_names_of_ranges_and_grades_are_no_numbers(tmp_path: Path, classes: tuple[str, ...]) -> None:
    assert notices(tmp_path, column(*classes * 10)) == []


@pytest.mark.parametrize("sign", ["", "-"])
def test_points_that_may_separate_thousands_are_named(tmp_path: Path, sign: str) -> None:
    (notice,) = notices(tmp_path, column("79", f"{sign}1.234", "45.678", "2.500"))
    assert notice == (
        f"column 'a' may have points as separators of thousands: '{sign}1.234' on line 3 is read as a decimal fraction "
        f"(cells like it: 3), but no point has more or fewer than three digits behind it; if it means {sign}1234, "
        "set --types a=comma"
    )
    commas = "sep=;\na;b;y\n" + "911.429;-745,14;u\n" * 3
    assert sum("separators of thousands" in notice for notice in notices(tmp_path, commas)) == 1
    assert notices(tmp_path, column("79", "1.234", "45.678", "2.500"), types="a=number") == []


@pytest.mark.parametrize(
    "cells",
    [
        ("1.234", "45.678", "2.500"),
        ("79", "1.234", "45.678", "2.5"),
        ("79", "0.234", "45.678", "2.500"),
        ("1079", "1.234", "45.678", "2.500"),
    ],
)
def test_decimals_are_no_thousands(tmp_path: Path, cells: tuple[str, ...]) -> None:
    assert notices(tmp_path, column(*cells)) == []


@pytest.mark.parametrize("name", ["a", "y"])
def test_points_below_whole_numbers_that_may_separate_thousands_are_named(tmp_path: Path, name: str) -> None:
    small = f"{name},b\n" + "".join(f"{number % 999},1\n" for number in range(LOOK))
    target = "b" if name == "a" else "y"
    (notice,) = notices(tmp_path, small + "1.234,1\n2.500,1\n", target)
    assert notice.startswith(f"column {name!r} may have points as separators of thousands: '1.234' on line 1,002 is")
    assert "(cells like it: 2)" in notice
    assert notices(tmp_path, small + "1.234,1\n2.5,1\n1.234,1\n", target) == []


def test_a_column_of_merged_cells_is_named(tmp_path: Path) -> None:
    (notice,) = notices(tmp_path, column("north", *[""] * 29, "south", *[""] * 29))
    assert notice == (
        "column 'a' has a value in only 2 of the first 60 rows, the first one included: if cells were merged, write "
        "the value into each row"
    )
    assert notices(tmp_path, column("", "north", *[""] * 40)) == []


def test_versions_that_are_equal_numbers_are_named(tmp_path: Path) -> None:
    (notice,) = notices(tmp_path, column("1.1", "1.2", "1.10"))
    assert notice == (
        "column 'a' has '1.10' on line 4 and '1.1', which are the same number (texts like it: 1); if they are versions "
        "or codes, set --types a=text"
    )
    assert notices(tmp_path, column("1.10", "1.20", "1.25", "1.00")) == []
    assert notices(tmp_path, column("1.1", "1.0", "1.25", "10.0")) == []


@pytest.mark.parametrize("mark", ["-200", "-999", "999999"])
def test_a_number_that_probably_means_missing_is_named(tmp_path: Path, mark: str) -> None:
    (notice,) = notices(tmp_path, column(*map(str, ROWS), mark))
    assert notice == (
        f"column 'a' holds {mark} in 1 of the first 41 rows, outside of all other numbers, which are 10 to 49: it is "
        "read as a number; if it stands for a missing value, leave the cells empty"
    )
    wide = [str(100 * number) for number in range(-40, 60)]
    assert sum("outside" in notice for notice in notices(tmp_path, column(*wide, *["-9999"] * 10))) == 1
    assert notices(tmp_path, column(*wide, "-9998", "99.5", "0")) == []


NO_HEADER = "".join(
    f"{number},{number * 7 % 53}.5,-{number},{'PQ'[number % 2]},{'uv'[number % 2]}\n" for number in ROWS
)


def test_a_file_without_a_header_is_named(tmp_path: Path) -> None:
    (notice,) = notices(tmp_path, NO_HEADER, "u")
    assert notice == (
        "the first line, 10, 17.5, -10, P, u, is the header, but looks like data; if it is data, put a line with the "
        "names of the columns above it"
    )
    todo = "the first line looks like data: put a line with the names of the columns above it"
    assert error(tmp_path, NO_HEADER).endswith(todo)
    assert error(tmp_path, "5,5,0,u\n1,2,0,v\n", "u").endswith(todo)
    assert error(tmp_path, "5,,0,u\n1,2,0,v\n", "u").endswith(todo)


@pytest.mark.parametrize(
    "text",
    [
        "a,y\n1,y\n2,n\n",
        "2019,2020,2021,y\n" + "2019,2020,2021,y\n" + "2000,2100,2050,u\n2100,2000,2000,u\n",
        "0,1,2,3,y\n" + "0,1,2,3,u\n9,0,0,0,v\n",
        "400.5,401.5,402.5,y\n" + "1.5,1.5,900.5,u\n900.5,900.5,1.5,v\n",
    ],
)
def test_names_that_are_numbers_in_order_are_a_header(tmp_path: Path, text: str) -> None:
    assert not any("looks like data" in notice for notice in notices(tmp_path, text))


@pytest.mark.parametrize("header", ["age,income,y", '"age","income",y'])
def test_files_that_were_joined_have_their_header_skipped(tmp_path: Path, header: str) -> None:
    one = f"\ufeff{header}\n1,2,u\n3,4,v\n"
    found = source(tmp_path, one + one)
    found.look(None)
    assert [event["x"] for event in found.events()] == [{"age": 1.0, "income": 2.0}, {"age": 3.0, "income": 4.0}] * 2
    assert found.notices == [
        "s: line 4 begins with a byte order mark, as the first line of a file does: the mark is ignored (lines like "
        "it: 1)",
        "s: line 4 repeats the header (lines like it: 1): skipped",
    ]


def test_a_header_in_another_order_is_refused(tmp_path: Path) -> None:
    said = error(tmp_path, "age,income,y\n1,2,u\nincome,age,y\n2,1,u\n")
    assert (
        "line 3: expected the columns in the order of the header, got its names in another order: income, age, y"
        in said
    )


@pytest.mark.parametrize("line", ["years,INR,[-]", "int64,float64,string", "Age,Income,Y"])
def test_a_line_of_words_among_numbers_is_named_once(tmp_path: Path, line: str) -> None:
    text = "age,income,y\n" + line + "\n" + "".join(f"{number},{number},u\n" for number in ROWS)
    notice, *others = notices(tmp_path, text)
    assert notice == (
        "line 2 is probably no row, because it has words where other lines have numbers (lines like it: 1): it becomes "
        "an event, and makes these columns text: age, income; remove the line"
    )
    assert not any("treated as text" in other for other in others)


def test_a_column_of_words_for_missing_values_names_them(tmp_path: Path) -> None:
    text = "a,b,y\nNULL,1,None\nNULL,2,nan\nNULL,3,\n"
    assert notices(tmp_path, text) == [
        "column 'a' has 'NULL' in 3 of the first 3 rows: treated as empty, and no row has another value",
        "column 'y' has 'None', 'nan' in 2 of the first 3 rows: treated as empty, an event without a label, and no row "
        "has another value; if it is a class, set --types y=text",
    ]


def test_a_target_of_many_classes_is_named(tmp_path: Path) -> None:
    many = "a,y\n" + "".join(f"1,SKU{number}\n" for number in ROWS)
    assert notices(tmp_path, many) == [
        "column 'y' has 40 different texts in the first 40 rows: each is a class of its own"
    ]
    dates = "a,y\n" + "".join(f"1,2026-01-{number:02}\n" for number in range(1, 32))
    assert "has 31 different dates or times in the first 31 rows" in notices(tmp_path, dates)[0]
    assert notices(tmp_path, "a,y\n" + "".join(f"1,{letter}\n" for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" * 10)) == []


def test_classes_that_differ_in_a_full_stop_are_named(tmp_path: Path) -> None:
    (notice,) = notices(tmp_path, "a,y\n1,<=50K\n2,<=50K.\n3,>50K\n")
    assert "differ only in case, spaces, punctuation or Unicode form: '<=50K' (1), '<=50K.' (1)" in notice
    assert notices(tmp_path, "a,y\n1,C\n2,C++\n3,C#\n4,A+\n5,A-\n") == []


@pytest.mark.parametrize("begin", [b"BZh9", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18"])
def test_a_packed_file_is_named(tmp_path: Path, begin: bytes) -> None:
    path = tmp_path / "events.csv"
    path.write_bytes(begin + bytes(range(256)))
    with pytest.raises(
        InputError, match=r"expected CSV, got a file packed with .*; unpack the file, or pack it with gz"
    ):
        CsvFile(path, "y", "s").look(None)


@pytest.mark.parametrize(
    ("text", "todo"),
    [
        ("   a    b  y\n   1    2  u\n", "a table for readers, with ' ' around its cells; write it with commas"),
        ("| a | y |\n|---|---|\n| 1 | u |\n", "a table for readers, with '|' around its cells; write it with commas"),
        (
            "a\x01y\n1\x01u\n",
            r"separated by '\x01'; write the file with commas, or put a line of sep= and this character",
        ),
        ("|1x3 Cross validator\n1,u\n", "name one of them with --target"),
        ('"a", "y"\n"1", "u"\n', "remove the spaces between commas and quotes"),
        ("A,,B,,C\na,b,c,d,y\n1,2,3,4,u\n", "the header seems to be on line 2: remove the lines above it"),
    ],
)
def test_advice_that_can_be_followed(tmp_path: Path, text: str, todo: str) -> None:
    said = error(tmp_path, text)
    assert todo in said and "sep=|" not in said


def test_a_target_of_numbers_in_another_spelling_is_refused(tmp_path: Path) -> None:
    text = "a,y\n" + "".join(f"1,{str(number).translate(PERSIAN)}\n" for number in ROWS)
    assert "line 2: expected a class or a plain number such as 1234.5 in the target 'y'" in error(tmp_path, text)
    assert source(tmp_path, text, types="y=text").look(None).task is Task.CLASSIFICATION
