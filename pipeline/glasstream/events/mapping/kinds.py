"""Types of fields: stated, or inferred from the first messages, and then fixed."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from glasstream.events.mapping import cells, stated
from glasstream.events.mapping.fields import Kind, parse_path
from glasstream.events.mapping.misfit import Misfit, shown
from glasstream_topics.events import LARGEST
from glasstream_topics.events_dead import Reason

Value = float | str | bool
"""Value of a feature or of a target."""

_NAMES = {
    Kind.NUMBER: "a number",
    Kind.TEXT: "a text",
    Kind.BOOLEAN: "a boolean",
    Kind.COMMA: "a number such as 1.234,5",
    Kind.POINT: "a number such as 1,234.5",
}
_FIT: Mapping[Kind, frozenset[type]] = {
    Kind.NUMBER: frozenset({int, float}),
    Kind.TEXT: frozenset({str}),
    Kind.BOOLEAN: frozenset({bool}),
    Kind.COMMA: frozenset({int, float}),
    Kind.POINT: frozenset({int, float}),
}


class Kinds:
    """Types of the fields of one source.

    Parameters
    ----------
    stated
        Types from the settings, by the text of the field's path. Values are converted to them.
    fixed
        Types that were inferred earlier. Values must have them.
    textual
        Whether all values are cells of CSV, which have the types that `glasstream.events.mapping.cells` reads.
    """

    def __init__(self, stated: Mapping[str, Kind], fixed: Mapping[str, Kind], *, textual: bool) -> None:
        self.stated = dict(stated)
        self.textual = textual
        self.full: int | None = None
        """Number of types beyond which fields get none; None while fields without a type can still get one."""
        self.fix(fixed)

    def fix(self, fixed: Mapping[str, Kind]) -> None:
        """Use these types from now on; stated types come first."""
        self.fixed = dict(fixed)
        self.all = {**self.fixed, **self.stated}
        fit = {**_FIT, Kind.TEXT: frozenset()} if self.textual else _FIT  # a blank cell is a missing value
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
        if self.textual and field in self.fixed and field not in self.stated:
            kind = self.fixed[field]
            if kind is Kind.NUMBER and cells.is_plain(value) and -LARGEST <= (number := float(value)) <= LARGEST:
                return number
            if kind is Kind.TEXT:
                return cells.value(value, kind)
        if value is None or value == {} or value == [] or (self.textual and not value.strip()):
            return None
        if isinstance(value, (dict, list, bytes)):
            raise Misfit(
                Reason.NESTED_VALUE,
                f"{field}: expected a number, a text or a boolean, got {shown(value)}; name the fields inside, or "
                f"leave the field out with -{field} (intake.features)",
            )
        wanted = self.all.get(field)
        if wanted is None:
            if self.textual and cells.reading(value) is cells.Reading.MISSING:
                return None
            if self.full is None or len(self.fixed) < self.full:
                raise KeyError(field)
            raise Misfit(
                Reason.FIELD_TYPE,
                f"{field}: expected at most {self.full} fields with inferred types (limits.features), got another one; "
                "name the features (intake.features)",
            )
        if wanted is not Kind.TEXT and _is_blank(value):
            return None
        given = self._given(field, value, wanted)
        if given is None:
            return None
        if kind_of(given) is not wanted.of_values:
            where = "stated in intake.types" if field in self.stated else "inferred from the first messages"
            raise Misfit(
                Reason.FIELD_TYPE,
                f"{field}: expected {_NAMES[wanted]} (the type {where}), got {shown(value)}; to change the "
                f"type, set it in intake.types",
            )
        if not isinstance(given, str) and not -LARGEST <= given <= LARGEST:
            raise Misfit(
                Reason.NOT_FINITE, f"{field}: expected a number within ±{LARGEST:g}, got {shown(value)}; send null"
            )
        return given

    def label(self, field: str, value: Any) -> Value | None:
        """Return a value of the target, like `value`; None for a blank text, or a word such as `NA` in CSV."""
        if _is_blank(value):
            return None
        if (
            self.textual
            and self.fixed.get(field) is Kind.TEXT
            and field not in self.stated
            and cells.is_no_label(value)
        ):
            return None
        return self.value(field, value)

    def _given(self, field: str, value: Any, wanted: Kind) -> Value | None:
        """Return a value as the wanted type; as it is if it does not have that type's form; None if it is missing.

        Raises
        ------
        Misfit
            It is a cell with an infinite number.
        """
        if self.textual:
            found = (stated.value if field in self.stated else cells.value)(value, wanted)
            if found is None and cells.reading(value) is cells.Reading.INFINITE:
                raise Misfit(
                    Reason.NOT_FINITE, f"{field}: expected a finite number, got {shown(value)}; leave it empty"
                )
            return found
        if field in self.stated and kind_of(value) is not wanted.of_values:
            return _converted(value, wanted)
        return value  # type: ignore[no-any-return]

    def inferred(self, values: Iterable[tuple[str, Any]], limit: int) -> dict[str, Kind]:
        """Return the fixed types, and those that the values of the other fields have.

        That is the type of most values that are no blank texts; in CSV, the kind of the cells as of a column
        (`glasstream.events.mapping.cells.kind`).

        Parameters
        ----------
        values
            Fields with their values, in the order of their arrival. Of types that are equally frequent, the one that
            came first is taken.
        limit
            Largest number of types. Fields beyond it get none.
        """
        counts: dict[str, Counter[Any]] = {}
        for field, value in values:
            if field in self.all or value is None or isinstance(value, (dict, list, bytes)):
                continue
            one: Any = cells.reading(value) if self.textual else kind_of(value)
            if one is cells.Reading.MISSING:
                continue
            if field not in counts:
                if len(self.fixed) + len(counts) >= limit:
                    continue
                counts[field] = Counter()
            counts[field][one] += self.textual or not _is_blank(value)
        decide = cells.kind if self.textual else _most_common
        return {**self.fixed, **{field: decide(count) for field, count in counts.items()}}


def _most_common(count: Counter[Kind]) -> Kind:
    return count.most_common(1)[0][0]


def kind_of(value: Value) -> Kind:
    """Return the type of a value."""
    if isinstance(value, str):
        return Kind.TEXT
    return Kind.BOOLEAN if isinstance(value, bool) else Kind.NUMBER


def _is_blank(value: Any) -> bool:
    return isinstance(value, str) and not value.strip()


def _converted(value: Value, wanted: Kind) -> Value:
    """Return a value as another type; as it is if it does not have that type's form."""
    if wanted is Kind.TEXT:
        if isinstance(value, float) and value.is_integer():
            return str(int(value))
        return str(value).lower() if isinstance(value, bool) else str(value)
    if isinstance(value, str):
        found = stated.value(value, wanted)
        return value if found is None else found
    if wanted.of_values is Kind.NUMBER:
        return float(value)
    return bool(value) if value in (0, 1) else value
