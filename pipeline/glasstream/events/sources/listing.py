"""Names of columns in an error."""

from collections.abc import Sequence
from typing import Final

_LENGTH: Final = 200
"""Number of characters up to which all names are shown."""
_ENDS: Final = 3
"""Number of names to show at the beginning and at the end of a longer list."""


def listed(names: Sequence[str]) -> str:
    """Return all names if they are short together; else the first and the last ones, and the number of those between.

    The target is often the last column, so the end of a list is never left out.

    >>> listed(["age", "income", "paid"])
    'age, income, paid'
    >>> listed([f"measurement_{number}" for number in range(100)]).replace("measurement_", "m")
    'm0, m1, m2, … (94 more) …, m97, m98, m99'
    """
    text = ", ".join(names)
    if len(text) <= _LENGTH or len(names) <= 2 * _ENDS:
        return text
    first, last = ", ".join(names[:_ENDS]), ", ".join(names[-_ENDS:])
    return f"{first}, … ({len(names) - 2 * _ENDS:,} more) …, {last}"
