"""`glasstream export --to duckdb`: every record is added once, whatever interrupts the export."""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest

from glasstream.brokers.embedded import EmbeddedKafka
from glasstream.command import export as command
from glasstream.consume import importance, opening, tables
from glasstream.consume.tables import Layout
from glasstream.errors import InputError, VersionError
from glasstream.operate import database as database_file
from glasstream.operate import export as exports
from glasstream.operate.database import TYPES, Database
from glasstream.operate.export import TABLES
from glasstream.transport.offsets import bounds
from tests.consume.writing import SECONDS, Writer, estimate
from tests.operate.exporting import FAST, FEATURES, PREDICTED, ROWS, exported
from tests.topics.golden_records import checked_in


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Of the same name as a table, which must not make names ambiguous."""
    return tmp_path / "importance.duckdb"


def query(path: Path, text: str) -> list[tuple[Any, ...]]:
    """Ask the database, as soon as nobody writes to it."""
    end = time.monotonic() + SECONDS
    while True:
        try:
            with duckdb.connect(str(path), read_only=True) as opened:
                return opened.execute(text).fetchall()
        except duckdb.IOException as error:
            if "Could not set lock" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def test_a_table_holds_what_a_reader_returns(writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "BATCH", 2)
    options: dict[str, Any] = {"prefix": "test.", "kafka": FAST, "follow": False, "damaged": "skip"}
    expected = importance(writer.bootstrap, **options).to_arrow().to_pylist()
    result = exported(writer.bootstrap, out, "importance")
    assert result.stdout == f"{len(expected):,} rows added to {out}\n"
    assert result.stderr == "skipped records of test.importance that cannot be read: 1\n"
    found = query(out, "SELECT * FROM importance")
    assert sorted(map(repr, found)) == sorted(repr(tuple(row.values())) for row in expected)
    assert len(found) == ROWS


@pytest.mark.parametrize("topic", TABLES)
def test_columns_have_types_that_fit(topic: str, embedded: EmbeddedKafka, out: Path) -> None:
    embedded.create_topic(f"test.{topic}", 1)
    Writer(embedded.bootstrap, f"test.{topic}").send(checked_in(f"{topic}.v1.json"))
    exported(embedded.bootstrap, out, topic)
    columns = Layout(TABLES[topic].record).columns
    described = {name: kind for name, kind, *_ in query(out, f"DESCRIBE {topic}")}
    assert described == {column.name: TYPES[column.type] for column in columns}
    (values, *_) = query(out, f"SELECT * FROM {topic}")
    kinds = {"integer": int, "number": float, "truth": bool}
    assert all(
        value is None or type(value) is kinds.get(column.type, str)
        for column, value in zip(columns, values, strict=True)
    )
    assert any(value is not None for value in values)


def test_lists_can_be_queried(embedded: EmbeddedKafka, out: Path) -> None:
    embedded.create_topic("test.predictions", 1)
    record = {**PREDICTED, "probabilities": {"a": 0.25, "b": 0.75}}
    Writer(embedded.bootstrap, "test.predictions").send(orjson.dumps(record))
    exported(embedded.bootstrap, out, "predictions")
    assert query(out, "SELECT CAST(probabilities->'b' AS DOUBLE) FROM predictions") == [(0.75,)]


def test_a_second_export_adds_only_what_is_new(writer: Writer, embedded: EmbeddedKafka, out: Path) -> None:
    embedded.create_topic("test.predictions", 1)
    assert exported(writer.bootstrap, out, "importance").stdout.startswith(f"{ROWS} rows added")
    before = query(out, "SELECT * FROM importance")
    again = exported(writer.bootstrap, out, "importance", "predictions")
    assert (again.stdout, again.stderr) == (f"0 rows added to {out}\n", "")  # the damaged one is behind us, too
    writer.send(estimate(8, "other"), key=b"other")
    Writer(writer.bootstrap, "test.predictions").send(orjson.dumps(PREDICTED))
    assert exported(writer.bootstrap, out, "importance", "predictions").stdout.startswith(f"{FEATURES + 1} rows")
    rows = query(out, "SELECT * FROM importance")
    assert rows[: len(before)] == before and len(rows) == len(before) + FEATURES
    assert query(out, "SELECT count(*) FROM predictions") == [(1,)]


def test_an_export_that_fails_half_way_is_continued(writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and offsets are committed together, or neither of them."""
    monkeypatch.setattr(tables, "BATCH", 2)
    rest = Database.append
    calls = []

    def full(self: Database, *given: Any) -> int:
        calls.append(given)
        if len(calls) == 2:
            monkeypatch.setattr(database_file, "OFFSETS", "no_such_table")
        return rest(self, *given)

    monkeypatch.setattr(Database, "append", full)
    with pytest.raises(InputError, match=f"--out {out}: cannot be written: .*no_such_table"):
        exported(writer.bootstrap, out, "importance")
    monkeypatch.undo()
    assert query(out, "SELECT count(*) FROM importance") == [(2 * FEATURES,)]
    assert exported(writer.bootstrap, out, "importance").stdout.startswith(f"{4 * FEATURES} rows")
    assert query(out, "SELECT count(*), count(DISTINCT (stream, row, feature)) FROM importance") == [(ROWS, ROWS)]


