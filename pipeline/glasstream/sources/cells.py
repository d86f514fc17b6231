"""Interpretation of a cell of a CSV file: a number, a boolean, text, or a missing value."""

from collections.abc import Iterable
from math import isfinite, isnan

MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})
"""Spellings of a missing value, in lower case. In a column of text they count as text."""
_BOOLEANS = {"true": True, "false": False}


def reading(cell: str) -> str:
    """Return what a cell looks like by itself: ``missing``, ``number``, ``infinite``, ``boolean`` or ``text``.

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
    """Return the kind of a column: ``number`` or ``boolean`` if all cells that are not missing are, else ``text``.

    >>> kind(["number", "missing", "infinite"]), kind(["number", "boolean"]), kind(["missing"])
    ('number', 'text', 'text')
    """
    found = set(readings) - {"missing"}
    if found and found <= {"number", "infinite"}:
        return "number"
    return "boolean" if found == {"boolean"} else "text"


def value(cell: str, kind: str) -> str | bool | float | None:
    """Return the value of a cell in a column of this kind, None if missing. Cells of another kind become text.

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
