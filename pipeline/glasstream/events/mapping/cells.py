"""Reading of the cells of CSV: which texts are numbers, booleans or missing values. Files and messages share the rules.

A cell is a number only if reading it as one loses nothing. Codes often look like numbers: `01067` and `1067`, `1E5` and
`100E3`, or two long ids would become equal. The cells of a column therefore decide together.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from math import isfinite

from glasstream.events.mapping.fields import Kind

MISSING = frozenset({"", "nan", "+nan", "-nan", "na", "n/a", "null", "none"})
"""Spellings of a missing value, in lower case. In a column of text, all but blank cells count as text."""
_CLASS = "none"
"""Spelling of a missing value that can also be the name of a class."""
_BOOLEANS = {"true": True, "false": False}

_PLAIN = r"(?:0|[1-9][0-9]*)"
_WHOLE = re.compile(rf"[+-]?{_PLAIN}")
_WITH_POINT = re.compile(rf"[+-]?(?:(?:{_PLAIN}\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|{_PLAIN}[eE][+-][0-9]+)")
_ANY_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OF_NUMBER_COLUMN = re.compile(rf"[+-]?(?:{_PLAIN}(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
is_plain = _OF_NUMBER_COLUMN.fullmatch
"""Function of a cell that returns whether it is a number in a column of numbers: a match, or None."""
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
_EXACT = 2**53
"""Integers up to this one are exact as floats."""


class Reading(StrEnum):
    """What a cell looks like by itself.

    Attributes
    ----------
    MISSING
        Blank, or a word such as `NA`.
    WHOLE
        A whole number.
    POINT
        A number as programs write floats: with a decimal point, or with a sign in its exponent.
    VAGUE
        A number or a code: `1E5`, or more digits than a float holds. A number if other cells have decimal points.
    CODE
        Digits after a zero, such as `01067`.
    INFINITE
        An infinite number, or one beyond the range of floats.
    BOOLEAN
        `true` or `false`.
    TEXT
        Anything else.
    """

    MISSING = "missing"
    WHOLE = "whole"
    POINT = "point"
    VAGUE = "vague"
    CODE = "code"
    INFINITE = "infinite"
    BOOLEAN = "boolean"
    TEXT = "text"


NUMBERS = frozenset({Reading.WHOLE, Reading.POINT})
_NUMERIC = NUMBERS | {Reading.INFINITE}


def reading(cell: str) -> Reading:
    """Return what a cell looks like by itself.

    >>> [str(reading(cell)) for cell in ("7", "-2.50", "1.2e-05", "1e+16", "1E5", "01067", "10_01", "45,3")]
    ['whole', 'point', 'point', 'point', 'vague', 'code', 'text', 'text']
    >>> [str(reading(cell)) for cell in ("NaN", " ", "-inf", "1e999", "True", "12345678901234567890")]
    ['missing', 'missing', 'infinite', 'infinite', 'boolean', 'vague']
    """
    cell = cell.strip()
    if _ANY_NUMBER.fullmatch(cell):
        if not isfinite(float(cell)):
            return Reading.INFINITE
        if _WHOLE.fullmatch(cell):
            return Reading.WHOLE if abs(float(cell)) <= _EXACT else Reading.VAGUE
        if _WITH_POINT.fullmatch(cell):
            return Reading.POINT
        return Reading.VAGUE if _OF_NUMBER_COLUMN.fullmatch(cell) else Reading.CODE
    plain = cell.lower()
    if plain in MISSING:
        return Reading.MISSING
    if _INFINITE.fullmatch(cell):
        return Reading.INFINITE
    return Reading.BOOLEAN if plain in _BOOLEANS else Reading.TEXT


def kind(readings: Iterable[Reading]) -> Kind:
    """Return the kind of a column, from the readings of its cells. Without values, it is a number.

    >>> W, P, V, C = Reading.WHOLE, Reading.POINT, Reading.VAGUE, Reading.CODE
    >>> [str(kind(cells)) for cells in ([W, Reading.MISSING], [W, P, V], [W, V], [W, P, C], [W, Reading.BOOLEAN])]
    ['number', 'number', 'text', 'text', 'text']
    """
    found = set(readings) - {Reading.MISSING}
    if found == {Reading.BOOLEAN}:
        return Kind.BOOLEAN
    if Reading.POINT in found:
        found.discard(Reading.VAGUE)
    return Kind.NUMBER if found <= _NUMERIC else Kind.TEXT


def value(cell: str, kind: Kind) -> str | bool | float | None:
    """Return the value of a cell in a column of this kind, None if missing. A cell that does not fit becomes text.

    >>> value("7", Kind.NUMBER), value("nan", Kind.NUMBER), value("inf", Kind.NUMBER), value("oops", Kind.NUMBER)
    (7.0, None, None, 'oops')
    >>> value("nan", Kind.TEXT), value(" ", Kind.TEXT), value("01067", Kind.NUMBER)
    ('nan', None, '01067')
    """
    if kind is Kind.NUMBER:
        if is_plain(cell):
            found = float(cell)
            return found if isfinite(found) else None
        plain = cell.strip()
        if plain != cell:
            return value(plain, kind)
        return None if reading(cell) in (Reading.MISSING, Reading.INFINITE) else cell
    if kind is Kind.BOOLEAN:
        return None if reading(cell) is Reading.MISSING else _BOOLEANS.get(cell.strip().lower(), cell)
    return cell if cell and not cell.isspace() else None


def is_whole(cell: str) -> bool:
    """Return whether a cell is a plain whole number."""
    return _WHOLE.fullmatch(cell) is not None


def is_no_label(cell: str) -> bool:
    """Return whether a cell of a text target stands for a missing label. `none` can be the name of a class.

    >>> [is_no_label(cell) for cell in ("NA", "NaN", "", "none", "up")]
    [True, True, True, False, False]
    """
    plain = cell.strip().lower()
    return plain in MISSING and plain != _CLASS
