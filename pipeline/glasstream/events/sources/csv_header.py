"""Header of a CSV file, and what to do about a file that has another form."""

import csv
import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from glasstream.base.errors import InputError
from glasstream.events.mapping.cells import is_plain
from glasstream.events.sources.csv_rows import SEPARATOR, open_text
from glasstream.events.sources.listing import listed
from glasstream_topics.events import META_COLUMNS, META_NAME

_BEGINNING = 100_000
"""Number of characters of a file in which to look for its header."""
_NAME = "name it in the header, or leave it out with --drop ''"
_DATA_SHARE = 3
"""A header of which at least one name in so many is a number may be a row."""
_FORMS = {
    "<": "the file is a page of HTML or XML, such as an error page of a website; export the table as CSV",
    "{": "the file has JSON on its lines; write it as CSV, or send the lines to a topic for the intake",
    "[": "the file is JSON; write it as CSV",
}
"""Beginnings of files that are no CSV, and what to do."""


def read_header(
    path: Path,
    lines: Iterator[tuple[int, list[str]]],
    target: str,
    types: Collection[str],
    dropped: Collection[str],
    meta: Collection[str] = (),
    ts: str | None = None,
) -> list[str]:
    """Return the names of the columns, which are the first of the lines.

    Parameters
    ----------
    types, dropped, meta, ts
        Columns of `--types`, `--drop`, `--meta` and `--ts`.

    Raises
    ------
    InputError
        The file has no header, or not these columns.
    """
    try:
        _, header = next(lines, (0, None))
    except InputError as error:
        if isinstance(error.__cause__, csv.Error) and (todo := _advice(path, target)):
            raise InputError(f"{error}; {todo}") from error
        raise
    if header is None:
        raise InputError(f"{path}: expected a header line, got an empty file")
    if any("\0" in name for name in header):
        raise InputError(
            f"{path}: expected text in UTF-8, got zero bytes, as UTF-16 has them; save the file in UTF-8, or "
            "convert it, such as with `iconv -f utf-16le -t utf-8`"
        )
    repeated = sorted({name for name, count in Counter(header).items() if count > 1 and name not in dropped})
    todo = None if target in header else _advice(path, target)
    if todo is None:
        unnamed = [str(number) for number, name in enumerate(header, 1) if not name.strip() and name not in dropped]
        if unnamed:
            raise InputError(
                f"{path}: expected a name for every one of {len(header)} columns, got none for column "
                f"{', '.join(unnamed[:5])}; {_of_data(header) or _NAME}"
            )
        of_ts = () if ts is None else (ts,)
        for option, names in (("--types", types), ("--drop", dropped), ("--meta", meta), ("--ts", of_ts)):
            if unknown := sorted(set(names) - set(header)):
                raise InputError(f"{path} has no column {unknown[0]!r}, of {option}; its columns are {listed(header)}")
    if todo is not None or (target not in header and not repeated):
        raise InputError(
            f"{path} has no column {target!r}; its columns are {listed(header)}; {todo or _other(header, target)}"
        )
    if repeated:
        rename = f"rename them in the header, or leave them out with --drop {shlex.quote(repeated[0])}"
        raise InputError(
            f"{path}: expected different column names, got {listed([*map(repr, repeated)])} twice; "
            f"{_of_data(header) or rename}"
        )
    if target in dropped:
        raise InputError(f"--drop: expected columns other than the target, got {target!r}")
    if twice := sorted({*meta} & {target, *dropped}):
        raise InputError(f"--meta: expected columns other than the target and those of --drop, got {twice[0]!r}")
    if ts in {*meta, *dropped, target}:
        raise InputError(f"--ts: expected a column other than the target and those of --drop and --meta, got {ts!r}")
    if len({*meta}) > META_COLUMNS or any(len(name) > META_NAME for name in meta):
        raise InputError(
            f"--meta: expected at most {META_COLUMNS} columns with names of at most {META_NAME} characters, got "
            f"{len({*meta})} with names of up to {max(map(len, meta))}"
        )
    if not set(header) - {target, ts, *dropped, *meta}:
        others = "".join(f" and {option}" for option, given in (("--meta", meta), ("--ts", ts)) if given)
        raise InputError(f"{path}: expected at least one column in addition to the target{others}, got none")
    return header


def is_scale(names: Sequence[str]) -> bool:
    """Return whether the names that are numbers are those of columns, such as years or wavelengths, which are in order.

    >>> is_scale(["id", "2019", "2020", "2021"]), is_scale(["38", "-745.14", "12"]), is_scale(["1", "2"])
    (True, False, False)
    """
    numbers = [float(name) for name in names if is_plain(name.strip())]
    return len(numbers) > 2 and numbers in (ordered := sorted(set(numbers)), ordered[::-1])


def _of_data(header: Sequence[str]) -> str | None:
    """Return what to do if the header looks like a row, judged by its names alone."""
    numbers = sum(is_plain(name.strip()) is not None for name in header)
    if numbers * _DATA_SHARE < len(header) or is_scale(header):
        return None
    return "the first line looks like data: put a line with the names of the columns above it"


def _other(header: list[str], target: str) -> str:
    """Return what to do about a header without the target."""
    if todo := _of_data(header):
        return todo
    if any(name != (bare := name.strip()) and bare[:1] == '"' for name in header):
        return "a quote after a space belongs to the name: remove the spaces between commas and quotes"
    if alike := next((name for name in header if _plain(name) == _plain(target)), None):
        return f"one is {alike!r}, whose name differs only in spaces or case; change the header or --target"
    if len(header) == 1 and (mark := next((mark for mark in ";\t|\x01" if _parts(header[0], mark)), None)):
        return _separated(mark, header)
    return "name one of them with --target"


def _plain(name: str) -> str:
    return name.strip().casefold()


def _parts(line: str, mark: str) -> bool:
    """Return whether a mark separates names in a line, the first of which is not empty."""
    first, *others = line.split(mark)
    return bool(first.strip() and any(name.strip() for name in others))


def _separated(mark: str, names: Sequence[str]) -> str:
    if mark in " |" and not all(names):
        return f"the file seems to be a table for readers, with {mark!r} around its cells; write it with commas"
    line = f"the line sep={mark}" if mark.isprintable() and mark != " " else "a line of sep= and this character"
    return f"the columns seem to be separated by {mark!r}; write the file with commas, or put {line} above its header"


def _advice(path: Path, target: str) -> str | None:
    """Return what to do about a file that is no CSV, or has its header below the first line, or other separators."""
    with open_text(path, errors="replace") as text:
        lines = re.split("\r\n|\r|\n", text.read(_BEGINNING))
    named = SEPARATOR.fullmatch(lines[0])
    if todo := _FORMS.get(lines[0].lstrip()[:1]):
        return todo
    for mark in (*",;\t|", " "):
        for number, line in enumerate(lines, 1):
            names = [name.strip().strip('"') for name in line.split(mark)]
            if len(names) > 1 and target in names:
                parts = []
                if any(line.strip() for line in lines[1 if named else 0 : number - 1]):
                    parts.append(f"the header seems to be on line {number:,}: remove the lines above it")
                if mark != (named[1] if named else ","):
                    parts.append(_separated(mark, names))
                return "; ".join(parts) or None
    return None
