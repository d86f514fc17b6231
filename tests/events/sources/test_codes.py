"""A cell of CSV is a number only if reading it as one loses nothing; files and messages follow the same rules."""

import codecs
import csv as csv_format
import io
import re
from decimal import Decimal
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.command.make_source import Asked, make_source, parse_types
from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.events.mapping.cells import Reading, kind, reading, value
from glasstream.events.mapping.fields import Kind
from glasstream.events.mapping.formats import Csv
from glasstream.events.mapping.mapper import Mapping, event_rules, make_kinds
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.message import Message
from glasstream.events.sources.csv_file import LOOK, CsvFile

ORIGIN = Message("s", 0, 0, None, None, None)


def opened(folder: Path, text: str | bytes, target: str = "y", types: str = "") -> CsvFile:
    path = folder / "events.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = CsvFile(path, target, "s", None, parse_types([types] if types else []))
    source.look(None)
    return source


def column(folder: Path, *cells: str, types: str = "") -> list[Any]:
    source = opened(folder, "a,b,y\n" + "".join(f"{cell},1,u\n" for cell in cells), types=types)
    return [event["x"].get("a") for event in source.events()]


@pytest.mark.parametrize(
    "codes",
    [
        ["10_01", "100_1", "1_001"],
        ["1E5", "100E3", "10E4"],
        ["20095", "01067", "1067"],
        ["12345678901234567890", "12345678901234567891"],
        ["007", "3.5"],
        ["٣", "3"],
    ],
)
def test_codes_stay_different(tmp_path: Path, codes: list[str]) -> None:
    assert column(tmp_path, *codes) == codes


@pytest.mark.parametrize("number", [0.0, -12.0, 3.5, 1.2e-05, 1e16, 1e22, 5e-324, -1.7976931348623157e308])
@pytest.mark.parametrize("write", [repr, "%g", "%e", "%E", "%+.3f", "{:.1f}"])
def test_numbers_as_programs_write_them_are_numbers(number: float, write: Any) -> None:
    text = write(number) if callable(write) else write % number if "%" in write else write.format(number)
    assert reading(text) in (Reading.WHOLE, Reading.POINT, Reading.INFINITE)
    assert reading(text) is Reading.INFINITE or value(text, Kind.NUMBER) == float(text)


def test_an_exponent_among_floats_is_a_number(tmp_path: Path) -> None:
    assert column(tmp_path, "1e16", "2.5") == [1e16, 2.5]
    assert column(tmp_path, "1e16", "2.5", types="a=text") == ["1e16", "2.5"]


