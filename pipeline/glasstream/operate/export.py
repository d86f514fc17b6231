"""Write the records of public topics to a file that other tools read, or to tables of a database."""

import csv
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from glasstream.consume import tables
from glasstream.consume.reader import Reader
from glasstream.consume.records import Records
from glasstream.consume.tables import Layout, arrow, arrow_schema
from glasstream.errors import InputError
from glasstream.operate.database import Database
from glasstream.settings import Settings
from glasstream.transport.connection import connection
from glasstream.transport.input_topic import TopicIdentity
from glasstream_topics import ALL
from glasstream_topics.record import Json

if TYPE_CHECKING:
    import pyarrow

TABLES: Final[Mapping[str, Json[..., Any]]] = {one.name: one.json for one in ALL if one.public and one.json is not None}
"""Records of each topic that can be exported."""
FORMS: Final = ("csv", "parquet")
"""Formats of a file that is written at once."""

_PATIENCE_SECONDS: Final = 30.0
"""Time to wait for another program that has the database open, if the export is not to follow its topics."""
_FOLLOW_SECONDS: Final = 2.0
"""While it follows topics, the longest time for which an export collects records of one of them."""
_IDLE_SECONDS: Final = 0.5
"""While it follows topics, the time after which an export stops waiting for records of one of them."""


def export(
    settings: Settings,
    topic: str,
    out: Path,
    form: str,
    streams: Collection[str],
    say: Callable[[str], None],
) -> int:
    """Write the records that the topic holds now, and return the number of rows written.

    The rows go to `<out>.part` first, which is renamed when it is complete. Memory is bounded by one batch of records.

    Parameters
    ----------
    topic
        Name of a public topic, with or without the prefix.
    form
        One of `FORMS`.
    streams
        Names of the streams to write; none for all of them.
    say
        Called with a line if some records cannot be read.

    Raises
    ------
    InputError
        There is no such topic, pyarrow is not installed, or the file cannot be written.
    TopicError
        The broker does not have the topic.
    BrokerError, VersionError
        The topic cannot be read.
    """
    name = _table(settings, topic)
    write = {"csv": _write_csv, "parquet": _write_parquet}[form]
    with _complete(out) as part, _opened(settings, name, streams, follow=False) as records:
        count = write(part, Layout(TABLES[name].record), records)
    _say_damaged(settings, name, records.damaged, say)
    return count


def export_to_database(
    settings: Settings,
    topics: Sequence[str],
    out: Path,
    streams: Collection[str],
    say: Callable[[str], None],
    *,
    follow: bool,
) -> int:
    """Add the records of topics to their tables in a DuckDB database, and return the number of rows added.

    An existing database is continued behind its last records. Rows are committed in batches, each with the offsets
    behind it, so that every record is added exactly once, however often exports are interrupted.

    Parameters
    ----------
    topics
        Names of public topics, with or without the prefix.
    out
        File of the database.
    streams
        Names of the streams to add; none for all of them.
    say
        Called with a line if some records cannot be read or have been deleted before they were read, and while another
        program has the database open.
    follow
        Wait for new records and add them, too. The function then returns only by an error.

    Raises
    ------
    InputError
        There is no such topic, DuckDB is not installed, or the database cannot be written or holds something else.
    TopicError
        The broker does not have a topic.
    BrokerError, VersionError
        A topic cannot be read.
    """
    names = list(dict.fromkeys(_table(settings, topic) for topic in topics))
    database = Database(out, say, None if follow else _PATIENCE_SECONDS)
    for name in names:
        _opened(settings, name, streams, follow=False).close()  # without the topic, make no table
    with ExitStack() as stack:
        feeds = [stack.enter_context(_feed(settings, database, name, streams, follow, say)) for name in names]
        if not follow:
            count = sum(map(_all, feeds))
            for feed in feeds:
                _say_damaged(settings, feed.table, feed.records.damaged, say)
            return count
        while True:
            for feed in feeds:
                damaged = feed.records.damaged
                _some(feed)
                _say_damaged(settings, feed.table, feed.records.damaged - damaged, say)


class _Feed(NamedTuple):
    """A topic that is being added to its table."""

    table: str
    layout: Layout[Any]
    records: Reader[Any]
    database: Database


@contextmanager
def _feed(
    settings: Settings,
    database: Database,
    name: str,
    streams: Collection[str],
    follow: bool,
    say: Callable[[str], None],
) -> Iterator[_Feed]:
    """Prepare a table, and open its topic behind the last record that the table has."""
    layout = Layout(TABLES[name].record)
    topic = settings.prefix + name
    offsets = database.prepare(name, layout, topic, TopicIdentity(connection(settings), topic)(), streams)
    with _opened(settings, name, streams, follow=follow, start=offsets) as records:
        begin = records.positions
        for partition, offset in offsets.items():
            if begin.get(partition, offset) > offset:
                say(
                    f"{topic}[{partition}]: the records at offsets {offset} to {begin[partition] - 1} were deleted "
                    "before they were exported; export more often, or raise the topic's retention"
                )
        yield _Feed(name, layout, records, database)


def _all(feed: _Feed) -> int:
    """Add the records up to the current end of the topic, and return the number of rows."""
    count = 0
    for batch in arrow(feed.layout, feed.records):
        feed.database.append(feed.table, batch, feed.records.positions)
        count += batch.num_rows
    feed.database.append(feed.table, None, feed.records.positions)  # behind records that are not exported
    return count


def _some(feed: _Feed) -> None:
    """Add the next records of a topic that is followed: those before a pause, of a short time, or of one batch."""
    for batch in arrow(feed.layout, islice(_soon(feed.records), tables.BATCH)):
        feed.database.append(feed.table, batch, feed.records.positions)


def _table(settings: Settings, topic: str) -> str:
    """Return the name of a topic without the prefix."""
    name = topic.removeprefix(settings.prefix)
    if name not in TABLES:
        raise InputError(f"export: expected one of {', '.join(TABLES)}, got {topic!r}")
    return name


def _opened(
    settings: Settings, name: str, streams: Collection[str], *, follow: bool, start: Mapping[int, int] | None = None
) -> Reader[Any]:
    return Reader(
        Records(TABLES[name]),
        settings.broker,
        prefix=settings.prefix,
        streams=streams or None,
        start=start or "earliest",
        follow=follow,
        idle=_IDLE_SECONDS if follow else None,
        damaged="skip",
        kafka=settings.kafka,
    )


def _soon(records: Reader[Any]) -> Iterator[Any]:
    """Yield the records that arrive until there is a pause, or until they should be written."""
    end = time.monotonic() + _FOLLOW_SECONDS
    for record in records:
        yield record
        if time.monotonic() >= end:
            return


def _say_damaged(settings: Settings, name: str, count: int, say: Callable[[str], None]) -> None:
    if count:
        say(f"skipped records of {settings.prefix}{name} that cannot be read: {count:,}")


@contextmanager
def _complete(out: Path) -> Iterator[Path]:
    """Give the path of a scratch file, and rename it when the block ends. After an error, delete it."""
    part = out.with_name(out.name + ".part")
    try:
        yield part
        part.replace(out)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def _write_csv(path: Path, layout: Layout[Any], records: Reader[Any]) -> int:
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in layout.columns)
        for record in records:
            for row in layout.rows(record):
                writer.writerow(row)
                count += 1
    return count


def _write_parquet(path: Path, layout: Layout[Any], records: Reader[Any]) -> int:
    schema: pyarrow.Schema = arrow_schema(layout)
    from pyarrow import parquet

    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in arrow(layout, records):
            writer.write_batch(batch)
            count += batch.num_rows
    return count
