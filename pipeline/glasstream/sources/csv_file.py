"""A CSV file as a source of events."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from glasstream.errors import InputError
from glasstream.ingest.admission import Task, label
from glasstream.ingest.limits import IngestLimits
from glasstream.intake import cells
from glasstream.intake.cells import Reading, reading
from glasstream.intake.fields import Kind
from glasstream.sources.column import Cell, Column
from glasstream.sources.csv_rows import open_rows
from glasstream.sources.listing import listed
from glasstream.sources.source import Event, Look

LOOK = 1_000
"""Number of rows of a CSV file to examine before replaying it."""
CLASSES = 20
"""A target of whole numbers with at most this many distinct values counts as a class."""


@dataclass(slots=True)
class CsvFile:
    """A CSV file with a header.

    The first 1,000 rows decide the kind of each column; if a column has no value there, the 1,000 rows from its first
    value on do. `glasstream.intake.cells` has the rules. An empty cell is a feature that the event lacks, and an empty
    target makes an event without a label.

    Attributes
    ----------
    types
        Kinds of columns that the user states. A cell that does not fit a stated kind counts as empty.
    declared
        Kinds of columns that a model declares. They count as stated if `types` has no others.
    """

    path: Path
    target: str
    stream: str
    rows: int | None = None
    types: Mapping[str, Kind] = field(default_factory=dict)
    declared: Mapping[str, Kind] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    """Notices for the user about values that were reinterpreted. Reading the events can add more."""
    _columns: list[Column] = field(default_factory=list)
    _infinite: set[str] = field(default_factory=set)
    """Columns whose infinite cells have been reported."""
    _unfit: dict[str, tuple[int, str, int]] = field(default_factory=dict)
    """Line and text of the first cell that does not fit the kind of its column, and their number, by column."""

    def look(self, task: Task | None) -> Look:
        """Look at the first rows to find the kinds of the columns, and the task if it is not given.

        Raises
        ------
        InputError
            The file cannot be replayed.
        """
        with open_rows(self.path) as lines:
            header = self._read_header(lines)
            rows = _checked(lines, len(header), self.path)
            head = list(islice(rows, LOOK))
            if not head:
                raise InputError(f"{self.path}: expected rows below the header, got none")
            deciding = _deciding(head, rows)
        first, stated = head[0][0], {**self.declared, **self.types}
        self._columns = [
            Column(name, found, name == self.target, found[0][0] != first, stated.get(name))
            for name, found in zip(header, deciding, strict=True)
        ]
        for column in self._columns:
            for text in column.notices():
                self._tell(column, text)
            for (line, cell), one in zip(column.cells, column.readings, strict=True):
                if one is Reading.INFINITE and column.kind is not Kind.TEXT:
                    self._see_infinite(column, line, cell)
        return self._look_at_target(task, self._columns[header.index(self.target)])

    def _look_at_target(self, task: Task | None, target: Column) -> Look:
        fit = [
            value for _, cell in target.cells if (value := _label(cell, target)) is not None and _fits(value, target)
        ]
        distinct = {label(value) for value in fit}
        if task is not Task.REGRESSION and target.stated is None and len(distinct) > CLASSES:
            self._expect_classes(target)
        if target.kind is Kind.TEXT and len(distinct) > IngestLimits().classes:
            self._tell(target, f"has {len(distinct):,} different texts in {target.where}: each is a class of its own")
        numbers = target.kind is Kind.NUMBER
        if task is None:
            few = numbers and None not in distinct and len(distinct) <= CLASSES
            task = Task.CLASSIFICATION if not numbers or few else Task.REGRESSION
            if not fit:
                why = "a guess, because no row has a target; set --task classification or --task regression"
            elif numbers:
                what = "whole numbers" if few else "numbers"
                why = f"its target has {len(set(fit)):,} distinct {what} in {target.where}"
            else:
                why = f"its target is {target.kind}"
        else:
            why = "set by --task"
        return Look(task, len(distinct) if task is Task.CLASSIFICATION else 0, why, numbers)

    @property
    def features(self) -> list[str]:
        """Return the names of all columns except the target. Call `look` first."""
        return [column.name for column in self._columns if not column.is_target]

    def events(self) -> Iterator[Event]:
        """Yield the events in order, and then add notices about cells that do not fit. Call `look` first.

        Raises
        ------
        InputError
            A row has another number of cells than the header, or the file is damaged.
        """
        (at,) = (place for place, column in enumerate(self._columns) if column.is_target)
        target = self._columns[at]
        columns = [
            (place, column, column.name, column.kind, _reader(column))
            for place, column in enumerate(self._columns)
            if not column.is_target
        ]
        self._unfit.clear()
        with open_rows(self.path) as lines:
            self._read_header(lines)
            rows = _checked(lines, len(self._columns), self.path)
            for number, (line, row) in enumerate(islice(rows, self.rows)):
                x: Event = {}
                for place, column, name, kind, read in columns:
                    value = read(row[place], kind)
                    if type(value) is str and kind is not Kind.TEXT:
                        value = self._see_unfit(column, line, value)
                    if value is not None:
                        x[name] = value
                    elif row[place]:
                        self._see_infinite(column, line, row[place])
                event: Event = {"id": number, "x": x or dict.fromkeys(self.features, None)}
                y = _label(row[at], target)
                if y is not None and not _fits(y, target):
                    y = self._see_unfit(target, line, row[at])
                if y is not None:
                    event["y"] = y
                elif row[at]:
                    self._see_infinite(target, line, row[at])
                yield event
        for column in self._columns:
            if column.name in self._unfit:
                self._tell(column, column.unfit(*self._unfit[column.name]))

    def _tell(self, column: Column, text: str) -> None:
        self.notices.append(f"{self.stream}: column {column.name!r} {text}")

    def _see_infinite(self, column: Column, line: int, cell: str) -> None:
        """Report once per column that it has infinite cells."""
        if column.name not in self._infinite and reading(cell) is Reading.INFINITE:
            self._infinite.add(column.name)
            self._tell(column, column.infinite(line, cell))

    def _see_unfit(self, column: Column, line: int, cell: str) -> str | None:
        """Count a cell that does not fit the kind of its column, and return its value: none if the kind is stated."""
        first, text, count = self._unfit.get(column.name, (line, cell, 0))
        self._unfit[column.name] = first, text, count + 1
        return None if column.stated is not None else cell

    def _expect_classes(self, target: Column) -> None:
        """Check that the texts of a target are not numbers with commas or units.

        Raises
        ------
        InputError
            They are, so that each number would be a class.
        """
        if found := target.first_formatted():
            (line, cell), count = found
            raise InputError(
                f"{self.path}, line {line:,}: expected a class or a plain number such as 1234.5 in the target "
                f"{target.name!r}, got {cell!r:.60}, and {count - 1:,} similar cells; write the numbers without "
                "currency signs, percent signs, separators of thousands and decimal commas; if they are classes, set "
                f"--types {target.typed(Kind.TEXT)}"
            )

    def _read_header(self, lines: Iterator[tuple[int, list[str]]]) -> list[str]:
        _, header = next(lines, (0, None))
        if header is None:
            raise InputError(f"{self.path}: expected a header line, got an empty file")
        if any("\0" in name for name in header):
            raise InputError(
                f"{self.path}: expected text in UTF-8, got zero bytes, as UTF-16 has them; save the file in UTF-8, or "
                "convert it, such as with `iconv -f utf-16le -t utf-8`"
            )
        unnamed = [str(number) for number, name in enumerate(header, 1) if not name.strip()]
        if unnamed:
            raise InputError(
                f"{self.path}: expected a name for every one of {len(header)} columns, "
                f"got none for column {', '.join(unnamed[:5])}; name it in the header, or remove it"
            )
        repeated = sorted({name for name in header if header.count(name) > 1})
        if unknown := sorted(set(self.types) - set(header)):
            raise InputError(f"{self.path} has no column {unknown[0]!r}, of --types; its columns are {listed(header)}")
        if repeated:
            raise InputError(
                f"{self.path}: expected different column names, got {', '.join(map(repr, repeated))} twice"
            )
        if self.target not in header:
            todo = "name one of them with --target"
            if spaced := next((name for name in header if name.strip() == self.target.strip()), None):
                todo = f"one is {spaced!r}, whose name differs only in spaces; change the header or --target"
            if len(header) == 1 and (other := next((mark for mark in ";\t|" if mark in header[0]), None)):
                todo = (
                    f"the columns seem to be separated by {other!r}; write the file with commas, or put the line "
                    f"sep={other} above its header"
                )
            raise InputError(f"{self.path} has no column {self.target!r}; its columns are {listed(header)}; {todo}")
        if len(header) < 2:
            raise InputError(f"{self.path}: expected at least one column beside the target, got none")
        return header


def _deciding(head: list[tuple[int, list[str]]], rows: Iterator[tuple[int, list[str]]]) -> list[list[Cell]]:
    """Return the cells that decide the kind of each column.

    Parameters
    ----------
    head
        The first rows.
    rows
        The rows below. They are read until every column has had a value.
    """
    columns = [[(line, row[place]) for line, row in head] for place in range(len(head[0][1]))]
    late: dict[int, list[Cell]] = {
        place: [] for place, column in enumerate(columns) if all(reading(cell) is Reading.MISSING for _, cell in column)
    }
    for line, row in rows if late else ():
        for place, found in list(late.items()):
            if found or (row[place] and reading(row[place]) is not Reading.MISSING):
                found.append((line, row[place]))
                if len(found) == LOOK:
                    columns[place] = late.pop(place)
        if not late:
            break
    for place, found in late.items():
        columns[place] = found or columns[place]
    return columns


def _checked(lines: Iterator[tuple[int, list[str]]], width: int, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows below the header, each with the number of its (last) line.

    Raises
    ------
    InputError
        A row has another number of cells.
    """
    for line, row in lines:
        if len(row) != width:
            todo = "put texts that contain commas in quotes" if len(row) > width else "write empty cells, too"
            raise InputError(f"{path}, line {line}: expected {width} cells as in the header, got {len(row)}; {todo}")
        yield line, row


def _reader(column: Column) -> Callable[[str, Kind], str | bool | float | None]:
    return cells.value if column.stated is None else cells.stated


def _label(cell: str, target: Column) -> str | bool | int | float | None:
    """Return the label of a row, None if it has none. A label that does not fit the kind of the target is a text."""
    if target.kind is Kind.TEXT and target.stated is None and cells.is_no_label(cell):
        return None
    value = _reader(target)(cell, target.kind)
    return int(value) if isinstance(value, float) and cells.is_whole(cell) else value


def _fits(value: str | bool | float, column: Column) -> bool:
    return column.kind is Kind.TEXT or not isinstance(value, str)
