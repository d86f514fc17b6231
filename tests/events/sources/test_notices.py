"""What a CSV file loses or doubts is reported with a count, however the reading ends."""

from pathlib import Path

import pytest

from glasstream.app.command.make_source import parse_types
from glasstream.base.errors import InputError
from glasstream.events.sources.csv_file import LOOK, CsvFile
from glasstream.events.sources.source import UntilError


def notices(folder: Path, text: str, types: str = "", events: int | None = None) -> list[str]:
    """Return the notices about a file, without the name of the stream, after all events or the first ones."""
    path = folder / "events.csv"
    path.write_text(text, encoding="utf-8", newline="")
    source = CsvFile(path, "y", "s", None, parse_types([types] if types else []))
    source.look(None)
    rows = source.events()
    for _ in range(events or len(text)):
        if next(rows, None) is None:
            break
    rows.close()  # type: ignore[attr-defined]
    return [notice.removeprefix("s: ") for notice in source.notices]


@pytest.mark.parametrize("events", [2, 3, None])
def test_they_come_at_every_end_of_the_reading(tmp_path: Path, events: int | None) -> None:
    text = "a,b,y\n1,1,u\noops,1,u\n2,1,u\n"
    (notice,) = notices(tmp_path, text, "a=number", events)
    assert notice.startswith(
        "column 'a' is stated to hold numbers, but 'oops' on line 3 is not a number (cells like it: 1)"
    )


def test_they_come_if_a_later_line_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,y\n" + "1,u\n" * LOOK + "oops,u\nSource: the office\n", encoding="utf-8")
    source = CsvFile(path, "y", "s")
    source.look(None)
    rows = UntilError(source.events())
    assert len(list(rows)) == LOOK + 1
    assert isinstance(rows.error, InputError)
    assert "if the line is no row, such as a footnote, remove it" in str(rows.error)
    (notice,) = source.notices
    assert "'oops' on line 1,002 is not a number (cells like it: 1)" in notice


@pytest.mark.parametrize(
    ("opens", "closes", "says"),
    [
        (400, 800, "the cell on line 402 spans 401 lines (cells like it: 1): is a quote not closed?"),
        (400, 402, "the cell on line 402 spans 3 lines (cells like it: 1): is a quote not closed?"),
        (0, 100, "the cell on line 2 spans 101 lines (cells like it: 1): is a quote not closed?"),
    ],
)
def test_a_quote_that_swallows_rows(tmp_path: Path, opens: int, closes: int, says: str) -> None:
    marks = {opens: '"10 in', closes: '6 in"'}
    (notice,) = notices(tmp_path, "a,note,y\n" + "".join(f"{n},{marks.get(n, 'x')},u\n" for n in range(1_000)))
    assert notice.startswith(says)


def test_rows_of_separators_are_reported(tmp_path: Path) -> None:
    """As spreadsheets write them for lines that were formatted."""
    (notice,) = notices(tmp_path, "a,b,y\n1,2,u\n,3,\n" + ",,\n" * 3)
    assert notice == (
        "line 4 has no value in any cell (lines like it: 3): it becomes an event without features and label; remove "
        "such lines"
    )


@pytest.mark.parametrize("mark", [",", ";"])
@pytest.mark.parametrize("lines", [2, 3])
def test_a_quote_that_swallows_a_row_or_two_with_any_separator(tmp_path: Path, mark: str, lines: int) -> None:
    marks = {5: '"10 in', 4 + lines: '6 in"'}
    rows = [["a", "note", "y", "b"], *([str(n), marks.get(n, "x"), "u", "2.5"] for n in range(30))]
    (notice,) = notices(tmp_path, f"sep={mark}\n" + "".join(f"{mark.join(row)}\n" for row in rows))
    assert notice.startswith(f"the cell on line 8 spans {lines} lines (cells like it: 1): is a quote not closed?")


def test_an_address_of_two_lines_is_no_row(tmp_path: Path) -> None:
    assert notices(tmp_path, "a,address,b,y\n" + '1,"Main St 1, Flat 2, North\n20100, Turku",5,u\n' * 9) == []
    assert notices(tmp_path, "a,address,y\n" + '1,"Main St 1, North\nTurku, Finland",u\n' * 9) == []


def test_cells_with_line_breaks_are_usual(tmp_path: Path) -> None:
    text = "Dear all,\n\nfirst, and second,\r\nyours"
    assert notices(tmp_path, "a,note,y\n" + f'1,"{text}",u\n' * 9) == []


