"""Notices about the lines of a CSV file: functions of the first line of a kind, its cell, and the number of them."""

from collections.abc import Sequence
from typing import Final

from glasstream.events.sources.listing import listed

SEPARATORS: Final = ",;\t|"
"""Characters that usually stand between cells."""


def of_width(row: list[str], header: list[str], *, first: bool) -> str:
    """Return what is wrong with a row of another width than the header, and what to do."""
    others = [mark for mark in SEPARATORS if len(row) == 1 and row[0].count(mark) == len(header) - 1]
    if others:
        todo = f"the header has another separator than the line, {others[0]!r}: write all lines with the same one"
    elif len(row) < len(header):
        todo = "if the line is no row, such as a footnote, remove it; else write its empty cells, too"
    elif not any(map(str.strip, row[len(header) :])):
        todo = (
            "the line ends in a separator; if every line below the header does, end the header in as many separators, "
            "and leave out this column with --drop ''"
        )
    elif first and len(row) == len(header) + 1:
        todo = (
            "if every row has one more cell, such as the row names of R, begin the header with a name for it; else put "
            "texts that contain commas in quotes"
        )
    else:
        todo = "put texts that contain commas in quotes"
    return f"expected {len(header)} cells as in the header, got {len(row)}; {todo}"


def stray(line: int, count: int, names: Sequence[str]) -> str:
    """Return the notice about a line of words, which makes columns of numbers text."""
    return (
        f"line {line:,} is probably no row, because it has words where other lines have numbers (lines like it: "
        f"{count:,}): it becomes an event, and makes these columns text: {listed(names)}; remove the line"
    )


def marked(line: int, _: str, count: int) -> str:
    """Return the notice about a byte order mark below the first line."""
    return (
        f"line {line:,} begins with a byte order mark, as the first line of a file does: the mark is ignored (lines "
        f"like it: {count:,})"
    )


def empty(line: int, _: str, count: int) -> str:
    """Return the notice about a row of empty cells, as spreadsheets write them below a table."""
    return (
        f"line {line:,} has no value in any cell (lines like it: {count:,}): it becomes an event without features and "
        "label; remove such lines"
    )


def no_time(line: int, cell: str, count: int) -> str:
    """Return the notice about a cell of `--ts` that is no time."""
    return (
        f"line {line:,} has {cell!r:.60} as time (cells like it: {count:,}): expected ISO 8601, such as "
        "2026-01-31T12:00:00Z, or seconds, ms, us or ns since 1970; such events have no time"
    )


def repeats(line: int, _: str, count: int) -> str:
    """Return the notice about a repeated header."""
    return f"line {line:,} repeats the header (lines like it: {count:,}): skipped"


def swallows(line: int, lines: str, count: int) -> str:
    """Return the notice about a cell of so many lines that a quote is probably not closed."""
    return (
        f"the cell on line {line:,} spans {lines} lines (cells like it: {count:,}): is a quote not closed? A quote at "
        "the beginning of a cell makes all lines up to the next quote one cell; if it belongs to the text, put the "
        "cell in quotes and double the quotes inside"
    )


def data(names: Sequence[str]) -> str:
    """Return the notice about a header that looks like a row."""
    return (
        f"the first line, {listed(names)}, is the header, but looks like data; if it is data, put a line with the "
        "names of the columns above it"
    )
