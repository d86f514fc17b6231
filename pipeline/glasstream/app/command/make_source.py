"""Build the source that the options of `run` and `produce` describe."""

import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from glasstream.base.errors import InputError
from glasstream.events.mapping.fields import Kind
from glasstream.events.sources.bundled import BUNDLED_ROWS, BundledStream
from glasstream.events.sources.changes import Change
from glasstream.events.sources.csv_file import CsvFile
from glasstream.events.sources.delayed import Delayed, LabelDelay
from glasstream.events.sources.source import Source
from glasstream.events.sources.swapped import Swapped
from glasstream.flow.settings import Settings


class Asked(NamedTuple):
    """Options that inject a change."""

    swap: str | None = None
    at: int | None = None
    width: int | None = None


_TYPE = re.compile(rf"\s*(.+?)=({'|'.join(Kind)})(?:,|$)", re.DOTALL)


def parse_types(texts: Iterable[str]) -> dict[str, Kind]:
    """Return the kinds of columns that `--types` states. A name may contain commas.

    >>> {name: str(kind) for name, kind in parse_types(["zip=text,a,b=number", "member=boolean"]).items()}
    {'zip': 'text', 'a,b': 'number', 'member': 'boolean'}

    Raises
    ------
    InputError
        A text is not of the form COLUMN=TYPE,...
    """
    kinds: dict[str, Kind] = {}
    for text in texts:
        end = 0
        while end < len(text):
            found = _TYPE.match(text, end)
            if found is None:
                raise InputError(f"--types: expected COLUMN=TYPE,... with the types {', '.join(Kind)}, got {text!r}")
            kinds[found[1]] = Kind(found[2])
            end = found.end()
    return kinds


def make_source(
    csv_file: Path | None,
    target: str | None,
    stream: str | None,
    rows: int | None,
    seed: int,
    asked: Asked,
    types: Iterable[str] = (),
    drop: Collection[str] = (),
    declared: Mapping[str, Kind] | None = None,
    meta: Iterable[str] = (),
    ts: str | None = None,
) -> Source:
    """Build a source from a CSV file or the bundled stream, with a change if the options ask for one.

    Parameters
    ----------
    types
        Values of `--types`.
    drop
        Columns to leave out.
    declared
        Kinds of the columns that a model declares.
    meta
        Values of `--meta`.
    ts
        Column of the times of the events.

    Raises
    ------
    InputError
        The options contradict each other.
    """
    if csv_file is None and target is not None:
        raise InputError("--target: it needs --csv FILE; the bundled stream has its own target")
    if csv_file is not None and target is None:
        raise InputError("--csv: it needs --target NAME, the column to predict")
    kinds = parse_types(types)
    columns = tuple(name.strip() for text in meta for name in text.split(","))
    for option, value in (("--types", kinds), ("--drop", drop), ("--meta", columns), ("--ts", ts)):
        if csv_file is None and value:
            raise InputError(f"{option}: it needs --csv FILE")
    if stream == "":
        raise InputError("--stream: expected a name, got an empty text")
    name = stream or ("agrawal" if csv_file is None else csv_file.name.split(".")[0])
    if not name and csv_file is not None:
        raise InputError(f"--csv {csv_file}: the file has no name before its first dot; name the stream with --stream")
    many = rows or (BUNDLED_ROWS if csv_file is None else None)
    change = _change(asked, many, seed, name, bundled=csv_file is None)
    source: BundledStream | CsvFile
    if csv_file is None or target is None:
        moves = asked.swap is None
        source = BundledStream(seed, many or BUNDLED_ROWS, name, change if moves else None, changes=moves)
    else:
        source = CsvFile(csv_file, target, name, rows, kinds, declared or {}, drop, columns, ts)
    if asked.swap is None or change is None:
        return source
    return Swapped(source, _two(asked.swap), change)


def delay_labels(source: Source, label_delay: str | None, settings: Settings) -> Source:
    """Delay the labels of a source if `label_delay` is set."""
    if label_delay is None:
        return source
    return Delayed(source, LabelDelay.parse(label_delay, settings.labels.window), settings.seed)


def _change(asked: Asked, rows: int | None, seed: int, stream: str, *, bundled: bool) -> Change | None:
    at = asked.at
    if at is None:
        if asked.swap is not None or (asked.width is not None and not bundled):
            option = "--width" if asked.swap is None else "--swap"
            raise InputError(f"{option}: it needs --at N, the event at which the change starts")
        if asked.width is None:
            return None
        at = (rows or BUNDLED_ROWS) // 2
    if asked.swap is None and not bundled:
        raise InputError("--at: with --csv, it needs --swap A,B, the two columns of the file to swap")
    if rows is not None and at >= rows:
        raise InputError(f"--at: expected one of the {rows:,} events of the run, 0 to {rows - 1:,}, got {at:,}")
    return Change(at, asked.width or 0, seed, stream)


def _two(swap: str) -> tuple[str, str]:
    names = [name.strip() for name in swap.split(",")]
    if len(names) != 2 or not all(names) or names[0] == names[1]:
        raise InputError(f"--swap: expected two features, A,B, got {swap!r}")
    return names[0], names[1]
