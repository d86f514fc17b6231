"""Types of fields: stated, or inferred from the first messages, and then held."""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from glasstream.intake.fields import Kind, parse_path
from glasstream.intake.misfit import Misfit, shown
from glasstream_topics.events import LARGEST
from glasstream_topics.events_dead import Reason

Value = float | str | bool
"""Value of a feature or of a target."""

_NAMES = {Kind.NUMBER: "a number", Kind.TEXT: "a text", Kind.BOOLEAN: "a boolean"}
_BOOLEANS = {"true": True, "false": False}
_FIT: Mapping[Kind, frozenset[type]] = {
    Kind.NUMBER: frozenset({int, float}),
    Kind.TEXT: frozenset({str}),
    Kind.BOOLEAN: frozenset({bool}),
}


class Kinds:
    """Types of the fields of one source.

    Parameters
    ----------
    stated
        Types from the settings, by the text of the field's path. Values are converted to them.
    held
        Types that were inferred earlier. Values must have them.
    textual
        Whether all values arrive as texts (CSV). They are then converted to the held types, too.
    """

    def __init__(self, stated: Mapping[str, Kind], held: Mapping[str, Kind], *, textual: bool) -> None:
        self.stated = dict(stated)
        self.textual = textual
        self.full: int | None = None
        """Number of types beyond which fields get none; None while fields without a type can still get one."""
        self.hold(held)

    def hold(self, held: Mapping[str, Kind]) -> None:
        """Hold these types from now on; stated types come first."""
        self.held = dict(held)
        self.all = {**self.held, **self.stated}
        fit = {**_FIT, Kind.TEXT: frozenset()} if self.textual else _FIT  # an empty text is a missing value
        paths = ((parse_path(field), kind) for field, kind in self.all.items())
        self.fit = {path[0]: fit[kind] for path, kind in paths if len(path) == 1}
        """Python's types of values that need no conversion, by the name of a field that is not nested."""

    def value(self, field: str, value: Any) -> Value | None:
        """Return a value as its field's type; None where the value is missing.

        Raises
        ------
        KeyError
            The type of the field is not known yet.
        Misfit
            The value does not have the type of the field.
        """
        if value is None or (self.textual and value == ""):
            return None
        if isinstance(value, (dict, list, bytes)):
            raise Misfit(
                Reason.NESTED_VALUE,
                f"{field}: expected a number, a text or a boolean, got {shown(value)}; name the fields inside, or "
                f"leave the field out with -{field} (intake.features)",
            )
        given: Value = value
        wanted = self.all.get(field)
        if wanted is None:
            if self.full is None or len(self.held) < self.full:
                raise KeyError(field)
            raise Misfit(
                Reason.FIELD_TYPE,
                f"{field}: expected at most {self.full} fields with inferred types (limits.features), got another one; "
                "name the features (intake.features)",
            )
        if kind_of(given) is not wanted:
            converted = _converted(given, wanted) if self.textual or field in self.stated else None
            if converted is None:
                where = "stated in intake.types" if field in self.stated else "that its first messages had"
                raise Misfit(
                    Reason.FIELD_TYPE,
                    f"{field}: expected {_NAMES[wanted]}, the type {where}, got {shown(value)}; to change the type, "
                    f"set it in intake.types",
                )
            given = converted
        if not isinstance(given, str) and not -LARGEST <= given <= LARGEST:
            raise Misfit(
                Reason.NOT_FINITE, f"{field}: expected a number within ±{LARGEST:g}, got {shown(value)}; send null"
            )
        return given

    def inferred(self, values: Iterable[tuple[str, Any]], limit: int) -> dict[str, Kind]:
        """Return the held types, and those that most values of the other fields have.

        Parameters
        ----------
        values
            Fields with their values, in the order of their arrival. Of kinds that are equally frequent, the one that
            came first is taken.
        limit
            Largest number of types. Fields beyond it get none.
        """
        counts: dict[str, Counter[Kind]] = {}
        for field, value in values:
            if field in self.all or value is None or isinstance(value, (dict, list, bytes)):
                continue
            if self.textual and value == "":
                continue
            if field not in counts:
                if len(self.held) + len(counts) >= limit:
                    continue
                counts[field] = Counter()
            counts[field][_read_as(value) if self.textual else kind_of(value)] += 1
        return {**self.held, **{field: count.most_common(1)[0][0] for field, count in counts.items()}}


def kind_of(value: Value) -> Kind:
    """Return the type of a value."""
    if isinstance(value, str):
        return Kind.TEXT
    return Kind.BOOLEAN if isinstance(value, bool) else Kind.NUMBER


def _read_as(text: str) -> Kind:
    """Return the type that a text stands for."""
    if _number(text) is not None:
        return Kind.NUMBER
    return Kind.BOOLEAN if text.strip().lower() in _BOOLEANS else Kind.TEXT


def _converted(value: Value, wanted: Kind) -> Value | None:
    """Return a value as another type, or None if it does not have that type's form."""
    if wanted is Kind.TEXT:
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return str(value).lower() if isinstance(value, bool) else str(value)
    if wanted is Kind.NUMBER:
        return float(value) if isinstance(value, bool) else _number(str(value))
    if isinstance(value, str):
        return _BOOLEANS.get(value.strip().lower())
    return bool(value) if value in (0, 1) else None


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if isfinite(found) and "_" not in text else None
