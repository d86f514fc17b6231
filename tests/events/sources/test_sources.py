"""CSV files: what becomes of cells, and one clear line for what cannot be used."""

import gzip
import re
from pathlib import Path

import pytest

from glasstream.app.command.make_source import Asked, make_source
from glasstream.base.errors import InputError
from glasstream.events.admission import Accepted, Admission, Task
from glasstream.events.sources.bundled import BundledStream
from glasstream.events.sources.changes import Change
from glasstream.events.sources.csv_file import CsvFile
from glasstream.events.sources.messages import pack
from glasstream.events.sources.swapped import Swapped
from glasstream_topics.events import Event


def csv(folder: Path, text: str, name: str = "events.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def events(path: Path, target: str = "y", rows: int | None = None, task: Task | None = None) -> list[dict]:
    source = CsvFile(path, target, "s", rows)
    source.look(task)
    return list(source.events())


def test_cells_become_numbers_booleans_and_text(tmp_path: Path) -> None:
    path = csv(tmp_path, "n,b,t,y\n1,true,x,up\n2.5,FALSE,7,down\n,,,\n-3e2,True,,up\n")
    assert events(path) == [
        {"id": 0, "x": {"n": 1.0, "b": True, "t": "x"}, "y": "up"},
        {"id": 1, "x": {"n": 2.5, "b": False, "t": "7"}, "y": "down"},
        {"id": 2, "x": {"n": None, "b": None, "t": None}},
        {"id": 3, "x": {"n": -300.0, "b": True}, "y": "up"},
    ]


def test_a_later_cell_of_another_kind_goes_as_text(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,y\n" + "1,u\n" * 1_000 + "oops,u\nup,u\n")
    assert [event["x"]["a"] for event in events(path)[-3:]] == [1.0, "oops", "up"]


def test_gzip_is_recognised_by_content(tmp_path: Path) -> None:
    path = tmp_path / "packed.csv"
    path.write_bytes(gzip.compress(b"a,y\n1,u\n"))
    assert len(events(path)) == 1


def test_whole_numbers_that_are_taken_for_amounts_can_be_classes(tmp_path: Path) -> None:
    numbers = "a,y\n" + "".join(f"1,{n % 30}\n" for n in range(60))
    todo = "; if they are classes, set --task classification"
    look = CsvFile(csv(tmp_path, numbers), "y", "s").look(None)
    assert look.why.endswith(f"30 distinct numbers in the first 60 rows{todo}")
    assert todo not in CsvFile(csv(tmp_path, numbers + "1,0.5\n"), "y", "s").look(None).why


@pytest.mark.parametrize(
    ("targets", "task"),
    [
        (["up", "down"], Task.CLASSIFICATION),
        (["true", "false"], Task.CLASSIFICATION),
        (["1", "0", "2.0"], Task.CLASSIFICATION),
        ([str(n) for n in range(20)], Task.CLASSIFICATION),
        ([str(n) for n in range(21)], Task.REGRESSION),
        (["1", "2.5"], Task.REGRESSION),
    ],
)
def test_the_task_is_seen_in_the_target(tmp_path: Path, targets: list[str], task: Task) -> None:
    path = csv(tmp_path, "a,y\n" + "".join(f"1,{target}\n" for target in targets))
    look = CsvFile(path, "y", "s").look(None)
    assert look.task is task
    assert look.classes == (len(targets) if task is Task.CLASSIFICATION else 0)


@pytest.mark.parametrize(
    ("later", "task", "why"),
    [
        (["12000.5"], Task.REGRESSION, "but '12000.5' on line 1,002 shows that they are not classes"),
        ([str(n * 500) for n in range(40)], Task.REGRESSION, "shows that they are not classes"),
        ([str(n) for n in range(300)], Task.REGRESSION, "but '256' on line 1,258 shows that they are not classes"),
        ([str(n) for n in range(40)], Task.CLASSIFICATION, "to predict a number, set --task regression"),
        (["oops", "", "nan"], Task.CLASSIFICATION, "to predict a number, set --task regression"),
        (["1,2"], Task.CLASSIFICATION, "to predict a number, set --task regression"),
    ],
    ids=["not whole", "far apart", "too many", "classes that come late", "no labels", "damaged"],
)
def test_rows_below_the_first_1000_show_whether_whole_numbers_are_amounts(
    tmp_path: Path, later: list[str], task: Task, why: str
) -> None:
    path = csv(tmp_path, "a,y\n" + "1,0\n1,3\n" * 500 + "".join(f"1,{target}\n" for target in later))
    look = CsvFile(path, "y", "s").look(None)
    assert (look.task, look.classes) == (task, 2 if task is Task.CLASSIFICATION else 0)
    assert look.why.startswith("its target has 2 distinct whole numbers in the first 1,000 rows") and why in look.why
    assert CsvFile(path, "y", "s", rows=1_000).look(None).task is Task.CLASSIFICATION, "later rows are not read"


def test_rows_limits(tmp_path: Path) -> None:
    assert len(events(csv(tmp_path, "a,y\n" + "1,u\n" * 10), rows=3)) == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected a header line, got an empty file"),
        ("a,y\n", "expected rows below the header, got none"),
        ("a,b\n1,2\n", "has no column 'y'; its columns are a, b"),
        (
            ",".join(f"measurement_{number}" for number in range(100)) + ",target\n",
            "measurement_2, … (95 more) …, measurement_98, measurement_99, target; name one of them with --target",
        ),
        (
            "a;b;y\n1;2;3\n",
            "its columns are a;b;y; the columns seem to be separated by ';'; write the file with commas, or put the "
            "line sep=; above its header",
        ),
        ("a\ty\n1\t2\n", r"the columns seem to be separated by '\t'; write the file with commas"),
        ("a;b,c\n1,2\n", "its columns are a;b, c; name one of them with --target"),
        ("\n  \n", "expected a header line, got an empty file"),
        (
            '"a";"y"\n1;2\n',
            "the columns seem to be separated by ';'; write the file with commas, or put the line sep=;",
        ),
        (
            '"a" "y"\n1 2\n',
            "the columns seem to be separated by ' '; write the file with commas, or put a line of sep= and",
        ),
        (
            "# device;fw\n# tz\na;y\n1;2\n",
            "the header seems to be on line 3: remove the lines above it; the columns seem",
        ),
        ('"Account:";"DE12"\n\n"a";"y"\n', "the header seems to be on line 3: remove the lines above it; the columns"),
        ("Sales of 2026\n\na,y\n1,2\n", "the header seems to be on line 3: remove the lines above it"),
        ("sep=;\nSales\na;y\n1;2\n", "the header seems to be on line 3: remove the lines above it"),
        ('{"a": 1, "y": "u"}\n{"a": 2, "y": "v"}\n', "the file has JSON on its lines; write it as CSV"),
        ("<!DOCTYPE html>\n<html><body>\n", "the file is a page of HTML or XML"),
        ("a,Y \n1,u\n", "one is 'Y ', whose name differs only in spaces or case; change the header or --target"),
        ('"a","y"\n"1",2,u\n"2",3,v\n', "begin the header with a name for it"),
        (
            "y,a,b\nu,1,2,\nv,2,3,\n",
            "line 2: expected 3 cells as in the header, got 4; the line ends in a separator; if",
        ),
        ("a,b,y\n1,2,u, ,\n", "end the header in as many separators, and leave out this column with --drop ''"),
        ("a,b,y\n1;2;u\n", "the header has another separator than the line, ';': write all lines with the same one"),
        ('a,y\n1,u\n\n"1,u\n2,u\n', "line 4: expected CSV with commas, got a row that cannot be read"),
        (f"a,y\n1,u\n{'x' * 200_000},u\n", "line 3: expected cells of at most 131,072 characters, got a longer one"),
        ("a, y\n1, 2\n", "one is ' y', whose name differs only in spaces or case; change the header or --target"),
        (
            "a,b,y\n1,2\n",
            "line 2: expected 3 cells as in the header, got 2; if the line is no row, such as a footnote, remove it",
        ),
        (
            "a,a,y\n1,2,3\n",
            "expected different column names, got 'a' twice; rename them in the header, or leave them out with --drop",
        ),
        ("a,y\n1,2\n1,2,3\n", "line 3: expected 2 cells as in the header, got 3"),
        ("y\n1\n", "expected at least one column in addition to the target"),
        (",a, ,y\n1,2,3,4\n", "expected a name for every one of 4 columns, got none for column 1, 3"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=r"events[.]csv") as caught:
        events(csv(tmp_path, text))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: No such file"):
        events(tmp_path / "none.csv")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.csv"
    path.write_bytes(b"a,y\n\xff\xfe,1\n")
    with pytest.raises(
        InputError, match=r"binary.csv, line 2: expected text in UTF-8, got the byte 0xff; save the file"
    ):
        events(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_an_error_names_the_line_with_a_byte_that_is_not_utf_8(tmp_path: Path, end: str) -> None:
    path = tmp_path / "latin1.csv"
    lines = ["a,y", *["1,u"] * 4_000, '"two', 'lines",u', *["ü,u"] * 4_000]
    path.write_bytes(end.join([*lines, ""]).encode() + "Zürich,u\n1,u\n".encode("latin-1"))
    with pytest.raises(InputError, match=f"line {len(lines) + 1:,}: expected text in UTF-8, got the byte 0xfc"):
        events(path)


def test_cells_of_windows_are_converted_from_its_encoding(tmp_path: Path) -> None:
    path = tmp_path / "windows.csv"
    path.write_bytes("Betrag in €,y\n1,“ok”\n".encode("cp1252"))
    with pytest.raises(InputError, match=r"line 1: .* got the byte 0x80; .*`iconv -f cp1252 -t utf-8`"):
        events(path)


@pytest.mark.parametrize(
    ("begin", "what"), [(b"PK\x03\x04", "zip or Excel"), (b"\xd0\xcf\x11\xe0", "Excel"), (b"PAR1", "Parquet")]
)
def test_files_of_other_programs(tmp_path: Path, begin: bytes, what: str) -> None:
    path = tmp_path / "sheet.csv"
    path.write_bytes(begin + bytes(99))
    with pytest.raises(InputError, match=f"expected CSV, got an? {what} file; save or export the table as CSV"):
        events(path)


def test_columns_can_be_left_out(tmp_path: Path) -> None:
    path = csv(tmp_path, "t,a,t,b,y\nx,1,x,,u\nx,2,x,,v\n")
    source = make_source(path, "y", "s", None, 1, Asked(), (), ("t", "b"))
    source.look(None)
    assert source.features == ["a"]
    assert [(event["x"], event["y"]) for event in source.events()] == [({"a": 1.0}, "u"), ({"a": 2.0}, "v")]
    assert source.notices == []
    for drop, error in (
        ("c", "has no column 'c', of --drop; its columns are t, a, t, b, y"),
        ("t,y", "--drop: expected columns other than the target, got 'y'"),
        ("t,a,b", "expected at least one column in addition to the target, got none"),
    ):
        with pytest.raises(InputError, match=error):
            make_source(path, "y", "s", None, 1, Asked(), (), drop.split(",")).look(None)
    with pytest.raises(InputError, match="--drop: it needs --csv"):
        make_source(None, None, None, None, 1, Asked(), (), ["a"])


def test_a_column_can_be_the_time_of_the_events(tmp_path: Path) -> None:
    path = tmp_path / "s.csv"
    times = ("2026-01-31T12:00:00+01:00", "1769857200.5", "1769857200500", "", "soon", "1769857200500000")
    path.write_text("a,when,y\n" + "".join(f"{n},{at},{n % 2}\n" for n, at in enumerate(times)))
    source = make_source(path, "y", "s", None, 1, Asked(), ts="when")
    source.look(None)
    assert source.features == ["a"]
    events = list(source.events())
    at = 1_769_857_200_000
    assert [one.get("ts") for one in events] == [at, at + 500, at + 500, None, None, at + 500]
    assert [one["x"] for one in events] == [{"a": float(n)} for n in range(len(times))]
    (notice,) = source.notices
    assert "line 6 has 'soon' as time (cells like it: 1): expected ISO 8601" in notice
    for ts, options, error in (
        ("c", {}, "has no column 'c', of --ts; its columns are a, when, y"),
        ("y", {}, "--ts: expected a column other than the target and those of --drop and --meta, got 'y'"),
        ("when", {"meta": ("when",)}, "those of --drop and --meta, got 'when'"),
        ("when", {"drop": ("a",)}, "expected at least one column in addition to the target and --ts, got none"),
    ):
        with pytest.raises(InputError, match=re.escape(error)):
            make_source(path, "y", "s", None, 1, Asked(), ts=ts, **options).look(None)
    path.write_text("a,when,y\n1,31.12.2025,0\n2,,1\n3,1.1.2026,0\n")
    with pytest.raises(InputError, match=r"line 2: expected a time in .* of --ts, got '31.12.2025', and no time"):
        make_source(path, "y", "s", None, 1, Asked(), ts="when").look(None)
    with pytest.raises(InputError, match="--ts: it needs --csv FILE"):
        make_source(None, None, None, 100, 1, Asked(), ts="when")


def test_columns_can_become_meta(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,sex,zip,y\n1,f,01067,u\n2,,01069,v\n")
    source = make_source(path, "y", "s", None, 1, Asked(), meta=("sex,zip",))
    source.look(None)
    assert source.features == ["a"]
    assert [(event["x"], event.get("meta")) for event in source.events()] == [
        ({"a": 1.0}, {"sex": "f", "zip": "01067"}),
        ({"a": 2.0}, {"zip": "01069"}),
    ]
    for meta, error in (
        ("c", "has no column 'c', of --meta; its columns are a, sex, zip, y"),
        ("sex,y", "--meta: expected columns other than the target and those of --drop, got 'y'"),
        ("sex,zip,a", "expected at least one column in addition to the target and --meta, got none"),
    ):
        with pytest.raises(InputError, match=error):
            make_source(path, "y", "s", None, 1, Asked(), meta=(meta,)).look(None)
    wide = tmp_path / "wide.csv"
    wide.write_text(",".join([*(f"m{n}" for n in range(65)), "a", "y"]) + "\n")
    with pytest.raises(InputError, match=r"--meta: expected at most 64 columns with names of at most 256"):
        make_source(wide, "y", "s", None, 1, Asked(), meta=(", ".join(f"m{n}" for n in range(65)),)).look(None)
    with pytest.raises(InputError, match="--meta: expected columns other than the target and those of --drop"):
        make_source(path, "y", "s", None, 1, Asked(), (), ["sex"], meta=("sex",)).look(None)
    with pytest.raises(InputError, match="--meta: it needs --csv"):
        make_source(None, None, None, None, 1, Asked(), meta=("sex",))


def test_columns_without_a_name_can_be_left_out(tmp_path: Path) -> None:
    path = csv(tmp_path, ",a,y, \n0,1,u,\n1,2,v,\n")
    with pytest.raises(
        InputError, match="got none for column 1, 4; name it in the header, or leave it out with --drop"
    ):
        make_source(path, "y", "s", None, 1, Asked()).look(None)
    source = make_source(path, "y", "s", None, 1, Asked(), (), ("", " "))
    source.look(None)
    assert source.features == ["a"]


def test_blank_lines_are_skipped_wherever_they_are(tmp_path: Path) -> None:
    path = csv(tmp_path, "\n \na,y\n\n1,u\n   \n2,v\n\n")
    assert [event["x"]["a"] for event in events(path)] == [1.0, 2.0]


def test_a_stream_is_named_after_the_file() -> None:
    assert make_source(Path("loans.csv.gz"), "y", None, None, 1, Asked()).stream == "loans"
    assert make_source(Path(".csv"), "y", "loans", None, 1, Asked()).stream == "loans"
    with pytest.raises(InputError, match=r"--csv [.]csv: the file has no name before its first dot"):
        make_source(Path(".csv"), "y", None, None, 1, Asked())


def test_a_gzip_file_that_is_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(gzip.compress(b"a,y\n" + b"1,u\n" * 9)[:-12])
    with pytest.raises(InputError, match="expected a complete gzip file, got a truncated one") as caught:
        events(path)
    assert "\n" not in str(caught.value)


def test_a_gzip_file_that_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "damaged.csv.gz"
    packed = bytearray(gzip.compress(b"a,y\n" + b"".join(b"%d,u\n" % number for number in range(999))))
    packed[-6] ^= 0xFF  # of the checksum
    path.write_bytes(packed)
    with pytest.raises(InputError, match="expected a complete gzip file, got a damaged one"):
        events(path)


def test_the_bundled_stream_is_the_same_for_a_seed() -> None:
    first = list(BundledStream(seed=3, rows=200).events())
    assert len(first) == 200
    assert [event["id"] for event in first] == list(range(200))
    assert first == list(BundledStream(seed=3, rows=200).events())
    # A learner that is told no task, as those of `produce`, must take what `run` takes: two classes.
    admission = Admission()
    assert all(isinstance(admission.admit(Event(**event)), Accepted) for event in first)
    assert admission.task is Task.CLASSIFICATION
    numbers = BundledStream(seed=3, rows=200)
    numbers.look(Task.REGRESSION)
    assert {event["y"] for event in numbers.events()} == {0, 1}


def test_messages_hold_so_many_events_and_no_more_bytes_than_allowed() -> None:
    source = [{"id": n, "x": {"a": 1.0}} for n in range(7)]
    assert [count for _, count in pack(source, 3, 1_000)] == [3, 3, 1]
    assert next(pack(source, 1, 1_000))[0].startswith(b"{")
    with pytest.raises(InputError, match="lower --rows-per-message"):
        list(pack(source, 7, 100))


def test_the_function_changes_suddenly_where_it_is_said() -> None:
    plain = list(BundledStream(seed=3, rows=200).events())
    assert list(BundledStream(seed=3, rows=200, change=Change(100, 0, 9, "agrawal")).events()) == plain
    never = list(BundledStream(seed=3, rows=200, changes=False).events())
    early = list(BundledStream(seed=3, rows=200, change=Change(40, 0, 3, "agrawal")).events())
    assert never[:100] == plain[:100] and never[100:] != plain[100:]
    assert early[:40] == never[:40]
    assert [event["x"] for event in early[40:140]] == [event["x"] for event in plain[100:]]


def test_the_function_changes_little_by_little() -> None:
    change = Change(50, 100, 3, "agrawal")
    events = list(BundledStream(seed=3, rows=200, change=change).events())
    old = list(BundledStream(seed=3, rows=200, changes=False).events())
    of_old = [event["x"] == old_event["x"] for event, old_event in zip(events[:50], old, strict=False)]
    assert all(of_old)
    kept = [event["x"] for event in events if not change.has_come(event["id"])]
    assert kept == [event["x"] for event in old[: len(kept)]] and 80 < len(kept) < 120
    assert events == list(BundledStream(seed=3, rows=200, change=change).events())


def test_two_features_change_places(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b,c,y\n1,u,x,0\n2,v,x,1\n3,,x,0\n,w,x,1\n")
    source = Swapped(CsvFile(path, "y", "s"), ("a", "b"), Change(1, 0, 1, "s"))
    source.look(None)
    assert [event["x"] for event in source.events()] == [
        {"a": 1.0, "b": "u", "c": "x"},
        {"b": 2.0, "a": "v", "c": "x"},
        {"b": 3.0, "c": "x"},
        {"a": "w", "c": "x"},
    ]
    with pytest.raises(InputError, match="--swap: expected two of a, b, c, got 'd'"):
        Swapped(CsvFile(path, "y", "s"), ("a", "d"), Change(1, 0, 1, "s")).look(None)


def test_a_gradual_swap_depends_on_seed_stream_and_event_alone() -> None:
    def swapped(seed: int, stream: str = "agrawal") -> list[dict]:
        plain = BundledStream(seed=3, rows=300, changes=False)
        return list(Swapped(plain, ("age", "loan"), Change(100, 100, seed, stream)).events())

    old = list(BundledStream(seed=3, rows=300, changes=False).events())
    one = swapped(5)
    assert one == swapped(5) and one != swapped(6) and one != swapped(5, "other")
    moved = [event["x"]["age"] == before["x"]["loan"] for event, before in zip(one, old, strict=True)]
    assert not any(moved[:100]) and all(moved[200:])
    assert sum(moved[100:150]) < sum(moved[150:200])


@pytest.mark.parametrize(
    ("csv_file", "asked", "said"),
    [
        (None, Asked("age,loan"), "--swap: it needs --at N"),
        (None, Asked("age", 5), "--swap: expected two features, A,B, got 'age'"),
        (None, Asked("age,age", 5), "--swap: expected two features"),
        (None, Asked(None, 300), r"--at: expected one of the 300 events of the run, 0 to 299, got 300"),
        ("events.csv", Asked(None, 5), "--at: with --csv, it needs --swap A,B"),
        ("events.csv", Asked(None, None, 5), "--width: it needs --at N"),
    ],
)
def test_changes_that_cannot_be_made(csv_file: str | None, asked: Asked, said: str) -> None:
    with pytest.raises(InputError, match=said):
        make_source(Path(csv_file) if csv_file else None, "y" if csv_file else None, None, 300, 1, asked)


def test_what_is_asked_for_is_made() -> None:
    bundled = make_source(None, None, None, 300, 7, Asked(None, 20, 5))
    assert bundled == BundledStream(7, 300, "agrawal", Change(20, 5, 7, "agrawal"))
    swapped = make_source(None, None, "s", None, 7, Asked("age,loan", 20))
    assert swapped == Swapped(BundledStream(7, 20_000, "s", changes=False), ("age", "loan"), Change(20, 0, 7, "s"))
    assert make_source(Path("f/a.csv.gz"), "y", None, None, 7, Asked()) == CsvFile(Path("f/a.csv.gz"), "y", "a")
