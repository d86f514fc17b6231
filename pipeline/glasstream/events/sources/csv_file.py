"""A CSV file as a source of events."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from glasstream.base.errors import InputError
from glasstream.events.admission import Task, label
from glasstream.events.limits import IngestLimits
from glasstream.events.mapping import cells, stated
from glasstream.events.mapping.cells import NUMBERS, Reading, reading
from glasstream.events.mapping.fields import Kind
from glasstream.events.mapping.mapper import moment
from glasstream.events.sources import csv_notices
from glasstream.events.sources.class_names import spellings
from glasstream.events.sources.column import Cell, Column, is_thousand
from glasstream.events.sources.csv_header import is_scale, read_header
from glasstream.events.sources.csv_rows import open_rows
from glasstream.events.sources.listing import listed
from glasstream.events.sources.source import Event, Look

Words = Callable[[int, str, int], str]
"""Function of the line and the text of the first cell of a kind, and of their number, that returns a notice."""
LOOK = 1_000
"""Number of rows of a CSV file to examine before replaying it."""
_MARK = "\ufeff"
"""Byte order mark, which begins the text of another file that was appended."""
_LONG = 50
"""Number of line breaks in a cell from which on a quote is probably not closed."""
_CLASSES = 1_000
"""Largest number of classes whose spellings are compared."""
_ROWS_OF_CLASS = 10
"""Smallest mean number of rows of each of many classes. With fewer, they are reported."""
CLASSES = 20
"""A target of whole numbers with at most this many distinct values counts as a class."""
_LOOK_AT_CLASSES = 100_000
"""Number of rows in which whole numbers that may be classes are looked at."""
_SPARSE = 10
"""Mean distance of more than `CLASSES` whole numbers from which on they are amounts and not codes of classes."""


@dataclass(slots=True)
class CsvFile:
    """A CSV file with a header.

    The first 1,000 rows decide the kind of each column; if a column has no value there, the 1,000 rows from its first
    value on do. `glasstream.events.mapping.cells` has the rules. An empty cell is a feature that the event lacks, and
    an empty target makes an event without a label.

    Attributes
    ----------
    types
        Kinds of columns that the user states. A cell that does not fit a stated kind counts as empty.
    declared
        Kinds of columns that a model declares. They count as stated if `types` has no others.
    dropped
        Columns to leave out.
    meta
        Columns that become `meta` and are no features.
    ts
        Column with the times of the events, which is no feature.
    """

    path: Path
    target: str
    stream: str
    rows: int | None = None
    types: Mapping[str, Kind] = field(default_factory=dict)
    declared: Mapping[str, Kind] = field(default_factory=dict)
    dropped: Collection[str] = ()
    meta: Collection[str] = ()
    ts: str | None = None
    notices: list[str] = field(default_factory=list)
    """Notices for the user about values that were reinterpreted. Reading the events can add more."""
    _columns: list[Column] = field(default_factory=list)
    _counted: dict[Words, tuple[int, str, int]] = field(default_factory=dict)
    """Line and text of the first cell that is reported with these words, and the number of such cells."""
    _spelled: set[str] = field(default_factory=set)
    """Classes whose spelling has been reported."""

    def look(self, task: Task | None) -> Look:
        """Look at the first rows to find the kinds of the columns, and the task if it is not given.

        Raises
        ------
        InputError
            The file cannot be replayed.
        """
        with open_rows(self.path) as lines:
            header = self._header(lines)
            rows = self._rows(lines, header)
            head = list(islice(rows, LOOK))
            if not head:
                raise InputError(f"{self.path}: expected rows below the header, got none")
            deciding = _deciding(head, rows)
        first, stated = head[0][0], {**self.declared, **self.types}
        self._columns = [
            Column(name, place, found, name == self.target, found[0][0] != first, stated.get(name))
            for place, (name, found) in enumerate(zip(header, deciding, strict=True))
            if name not in self.dropped and name != self.ts
        ]
        if self.ts is not None:
            self._expect_times(header.index(self.ts), head)
        if _looks_like_data(self._columns):
            self._tell([csv_notices.data([column.name for column in self._columns])])
        commas = any(column.has_decimal_commas for column in self._columns)
        strays = self._strays()
        for column in self._columns:
            self._tell(column.notices(commas=commas, strays=strays))
        return self._look_at_target(task, self._target)

    def _expect_times(self, place: int, head: Sequence[tuple[int, list[str]]]) -> None:
        """Check that the first rows have a time in the column of `--ts`.

        Raises
        ------
        InputError
            No cell is a time. A column without any cell passes.
        """
        found = [(line, row[place]) for line, row in head if row[place].strip()]
        if found and all(moment(cell.strip()) is None for _, cell in found):
            line, cell = found[0]
            raise InputError(
                f"{self.path}, line {line:,}: expected a time in ISO 8601, such as 2026-01-31T12:00:00Z, or seconds, "
                f"ms, us or ns since 1970 in the column {self.ts!r} of --ts, got {cell!r:.60}, and no time in the "
                f"first {len(head):,} rows; convert the column, or name another one"
            )

    def _strays(self) -> Collection[int]:
        """Return the lines that are probably no rows: they have words in all columns of numbers. Report them."""
        columns = [one for one in self._columns if one.is_numeric and one.stated is None and not one.late]
        counts = Counter(line for column in columns for line in column.lines_of_texts())
        strays = sorted(line for line, count in counts.items() if count == len(columns) > 1)
        if strays:
            self._tell([csv_notices.stray(strays[0], len(strays), [column.name for column in columns])])
        return frozenset(strays)

    def _look_at_target(self, task: Task | None, target: Column) -> Look:
        fit = [
            value for _, cell in target.cells if (value := _label(cell, target)) is not None and _fits(value, target)
        ]
        distinct = {label(value) for value in fit}
        if task is not Task.REGRESSION and target.stated is None and len(distinct) > CLASSES:
            self._expect_classes(target)
        few = target.stated is None and len(distinct) > CLASSES and len(fit) < _ROWS_OF_CLASS * len(distinct)
        if target.kind is Kind.TEXT and (few or len(distinct) > IngestLimits().classes):
            self._tell([target.of_many_classes(len(distinct))])
        if target.kind is Kind.TEXT:
            self._tell_spellings(target.where, Counter(value for value in fit if isinstance(value, str)))
        numbers = target.kind is Kind.NUMBER
        if task is None:
            few = numbers and None not in distinct and len(distinct) <= CLASSES
            amount = self._first_amount(target) if few and fit else None
            task = Task.CLASSIFICATION if not numbers or (few and amount is None) else Task.REGRESSION
            if not fit:
                none = "no row has a target"
                if any(one is not Reading.MISSING for one in target.readings):
                    none = f"no target in {target.where} is a {target.kind}"
                why = f"a guess, because {none}; set --task classification or --task regression"
            elif numbers:
                what = "whole numbers" if few else "numbers"
                why = f"its target has {len(set(fit)):,} distinct {what} in {target.where}"
                if amount is not None:
                    why += f", but {amount[1].strip()!r:.60} on line {amount[0]:,} shows that they are not classes"
                elif few:
                    why += "; to predict a number, set --task regression"
                elif None not in distinct and len(distinct) <= IngestLimits().classes:
                    why += "; if they are classes, set --task classification"
            else:
                why = f"its target is {target.kind}"
        else:
            why = "set by --task"
        return Look(task, len(distinct) if task is Task.CLASSIFICATION else 0, why, numbers, {*fit} == {0.0, 1.0})

    def _first_amount(self, target: Column) -> Cell | None:
        """Return the first target below which whole numbers are no longer classes; None if there is none.

        It is not whole, or makes more classes than a stream may have, or many that are far apart.
        """
        seen = set[float]()
        most = _LOOK_AT_CLASSES if self.rows is None else min(self.rows, _LOOK_AT_CLASSES)
        with suppress(InputError), open_rows(self.path) as lines:  # events() raises the error behind the rows above it
            for line, row in islice(self._rows(lines, self._header(lines)), most):
                value = _label(row[target.place], target)
                if value is None or isinstance(value, str) or value in seen:
                    continue
                seen.add(value)
                count = len(seen)
                apart = count > CLASSES and max(seen) - min(seen) >= _SPARSE * count
                if label(value) is None or count > IngestLimits().classes or apart:
                    return line, row[target.place]
        return None

    @property
    def _target(self) -> Column:
        return next(column for column in self._columns if column.is_target)

    @property
    def features(self) -> list[str]:
        """Return the names of all columns except target, `meta`, `ts` and what is left out. Call `look` first."""
        return [column.name for column in self._columns if not column.is_target and column.name not in self.meta]

    def events(self) -> Iterator[Event]:
        """Yield the events in order, and at the end add notices about what could not be used. Call `look` first.

        Raises
        ------
        InputError
            A row has another number of cells than the header, or the file is damaged.
        """
        columns = [
            (column.place, column, column.name, column.stated or column.kind, _reader(column))
            for column in self._columns
            if not column.is_target
        ]
        self._counted.clear()
        classes: Counter[str] = Counter()
        try:
            yield from self._events(columns, classes)
        finally:
            self._tell(words(*found) for words, found in self._counted.items())
            self._tell_spellings("all rows", classes)

    def _events(
        self,
        columns: Sequence[tuple[int, Column, str, Kind, Callable[[str, Kind], str | bool | float | None]]],
        classes: Counter[str],
    ) -> Iterator[Event]:
        target, features = self._target, self.features
        at = target.place
        small = {column.name for column in self._columns if column.is_small}
        with open_rows(self.path) as lines:
            header = self._header(lines)
            rows, clock = self._rows(lines, header), None if self.ts is None else header.index(self.ts)
            for number, (line, row) in enumerate(islice(rows, self.rows)):
                x: Event = {}
                meta: Event = {}
                for place, column, name, kind, read in columns:
                    value = read(row[place], kind)
                    if name in small and "." in row[place]:
                        self._see_point(column, line, row[place], small)
                    if type(value) is str and kind is not Kind.TEXT:
                        value = self._unfit(column, line, value)
                    if value is not None:
                        (meta if name in self.meta else x)[name] = value
                    elif row[place]:
                        self._see_empty(column, line, row[place])
                event: Event = {"id": number, "x": x or dict.fromkeys(features, None)}
                if meta:
                    event["meta"] = meta
                if clock is not None:
                    self._set_time(event, line, row[clock])
                if target.name in small and "." in row[at]:
                    self._see_point(target, line, row[at], small)
                y = _label(row[at], target)
                if y is not None and not _fits(y, target):
                    y = self._unfit(target, line, row[at])
                if y is not None:
                    event["y"] = y
                    if type(y) is str and (y in classes or len(classes) < _CLASSES):
                        classes[y] += 1
                elif row[at]:
                    self._see_empty(target, line, row[at])
                yield event

    def _set_time(self, event: Event, line: int, cell: str) -> None:
        at = moment(cell.strip())
        if at is not None:
            event["ts"] = at
        elif cell.strip():
            self._count(csv_notices.no_time, line, cell)

    def _header(self, lines: Iterator[tuple[int, list[str]]]) -> list[str]:
        return read_header(self.path, lines, self.target, self.types, self.dropped, self.meta, self.ts)

    def _rows(self, lines: Iterator[tuple[int, list[str]]], header: list[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header, each with the number of its (last) line. Rows that repeat it are skipped.

        Raises
        ------
        InputError
            A row has another number of cells, or repeats the header in another order.
        """
        last, names, ordered = None, set(header), sorted(header)
        for line, row in lines:
            if row[0][:1] == _MARK:
                row[0] = row[0][1:].strip('"')
                self._count(csv_notices.marked, line, "")
            if len(row) != len(header):
                raise InputError(f"{self.path}, line {line}: {csv_notices.of_width(row, header, first=last is None)}")
            if row[0] in names and sorted(row) == ordered:
                if row == header:
                    self._count(csv_notices.repeats, line, "")
                    continue
                if len(row) > 2:
                    raise InputError(
                        f"{self.path}, line {line}: expected the columns in the order of the header, got its names in "
                        f"another order: {listed(row)}; write the rows below with their columns in the order of the "
                        "header"
                    )
            if not any(row):
                self._count(csv_notices.empty, line, "")
            if last is None or line > last + 1:
                self._see_long(line, row)
            last = line
            yield line, row

    def _tell(self, texts: Iterable[str]) -> None:
        self.notices.extend(f"{self.stream}: {text}" for text in texts)

    def _tell_spellings(self, where: str, classes: Mapping[str, int]) -> None:
        """Report classes with doubtful spellings, and again if further ones have come."""
        for names, text in spellings(self.target, where, classes):
            if not names <= self._spelled:
                self._spelled |= names
                self._tell([text])

    def _count(self, words: Words, line: int, cell: str) -> None:
        """Count a cell that is reported with these words at the end."""
        first, text, count = self._counted.get(words, (line, cell, 0))
        self._counted[words] = first, text, count + 1

    def _see_point(self, column: Column, line: int, cell: str, small: set[str]) -> None:
        """Count a cell whose point may separate thousands, until another point shows that they do not."""
        if is_thousand(cell):
            self._count(column.thousands, line, cell)
        else:
            small.discard(column.name)
            self._counted.pop(column.thousands, None)

    def _see_empty(self, column: Column, line: int, cell: str) -> None:
        """Count a cell without a value if it is infinite."""
        if reading(cell) is Reading.INFINITE:
            self._count(column.infinite, line, cell)

    def _see_long(self, line: int, row: list[str]) -> None:
        """Count a cell that has so many lines, or lines so like rows, that a quote is probably not closed."""
        for place, cell in enumerate(row):
            breaks = _breaks(cell)
            if breaks and (breaks > _LONG or _has_rows(row, place, breaks)):
                self._count(csv_notices.swallows, line - sum(map(_breaks, row)), f"{breaks + 1:,}")

    def _unfit(self, column: Column, line: int, cell: str) -> str | None:
        """Count a cell that does not fit the kind of its column, and return its value: none if the kind is stated."""
        self._count(column.unfit, line, cell)
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
                f"{target.name!r}, got {cell!r:.60}, and {count - 1:,} similar cells; if they are numbers, "
                f"{target.as_numbers()}; if they are classes, set --types {target.typed(Kind.TEXT)}"
            )


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


