"""Where `run` and `produce` take their events from: a CSV file, or the bundled stream."""

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any

from river.datasets import synth

from pipeline.errors import InputError
from pipeline.ingest.admission import Task, label

LOOK = 1_000
"""Rows of a CSV file that are looked at before it is replayed."""
CLASSES = 20
"""A target of whole numbers with at most so many distinct values is taken for a class."""

BUNDLED_ROWS = 20_000
_BEFORE, _AFTER = 6, 2  # river's numbers: salary, commission, loan; then age, education level

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Look:
    """What a first look at the source says of its target."""

    task: Task
    classes: int
    """Distinct classes seen; 0 for regression."""
    why: str


@dataclass(slots=True)
class BundledStream:
    """Agrawal's synthetic loan applications (1993); half-way the labelling function changes.

    The first half is labelled by salary, commission and loan (river's `classification_function` 6), the second by age
    and education level (2).
    """

    seed: int
    rows: int = BUNDLED_ROWS
    stream: str = "agrawal"

    def look(self, task: Task | None) -> Look:
        """Two classes, as the generator says."""
        return Look(task or Task.CLASSIFICATION, 2, "the bundled stream has two classes")

    def events(self) -> Iterator[Event]:
        """The events in order."""
        half = self.rows // 2
        before = synth.Agrawal(classification_function=_BEFORE, seed=self.seed).take(half)
        after = synth.Agrawal(classification_function=_AFTER, seed=self.seed + 1).take(self.rows - half)
        number = 0
        for part in (before, after):
            for x, y in part:
                yield {"id": number, "x": x, "y": y}
                number += 1


@dataclass(slots=True)
class CsvFile:
    """A CSV file with a header, plain or gzipped.

    A column is numeric or boolean when all its non-empty cells in the first 1,000 rows are, else text. An empty cell
    is a feature that the event lacks; an empty target an event without a label.
    """

    path: Path
    target: str
    stream: str
    rows: int | None = None
    _kinds: dict[str, str] = field(default_factory=dict)
    _header: list[str] = field(default_factory=list)

    def look(self, task: Task | None) -> Look:
        """Look at the first rows: the kinds of the columns, and the task if it is not given.

        Raises
        ------
        InputError
            The file cannot be replayed.
        """
        with self._open() as reader:
            self._header = self._read_header(reader)
            head = list(islice(self._cells(reader), LOOK))
        if not head:
            raise InputError(f"{self.path}: expected rows below the header, got none")
        for place, name in enumerate(self._header):
            self._kinds[name] = _kind([row[place] for row in head if row[place] != ""])
        targets = [value for row in head if (value := self._target(row)) is not None]
        distinct = {label(value) for value in targets}
        kind = self._kinds[self.target]
        if task is None:
            few = kind == "number" and None not in distinct and len(distinct) <= CLASSES
            task = Task.CLASSIFICATION if kind != "number" or few else Task.REGRESSION
            why = {"text": "its target is text", "boolean": "its target is boolean"}.get(
                kind,
                f"its target has {len(distinct)} distinct whole numbers in the first {len(head):,} rows"
                if few
                else f"its target has {len(distinct)} distinct numbers in the first {len(head):,} rows",
            )
        else:
            why = "as --task says"
        return Look(task, len(distinct) if task is Task.CLASSIFICATION else 0, why)

    def events(self) -> Iterator[Event]:
        """The events in order; `look` must have been called.

        Raises
        ------
        InputError
            A row that has not as many cells as the header.
        """
        target = self._header.index(self.target)
        columns = [(place, name, self._kinds[name]) for place, name in enumerate(self._header) if place != target]
        with self._open() as reader:
            self._read_header(reader)
            for number, row in enumerate(islice(self._cells(reader), self.rows)):
                x: Event = {name: _value(row[place], kind) for place, name, kind in columns if row[place] != ""}
                event: Event = {"id": number, "x": x or dict.fromkeys((name for _, name, _ in columns), None)}
                y = self._target(row)
                if y is not None:
                    event["y"] = y
                yield event

    def _target(self, row: list[str]) -> str | bool | int | float | None:
        cell = row[self._header.index(self.target)]
        if cell == "":
            return None
        value = _value(cell, self._kinds.get(self.target, "text"))
        return int(value) if isinstance(value, float) and cell.lstrip("+-").isdigit() else value

    @contextmanager
    def _open(self) -> Iterator[Iterator[list[str]]]:
        try:
            with self.path.open("rb") as file:
                packed = file.read(2) == b"\x1f\x8b"
                file.seek(0)
                binary = gzip.GzipFile(fileobj=file) if packed else file
                with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="") as text:
                    yield csv.reader(text, strict=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error
        except (UnicodeDecodeError, csv.Error, EOFError) as error:
            raise InputError(f"{self.path}: expected CSV in UTF-8, plain or gzipped, got: {error}") from error

    def _read_header(self, reader: Iterator[list[str]]) -> list[str]:
        header = next(reader, None)
        if not header:
            raise InputError(f"{self.path}: expected a header line, got an empty file")
        repeated = sorted({name for name in header if header.count(name) > 1})
        if repeated:
            raise InputError(
                f"{self.path}: expected different column names, got {', '.join(map(repr, repeated))} twice"
            )
        if self.target not in header:
            raise InputError(
                f"{self.path}: expected a target column {self.target!r}, got {', '.join(header)[:200]}; "
                "name the column to be predicted with --target"
            )
        if len(header) < 2:
            raise InputError(f"{self.path}: expected at least one column beside the target, got none")
        return header

    def _cells(self, reader: Iterator[list[str]]) -> Iterator[list[str]]:
        width = len(self._header)
        for row in reader:
            if not row:
                continue  # a blank line
            if len(row) != width:
                line = getattr(reader, "line_num", "?")
                raise InputError(f"{self.path}, line {line}: expected {width} cells as in the header, got {len(row)}")
            yield row


_BOOLEANS = {"true": True, "false": False}


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False


def _kind(cells: list[str]) -> str:
    if cells and all(map(_is_number, cells)):
        return "number"
    if cells and all(cell.lower() in _BOOLEANS for cell in cells):
        return "boolean"
    return "text"


def _value(cell: str, kind: str) -> str | bool | float:
    if kind == "number" and _is_number(cell):
        return float(cell)
    if kind == "boolean" and cell.lower() in _BOOLEANS:
        return _BOOLEANS[cell.lower()]
    return cell


Source = BundledStream | CsvFile
