"""Mapping of a document to an event or a label."""

import re
from collections.abc import Iterator
from collections.abc import Mapping as Mapped
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import numpy as np

from glasstream.events.decode import ID_BYTES
from glasstream.events.mapping.fields import (
    ABSENT,
    Condition,
    Features,
    Path,
    Reference,
    parse_conditions,
    parse_kinds,
    parse_meta,
    parse_reference,
    path_text,
    value_at,
)
from glasstream.events.mapping.kinds import Kinds
from glasstream.events.mapping.misfit import Misfit, shown
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.message import Message
from glasstream_topics.events import LARGEST, META_TEXT
from glasstream_topics.events_dead import Reason

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """References to the parts of an event, or of a label if `features` is None.

    Attributes
    ----------
    features
        Fields that become features.
    target, id, ts, stream
        Sources of the other parts; None where an event has no such part.
    ts_unit
        Unit of times that are numbers.
    stream_bytes
        Longest name of a stream.
    where
        Conditions of the documents that are events, or labels.
    meta
        Fields that become `meta`, by the names of its columns.
    """

    features: Features | None
    target: Reference | None
    id: Reference | None
    ts: Reference | None
    stream: Reference
    ts_unit: str = "ms"
    stream_bytes: int = 249
    where: tuple[Condition, ...] = ()
    meta: Mapped[str, Path] = field(default_factory=dict)


def event_rules(settings: IntakeSettings, stream_bytes: int) -> Rules:
    """Return the rules for events."""
    return Rules(
        settings.chosen,
        None if settings.target is None else parse_reference(settings.target, ()),
        parse_reference(settings.id, ("@key", "@place")),
        parse_reference(settings.ts, ("@timestamp",)),
        parse_reference(settings.stream, ("@key", "@topic", "=")),
        settings.ts_unit,
        stream_bytes,
        parse_conditions(settings.where),
        parse_meta(settings.meta),
    )


def label_rules(settings: IntakeSettings, stream_bytes: int) -> Rules:
    """Return the rules for labels."""
    stream = settings.labels_stream or settings.stream
    if settings.labels_stream is None and stream == "@topic":
        stream = f"={settings.sources[0]}"
    return Rules(
        None,
        parse_reference(settings.labels_target or "", ()),
        parse_reference(settings.labels_id or "", ("@key",)),
        Reference(word="@timestamp"),
        parse_reference(stream, ("@key", "@topic", "=")),
        settings.ts_unit,
        stream_bytes,
        parse_conditions(settings.labels_where),
    )


def make_kinds(settings: IntakeSettings, *, labels: bool) -> Kinds:
    """Return the types of the fields of events or of labels, as far as the settings state them."""
    used = settings.labels_format if labels and settings.labels_format is not None else settings.format
    return Kinds(parse_kinds(settings.types), {}, textual=used == "csv")


