"""Texts of users for a terminal: no control character in them has an effect there."""

import re

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_WITH_EFFECT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Control characters but for tab and newline, other separators of lines, and marks that change the direction."""


def printable(text: str) -> str:
    """Return a text with a replacement character for each character that a terminal would obey.

    >>> printable("age\\x1b[2J")
    'age�[2J'
    """
    return _WITH_EFFECT.sub(REPLACEMENT, text)
