"""`glasstream export --to duckdb`: every record is added once, whatever interrupts the export."""

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import orjson
import pytest
from click.testing import CliRunner, Result

from glasstream.brokers.embedded import EmbeddedKafka
from glasstream.command.cli import cli
from glasstream.consume import importance, opening, tables
from glasstream.consume.tables import Layout
from glasstream.errors import InputError, VersionError
from glasstream.operate import database as database_file
from glasstream.operate import export as exports
from glasstream.operate.database import TYPES, Database
from glasstream.operate.export import TABLES
from glasstream.transport.offsets import bounds
from tests.consume.writing import ESTIMATE, SECONDS, Writer, estimate
from tests.topics.golden_records import checked_in

FAST = {"fetch.wait.max.ms": "10"}
PREDICTED = orjson.loads(checked_in("predictions.v1.json"))
FEATURES = len(ESTIMATE["features"])
"""Number of rows of a record."""
ROWS = 6 * FEATURES
"""Number of rows of the records that are there from the start."""


@pytest.fixture
def writer(embedded: EmbeddedKafka) -> Writer:
    """To `importance`, of two partitions, which has records of two streams and one that is none."""
    embedded.create_topic("test.importance", 2)
    writer = Writer(embedded.bootstrap, "test.importance")
    writer.send(*(estimate(row, 'a "stream", with\nmarks') for row in range(5)), b"no record")
    writer.send(estimate(7, "other"), key=b"other")
    return writer


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Of the same name as a table, which must not make names ambiguous."""
    return tmp_path / "importance.duckdb"


def arguments(bootstrap: str, out: Path, *options: str) -> list[str]:
    fast = [word for name, value in FAST.items() for word in ("--set", f"kafka.{name}={value}")]
    return ["export", "--broker", bootstrap, "--prefix", "test.", "--out", str(out), *fast, *options]


def exported(bootstrap: str, out: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, arguments(bootstrap, out, *options), standalone_mode=False, catch_exceptions=False)


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


def wait_for(what: str, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end, f"no {what}"
        time.sleep(0.2)  # the export needs the database in between


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

    def full(self: Database, *given: Any) -> None:
        calls.append(given)
        if len(calls) == 2:
            monkeypatch.setattr(database_file, "OFFSETS", "no_such_table")
        rest(self, *given)

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


@pytest.mark.slow
def test_killed_at_random_moments_it_adds_every_record_once(writer: Writer, embedded: EmbeddedKafka, out: Path) -> None:
    embedded.create_topic("test.predictions", 1)
    others, draws = Writer(writer.bootstrap, "test.predictions"), random.Random(7)
    ended, sent = threading.Event(), range(100, 1_000_000, 10)
    numbers = iter(sent)

    def send() -> None:
        while not ended.wait(0.05):
            row = next(numbers)
            writer.send(*(estimate(row, f"s{number}") for number in range(10)), key=str(row).encode())
            others.send(orjson.dumps({**PREDICTED, "seq": row}))

    def rows() -> int:
        try:
            return int(query(out, "SELECT count(*) FROM importance")[0][0])
        except (duckdb.IOException, duckdb.CatalogException):
            return 0  # not made yet

    sender = threading.Thread(target=send)
    sender.start()
    command = [sys.executable, "-m", "glasstream", *arguments(writer.bootstrap, out, "--follow")]
    before = 0
    try:
        for _ in range(3):
            export = subprocess.Popen([*command, "importance", "predictions"], stderr=subprocess.DEVNULL)
            wait_for("further rows", lambda before=before: rows() > before)  # type: ignore[misc]
            time.sleep(draws.random())
            assert export.poll() is None
            export.kill()
            export.wait()
            before = rows()
    finally:
        ended.set()
        sender.join()
    exported(writer.bootstrap, out, "importance", "predictions")
    times = sent.index(next(numbers))
    count = ROWS + 10 * FEATURES * times
    assert query(out, "SELECT count(*), count(DISTINCT (stream, row, feature)) FROM importance") == [(count, count)]
    assert query(out, "SELECT seq FROM predictions") == [(row,) for row in sent[:times]]


def test_an_export_that_follows_adds_records_and_says_what_it_skips(
    writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs can read the database meanwhile."""

    class Stop(Exception):
        pass

    rounds, some = [], exports._some

    def counted(feed: Any) -> None:
        some(feed)
        count = feed.database.prepare("importance", feed.layout, "test.importance", None, ())  # nobody has it open
        rounds.append(sum(count.values()))
        if len(rounds) == 1:
            writer.send(estimate(8), b"damaged", b"damaged")
        if rounds[-1] == 10:
            raise Stop

    monkeypatch.setattr(exports, "_some", counted)
    monkeypatch.setattr(exports, "_IDLE_SECONDS", 0.2)
    said: list[str] = []
    monkeypatch.setattr("glasstream.command.export._warn", said.append)
    with pytest.raises(Stop):
        exported(writer.bootstrap, out, "importance", "--follow")
    assert query(out, "SELECT count(*) FROM importance") == [(7 * FEATURES,)]
    assert said[0] == "skipped records of test.importance that cannot be read: 1"


HOLD = "import sys, duckdb; opened = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


def test_it_waits_for_another_program_that_has_the_database_open(
    writer: Writer, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(out)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdout.readline() == "open\n"
    monkeypatch.setattr(exports, "_PATIENCE_SECONDS", 0.3)
    with pytest.raises(InputError, match=f"--out {out}: cannot be written: .*Could not set lock"):
        exported(writer.bootstrap, out, "importance")
    monkeypatch.setattr(exports, "_PATIENCE_SECONDS", SECONDS)
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


def test_a_file_has_one_topic_and_follows_none(writer: Writer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--follow: expected --to duckdb, got parquet"):
        exported(writer.bootstrap, tmp_path / "x", "importance", "--follow")
    with pytest.raises(InputError, match="expected one TOPIC for a file of the format csv, got 2"):
        exported(writer.bootstrap, tmp_path / "x.csv", "importance", "drift")


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
