"""Spellings of classes that probably mean the same, or no class at all."""

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
    column 'paid' has in all rows classes that differ only in case, spaces or punctuation: 'yes' (7), 'Yes' (2): ...
    column 'paid' has in all rows the classes '?' (1): if they stand for a missing label, leave the cells empty
    """
    same: dict[str, list[str]] = {}
    for name in classes:
        plain = " ".join(name.split()).casefold()
        same.setdefault(plain.strip(_PUNCTUATION) or plain, []).append(name)
    groups = [names for names in same.values() if len(names) > 1]
    if alike := [name for names in groups for name in names]:
        yield (
            set(alike),
            f"column {target!r} has in {where} classes that differ only in case, spaces or punctuation: "
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


def _counted(names: Sequence[str], classes: Mapping[str, int]) -> str:
    shown = ", ".join(f"{name!r:.60} ({classes[name]:,})" for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown} and {len(names) - _SHOWN:,} more"
