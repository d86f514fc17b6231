"""What a cell of a CSV file means: a number, a boolean, text, or nothing."""

from collections.abc import Iterable
from math import isfinite, isnan

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""What other programs write for no value, in small letters; in a column of text they are text."""
_BOOLEANS = {"true": True, "false": False}


def reading(cell: str) -> str:
    """What a cell looks like by itself: ``missing``, ``number``, ``infinite``, ``boolean`` or ``text``.

    >>> [reading(cell) for cell in ("2.5", "NaN", "", "-inf", "1e999", "True", "up")]
    ['number', 'missing', 'missing', 'infinite', 'infinite', 'boolean', 'text']
    """
    plain = cell.strip().lower()
    if plain in MISSING:
        return "missing"
    if plain in _BOOLEANS:
        return "boolean"
    try:
        number = float(plain)
    except ValueError:
        return "text"
    return "number" if isfinite(number) else "missing" if isnan(number) else "infinite"


def kind(readings: Iterable[str]) -> str:
    """What a column holds: ``number`` or ``boolean`` when all cells that are not missing do, else ``text``.

    >>> kind(["number", "missing", "infinite"]), kind(["number", "boolean"]), kind(["missing"])
    ('number', 'text', 'text')
    """
    found = set(readings) - {"missing"}
    if found and found <= {"number", "infinite"}:
        return "number"
    return "boolean" if found == {"boolean"} else "text"


def value(cell: str, kind: str) -> str | bool | float | None:
    """A cell of a column of this kind; None: no value. What does not fit the kind goes as text.

    >>> value("7", "number"), value("nan", "number"), value("inf", "number"), value("oops", "number")
    (7.0, None, None, 'oops')
    >>> value("nan", "text"), value("", "text")
    ('nan', None)
    """
    if not cell:
        return None
    if kind == "number":
        try:
            number = float(cell)
        except ValueError:
            return None if reading(cell) == "missing" else cell
        return number if isfinite(number) else None
    if kind == "boolean":
        plain = cell.strip().lower()
        return None if reading(cell) == "missing" else _BOOLEANS.get(plain, cell)
    return cell