def _breaks(cell: str) -> int:
    return cell.count("\n") + cell.count("\r") - cell.count("\r\n")


def _has_rows(row: list[str], place: int, breaks: int) -> bool:
    """Return whether a cell with line breaks seems to hold the end of one row, and the beginning of another one.

    It then has as many separators as these rows. A cell of two lines can have them by chance, such as an address. So
    the parts before and behind it must also be numbers where this row has numbers, of which there must be one.
    """
    cell, width = row[place], len(row)
    for mark in csv_notices.SEPARATORS:
        if width < 3 or cell.count(mark) != breaks * (width - 1):
            continue
        if breaks > 1:
            return True
        first, last = cell.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        behind, before = first.split(mark)[1:], last.split(mark)[:-1]
        if len(before) == place:
            others = [*row[:place], *row[place + 1 :]]
            parts = [reading(part.strip('"')) in NUMBERS for part in (*before, *behind)]
            if any(parts) and parts == [reading(other) in NUMBERS for other in others]:
                return True
    return False


def _looks_like_data(columns: Sequence[Column]) -> bool:
    """Return whether the header looks like a row: most of its cells could be values of their columns."""
    found = [column.name_is_value for column in columns]
    return False not in found and found.count(True) > len(found) / 2 and not is_scale([one.name for one in columns])


def _reader(column: Column) -> Callable[[str, Kind], str | bool | float | None]:
    return cells.value if column.stated is None else stated.value


def _label(cell: str, target: Column) -> str | bool | int | float | None:
    """Return the label of a row, None if it has none. A label that does not fit the kind of the target is a text."""
    if target.kind is Kind.TEXT and target.stated is None and cells.is_no_label(cell):
        return None
    value = _reader(target)(cell, target.stated or target.kind)
    return int(value) if isinstance(value, float) and cells.is_whole(cell) else value


def _fits(value: str | bool | float, column: Column) -> bool:
    return column.kind is Kind.TEXT or not isinstance(value, str)
