"""A DuckDB database with one table per public topic, to which every record is added exactly once.

The offsets up to which a topic has been exported are in the database too, and each batch of rows is committed together
with them. Whenever an export ends, by itself or by `kill -9`, the next one continues behind the last committed record.
While a process writes to a file, DuckDB lets no other process write to it or read it. So the file is open only while a
batch is written, and other programs can query it between the batches of an export that follows its topics.
"""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glasstream.consume.tables import Column, Layout, arrow, arrow_schema, with_tables
from glasstream.errors import InputError
from glasstream.operate.progress import Content, expect_same

if TYPE_CHECKING:
    import duckdb

TYPES: Final[Mapping[str, str]] = {
    "integer": "BIGINT", "number": "DOUBLE", "truth": "BOOLEAN", "name": "VARCHAR", "text": "VARCHAR", "json": "JSON",
}  # fmt: skip
"""DuckDB's type for each type of a column."""
EXPORTS: Final = "glasstream_exports"
"""Table with a row per exported table: what it holds."""
OFFSETS: Final = "glasstream_offsets"
"""Table with the offset of the next record of each partition."""

_LOCKED: Final = "Could not set lock"
"""Part of DuckDB's error message if another process has the file open."""
_LOOK_SECONDS: Final = 0.02


class Database:
    """A database file. It is created when it is needed first.

    Parameters
    ----------
    path
        The file.
    say
        Called with a line when another program has the file open, so that the export has to wait.
    patience
        Seconds to wait for the other program; None to wait as long as it takes.

    Raises
    ------
    InputError
        DuckDB or pyarrow is not installed.
    """

    def __init__(self, path: Path, say: Callable[[str], None], patience: float | None) -> None:
        with_tables("duckdb", "pyarrow", extra="duckdb")
        self._path = path
        self._say = say
        self._patience = patience

    def prepare(
        self, table: str, layout: Layout[Any], topic: str, topic_id: str | None, streams: Collection[str]
    ) -> dict[int, int]:
        """Return the offsets at which to continue a table: see `glasstream.operate.progress.Sink`.

        A table of an earlier release gets the columns that it lacks.
        """
        content = Content(topic, topic_id, sorted(streams))
        with self._transaction() as database:
            database.execute(
                f"CREATE TABLE IF NOT EXISTS {EXPORTS} ("
                '"table" VARCHAR PRIMARY KEY, topic VARCHAR NOT NULL, topic_id VARCHAR, streams VARCHAR[] NOT NULL)'
            )
            database.execute(
                f'CREATE TABLE IF NOT EXISTS {OFFSETS} ("table" VARCHAR, "partition" INTEGER, next_offset BIGINT '
                'NOT NULL, PRIMARY KEY ("table", "partition"))'
            )
            columns = _columns(database, table)
            row = database.execute(f'SELECT topic, topic_id, streams FROM {EXPORTS} WHERE "table" = ?', [table])
            saved = row.fetchone()
            if saved is not None:
                expect_same(self._told(table), Content(*saved), content)
            elif columns:
                raise InputError(f"{self._told(table)} was not made by this command; give another --out")
            else:
                database.execute(f"CREATE TABLE {_quoted(table)} ({', '.join(map(_definition, layout.columns))})")
                database.execute(
                    f"INSERT INTO {EXPORTS} VALUES (?, ?, ?, ?)", [table, topic, topic_id, content.streams]
                )
                return {}
            self._adapt(database, table, columns, layout)
            offsets = database.execute(f'SELECT "partition", next_offset FROM {OFFSETS} WHERE "table" = ?', [table])
            return dict(offsets.fetchall())

    def append(self, table: str, layout: Layout[Any], records: Sequence[Any], offsets: Mapping[int, int]) -> int:
        """Commit records together with the offsets behind them: see `glasstream.operate.progress.Sink`.

        Raises
        ------
        InputError
            The file cannot be written, or another program has kept it open for too long.
        """
        import pyarrow

        rows = pyarrow.Table.from_batches(arrow(layout, records), arrow_schema(layout))
        with self._transaction() as database:
            database.register("batch", rows)
            database.execute(f"INSERT INTO {_quoted(table)} BY NAME SELECT * FROM batch")
            database.unregister("batch")
            for partition, offset in offsets.items():
                database.execute(f"INSERT OR REPLACE INTO {OFFSETS} VALUES (?, ?, ?)", [table, partition, offset])
        return int(rows.num_rows)

    def close(self) -> None:
        """Do nothing, because the file is open only while a batch is written."""

    def _adapt(
        self, database: "duckdb.DuckDBPyConnection", table: str, columns: Mapping[str, str], layout: Layout[Any]
    ) -> None:
        """Add columns that a later release has added."""
        wanted = {column.name: TYPES[column.type] for column in layout.columns}
        unknown = [f"{name} {kind}" for name, kind in columns.items() if wanted.get(name) != kind]
        if unknown:
            raise InputError(
                f"{self._told(table)} has columns that this release does not write: {', '.join(unknown)}; give another "
                "--out, or use the release that wrote it"
            )
        for column in layout.columns:
            if column.name not in columns:
                database.execute(f"ALTER TABLE {_quoted(table)} ADD COLUMN {_definition(column)}")

    def _told(self, table: str) -> str:
        return f"--out {self._path}: the table {table}"

    @contextmanager
    def _transaction(self) -> Iterator["duckdb.DuckDBPyConnection"]:
        """Open the file for one transaction, which an error rolls back."""
        import duckdb

        try:
            database = self._open()
            try:
                database.execute("BEGIN")
                yield database
                database.execute("COMMIT")
            finally:
                database.close()
        except duckdb.Error as error:
            raise InputError(f"--out {self._path}: cannot be written: {error}") from error

    def _open(self) -> "duckdb.DuckDBPyConnection":
        import duckdb

        end = None if self._patience is None else time.monotonic() + self._patience
        said = False
        while True:
            try:
                return duckdb.connect(str(self._path))
            except duckdb.IOException as error:
                if _LOCKED not in str(error) or (end is not None and time.monotonic() >= end):
                    raise
            if not said:
                self._say(f"waiting for another program that has {self._path} open")
                said = True
            time.sleep(_LOOK_SECONDS)


def _columns(database: "duckdb.DuckDBPyConnection", table: str) -> dict[str, str]:
    """Return the columns and types of a table or view; none if there is no such table."""
    found = database.execute(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_catalog = current_database() AND table_schema = current_schema() AND table_name = ?",
        [table],
    )
    return dict(found.fetchall())


def _definition(column: Column) -> str:
    return f"{_quoted(column.name)} {TYPES[column.type]}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
