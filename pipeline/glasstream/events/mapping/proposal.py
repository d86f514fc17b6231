"""Proposal of settings from a sample of documents: target, id, time, and the fields that say nothing about the target.

A person reads the proposal before it is used. It therefore may go by the names of fields, but only where the values
agree: a target has several values, an id is different in every document, a time can be read as one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from glasstream.events.mapping import cells
from glasstream.events.mapping.fields import Kind, Path, parse_features, parse_kinds, parse_path, path_text
from glasstream.events.mapping.lookalikes import is_bound, is_time, marks
from glasstream.events.mapping.mapper import UNITS, milliseconds
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.mapping.stated import advice, notations

_TARGETS: Final = (
    "target", "label", "y", "class", "outcome", "approved", "churn", "churned", "fraud", "isfraud", "default",
)  # fmt: skip
"""Names of fields that are proposed as target, most likely first, in small letters without other characters."""
_TIMES: Final = re.compile(
    r"(.*(timestamp|datetime|eventtime|timeunix|timeunixnano)|ts|time|date|at|created|createdat|occurredat|eventdate)([mun]?s)?"
)
_IDS: Final = re.compile(r"(.*[a-z0-9_.-])?(id|Id|ID|uuid|UUID|guid|GUID)")
_BASE64: Final = re.compile(r"(?=.*[A-Z])(?=.*[a-z])(?:[A-Za-z0-9+/_-]{4}){10,}(?:[A-Za-z0-9+/_-]{2,3}={0,2})?")
_BYTES: Final = re.compile(r'"(?:[A-Za-z0-9+/]{4}){0,8}(?:[A-Za-z0-9+/]{2}(?:==|[A-Za-z0-9+/]=|[A-Za-z0-9+/]{2}))"')
"""Text in JSON that can be a decimal number of a change event, which Debezium writes as bytes by default."""
_FREE: Final = "a different text in nearly every document"
_ID: Final = ("id", "uuid", "guid")
_DISTINCT: Final = 1_000
"""Largest number of different values to count."""
_LEAST: Final = 20
"""Smallest number of values from which a proposal follows."""
_KINDS: Final = 10
"""Largest number of kinds of documents to tell apart."""
_NEARLY: Final = 0.9
"""Share of different values from which a text is an id, or free text."""
_EXACT: Final = 2**53
"""Integers up to this one are exact as floats."""
_ENVELOPE: Final = ("before", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction")
"""Fields of a change event, as Debezium writes them, other than the row after the change."""


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
    better
        Type that loses less than `kind`: number for texts that are numbers, text for integers that no float holds.
    """

    name: str
    kind: str
    present: int = 0
    values: int = 0
    example: str = ""
    whole: bool = True
    time: str | None = None
    better: Kind | None = None
    coded: bool = False
    """Whether its values are texts of whole numbers, which are numbers or codes."""
    as_numbers: str = ""
    """What to do if its texts are numbers in another notation."""

    @property
    def path(self) -> Path:
        """Path of the field."""
        return parse_path(self.name)

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


