"""References to fields of a message: names, JSON Pointers (RFC 6901), and words for metadata of the message."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from glasstream_topics.events import META_COLUMNS, META_NAME


class Kind(StrEnum):
    """Type of a field.

    Attributes
    ----------
    NUMBER, TEXT, BOOLEAN
        Types of values.
    COMMA, POINT
        Types that only a user states: texts of numbers with a decimal comma, such as ``1.234,5``, or with a decimal
        point. Separators of thousands, and signs or units around the number, are allowed. The values are numbers.
    """

    NUMBER = "number"
    TEXT = "text"
    BOOLEAN = "boolean"
    COMMA = "comma"
    POINT = "point"

    @property
    def of_values(self) -> "Kind":
        """Type of the values."""
        return Kind.NUMBER if self in (Kind.COMMA, Kind.POINT) else self


Path = tuple[str, ...]
"""Names of the objects around a field, then its own."""

ABSENT: Final = object()
"""Value of a field that a document does not have."""

_BAD_ESCAPE = re.compile(r"~(?![01])")


@dataclass(frozen=True, slots=True)
class Reference:
    """Source of a value: a field, a word such as ``@key``, or a constant. Exactly one of the three is set."""

    path: Path | None = None
    word: str | None = None
    constant: str | None = None


@dataclass(frozen=True, slots=True)
class Features:
    """Fields that become features.

    Attributes
    ----------
    every
        Whether all fields that nothing else uses become features.
    left_out
        Fields that do not, with everything below them.
    named
        Paths of the fields that are named, by the name of the feature.
    """

    every: bool
    left_out: frozenset[Path]
    named: Mapping[str, Path]


def parse_path(text: str) -> Path:
    """Return the path of a field: of its name, or of a JSON Pointer.

    >>> parse_path("age"), parse_path("/customer/a~1b")
    (('age',), ('customer', 'a/b'))

    Raises
    ------
    ValueError
        The text is neither.
    """
    if not text.startswith("/"):
        if not text or text[0] in "@=":
            raise ValueError(f"expected the name of a field or a JSON Pointer, got {text!r}")
        return (text,)
    if _BAD_ESCAPE.search(text):
        raise ValueError(f"expected a JSON Pointer with the escapes ~0 (~) and ~1 (/), got {text!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def path_text(path: Path) -> str:
    """Return the text of a path, from which `parse_path` makes it again.

    >>> path_text(("age",)), path_text(("customer", "a/b")), path_text(("@key",))
    ('age', '/customer/a~1b', '/@key')
    """
    if len(path) == 1 and path[0] and path[0][0] not in "/@=":
        return path[0]
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def parse_reference(text: str, words: Sequence[str]) -> Reference:
    """Return a reference. `words` are the allowed words in addition to fields; ``=`` among them allows constants.

    Raises
    ------
    ValueError
        The text is nothing that is allowed here.
    """
    if text in words and text != "=":
        return Reference(word=text)
    if text.startswith("=") and "=" in words:
        if text == "=":
            raise ValueError("expected a name after =, got nothing")
        return Reference(constant=text[1:])
    if not text or text[0] in "@=":
        allowed = ", ".join("=NAME" if word == "=" else word for word in words)
        raise ValueError(f"expected a field{' or ' + allowed if allowed else ''}, got {text!r}")
    return Reference(path=parse_path(text))


def parse_features(text: str) -> Features:
    """Return the fields that become features.

    >>> chosen = parse_features("*,-ssn,zip=/address/zip")
    >>> chosen.every, chosen.left_out, chosen.named
    (True, frozenset({('ssn',)}), {'zip': ('address', 'zip')})

    Raises
    ------
    ValueError
        An item is not valid, or two features have the same name.
    """
    every = False
    left_out: set[Path] = set()
    named: dict[str, Path] = {}
    for item in (part.strip() for part in text.split(",")):
        if item == "*":
            every = True
            continue
        if item.startswith("-"):
            left_out.add(parse_path(item[1:]))
            continue
        name, equals, source = item.partition("=")
        path = parse_path(source if equals else item)
        name = name if equals else ".".join(path)
        if not name or name in named:
            raise ValueError(f"expected a unique name for each feature, got {name!r} in {text!r}")
        named[name] = path
    if not every and not named:
        raise ValueError(f"expected * or fields, got {text!r}")
    return Features(every, frozenset(left_out), named)


def parse_meta(text: str | None) -> Mapping[str, Path]:
    """Return the paths of the fields that become `meta`, by the names of its columns.

    >>> parse_meta("sex,zip=/address/zip"), parse_meta(None)
    ({'sex': ('sex',), 'zip': ('address', 'zip')}, {})

    Raises
    ------
    ValueError
        An item is not valid, two columns have the same name, or there are too many.
    """
    if text is None:
        return {}
    chosen = parse_features(text)
    if chosen.every or chosen.left_out:
        raise ValueError(f"expected fields without * and -, got {text!r}")
    if len(chosen.named) > META_COLUMNS or max(map(len, chosen.named)) > META_NAME:
        raise ValueError(
            f"expected at most {META_COLUMNS} fields with names of at most {META_NAME} characters, got "
            f"{len(chosen.named)}, {max(chosen.named, key=len)!r:.80}"
        )
    return chosen.named


@dataclass(frozen=True, slots=True)
class Condition:
    """A field has one of these values, or has none of them if `negated`. Values are compared as texts."""

    path: Path
    values: frozenset[str]
    negated: bool

    @property
    def is_constant(self) -> bool:
        """Whether the field has the same value in all documents that satisfy the condition."""
        return not self.negated and len(self.values) == 1

    def holds(self, document: Any) -> bool:
        """Return whether a document satisfies the condition. A field that is null or missing has the value ``""``."""
        found = value_at(document, self.path)
        if found is ABSENT or found is None:
            found = ""
        elif isinstance(found, bool):
            found = str(found).lower()
        elif isinstance(found, float) and found.is_integer():
            found = int(found)
        return (not isinstance(found, (dict, list)) and str(found) in self.values) is not self.negated


def parse_conditions(text: str | None) -> tuple[Condition, ...]:
    """Return the conditions of a selection.

    >>> [one.holds({"type": "order", "v": 2.0}) for one in parse_conditions("type = order | refund, /v=2, x=")]
    [True, True, True]

    Raises
    ------
    ValueError
        An item is neither ``field=value|value`` nor ``field!=value``.
    """
    conditions = []
    for item in (part.strip() for part in text.split(",")) if text else ():
        field, equals, values = item.partition("=")
        if not equals:
            raise ValueError(f"expected field=value or field!=value, got {item!r}")
        conditions.append(
            Condition(
                parse_path(field.removesuffix("!").strip()),
                frozenset(value.strip() for value in values.split("|")),
                field.endswith("!"),
            )
        )
    return tuple(conditions)


def parse_kinds(text: str | None) -> dict[str, Kind]:
    """Return the types of fields, by the text of their paths.

    Raises
    ------
    ValueError
        An item is not ``field=TYPE``.
    """
    kinds: dict[str, Kind] = {}
    for item in (part.strip() for part in text.split(",")) if text else ():
        field, _, kind = item.rpartition("=")
        if not field or kind not in tuple(Kind):
            raise ValueError(f"expected field=TYPE with one of the types {', '.join(Kind)}, got {item!r}")
        kinds[path_text(parse_path(field))] = Kind(kind)
    return kinds


def value_at(document: Any, path: Path) -> Any:
    """Return the value of a field, or ABSENT. In an array, the name of a field is an index."""
    found = document
    for name in path:
        if isinstance(found, dict):
            if name not in found:
                return ABSENT
            found = found[name]
        elif isinstance(found, list):
            if not name.isdecimal() or int(name) >= len(found):
                return ABSENT
            found = found[int(name)]
        else:
            return ABSENT
    return found
