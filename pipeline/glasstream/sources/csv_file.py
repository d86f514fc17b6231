"""A CSV file as a source of events."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from glasstream.errors import InputError
from glasstream.ingest.admission import Task, label
from glasstream.sources import cells
from glasstream.sources.listing import listed
from glasstream.sources.source import Event, Look

LOOK = 1_000
"""Number of rows of a CSV file to examine before replaying it."""
CLASSES = 20
"""A target of whole numbers with at most this many distinct values counts as a class."""


@dataclass(slots=True)
class CsvFile:
    """A CSV file with a header, plain or gzipped.

    A column is numeric or boolean if all its cells with a value in the first 1,000 rows are, else text. An empty cell
    is a feature that the event lacks, and an empty target makes an event without a label. In numeric and boolean
    columns, `nan`, `NA`, `null` and similar spellings count as empty. So do `inf` and `-inf`, which no model can learn
    from.
    """

    path: Path
    target: str
    stream: str
    rows: int | None = None
    notices: list[str] = field(default_factory=list)
    """Notices for the user about values that were reinterpreted. Reading the events can add more."""
    _kinds: dict[str, str] = field(default_factory=dict)
    _header: list[str] = field(default_factory=list)
    _infinite: set[str] = field(default_factory=set)
    """Columns whose infinite cells have been reported."""

    def look(self, task: Task | None) -> Look:
        """Look at the first rows to find the kinds of the columns, and the task if it is not given.

        Raises
        ------
        InputError
            The file cannot be replayed.
        """
        with self._open() as lines:
            self._header = self._read_header(lines)
            head = list(islice(self._rows(lines), LOOK))
        if not head:
            raise InputError(f"{self.path}: expected rows below the header, got none")
        for place, name in enumerate(self._header):
            self._see_column(name, [(line, row[place]) for line, row in head])
        targets = [value for _, row in head if (value := self._target(row)) is not None]
        distinct = {label(value) for value in targets}
        kind = self._kinds[self.target]
        if task is None:
            few = kind == "number" and None not in distinct and len(distinct) <= CLASSES
            task = Task.CLASSIFICATION if kind != "number" or few else Task.REGRESSION
            if not targets:
                why = (
                    f"a guess, because its target is empty in the first {len(head):,} rows; set --task "
                    "classification or --task regression"
                )
            elif kind == "number":
                numbers = "whole numbers" if few else "numbers"
                why = f"its target has {len(set(targets)):,} distinct {numbers} in the first {len(head):,} rows"
            else:
                why = f"its target is {kind}"
        else:
            why = "set by --task"
        return Look(task, len(distinct) if task is Task.CLASSIFICATION else 0, why, kind == "number")

    @property
    def features(self) -> list[str]:
        """Return the names of all columns except the target. Call `look` first."""
        return [name for name in self._header if name != self.target]

    def events(self) -> Iterator[Event]:
        """Yield the events in order. Call `look` first.

        Raises
        ------
        InputError
            A row has another number of cells than the header, or the file is damaged.
        """
        target = self._header.index(self.target)
        columns = [(place, name, self._kinds[name]) for place, name in enumerate(self._header) if place != target]
        with self._open() as lines:
            self._read_header(lines)
            for number, (line, row) in enumerate(islice(self._rows(lines), self.rows)):
                x: Event = {}
                for place, name, kind in columns:
                    value = cells.value(row[place], kind)
                    if value is not None:
                        x[name] = value
                    elif row[place]:
                        self._see_infinite(name, line, row[place])
                event: Event = {"id": number, "x": x or dict.fromkeys((name for _, name, _ in columns), None)}
                y = self._target(row)
                if y is not None:
                    event["y"] = y
                elif row[target]:
                    self._see_infinite(self.target, line, row[target])
                yield event

    def _target(self, row: list[str]) -> str | bool | int | float | None:
        cell = row[self._header.index(self.target)]
        value = cells.value(cell, self._kinds[self.target])
        return int(value) if isinstance(value, float) and cell.lstrip("+-").isdigit() else value

    def _see_column(self, name: str, column: list[tuple[int, str]]) -> None:
        """Decide what a column holds, and report cells that do not fit. `column` has a line number with each cell."""
        readings = [cells.reading(cell) for _, cell in column]
        kind = self._kinds[name] = cells.kind(readings)
        rows = f"the first {len(column):,} rows"
        where = f"{self.stream}: column {name!r}"
        numbers = readings.count("number")
        if kind == "text":
            if set(readings) == {"missing"} and name != self.target:
                self.notices.append(f"{where} has no value in {rows}: treated as text")
            elif numbers > len(column) / 2:
                line, cell = next(
                    place for place, one in zip(column, readings, strict=True) if one not in ("number", "missing")
                )
                self.notices.append(
                    f"{where} is treated as text: {cell!r:.60} on line {line:,} is not a number, but {numbers:,} "
                    "cells are"
                )
            return
        marks = [cell.strip() for (_, cell), one in zip(column, readings, strict=True) if one == "missing"]
        written = sorted(set(marks) - {""})
        if written:
            count = len(marks) - marks.count("")
            self.notices.append(
                f"{where}: {', '.join(map(repr, written))} in {count:,} of {rows}: treated as {self._empty(name)}, "
                f"because the other cells hold {kind}s"
            )
        for (line, cell), one in zip(column, readings, strict=True):
            if one == "infinite":
                self._see_infinite(name, line, cell)

    def _see_infinite(self, name: str, line: int, cell: str) -> None:
        """Report once per column that it has infinite cells."""
        if name not in self._infinite and cells.reading(cell) == "infinite":
            self._infinite.add(name)
            self.notices.append(
                f"{self.stream}: column {name!r}: expected finite numbers, got {cell.strip()!r} on line {line:,}: "
                f"every such cell is treated as {self._empty(name)}"
            )

    def _empty(self, name: str) -> str:
        return "empty, an event without a label" if name == self.target else "empty"

    @contextmanager
    def _open(self) -> Iterator[Iterator[tuple[int, list[str]]]]:
        """Open the file for reading with `_read`."""
        try:
            with self.path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                binary = gzip.GzipFile(fileobj=file) if packed else file
                with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                    yield self._read(text)
        except EOFError as error:
            raise InputError(
                f"{self.path}: expected a complete gzip file, got a truncated one; copy or download it again"
            ) from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise InputError(f"{self.path}: expected a complete gzip file, got a damaged one: {error}") from error
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    def _read(self, text: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of the file, header included, each with the number of its (last) line. Skip blank lines."""
        reader = csv.reader(text, strict=True)
        while True:
            begin = reader.line_num + 1
            try:
                row = next(reader)
            except StopIteration:
                return
            except UnicodeDecodeError as error:
                # The text is decoded in pieces. This piece begins in the line that the reader asked for.
                byte, before = (
                    error.object[error.start],
                    error.object[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n"),
                )
                line = reader.line_num + 1 + before.count(b"\n")
                raise InputError(
                    f"{self.path}, line {line:,}: expected text in UTF-8, got the byte 0x{byte:02x}; "
                    "save the file in UTF-8, or convert it, such as with `iconv -f latin1 -t utf-8`"
                ) from error
            except csv.Error as error:
                raise InputError(
                    f"{self.path}, line {begin:,}: expected CSV with commas, got a row that cannot be read ({error}); "
                    "look for a quote that is not closed, or that is not doubled inside a quoted cell"
                ) from error
            if len(row) > 1 or "".join(row).strip():
                yield reader.line_num, row

    def _read_header(self, lines: Iterator[tuple[int, list[str]]]) -> list[str]:
        _, header = next(lines, (0, None))
        if header is None:
            raise InputError(f"{self.path}: expected a header line, got an empty file")
        unnamed = [str(number) for number, name in enumerate(header, 1) if not name.strip()]
        if unnamed:
            raise InputError(
                f"{self.path}: expected a name for every one of {len(header)} columns, "
                f"got none for column {', '.join(unnamed[:5])}; name it in the header, or remove it"
            )
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise InputError(
                f"{self.path}: expected different column names, got {', '.join(map(repr, repeated))} twice"
            )
        if self.target not in header:
            todo = "name one of them with --target"
            if spaced := next((name for name in header if name.strip() == self.target.strip()), None):
                todo = f"one is {spaced!r}, whose name differs only in spaces; change the header or --target"
            if len(header) == 1 and (other := next((mark for mark in ";\t" if mark in header[0]), None)):
                todo = f"the columns seem to be separated by {other!r}; write the file with commas"
            raise InputError(f"{self.path} has no column {self.target!r}; its columns are {listed(header)}; {todo}")
        if len(header) < 2:
            raise InputError(f"{self.path}: expected at least one column beside the target, got none")
        return header

    def _rows(self, lines: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header, each with the number of its (last) line."""
        width = len(self._header)
        for line, row in lines:
            if len(row) != width:
                todo = "put texts that contain commas in quotes" if len(row) > width else "write empty cells, too"
                raise InputError(
                    f"{self.path}, line {line}: expected {width} cells as in the header, got {len(row)}; {todo}"
                )
            yield line, row
