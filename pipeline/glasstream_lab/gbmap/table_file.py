"""Read a whole CSV file as a table of numbers."""

import shlex
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.rows import Floats
from glasstream.events.admission import Task, label
from glasstream.events.features import FeatureTable
from glasstream.events.features import Kind as FeatureKind
from glasstream.events.mapping.fields import Kind
from glasstream.events.sources.csv_file import CsvFile
from glasstream.events.sources.listing import listed
from glasstream_lab.gbmap.table import Table

MOST_CATEGORIES = 100
"""Largest number of distinct texts in a column. Each text becomes a feature of its own."""


def read_table(
    path: Path,
    target: str,
    task: Task | None = None,
    categories: Collection[str] = (),
    rows: int | None = None,
    types: Mapping[str, Kind] | None = None,
    notices: list[str] | None = None,
    dropped: Collection[str] = (),
) -> Table:
    """Return the labelled rows of a CSV file, by the rules of `CsvFile`.

    Parameters
    ----------
    target
        Column to predict.
    task
        Classification or regression; None decides by the first rows of the file.
    categories
        Columns of numbers that are codes of categories.
    rows
        Largest number of rows to read.
    types
        Kinds of columns that the user states.
    notices
        List that receives notices for the user about values that were reinterpreted.
    dropped
        Columns to leave out.

    Raises
    ------
    InputError
        The file cannot be read, has no labelled rows, or a column cannot be used.
    """
    source = CsvFile(path, target, path.name.partition(".")[0], rows, types or {}, dropped=dropped)
    look = source.look(task)
    if unknown := sorted(set(categories) - set(source.features)):
        raise InputError(f"{path}: expected columns of categories among {listed(source.features)}, got {unknown[0]!r}")
    features = FeatureTable()
    read: list[list[float]] = []
    found: list[str | float] = []
    unlabelled = 0
    for event in source.events():
        y = event.get("y")
        if y is None:
            unlabelled += 1
            continue
        found.append(_target(y, look.task, f"{path}: column {target!r}"))
        row, _ = features.encode(event["x"])
        read.append([*row])
    told = notices if notices is not None else []
    told += source.notices
    if not found:
        raise InputError(f"{path}: expected rows with a value in {target!r}, got none; name the column with --target")
    if unlabelled:
        told.append(
            f"{source.stream}: {unlabelled:,} of {unlabelled + len(found):,} rows have no target and are left out"
        )
    if features.counts.retyped:
        told.append(
            f"{source.stream}: {features.counts.retyped:,} cells are of another kind than their column and are "
            "treated as empty"
        )
    if not features.names:
        raise InputError(f"{path}: expected a value in a column other than {target!r}, got none")
    categorical = _categorical(path, features, categories)
    classes: tuple[str, ...] = ()
    if look.task is Task.CLASSIFICATION:
        classes = tuple(sorted({str(one) for one in found}))
    places = {name: float(place) for place, name in enumerate(classes)}
    targets = np.array([places[str(one)] if classes else one for one in found], np.float64)
    return Table(tuple(features.names), _matrix(read, len(features)), categorical, targets, classes)


def _target(y: str | bool | int | float, task: Task, where: str) -> str | float:
    if task is Task.CLASSIFICATION:
        name = label(y)
        if name is None:
            raise InputError(f"{where}: expected classes (text or whole numbers), got {y!r}; set --task regression")
        return name
    if isinstance(y, str | bool):
        raise InputError(f"{where}: expected numbers for regression, got {y!r:.60}; set --task classification")
    return float(y)


def _categorical(path: Path, features: FeatureTable, named: Collection[str]) -> tuple[int, ...]:
    """Return the columns of text and the named columns.

    Raises
    ------
    InputError
        A column of text has too many distinct values to be categories.
    """
    for name, codes in zip(features.names, features.categories, strict=True):
        if len(codes) > MOST_CATEGORIES:
            raise InputError(
                f"{path}: expected at most {MOST_CATEGORIES} distinct texts in a column, got {len(codes):,} in "
                f"{name!r}; leave the column out (--drop {shlex.quote(name)})"
            )
    texts = {name for name, kind in zip(features.names, features.kinds, strict=True) if kind is FeatureKind.TEXT}
    return tuple(place for place, name in enumerate(features.names) if name in texts or name in named)


def _matrix(rows: list[list[float]], width: int) -> Floats:
    """Return rows as a matrix. Rows that are shorter than the widest are filled with NaN."""
    return np.array([row + [np.nan] * (width - len(row)) for row in rows], np.float64)