def test_a_repeated_header_is_no_event(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,y\n1,u\n2,v\na,y\n3,u\n\na,y\n", encoding="utf-8")
    source = CsvFile(path, "y", "s")
    source.look(None)
    assert [event["x"] for event in source.events()] == [{"a": 1.0}, {"a": 2.0}, {"a": 3.0}]
    assert source.notices == ["s: line 4 repeats the header (lines like it: 2): skipped"]


def test_a_late_target_of_another_kind(tmp_path: Path) -> None:
    (notice,) = notices(tmp_path, "a,y\n" + "1,0\n" * LOOK + "1,No\n" * 3)
    assert (
        "'No' on line 1,002 is not a number (cells like it: 3): sent as texts, and the learner rejects such events"
        in notice
    )


@pytest.mark.parametrize("below", [0, LOOK])
def test_classes_that_are_spelled_in_several_ways(tmp_path: Path, below: int) -> None:
    labels = ["yes "] * 2 + [" yes", "Yes", "no", "No\u00a0", "up", ""]
    (notice,) = notices(tmp_path, "a,y\n" + "1,up\n" * below + "".join(f"1,{label}\n" for label in labels))
    assert notice == (
        f"column 'y' has in {'all rows' if below else 'the first 8 rows'} classes that differ only in case, "
        "spaces, punctuation or Unicode form: "
        "'yes ' (2), ' yes' (1), 'Yes' (1), 'no' (1), 'No\\xa0' (1): each is a class of its own; write each class in "
        "one way"
    )


def test_classes_whose_accents_are_encoded_in_several_ways(tmp_path: Path) -> None:
    """As a composed letter, and as a letter with a combining mark, as macOS writes names of files."""
    (notice,) = notices(tmp_path, "a,y\n1,bär\n2,ba\u0308r\n3,b\u00adär\n4,bar\n")
    assert "Unicode form: 'bär' (1), 'ba\\u0308r' (1), 'b\\xadär' (1): each is a class of its own" in notice


@pytest.mark.parametrize("column", ["a", "y"])
def test_booleans_as_words_and_as_digits(tmp_path: Path, column: str) -> None:
    rows = [(("true", "1", "FALSE", "0")[n % 4], "up") for n in range(40)]
    rows = rows if column == "a" else [(one, two) for two, one in rows]
    (notice,) = notices(tmp_path, "a,y\n" + "".join(f"{one},{two}\n" for one, two in rows))
    assert notice == (
        f"column '{column}' is treated as text: true and false (20 rows) are other values than 1 and 0 (20); if they "
        f"are the same, set --types {column}=boolean"
    )


@pytest.mark.parametrize("label", ["\\N", "?", "-", "--", ".", "#N/A", "missing", "None", "Unknown", "<NA>"])
def test_a_class_that_looks_like_a_missing_label(tmp_path: Path, label: str) -> None:
    (notice,) = notices(tmp_path, f"a,y\n1,yes\n1,no\n1,{label}\n1,{label}\n")
    assert notice == (
        f"column 'y' has in the first 4 rows the classes {label!r} (2): if they stand for a missing label, leave the "
        "cells empty"
    )


def test_signs_can_be_the_classes(tmp_path: Path) -> None:
    assert notices(tmp_path, "a,y\n1,+\n1,-\n1,+\n") == []


@pytest.mark.parametrize(
    "form", ["{} m2", "{}kg", "{}-", "\N{MINUS SIGN}{}", "+{} yrs", "{} °C", "{} km/h", "１{}"], ids=str.strip
)
def test_numbers_with_units_or_other_signs(tmp_path: Path, form: str) -> None:
    first, *_ = cells = [form.format(n % 7) for n in range(30)]
    (notice,) = notices(tmp_path, "a,y\n" + "".join(f"{cell},u\n" for cell in cells))
    assert notice == (
        f"column 'a' is treated as text: {first!r} on line 2 is not a plain number (cells like it: 30, numbers: 0); if "
        "these are numbers, set --types a=point"
    )


def test_codes_with_letters_are_no_numbers(tmp_path: Path) -> None:
    assert notices(tmp_path, "a,y\n" + "".join(f"{n % 4}{'ABCDEF'[n % 6]},u\n" for n in range(60))) == []


@pytest.mark.parametrize(
    ("form", "what"),
    [
        ("2026-01-{:02} 06:00", "dates or times, which are treated as texts"),
        ("{:02}.03.2026", "dates or times, which are treated as texts"),
        ("06:{:02}", "dates or times, which are treated as texts"),
        ("customer {}", "a different text in nearly every row"),
        ("0x{:06X}", "a different text in nearly every row"),
    ],
)
def test_texts_that_a_model_learns_little_from(tmp_path: Path, form: str, what: str) -> None:
    text = "a b,y\n" + "".join(f"{form.format(n)},u\n" for n in range(10, 30))
    (notice,) = notices(tmp_path, text)
    assert notice == (
        f"column 'a b' holds {what}: {form.format(10)!r} on line 2 (different texts: 20 of 20); a model learns little "
        "from such texts; to leave the column out, set --drop 'a b'"
    )
