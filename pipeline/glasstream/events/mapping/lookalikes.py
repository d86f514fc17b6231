"""Texts that stand for numbers or times, but are not plain numbers. Unless the user states more, they stay texts."""

import re
import unicodedata
from math import isfinite

from glasstream.events.mapping.cells import Reading, reading

_PLAIN_CHARACTERS = {
    "\N{MINUS SIGN}": "-",
    "\N{ARABIC DECIMAL SEPARATOR}": ".",
    "\N{ARABIC THOUSANDS SEPARATOR}": ",",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
}
"""Characters that stand for others in numbers, other than digits, spaces, dashes, and wide forms."""
_NUMBER = (
    r"0[xX][1-9a-fA-F][0-9a-fA-F]*"  # hexadecimal
    r"|[0-9]+\.?[0-9]*[dD][+-]?[0-9]+"  # Fortran's exponent
    r"|[0-9]{1,3}(?P<mark>[., '_])[0-9]{3}(?:(?P=mark)[0-9]{3})*(?:[.,][0-9]+)?"  # separators of thousands
    r"|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?:\.[0-9]+)?"  # lakhs
    r"|(?:[0-9]+(?:[.,][0-9]*)?|[.,][0-9]+)(?:[eE][+-]?[0-9]+)?"
)
_SEPARATORS = r"[., '_]"
_WHOLE = {
    mark: re.compile(
        rf"[0-9]*(?:[eE][+-]?[0-9]+)?|[0-9]{{1,3}}(?:(?P<mark>[{other} '_])[0-9]{{3}})(?:(?P=mark)[0-9]{{3}})*"
        rf"|[0-9]{{1,2}}(?:{other}[0-9]{{2}})+{other}[0-9]{{3}}"
    )
    for mark, other in ((",", "."), (".", ","))
}
"""What can be before the decimal mark, by the mark."""
_MAGNITUDE = re.compile(r"(?:k|K|M|MM|m|B|b|T|G|mn|mln|mio|bn|mrd|tn|tsd|cr|lakh)\.?(?![^\W_])", re.IGNORECASE)
"""Letters after a number that can multiply it. Some can also be units, such as of metres, so such texts are refused."""
_BEHIND = re.compile(r"[0-9]*(?:[eE][+-]?[0-9]+)?")
_SIGN = r"[^\w\s#&@/:;,.\\|]"
_CURRENCY = r"[A-Z]{3} |Rs\.? ?|[A-Z]{1,3}(?=\$)"
_UNIT = r"(?:[^\W\d_]|[°/%]){1,5}[23]?"
_NUMBER_LIKE = re.compile(
    rf"(?P<before>[+-]?(?:{_CURRENCY})?{_SIGN}{{0,3}}(?: [+-])?) ?(?P<number>{_NUMBER}) ?"
    rf"(?P<after>(?:{_UNIT})? ?{_SIGN}{{0,3}})"
    r"(?: ?\[\w+\]| ?\(\w+\)| ?(?:±|\+/-) ?[0-9.,]+)?"  # a footnote, or a margin of error
)
_LONGEST = 400
"""Longest text that can be a number: the largest float has 309 digits."""
_CLOCK = r"[0-9]{1,3}:[0-9]{2}(?:(?::[0-9]{2})?(?:[.,][0-9]+)?)(?: ?[AaPp][Mm])?"
_DAY = r"(?:[0-9]{1,4}([-./])[0-9]{1,2}\1[0-9]{1,4}|[0-9]{1,2}[- ]?[^\W\d_]{3,9}\.?[- ]?[0-9]{2,4})\.?"
_DURATION = (
    r"[+-]?P(?=[0-9T])(?:[0-9]+(?:[.,][0-9]+)?[YMWD])*(?:T(?:[0-9]+(?:[.,][0-9]+)?[HMS])+)?"
    rf"|[+-]?[0-9]+ days?,? [+-]?{_CLOCK}"
    r"|(?:[0-9]+(?:\.[0-9]+)? ?(?:days?|d|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|ms)[ ,]*){2,}"
)
_TIME = re.compile(rf"[+-]?{_CLOCK}|{_DAY}(?:[T ]+{_CLOCK})?(?: ?(?:Z|[+-][0-9]{{2}}:?[0-9]{{2}}))?|{_DURATION}")