def test_a_record_of_another_release_ends_the_export_and_loses_nothing(writer: Writer, out: Path) -> None:
    exported(writer.bootstrap, out, "importance")
    writer.send(estimate(9, schema_version=9))
    for _ in range(2):
        with pytest.raises(VersionError):
            exported(writer.bootstrap, out, "importance")
    assert query(out, "SELECT count(*) FROM importance") == [(ROWS,)]


def test_an_export_that_follows_adds_records_and_says_what_it_skips(
    writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs can read the database meanwhile."""

    class Stop(Exception):
        pass

    totals, turn = [], exports._turn

    def counted(feed: Any, every: float) -> None:
        turn(feed, every)
        offsets = feed.sink.prepare("importance", feed.layout, "test.importance", None, ())  # nobody has it open
        totals.append(sum(offsets.values()))
        if totals[-1] == 7 and totals.count(7) == 1:
            writer.send(estimate(8), b"damaged", b"damaged", estimate(9))
        if totals.count(11) == 2:
            raise Stop

    monkeypatch.setattr(exports, "_turn", counted)
    said: list[str] = []
    monkeypatch.setattr("glasstream.command.export._warn", said.append)
    with pytest.raises(Stop):
        exported(writer.bootstrap, out, "importance", "--follow", "--every", "0.1")
    assert query(out, "SELECT count(*) FROM importance") == [(8 * FEATURES,)]
    lines = [re.fullmatch(r"skipped records of test\.importance that cannot be read: (\d)", line) for line in said]
    assert sum(int(line[1]) for line in lines if line) == 3 and all(lines)


HOLD = "import sys, duckdb; opened = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_it_waits_for_another_program_that_has_the_database_open(
    writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    monkeypatch.setattr(command, "_PATIENCE_SECONDS", 0.3)
    with pytest.raises(InputError, match=f"--out {out}: cannot be written: .*Could not set lock"):
        exported(writer.bootstrap, out, "importance")
    monkeypatch.setattr(command, "_PATIENCE_SECONDS", SECONDS)
    timer = threading.Timer(0.5, other.communicate)
    timer.start()
    result = exported(writer.bootstrap, out, "importance")
    timer.join()
    assert result.stderr.startswith(f"waiting for another program that has {out} open\n")
    assert result.stdout == f"{ROWS} rows added to {out}\n"


def test_a_table_of_something_else_is_not_continued(
    writer: Writer, embedded: EmbeddedKafka, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedded.create_topic("test.novelty", 1)
    embedded.create_topic("other.importance", 1)
    monkeypatch.setattr(exports.TopicIdentity, "__call__", lambda self: "id-1")
    exported(writer.bootstrap, out, "importance", "--stream", "other")
    for options, says in (
        ([], r"the table importance holds the streams 'other', not all streams; give another --out, or the same"),
        (["--stream", "b", "--stream", "other"], "not the streams 'b', 'other'"),
        (["--stream", "other", "--prefix", "other."], "holds test.importance, not other.importance"),
    ):
        with pytest.raises(InputError, match=says):
            exported(writer.bootstrap, out, "importance", *options)
    monkeypatch.setattr(exports.TopicIdentity, "__call__", lambda self: "id-2")
    with pytest.raises(InputError, match=r"another topic test.importance.*its id was id-1, and is id-2 now"):
        exported(writer.bootstrap, out, "importance", "--stream", "other")
    monkeypatch.undo()
    with duckdb.connect(str(out)) as opened:
        opened.execute("CREATE VIEW novelty AS SELECT 1 AS mine")
        opened.execute("UPDATE glasstream_offsets SET next_offset = 1000")
    with pytest.raises(InputError, match="the table novelty was not made by this command"):
        exported(writer.bootstrap, out, "novelty")
    with pytest.raises(InputError, match=r"expected an offset up to .*got 1000"):
        exported(writer.bootstrap, out, "importance", "--stream", "other")
    assert query(out, "SELECT count(*) FROM importance") == [(FEATURES,)]


def test_a_table_of_an_earlier_release_gets_new_columns_and_one_of_a_later_is_left_alone(
    writer: Writer, out: Path
) -> None:
    exported(writer.bootstrap, out, "importance")
    with duckdb.connect(str(out)) as opened:
        opened.execute("ALTER TABLE importance DROP COLUMN staleness")
    writer.send(estimate(8))
    exported(writer.bootstrap, out, "importance")
    assert query(out, "SELECT count(*), count(staleness) FROM importance") == [(ROWS + FEATURES, FEATURES)]
    with duckdb.connect(str(out)) as opened:
        opened.execute("ALTER TABLE importance ADD COLUMN later VARCHAR")
    with pytest.raises(InputError, match="has columns that this release does not write: later VARCHAR"):
        exported(writer.bootstrap, out, "importance")


def test_deleted_records_are_said(writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exported(writer.bootstrap, out, "importance")
    (partition, offset), *_ = query(out, 'SELECT "partition", next_offset FROM glasstream_offsets ORDER BY 2 DESC')
    writer.send(*(estimate(row) for row in range(8, 12)))

    def shortened(client: Any, name: str, number: int, seconds: float) -> tuple[int, int]:
        low, high = bounds(client, name, number, seconds)
        return (offset + 3, high) if number == partition else (low, high)

    monkeypatch.setattr(opening, "bounds", shortened)  # the embedded broker deletes nothing
    result = exported(writer.bootstrap, out, "importance")
    assert result.stderr.startswith(
        f"test.importance[{partition}]: the records at offsets {offset} to {offset + 2} were"
    )
    assert result.stdout.startswith(f"{FEATURES} rows")


def test_a_place_that_cannot_be_written_is_an_error(writer: Writer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--out {tmp_path / 'none' / 'x.duckdb'}: cannot be written"):
        exported(writer.bootstrap, tmp_path / "none" / "x.duckdb", "importance")
    (tmp_path / "text.duckdb").write_text("no database" * 1000)
    with pytest.raises(InputError, match=r"cannot be written: .*not a valid DuckDB"):
        exported(writer.bootstrap, tmp_path / "text.duckdb", "importance")
    assert (tmp_path / "text.duckdb").read_text() == "no database" * 1000


def test_a_missing_topic_makes_no_table(writer: Writer, out: Path) -> None:
    with pytest.raises(InputError, match="got 'snapshots'"):
        exported(writer.bootstrap, out, "importance", "snapshots")
    assert not out.exists()


@pytest.mark.parametrize("missing", ["duckdb", "pyarrow"])
def test_a_missing_library_names_the_extra(
    missing: str, writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(tables, "find_spec", lambda name: None if name == missing else object())
    with pytest.raises(InputError, match=rf"duckdb: expected {missing}, got none; pip install 'glasstream\[duckdb\]'"):
        exported(writer.bootstrap, out, "importance")
    assert not out.exists()
