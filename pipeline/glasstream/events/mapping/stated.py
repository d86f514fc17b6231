"""Reading of texts whose kind the user states, by fewer rules than those of `glasstream.events.mapping.cells`."""

import re
from collections.abc import Callable, Collection
from math import isfinite

from glasstream.events.mapping import cells
from glasstream.events.mapping.fields import Kind
from glasstream.events.mapping.lookalikes import has_letters, marks, number

_ANY_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_FLAGS = {"1": True, "0": False}
_DECIMAL = {Kind.POINT: ".", Kind.COMMA: ","}


def notations(texts: Collection[str]) -> list[Kind]:
    """Return the notations in which all texts are numbers; two only if they give other numbers, none for several units.

    >>> [[str(kind) for kind in notations(texts)] for texts in (["45,3", "5"], ["$1,234"], ["7 %"], ["1.5", "4,5"])]
    [['comma'], ['point', 'comma'], ['point'], []]
    """
    if len({mark for text in texts if (mark := marks(text)) is not None and has_letters(mark)}) > 1:
        return []
    found = {kind: [number(text, mark) for text in texts] for kind, mark in _DECIMAL.items()}
    fit = [kind for kind, numbers in found.items() if None not in numbers]
    return fit[:1] if found[Kind.POINT] == found[Kind.COMMA] else fit


def advice(texts: Collection[str], typed: Callable[[Kind], str]) -> str:
    """Return what to do if texts that are no plain numbers are numbers.

    Parameters
    ----------
    typed
        Function that returns the setting that states a type.

    >>> def typed(kind: Kind) -> str:
    ...     return f"types = price={kind}"
    >>> advice(["7 %"], typed), advice(["1.5", "4,5"], typed)
    ('set types = price=point', 'write them as 1234.5')
    >>> advice(["$1,234"], typed)
    'set types = price=point, or types = price=comma if a comma is the decimal mark'
    """
    fit = notations(texts)
    if not fit:
        return "write them as 1234.5"
    also = f", or {typed(Kind.COMMA)} if a comma is the decimal mark" if len(fit) > 1 else ""
    return f"set {typed(fit[0])}{also}"


def value(cell: str, kind: Kind) -> str | bool | float | None:
    """Return the value of a cell in a column whose kind the user states, like `cells.value`, but by fewer rules.

    >>> value("01067", Kind.NUMBER), value("true", Kind.NUMBER), value("1", Kind.BOOLEAN), value("?", Kind.NUMBER)
    (1067.0, 1.0, True, '?')
    >>> value("1.234,5 €", Kind.COMMA), value("45.3", Kind.COMMA), value("$12", Kind.POINT), value("NA", Kind.COMMA)
    (1234.5, '45.3', 12.0, None)
    """
    plain = cell.strip()
    if kind is Kind.TEXT:
        return cells.value(cell, kind)
    if kind in _DECIMAL:
        found = number(plain, _DECIMAL[kind])
        if found is not None:
            return found
        return None if cells.reading(plain) in (cells.Reading.MISSING, cells.Reading.INFINITE) else cell
    if kind is Kind.BOOLEAN and plain in _FLAGS:
        return _FLAGS[plain]
    if kind is Kind.NUMBER and _ANY_NUMBER.fullmatch(plain):
        found = float(plain)
        return found if isfinite(found) else None
    flag = cells.value(cell, Kind.BOOLEAN)
    return float(flag) if kind is Kind.NUMBER and isinstance(flag, bool) else cells.value(cell, kind)
