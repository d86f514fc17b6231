"""Files with one table: a CSV or a Parquet file."""

import csv
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from glasstream.events.mapping.cells import NUMBERS, reading
from glasstream_topics.consume.tables import Layout, arrow, arrow_schema

if TYPE_CHECKING:
    import pyarrow

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
"""First characters of a text that makes a spreadsheet evaluate it."""

Write = Callable[[Path, Layout[Any], Iterable[Any]], int]
"""Function that writes the rows of records to a new file and returns their number. Memory is bounded."""


def write_csv(path: Path, layout: Layout[Any], records: Iterable[Any]) -> int:
    """Write a CSV file: see `Write`. Texts that a spreadsheet would evaluate begin with an apostrophe."""
    count = 0
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(column.name for column in layout.columns)
        for record in records:
            for row in layout.rows(record):
                writer.writerow(map(in_sheet, row))
                count += 1
    return count


def in_sheet(value: Any) -> Any:
    """Return the value of a cell so that no spreadsheet evaluates it. Numbers stay numbers, also those that are texts.

    >>> [in_sheet(value) for value in ("=1+1", "@SUM(A1)", "-2+3", "-2.5", -2.5, "a=b", None)]
    ["'=1+1", "'@SUM(A1)", "'-2+3", '-2.5', -2.5, 'a=b', None]
    """
    if isinstance(value, str) and value.startswith(_FORMULA) and reading(value) not in NUMBERS:
        return f"'{value}"
    return value


def write_parquet(path: Path, layout: Layout[Any], records: Iterable[Any]) -> int:
    """Write a Parquet file: see `Write`.

    Raises
    ------
    InputError
        pyarrow is not installed.
    """
    schema: pyarrow.Schema = arrow_schema(layout)
    from pyarrow import parquet

    count = 0
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in arrow(layout, records):
            writer.write_batch(batch)
            count += batch.num_rows
    return count


WRITERS: Final[Mapping[str, Write]] = {"csv": write_csv, "parquet": write_parquet}
"""Function that writes each format. The name of the format is also the suffix of its files."""