def marks(cell: str) -> str | None:
    """Return what is around the digits of a text that stands for a number; None if the text is nothing like that.

    Signs, footnotes, separators, and digits of another script leave nothing.

    >>> [marks(cell) for cell in ("34 m2", "34kg", "USD 34", "~34", '="34"', "34*", "34%", "US$34")]
    ['m2', 'kg', 'USD', '~', '=""', '*', '%', 'US$']
    >>> {marks(cell) for cell in ("45,3", "1.234.567,8", "1 200", "23,69,715.5", "1'200", "2.3D+06", "0x1f", "52-")}
    {''}
    >>> {marks(cell) for cell in ("\N{MINUS SIGN}5", "１２", "٣٨", "(52)", "34[1]", "34 ± 2")}
    {''}
    >>> codes = ("NA", "007", '="007"', "0x00000A", "A12", "SKU236", "2026-01-02", "10.0.0.1", "30-39", "A$", "5")
    >>> {marks(cell) for cell in codes}
    {None}
    """
    if reading(cell) is not Reading.TEXT:
        return None
    found = _number_like(cell)
    if found is None:
        return None
    around = re.sub(r"[-+\s()]", "", found["before"] + found["after"])
    if reading(found["number"]) is Reading.CODE and not has_letters(around):
        return None
    return around


def number(cell: str, decimal: str) -> float | None:
    """Return the number that a text stands for; None if there is none, or if it is a bound or in thousands or millions.

    Parameters
    ----------
    decimal
        Its decimal mark: a comma or a point. The other one can separate thousands.

    >>> [number(cell, ",") for cell in ("1.234,5 €", "45,3", "-1.234", "45.3", "1 200", "(52)", "7 %", ",5", "1,5e-3")]
    [1234.5, 45.3, -1234.0, None, 1200.0, -52.0, 7.0, 0.5, 0.0015]
    >>> [number(cell, ".") for cell in ("$12,345", "45,3", "23,69,715.5", "52-", "34 m2", "<5", "A-5", "0x1f", "5½")]
    [12345.0, None, 2369715.5, -52.0, 34.0, None, None, None, None]
    >>> [number(cell, ".") for cell in ("($5.00)", "$(5)", "(52", "CHF 5.-", "$1.2M", "900k", "3 bn", "1e999 €")]
    [-5.0, -5.0, None, 5.0, None, None, None, None]
    """
    found = _number_like(cell)
    if found is None or is_bound(found["before"] + found["after"]):
        return None
    before, after = found["before"].strip(), found["after"].strip()
    whole, mark, behind = found["number"].partition(decimal)
    in_brackets = "(" in before and ")" in after
    if in_brackets != ("(" in before or ")" in after) or _MAGNITUDE.match(after):
        return None
    if after[:1].isnumeric() or not _WHOLE[decimal].fullmatch(whole) or (mark and not _BEHIND.fullmatch(behind)):
        return None
    size = float((re.sub(_SEPARATORS, "", whole) or "0") + (f".{behind}" if behind else ""))
    if not isfinite(size):
        return None
    price = mark and not behind  # as in `5.-`, whose dash stands for no cents
    return -size if in_brackets or "-" in before or (after.startswith("-") and not price) else size


def has_letters(text: str) -> bool:
    """Return whether a mark is a unit or a currency in letters, so that it can also be part of a code.

    >>> [has_letters(mark) for mark in ("kg", "US$", "$", "%", "")]
    [True, True, False, False, False]
    """
    return any(map(str.isalpha, text))


def is_bound(mark: str) -> bool:
    """Return whether a mark makes a number a bound, such as `>50`, which is often the name of a class."""
    return not set("<>≤≥").isdisjoint(mark)


def is_time(cell: str) -> bool:
    """Return whether a text looks like a date, a time of day, both, or a duration.

    >>> times = ("2026-01-02T06:00:00+01:00", "02.01.2026", "1/2/2026 6:05 AM", "02JAN2026", "2 févr. 2026", "06:46")
    >>> durations = ("PT3H20M", "P1D", "1 day, 03:00:00", "2 days 03:00:00.5", "1:05.3", "-00:30", "1h 20min", "1m1s")
    >>> others = ("1.5", "20260102", "10.0.0.1", "A-1", "3 rooms", "P", "PT", "5 min")
    >>> [cell for cell in (*times, *durations, *others) if is_time(cell)] == [*times, *durations]
    True
    """
    return _TIME.fullmatch(cell.strip()) is not None


def _number_like(cell: str) -> re.Match[str] | None:
    return _NUMBER_LIKE.fullmatch(_plain(cell)) if len(cell) <= _LONGEST else None


def _plain(cell: str) -> str:
    """Return a text with the digits, signs and spaces of ASCII in place of those of other scripts."""
    cell = cell.strip()
    return cell if cell.isascii() else "".join(map(_plain_character, cell)).strip()


def _plain_character(one: str) -> str:
    if one in _PLAIN_CHARACTERS:
        return _PLAIN_CHARACTERS[one]
    category = unicodedata.category(one)
    if category == "Nd":
        return str(unicodedata.decimal(one))
    if category in _REPLACED:
        return _REPLACED[category]
    return one if category == "No" else unicodedata.normalize("NFKC", one)


_REPLACED = {"Zs": " ", "Pd": "-", "Cf": ""}
"""Spaces, dashes, and invisible marks such as those of the direction of writing."""
