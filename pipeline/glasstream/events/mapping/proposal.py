"""Proposal of settings from a sample of documents: target, id, time, and the fields that say nothing about the target.

A person reads the proposal before it is used. It therefore may go by the names of fields, but only where the values
agree: a target has several values, an id is different in every document, a time can be read as one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from glasstream.events.mapping.fields import Kind, parse_path
from glasstream.events.mapping.mapper import milliseconds
from glasstream.events.mapping.settings import IntakeSettings

_TARGETS: Final = (
    "target", "label", "y", "class", "outcome", "approved", "churn", "churned", "fraud", "isfraud", "default",
)  # fmt: skip
"""Names of fields that are proposed as target, most likely first, in small letters without other characters."""
_TIMES: Final = re.compile(r"(.*(timestamp|datetime|eventtime)|ts|time|date|at|created|createdat|occurredat|eventdate)")
_IDS: Final = re.compile(r"(.*[a-z0-9_.-])?(id|Id|ID|uuid|UUID|guid|GUID)")
_DISTINCT: Final = 1_000
"""Largest number of different values to count."""
_LEAST: Final = 20
"""Smallest number of values from which a proposal follows."""
_NEARLY: Final = 0.9
"""Share of different values from which a text is an id, or free text."""
_SECONDS, _MILLISECONDS = (1e9, 5e9), (1e12, 5e12)
"""Ranges of times since 1970, from 2001 on."""


@dataclass(slots=True)
class FieldOfSample:
    """Field of the documents of a sample.

    Attributes
    ----------
    name
        Text of its path.
    kind
        Type that its values have.
    present
        Number of documents with a value.
    values
        Number of different values, up to `_DISTINCT`.
    example
        Its first value, as JSON.
    whole
        Whether all its values are whole numbers.
    time
        Unit of its values if all of them can be times; ``iso`` for texts.
    """

    name: str
    kind: str
    present: int = 0
    values: int = 0
    example: str = ""
    whole: bool = True
    time: Literal["iso", "ms", "s"] | None = None

    @property
    def different(self) -> float:
        """Share of different values among those that were counted."""
        return self.values / max(1, min(self.present, _DISTINCT))


def fields_of(values: Sequence[tuple[str, Any]], kinds: Mapping[str, Kind]) -> list[FieldOfSample]:
    """Return the fields of a sample in the order of their first values, which `Mapping.values` yields."""
    of: dict[str, list[Any]] = {}
    for name, value in values:
        if value is not None and value != []:
            of.setdefault(name, []).append(value)
    return [_field(name, found, kinds) for name, found in of.items()]


def proposal(settings: IntakeSettings, fields: Sequence[FieldOfSample], documents: int) -> dict[str, str]:
    """Return settings for what is not set, by name.

    Parameters
    ----------
    documents
        Number of documents of the sample.
    """
    found: dict[str, str] = {}
    target = settings.target
    if target is None and (one := _target(fields)) is not None:
        target = found["target"] = one.name
    rest = [one for one in fields if one.name != target]
    if settings.id == "@place" and (one := _id(rest, documents)) is not None:
        found["id"] = one.name
    if settings.ts == "@timestamp":
        times = [one for one in rest if one.time and _TIMES.fullmatch(_plain(one.name)) and one.present == documents]
        if times and documents >= _LEAST:
            found["ts"] = times[0].name
            if times[0].time == "s":
                found["ts_unit"] = "s"
    if settings.features == "*":
        used = {target, found.get("id"), found.get("ts")}
        envelope = {one.name for one in fields if parse_path(one.name)[0] == "payload"}
        left_out = ["schema"] if envelope and any(parse_path(one.name)[0] == "schema" for one in fields) else []
        for one in rest:
            inside = left_out[:1] == ["schema"] and parse_path(one.name)[0] == "schema"
            if one.name not in used and not inside and "," not in one.name and _says_nothing(one):
                left_out.append(one.name)
        if left_out:
            found["features"] = ",".join(["*", *(f"-{name}" for name in left_out)])
    return found


def _field(name: str, values: Sequence[Any], kinds: Mapping[str, Kind]) -> FieldOfSample:
    kind = kinds[name].value if name in kinds else "no type: leave it out, or name the fields inside"
    texts = [orjson.dumps(value, default=str).decode() for value in values]
    distinct: set[str] = set()
    for text in texts:
        if len(distinct) < _DISTINCT:
            distinct.add(text)
    numbers = [float(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    whole = len(numbers) == len(values) and all(number.is_integer() for number in numbers)
    return FieldOfSample(name, kind, len(values), len(distinct), texts[0], whole, _time(values, numbers))


def _time(values: Sequence[Any], numbers: Sequence[float]) -> Literal["iso", "ms", "s"] | None:
    if all(isinstance(value, str) and milliseconds(value.strip()) is not None for value in values):
        return "iso"
    if len(numbers) == len(values):
        if all(_MILLISECONDS[0] <= number < _MILLISECONDS[1] for number in numbers):
            return "ms"
        if all(_SECONDS[0] <= number < _SECONDS[1] for number in numbers):
            return "s"
    return None


def _target(fields: Sequence[FieldOfSample]) -> FieldOfSample | None:
    """Return the field that is most likely the target: it has such a name, several values, and is no free text."""
    for name in _TARGETS:
        for one in fields:
            typed, few = one.kind in tuple(Kind), one.kind != Kind.TEXT or not _is_unique(one)
            if _plain(one.name) == name and typed and few and (one.values > 1 or one.present < _LEAST):
                return one
    return None


def _id(fields: Sequence[FieldOfSample], documents: int) -> FieldOfSample | None:
    """Return the field that can be the id: it has such a name, and another value in every document."""
    found = [
        one
        for one in fields
        if documents >= _LEAST
        and one.present == documents
        and one.different == 1.0
        and (one.kind == Kind.TEXT or one.whole)
        and _IDS.fullmatch(parse_path(one.name)[-1])
    ]
    return min(found, key=lambda one: (_plain(one.name) != "id", len(parse_path(one.name))), default=None)


def _says_nothing(one: FieldOfSample) -> bool:
    """Return whether a field has no type, or is an id, a free text or a time."""
    if one.kind not in tuple(Kind):
        return True
    if one.kind == Kind.TEXT and _is_unique(one):
        return True
    last = parse_path(one.name)[-1]
    if one.whole and _is_unique(one) and _IDS.fullmatch(last):
        return True
    return one.time is not None and one.values > 1 and _TIMES.fullmatch(_plain(one.name)) is not None


def _is_unique(one: FieldOfSample) -> bool:
    return one.present >= _LEAST and one.different >= _NEARLY


def _plain(name: str) -> str:
    """Return the name of a field in small letters without other characters, and without the objects around it."""
    return re.sub(r"[^a-z0-9]", "", parse_path(name)[-1].lower())
