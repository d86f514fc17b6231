"""Write the records of a public topic to a file that other tools read."""

import csv
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glasstream.consume.reader import Reader
from glasstream.consume.records import Records
from glasstream.consume.tables import Layout, arrow, arrow_schema
from glasstream.errors import InputError
from glasstream.settings import Settings
from glasstream_topics import ALL
from glasstream_topics.record import Json

if TYPE_CHECKING:
    import pyarrow

TABLES: Final[Mapping[str, Json[..., Any]]] = {one.name: one.json for one in ALL if one.public and one.json is not None}
"""Records of each topic that can be exported."""
FORMS: Final = ("csv", "parquet")


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
    name = topic.removeprefix(settings.prefix)
    if name not in TABLES:
        raise InputError(f"export: expected one of {', '.join(TABLES)}, got {topic!r}")
    json = TABLES[name]
    write = {"csv": _write_csv, "parquet": _write_parquet}[form]
    with (
        _complete(out) as part,
        Reader(
            Records(json),
            settings.broker,
            prefix=settings.prefix,
            streams=streams or None,
            follow=False,
            damaged="skip",
            kafka=settings.kafka,
        ) as records,
    ):
        count = write(part, Layout(json.record), records)
    if records.damaged:
        say(f"skipped records of {settings.prefix}{name} that cannot be read: {records.damaged:,}")
    return count


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
