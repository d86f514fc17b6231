"""Marks that say which published numbers a setting changes. The fingerprints of saved state are derived from them.

Every field of every section is annotated with one of the four marks. `keys` fails for a field without one, and
`glasstream.flow.settings` calls it at import.
"""

from enum import Flag, auto
from typing import Annotated, TypeVar, get_args

import msgspec


class Changes(Flag):
    """Published numbers that a setting changes."""

    NOTHING = 0
    EXPLANATIONS = auto()
    """Numbers of learner, explainer or aggregator."""
    NOVELTY = auto()
    """Scores of the novelty detector."""
    BOTH = EXPLANATIONS | NOVELTY


T = TypeVar("T")
ChangesNothing = Annotated[T, Changes.NOTHING]
ChangesExplanations = Annotated[T, Changes.EXPLANATIONS]
ChangesNovelty = Annotated[T, Changes.NOVELTY]
ChangesBoth = Annotated[T, Changes.BOTH]


def keys(settings: type[msgspec.Struct], what: Changes, prefix: str = "") -> tuple[str, ...]:
    """Return the dotted keys of all settings that change some of these numbers.

    Raises
    ------
    TypeError
        A field has no mark.

    Examples
    --------
    >>> class Smoothing(msgspec.Struct):
    ...     alpha: ChangesExplanations[float] = 0.001
    ...     log: ChangesNothing[bool] = False
    >>> keys(Smoothing, Changes.EXPLANATIONS, "explain.")
    ('explain.alpha',)
    """
    found: list[str] = []
    for field in msgspec.structs.fields(settings):
        key = prefix + field.name
        if isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            found += keys(field.type, what, f"{key}.")
            continue
        marks = [mark for mark in get_args(field.type) if isinstance(mark, Changes)]
        if len(marks) != 1:
            raise TypeError(
                f"{key}: expected one mark for the numbers that the setting changes (ChangesNothing, "
                f"ChangesExplanations, ChangesNovelty or ChangesBoth), got {len(marks)}"
            )
        if marks[0] & what:
            found.append(key)
    return tuple(found)