def proposal(
    settings: IntakeSettings, fields: Sequence[FieldOfSample], documents: int
) -> tuple[dict[str, str], dict[str, str]]:
    """Return settings for what is not set, by name, and why each field is left out of the features.

    Parameters
    ----------
    documents
        Number of documents of the sample.
    """
    found: dict[str, str] = {}
    left_out = _envelope(fields)
    of_change = [one for one in fields if one.name in left_out]
    fields = [one for one in fields if one.name not in left_out and not _below(one, left_out)]
    target = settings.target
    if target is None and (one := _target(fields)) is not None:
        target = found["target"] = one.name
    rest = [one for one in fields if one.name != target]
    if settings.id == "@place" and (one := _id(rest, documents)) is not None:
        found["id"] = one.name
    if settings.ts == "@timestamp":
        times = [one for one in (*of_change, *rest) if _is_time(one) and one.present == documents]
        if times and documents >= _LEAST:
            found["ts"] = times[0].name
            left_out.pop(times[0].name, None)
            if times[0].time not in ("iso", "ms"):
                found["ts_unit"] = str(times[0].time)
    rest = [one for one in rest if one.name not in (found.get("id"), found.get("ts"))]
    stated = parse_kinds(settings.types)
    types = [one for one in fields if one.better and one in (*rest, *_named(fields, target)) and _can_be_typed(one)]
    if types := [one for one in types if one.name not in stated]:
        found["types"] = ",".join(filter(None, (settings.types, *(f"{one.name}={one.better}" for one in types))))
    if settings.features != "*":
        return found, {}
    names: set[str] = set()
    for one in rest:
        why = _why_left_out(one, {**stated, **{typed.name: typed.better for typed in types}}.get(one.name))
        if why == _FREE and of_change and _BYTES.fullmatch(one.example):
            why += "; if it is a number in bytes, set decimal.handling.mode=double in the connector"
        name = ".".join(one.path)
        if why is None and name in names:
            why = f"another field also becomes the feature {name!r}"
        if why is not None and "," not in one.name:
            left_out[one.name] = why
        names.add(name)
    if left_out:
        found["features"] = ",".join(["*", *(f"-{name}" for name in left_out)])
    return found, left_out


def doubts(
    settings: IntakeSettings, fields: Sequence[FieldOfSample], left_out: Iterable[str], documents: int
) -> Iterator[str]:
    """Yield what a person should look at in a mapping that takes all fields.

    Parameters
    ----------
    settings
        With the proposal.
    """
    if settings.features != "*" and not settings.features.startswith("*,"):
        return
    away = {*left_out, *(path_text(path) for path in parse_features(settings.features).left_out)}
    away |= {name for name in (settings.target, settings.id, settings.ts) if name is not None and name[:1] != "@"}
    stated = parse_kinds(settings.types)
    features = [one for one in fields if one.name not in away and not _below(one, away)]
    for one in features:
        if one.coded and one.name not in stated and one.values > 1:
            yield (
                f"{one.name}: texts of whole numbers, such as {one.example}, are categories; if they are numbers, "
                f"state it: types = {one.name}=number"
            )
        elif _plain(one.name) in _ID and one.values > 1:
            yield (
                f"{one.name}: is a feature, because its values repeat; if it names the event or its object, leave it "
                f"out: features = *,-{one.name}"
            )
        elif one.time is not None and one.kind in tuple(Kind) and one.values > 1:
            unit = "ISO 8601" if one.time == "iso" else one.time
            yield (
                f"{one.name}: is a feature, although its values can be times ({unit}); if they are, leave it out: "
                f"features = *,-{one.name}"
            )
        elif one.name not in stated and (what := _looks_like(one)) is not None:
            yield what
    yield from _names_that_are_values(features, documents)
    if documents >= _LEAST and features and all(one.values == 1 for one in features):
        yield "no feature has two values, so a model can learn nothing: is the content of the messages left out?"
    target = next((one for one in fields if one.name == settings.target), None)
    if target is not None and _are_apart(target, features, documents):
        yield (
            f"{target.name}: is probably in other messages than the features; read labels from their topic "
            "(labels_topics); if both are on this topic, separate them (where, labels_where)"
        )
    elif target is not None and target.present < documents and settings.labels_topics is None:
        yield (
            f"{target.name}: {documents - target.present:,} of {documents:,} messages have no value; such an event is "
            "predicted, but not learned, unless its label follows (labels_topics)"
        )


