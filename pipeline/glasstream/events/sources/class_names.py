"""Spellings of classes that probably mean the same, or no class at all."""

import unicodedata
from collections.abc import Iterator, Mapping, Sequence

_MISSING = frozenset(
    {
        "\\n",
        "#n/a",
        "#na",
        "<na>",
        "n.a.",
        "n.a",
        "nil",
        "none",
        "missing",
        "unknown",
        "undefined",
        "nat",
        "not available",
    }
)
"""Words for a missing value, in lower case, that are classes all the same, because they can be names of classes."""
_PUNCTUATION = " .,;:!'\""
"""Characters at the ends of a name that hardly make another class."""
_SHOWN = 8


def spellings(target: str, where: str, classes: Mapping[str, int]) -> Iterator[tuple[set[str], str]]:
    """Yield notices about the classes of a target, each with the classes that it concerns.

    Parameters
    ----------
    where
        Words for the rows that were counted.
    classes
        Number of rows of each class.

    Examples
    --------
    >>> for _, text in spellings("paid", "all rows", {"yes": 7, "Yes": 2, "no": 5, "?": 1}):
    ...     print(text)
    column 'paid' has in all rows classes that differ only in case, spaces, punctuation or Unicode form: 'yes' (7), ...
    column 'paid' has in all rows the classes '?' (1): if they stand for a missing label, leave the cells empty
    """
    same: dict[str, list[str]] = {}
    for name in classes:
        plain = _plain(name)
        same.setdefault(plain.strip(_PUNCTUATION) or plain, []).append(name)
    groups = [names for names in same.values() if len(names) > 1]
    if alike := [name for names in groups for name in names]:
        yield (
            set(alike),
            f"column {target!r} has in {where} classes that differ only in case, spaces, punctuation or Unicode form: "
            f"{_counted(alike, classes)}: each is a class of its own; write each class in one way",
        )
    words = any(any(map(str.isalnum, plain)) for plain in same if plain not in _MISSING)
    missing = [
        name
        for plain, names in same.items()
        if plain in _MISSING or (words and not any(map(str.isalnum, plain)))
        for name in names
    ]
    if missing:
        yield (
            set(missing),
            f"column {target!r} has in {where} the classes {_counted(missing, classes)}: if they stand for a missing "
            "label, leave the cells empty",
        )


def _plain(name: str) -> str:
    """Return a name without what readers hardly see: case, spaces, invisible characters, and the form of accents."""
    letters = "".join(letter for letter in name if unicodedata.category(letter) != "Cf")
    return unicodedata.normalize("NFKC", " ".join(letters.split()).casefold())


def _counted(names: Sequence[str], classes: Mapping[str, int]) -> str:
    """Return the names with their numbers of rows, and with escapes where an accent is a character of its own."""
    forms = [(ascii if unicodedata.normalize("NFC", name) != name else repr)(name) for name in names[:_SHOWN]]
    shown = ", ".join(f"{form:.60} ({classes[name]:,})" for form, name in zip(forms, names, strict=False))
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN:,} more"