SPELLINGS = st.from_regex(r"[+-]?[0-9_]{1,4}(\.[0-9_]{0,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@given(st.lists(SPELLINGS, min_size=2, max_size=6))
def test_no_two_codes_become_the_same_number(cells: list[str]) -> None:
    if kind(map(reading, cells)) is Kind.NUMBER:
        for one, other in combinations(cells, 2):
            if value(one, Kind.NUMBER) == value(other, Kind.NUMBER):
                assert Decimal(one) == Decimal(other) and "_" not in one + other
                assert not any(re.match("[+-]?0[0-9]", cell) for cell in (one, other))


def test_types_can_be_stated(tmp_path: Path) -> None:
    text = "zip,n,b,y\n01067,1,1,u\n?,7,true,u\n1067,NA,0,v\n"
    source = opened(tmp_path, text, types="zip=number,n=text,b=boolean")
    assert [event["x"] for event in source.events()] == [
        {"zip": 1067.0, "n": "1", "b": True},
        {"n": "7", "b": True},
        {"zip": 1067.0, "n": "NA", "b": False},
    ]
    assert source.notices == [
        "s: column 'zip' is stated to hold numbers, but '?' on line 3 is not a number (cells like it: 1): treated as "
        "empty"
    ]
    with pytest.raises(InputError, match=r"has no column 'c', of --types; its columns are a, y"):
        opened(tmp_path, "a,y\n1,u\n", types="c=text")
    with pytest.raises(InputError, match=r"--types: expected COLUMN=TYPE,\.\.\. with the types number, text, boolean"):
        parse_types(["a=int"])
    with pytest.raises(InputError, match="--types: it needs --csv"):
        make_source(None, None, None, None, 1, Asked(), ["a=text"])


@pytest.mark.parametrize(
    ("cells", "says"),
    [
        (
            ["01067", "20095", "1067"],
            "'01067' on line 2 is a number or a code (cells like it: 1, numbers: 2); if all are",
        ),
        (["1E5", "100E3"], "'1E5' on line 2 is a number or a code (cells like it: 2, numbers: 0)"),
        (
            ['"25,7"', '"66,6"'],
            "'25,7' on line 2 is not a plain number (cells like it: 2, numbers: 0); if these are numbers, set --types "
            "a=comma",
        ),
        (["$5", "$6", "7"], "'$5' on line 2 is not a plain number (cells like it: 2, numbers: 1)"),
        (
            ["1.5", "2.5", "?"],
            "'?' on line 4 is not a number (cells like it: 1, numbers: 2); to treat such cells as empty",
        ),
    ],
)
def test_text_that_looks_like_numbers_is_reported(tmp_path: Path, cells: list[str], says: str) -> None:
    source = opened(tmp_path, "a,y\n" + "".join(f"{cell},u\n" for cell in cells))
    (notice,) = source.notices
    assert notice.startswith("s: column 'a' is treated as text: ")
    assert says in notice


def test_a_missing_text_target_is_no_class(tmp_path: Path) -> None:
    text = "a,y\n1,yes\n2,NA\n3,no\n4,none\n5,\n"
    source = opened(tmp_path, text)
    assert [event.get("y") for event in source.events()] == ["yes", None, "no", "none", None]
    assert source.notices == [
        "s: column 'y' has 'NA' in 1 of the first 5 rows: treated as empty, an event without a label, because the "
        "other cells hold class names; if it is a class, set --types y=text",
        "s: column 'y' has in the first 5 rows the classes 'none' (1): if they stand for a missing label, leave the "
        "cells empty",
    ]
    stated = opened(tmp_path, text, types="y=text")
    assert [event.get("y") for event in stated.events()] == ["yes", "NA", "no", "none", None]


@pytest.mark.parametrize("empty", ["", "nan"])
def test_a_column_that_begins_late_has_the_kind_of_its_values(tmp_path: Path, empty: str) -> None:
    rows = f"{empty},1,u\n" * (LOOK + 200) + "2.5,1,u\n" * 3 + "NA,1,u\n"
    source = opened(tmp_path, "a,b,y\n" + rows)
    assert [event["x"].get("a") for event in source.events()][-5:] == [None, 2.5, 2.5, 2.5, None]
    late = f"line {LOOK + 202:,}"
    assert source.notices[0] == (
        f"s: column 'a' is empty above {late}: the 4 rows from {late} on decide that it holds numbers"
    )


def test_a_target_that_begins_late_decides_the_task(tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("a,y\n" + "1,\n" * (LOOK + 1) + "".join(f"1,{n}.5\n" for n in range(30)))
    assert CsvFile(path, "y", "s").look(None).task is Task.REGRESSION


def test_later_cells_that_do_not_fit_are_counted(tmp_path: Path) -> None:
    source = opened(tmp_path, "a,y\n" + "1,u\n" * LOOK + "01067,u\nup,u\n1e5,u\n")
    assert source.notices == []
    assert [event["x"]["a"] for event in source.events()][-3:] == ["01067", "up", 1e5]
    (notice,) = source.notices
    assert (
        "'01067' on line 1,002 is not a number (cells like it: 2): sent as texts" in notice
        and "--types a=text" in notice
    )


@pytest.mark.parametrize("amount", ["$64,{:03}", "{},5", "{} %", "€{}"])
def test_a_target_of_formatted_numbers_is_refused_unless_it_is_stated(tmp_path: Path, amount: str) -> None:
    text = "a,y\n" + "".join(f'1,"{amount.format(n)}"\n' for n in range(100, 130))
    with pytest.raises(
        InputError, match=r"line 2: expected a class or a plain number such as 1234\.5 in the target 'y'"
    ):
        opened(tmp_path, text)
    assert len(list(opened(tmp_path, text, types="y=text").events())) == 30


def test_a_target_of_very_many_texts_is_reported(tmp_path: Path) -> None:
    source = opened(tmp_path, "a,y\n" + "".join(f"1,name {n}\n" for n in range(300)))
    assert source.notices == ["s: column 'y' has 300 different texts in the first 300 rows: each is a class of its own"]


@pytest.mark.parametrize("mark", [codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF8])
def test_a_file_with_a_byte_order_mark(tmp_path: Path, mark: bytes) -> None:
    encoding = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be", codecs.BOM_UTF8: "utf-8"}[mark]
    source = opened(tmp_path, mark + '"in,come",y\n1,ä\n'.encode(encoding))
    assert list(source.events()) == [{"id": 0, "x": {"in,come": 1.0}, "y": "ä"}]


def test_utf_16_without_a_mark_or_cut_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"got zero bytes, as UTF-16 has them; .*`iconv -f utf-16le -t utf-8`"):
        opened(tmp_path, "a,y\n1,u\n".encode("utf-16-le"))
    with pytest.raises(InputError, match="expected text in UTF-16, because the file begins with its mark"):
        opened(tmp_path, codecs.BOM_UTF16_LE + "a,y\n1,u\n".encode("utf-16-le")[:-1])


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_a_first_line_can_name_the_separator(tmp_path: Path, separator: str) -> None:
    rows = [["sep=" + separator], ["a", "y"], ["1", "u"]]
    source = opened(tmp_path, "\r\n".join(separator.join(row) for row in rows) + "\r\n")
    assert list(source.events()) == [{"id": 0, "x": {"a": 1.0}, "y": "u"}]
    with pytest.raises(InputError, match="line 4: expected 2 cells"):
        opened(tmp_path, "\n".join(separator.join(row) for row in [*rows, ["1", "2", "3"]]))


CELLS = st.one_of(
    st.sampled_from(
        ["", " ", "NA", "none", "nan", "-inf", "true", "False", "up", "01067", "1E5", "10_01", "45,3", "$5"]
    ),
    st.integers(-(10**17), 10**17).map(str),
    st.floats().map(repr),
    st.text(st.sampled_from("0123456789.eE+-_, "), max_size=6),
    st.text(st.sampled_from('a"\n\u2028\x85\x0b\x0c, '), max_size=4),
)


@given(st.data(), st.integers(1, 3), st.integers(1, 6))
def test_files_and_messages_give_the_same_events(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, width: int, count: int
) -> None:
    """Where the intake makes an event of a row, it is that of the file; it rejects only what is not finite."""
    names = [f"c{n}" for n in range(width)] + ["y"]
    rows = data.draw(st.lists(st.lists(CELLS, min_size=width + 1, max_size=width + 1), min_size=count, max_size=count))
    text = io.StringIO(newline="")
    csv_format.writer(text).writerows(rows)
    path = tmp_path_factory.getbasetemp() / "same.csv"
    path.write_text(",".join(names) + "\n" + text.getvalue(), encoding="utf-8", newline="")
    source = CsvFile(path, "y", "s")
    source.look(Task.REGRESSION)
    wanted = list(source.events())
    settings = IntakeSettings(topics="s", target="y", format="csv", columns=",".join(names))
    documents, _ = Csv(names, ",").read("s", text.getvalue().encode())
    kinds = make_kinds(settings, labels=False)
    mapping = Mapping(event_rules(settings, 249), kinds)
    kinds.fix(kinds.inferred((pair for one in documents for pair in mapping.values(one)), 100))  # type: ignore[arg-type]
    assert len(documents) == len(wanted)
    for document, event in zip(documents, wanted, strict=True):
        assert isinstance(document, dict)
        try:
            _, found = mapping.map(document, ORIGIN)
        except Misfit as misfit:
            empty = all(one is None for one in event["x"].values())
            assert misfit.reason == "not_finite" or (empty and misfit.reason == "empty_x")
        else:
            assert (found["x"], found.get("y")) == (event["x"], event.get("y"))