def mixtures(settings: IntakeSettings, documents: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the doubt about documents of several kinds, whose fields differ by the value of one of them."""
    if settings.where is not None or len(documents) < _LEAST:
        return
    for name in sorted(set.intersection(*map(set, documents))):
        fields: dict[str, set[str]] = {}
        for one in documents:
            if not isinstance(one[name], str) or len(fields) > _KINDS:
                break
            fields.setdefault(one[name], set()).update(one)
        else:
            common = set.intersection(*fields.values())
            apart = [kind for kind, found in fields.items() if found - common]
            others = [fields[kind] - common for kind in apart]
            if len(apart) > 1 and sum(map(len, others)) == len(set.union(*others)):
                yield (
                    f"{name}: messages with {' and '.join(map(repr, apart[:2]))} have other fields: read one kind "
                    f"(where = {name}={apart[0]}); for labels in others, set labels_where"
                )


def _looks_like(one: FieldOfSample) -> str | None:
    """Return the doubt about texts that repeat and stand for numbers or times."""
    if one.kind != Kind.TEXT or one.values == 1 or not one.example.startswith('"'):
        return None
    text = orjson.loads(one.example)
    if is_time(text):
        return (
            f"{one.name}: dates or times, such as {one.example}, are categories; to leave it out: "
            f"features = *,-{one.name}"
        )
    if (mark := marks(text)) is not None and not is_bound(mark):
        return f"{one.name}: texts such as {one.example} are categories; if they are numbers, {one.as_numbers}"
    return None


def _names_that_are_values(features: Sequence[FieldOfSample], documents: int) -> Iterator[str]:
    """Yield the doubts about objects most of whose fields are in few documents each."""
    rare: dict[Path, list[FieldOfSample]] = {}
    for one in features:
        if one.present * _LEAST <= documents:
            rare.setdefault(one.path[:-1], []).append(one)
    for around, fields in rare.items():
        if around and len(fields) >= _LEAST:
            name = path_text(around)
            yield (
                f"{name}: {len(fields):,} of its fields, such as {fields[0].name}, are in few messages each, and each "
                f"is a feature; if their names are values, leave them out: features = *,-{name}"
            )


def _are_apart(target: FieldOfSample, features: Sequence[FieldOfSample], documents: int) -> bool:
    """Return whether messages probably have either the target or the features. Some fields can be in both kinds."""
    others = [one for one in features if _plain(one.name) not in _ID]
    parts = [one for one in others if one.present < documents]
    if not parts or any(one.present + target.present > documents for one in parts):
        return False
    return len(parts) == len(others) or any(one.present + target.present == documents for one in parts)


def _envelope(fields: Sequence[FieldOfSample]) -> dict[str, str]:
    """Return the fields around a row, and why they are no features: those of a change event, or of a schema."""
    names = {one.path[0] for one in fields}
    found = {"schema": "the schema of the message"} if {"schema", "payload"} <= names else {}
    for around in ((), ("payload",)):
        inside = {one.path[len(around)] for one in fields if one.path[:-1][: len(around)] == around}
        if {"op", "after"} <= inside and not inside.isdisjoint({"before", "source", "ts_ms"}):
            why = {name: "part of the envelope of a change event" for name in _ENVELOPE if name in inside}
            why["before"] = "the row before the change, which would give away the target"
            found |= {path_text((*around, name)): text for name, text in why.items()}
    return found


def _below(one: FieldOfSample, objects: Iterable[str]) -> bool:
    """Return whether a field is inside one of these objects."""
    return any(one.path[: len(path)] == path for path in map(parse_path, objects))


def _named(fields: Sequence[FieldOfSample], name: str | None) -> list[FieldOfSample]:
    return [one for one in fields if one.name == name]


def _is_time(one: FieldOfSample) -> bool:
    return one.time is not None and _TIMES.fullmatch(_plain(one.name)) is not None


def _can_be_typed(one: FieldOfSample) -> bool:
    if "," in one.name or one.values == 1 or _TIMES.fullmatch(_plain(one.name)):
        return False
    return one.better is Kind.TEXT or not _IDS.fullmatch(one.path[-1])


def _field(name: str, values: Sequence[Any], kinds: Mapping[str, Kind]) -> FieldOfSample:
    kind = kinds[name].value if name in kinds else "no type: leave it out, or name the fields inside"
    texts = [orjson.dumps(value, default=str).decode() for value in values]
    distinct: set[str] = set()
    for text in texts:
        if len(distinct) < _DISTINCT:
            distinct.add(text)
    numbers = [float(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    whole = len(numbers) == len(values) and all(number.is_integer() for number in numbers)
    found = FieldOfSample(name, kind, len(values), len(distinct), texts[0], whole, _time(values))
    found.better = _better(found, values)
    found.coded = found.better is None and _are_numbers(found, values)
    if kind == Kind.TEXT:
        found.as_numbers = advice(_texts(values), lambda stated: f"types = {name}={stated}")
    return found


def _texts(values: Sequence[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str) and value.strip()]


def _time(values: Sequence[Any]) -> str | None:
    """Return the unit of values that can be times. Texts can have numbers in them."""
    if all(isinstance(value, str) and milliseconds(value.strip()) is not None for value in values):
        return "iso"
    if not all(
        cells.is_plain(value) if isinstance(value, str) else isinstance(value, (int, float)) for value in values
    ):
        return None
    numbers = [float(value) for value in values]
    return next((unit for unit, first in UNITS.items() if all(first <= number < 5 * first for number in numbers)), None)


def _better(one: FieldOfSample, values: Sequence[Any]) -> Kind | None:
    """Return the type that loses less than that of a field. Whole numbers in texts can be codes if they repeat."""
    if _are_numbers(one, values) and (
        _is_unique(one) or any(cells.reading(value) is cells.Reading.POINT for value in values)
    ):
        return Kind.NUMBER
    texts = _texts(values)
    if _is_unique(one) and any(marks(text) is not None for text in texts):
        fit = notations(texts)
        return fit[0] if len(fit) == 1 else None
    if one.kind == Kind.NUMBER and any(isinstance(value, int) and abs(value) > _EXACT for value in values):
        return Kind.TEXT
    return None


def _are_numbers(one: FieldOfSample, values: Sequence[Any]) -> bool:
    """Return whether the values are texts, and all of them numbers."""
    texts = one.kind == Kind.TEXT and all(isinstance(value, str) for value in values)
    return texts and cells.kind({cells.reading(value) for value in values}) is Kind.NUMBER


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


def _why_left_out(one: FieldOfSample, typed: Kind | None) -> str | None:
    """Return why a field says nothing about the target, None if it may.

    Parameters
    ----------
    typed
        Type that is stated or proposed.
    """
    if one.kind not in tuple(Kind):
        if one.example.startswith("[{"):
            return f"an array of objects: if each is to be an event, set records = {one.name}"
        if not one.example.startswith("["):
            return "no value in any message"
        return "an array: a feature can be one of its elements, such as first=" + path_text((*one.path, "0"))
    if _is_time(one) and one.values > 1:
        return "a time"
    if not _is_unique(one) or (typed is not None and typed.of_values is Kind.NUMBER):
        return None
    if _IDS.fullmatch(one.path[-1]) and (one.whole or one.kind == Kind.TEXT):
        return "an id"
    if one.kind != Kind.TEXT:
        return "an id" if typed is Kind.TEXT else None
    text = str(orjson.loads(one.example))  # some values of a field of text can have another type
    if text[:1] in ("{", "["):
        return "JSON in a text: send the object itself, so that its fields can become features"
    if _BASE64.fullmatch(text):
        return "base64: send what it contains, so that its fields can become features"
    if marks(text) is not None:
        return f"numbers with decimal commas, signs or units: to use them, {one.as_numbers}"
    return _FREE


def _is_unique(one: FieldOfSample) -> bool:
    return one.present >= _LEAST and one.different >= _NEARLY


def _plain(name: str) -> str:
    """Return the name of a field in small letters without other characters, and without the objects around it."""
    return re.sub(r"[^a-z0-9]", "", parse_path(name)[-1].lower())
