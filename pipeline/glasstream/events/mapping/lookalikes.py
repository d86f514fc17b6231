"""Texts that stand for numbers or times, but are not plain numbers. They stay texts; the user is notified of them."""

import re
import unicodedata

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
    r"|[0-9]+(?:[.,][0-9]*)?(?:[eE][+-]?[0-9]+)?"
)
_SIGN = r"[^\w\s#&@/:;,.\\|]"
_CURRENCY = r"[A-Z]{3} |Rs\.? ?|[A-Z]{1,3}(?=\$)"
_UNIT = r"(?:[^\W\d_]|[°/%]){1,5}[23]?"
_NUMBER_LIKE = re.compile(
    rf"(?P<before>[+-]?(?:{_CURRENCY})?{_SIGN}{{0,3}}) ?(?P<number>{_NUMBER}) ?(?P<after>(?:{_UNIT})? ?{_SIGN}{{0,3}})"
    r"(?: ?\[\w+\]| ?\(\w+\)| ?(?:±|\+/-) ?[0-9.,]+)?"  # a footnote, or a margin of error
)
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
    found = _NUMBER_LIKE.fullmatch(_plain(cell))
    if found is None:
        return None
    around = re.sub(r"[-+\s()]", "", found["before"] + found["after"])
    if reading(found["number"]) is Reading.CODE and not has_letters(around):
        return None
    return around


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