class Mapping:
    """Mapping from documents to events, or to labels.

    Parameters
    ----------
    rules
        Sources of the parts of an event.
    kinds
        Types of the fields.

    Examples
    --------
    >>> settings = IntakeSettings(topics="loans", target="approved")
    >>> kinds = make_kinds(settings, labels=False)
    >>> mapping = Mapping(event_rules(settings, 249), kinds)
    >>> document = {"age": 41, "income": 52000, "approved": "yes"}
    >>> kinds.fix(kinds.inferred(mapping.values(document), 10))
    >>> mapping.map(document, Message("loans", 0, 7, None, None, 1700))
    ('loans', {'x': {'age': 41, 'income': 52000}, 'y': 'yes', 'id': 'loans[0]@7', 'ts': 1700})
    """

    def __init__(self, rules: Rules, kinds: Kinds) -> None:
        self.rules = rules
        self.kinds = kinds
        used = {
            one.path
            for one in (rules.target, rules.id, rules.ts, rules.stream)
            if one is not None and one.path is not None
        }
        used |= {one.path for one in rules.where if one.is_constant} | set(rules.meta.values())
        features = rules.features
        self._every = features is not None and features.every
        self._named = {} if features is None else dict(features.named)
        self._hidden = used | set(self._named.values()) | (set() if features is None else features.left_out)
        #: Names at the top that are hidden as a whole, and those below which something is hidden.
        self._skip = frozenset(path[0] for path in self._hidden if len(path) == 1)
        self._target_text = path_text(rules.target.path) if rules.target is not None and rules.target.path else ""
        self.by_place = rules.id is not None and rules.id.word == "@place"
        """Whether the ids of events are their positions."""

    def selects(self, document: Document) -> bool:
        """Return whether a document satisfies the conditions."""
        return all(one.holds(document) for one in self.rules.where)

    def map(self, document: Document, message: Message) -> tuple[str, dict[str, Any]]:
        """Return the stream and the event, or the label.

        Raises
        ------
        Misfit
            The document is neither.
        KeyError
            The type of a field is not known yet.
        """
        rules = self.rules
        stream = self._stream(document, message)
        event: dict[str, Any] = {}
        if rules.features is not None:
            event["x"] = self._features(document)
        if rules.meta and (meta := self._meta(document)):
            event["meta"] = meta
        target = None if rules.target is None else self._target(document, rules.target)
        if target is not None:
            event["y"] = target
        if rules.id is not None:
            event["id"] = self._id(document, rules.id, message)
        if rules.ts is not None:
            ts = self._ts(document, rules.ts, message)
            if ts is not None:
                event["ts"] = ts
        if rules.features is None and target is None:
            raise Misfit(Reason.BAD_TARGET, f"{self._name(rules.target)}: expected the label, got no value")
        return stream, event

    def values(self, document: Document) -> Iterator[tuple[str, Any]]:
        """Yield the fields that need a type, with their values."""
        if self._every:
            for path, value in self._leaves(document, ()):
                yield path_text(path), value
        for path in self._named.values():
            if (value := value_at(document, path)) is not ABSENT:
                yield path_text(path), value
        target = self.rules.target
        if target is not None and target.path is not None:
            value = value_at(document, target.path)
            if value is not ABSENT:
                yield path_text(target.path), value

    def _name(self, reference: Reference | None) -> str:
        return "" if reference is None else path_text(reference.path or ()) or reference.word or ""

    def _features(self, document: Document) -> dict[str, Any]:
        x: dict[str, Any] = {}
        if self._every:
            fit, skip = self.kinds.fit, self._skip
            for name, value in document.items():
                if name in skip or value is None:
                    continue
                kind = type(value)
                # The fast path, which is `Kinds.value` without the calls.
                if name in fit and kind in fit[name] and (kind is str or -LARGEST <= value <= LARGEST):
                    x[name] = value
                    continue
                if kind is dict:
                    self._nested(document, value, (name,), x)
                    continue
                found = self.kinds.value(path_text((name,)), value)
                if found is not None:
                    x[name] = found
        for name, path in self._named.items():
            value = value_at(document, path)
            if value is ABSENT or value is None:
                continue
            found = self.kinds.value(path_text(path), value)
            if found is not None:
                if name in x:
                    raise _twice(name)
                x[name] = found
        if not x:
            raise Misfit(
                Reason.EMPTY_X, "expected at least one field that becomes a feature (intake.features), got none"
            )
        return x

    def _meta(self, document: Document) -> dict[str, Any]:
        meta: dict[str, Any] = {}
        for name, path in self.rules.meta.items():
            value = value_at(document, path)
            if value is ABSENT or value is None or (self.kinds.textual and not value.strip()):
                continue
            if isinstance(value, str):
                fits = len(value) <= META_TEXT
            else:
                fits = isinstance(value, int | float) and -LARGEST <= value <= LARGEST
            if not fits:
                raise Misfit(
                    Reason.BAD_META,
                    f"{path_text(path)}: expected a boolean, a number within ±{LARGEST:g}, or a text of at most "
                    f"{META_TEXT:,} characters for `meta`, got {shown(value)}",
                )
            meta[name] = value
        return meta

    def _nested(self, document: Document, inner: Document, path: Path, x: dict[str, Any]) -> None:
        for below, value in self._leaves(inner, path):
            found = self.kinds.value(path_text(below), value)
            if found is not None:
                name = ".".join(below)
                if name in x or name in document:
                    raise _twice(name)
                x[name] = found

    def _leaves(self, document: Document, path: Path) -> Iterator[tuple[Path, Any]]:
        for name, value in document.items():
            below = (*path, name)
            if below in self._hidden:
                continue
            if isinstance(value, dict):
                yield from self._leaves(value, below)
            else:
                yield below, value

    def _target(self, document: Document, reference: Reference) -> Any:
        path = reference.path or ()
        value = document.get(path[0]) if len(path) == 1 else value_at(document, path)
        if value is ABSENT or value is None:
            return None
        return self.kinds.label(self._target_text, value)

    def _id(self, document: Document, reference: Reference, message: Message) -> str | int:
        if reference.word == "@place":
            return f"{message.topic}[{message.partition}]@{message.offset}"
        if reference.word == "@key":
            found: Any = _key(message, Reason.BAD_ID)
        else:
            found = value_at(document, reference.path or ())
            if isinstance(found, float) and found.is_integer() and abs(found) < 2**53:
                found = int(found)
            if isinstance(found, bool) or not isinstance(found, (str, int)):
                got = "nothing" if found is ABSENT else shown(found)
                raise Misfit(Reason.BAD_ID, f"{self._name(reference)}: expected a text or an integer as id, got {got}")
        if len(str(found).encode()) > ID_BYTES:
            raise Misfit(
                Reason.BAD_ID,
                f"{self._name(reference)}: expected an id of at most {ID_BYTES} bytes, got {shown(found)}",
            )
        return found  # type: ignore[no-any-return]

    def _ts(self, document: Document, reference: Reference, message: Message) -> int | None:
        if reference.word is not None:
            return message.timestamp
        value = value_at(document, reference.path or ())
        if value is ABSENT or value is None or value == "":
            return None
        if isinstance(value, str):
            at = milliseconds(value.strip())
            if at is not None:
                return at
            value = _float(value)
        unit = self.rules.ts_unit
        if (
            isinstance(value, (int, float))
            and not isinstance(value, bool)
            and isfinite(value)
            and abs(value) < 1e15 * _OF_MILLISECOND.get(unit, 1)
        ):
            return round(value * 1000) if unit == "s" else int(value) // _OF_MILLISECOND[unit]
        raise Misfit(
            Reason.BAD_TS,
            f"{self._name(reference)}: expected a time as ISO 8601 or as a number (intake.ts_unit), got "
            f"{shown(value_at(document, reference.path or ()))}",
        )

    def _stream(self, document: Document, message: Message) -> str:
        reference = self.rules.stream
        if reference.constant is not None:
            return reference.constant
        if reference.word == "@topic":
            return message.topic
        if reference.word == "@key":
            name = _key(message, Reason.MISSING_STREAM)
        else:
            value = value_at(document, reference.path or ())
            if value is ABSENT or value is None or value == "":
                raise Misfit(Reason.MISSING_STREAM, f"{self._name(reference)}: expected the name of a stream, got none")
            if isinstance(value, bool) or not isinstance(value, (str, int)):
                raise Misfit(
                    Reason.BAD_STREAM,
                    f"{self._name(reference)}: expected a text or an integer as name of the stream, got {shown(value)}",
                )
            name = str(value)
        if len(name.encode("utf-8", "surrogatepass")) > self.rules.stream_bytes:
            raise Misfit(
                Reason.BAD_STREAM,
                f"expected the name of a stream with at most {self.rules.stream_bytes} bytes, got {shown(name)}",
            )
        return name


def _key(message: Message, reason: Reason) -> str:
    if not message.key:
        remedy = "; set intake.stream to a field, or to =NAME" if reason is Reason.MISSING_STREAM else ""
        raise Misfit(reason, f"expected a message with a key, got one without{remedy}")
    try:
        return message.key.decode()
    except UnicodeDecodeError:
        raise Misfit(
            Reason.BAD_STREAM if reason is Reason.MISSING_STREAM else reason,
            f"expected a key in UTF-8, got {shown(message.key)}",
        ) from None


def _twice(name: str) -> Misfit:
    return Misfit(
        Reason.NESTED_VALUE,
        f"expected one field for each feature, got two for {name!r}; rename one of them, or leave it out "
        "(intake.features)",
    )


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


_OF_MILLISECOND: Final = {"ms": 1, "us": 1_000, "ns": 1_000_000}
"""Number of units in a millisecond."""
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)(Z|[+-]\d\d(?::?\d\d)?)?)?")


UNITS: Final = {"s": 1e9, "ms": 1e12, "us": 1e15, "ns": 1e18}
"""Smallest times since 1970, those of 2001, by their units; the largest are five times as large."""


def moment(text: str) -> int | None:
    """Return a time in ISO 8601, or a number in one of the `UNITS`, as milliseconds since 1970; None if it is neither.

    >>> moment("2001-09-10"), moment("1000080000"), moment("1000080000000"), moment("12")
    (1000080000000, 1000080000000, 1000080000000, None)
    """
    at = milliseconds(text)
    number = _float(text) if at is None else None
    if isinstance(number, float):
        for first in UNITS.values():
            if first <= number < 5 * first:
                return round(number / first * 1e12)
    return at


def milliseconds(text: str) -> int | None:
    """Return a time in ISO 8601 as milliseconds since 1970; without a zone it is in UTC. None if it is no such time.

    >>> milliseconds("1970-01-02"), milliseconds("1970-01-01T01:00:00.5+01:00"), milliseconds("1970-13-01")
    (86400000, 500, None)
    """
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    day, clock, zone = found.groups()
    try:
        at = int(np.datetime64(f"{day}T{(clock or '00:00').replace(',', '.')}", "ms").astype(np.int64))
    except ValueError:
        return None
    if zone is None or zone == "Z":
        return at
    minutes = int(zone[1:3]) * 60 + int(zone[3:].lstrip(":") or 0)
    return at - (minutes if zone[0] == "+" else -minutes) * 60_000
