"""Compile River's transformers, and pipelines and unions of them, to steps on the columns of a row."""

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from river import compose, preprocessing

from glasstream.base.errors import NotCompilable
from glasstream.events.features import Kind
from glasstream.models.predictors.arrays import sealed_tuple
from glasstream.models.predictors.kernels import transform
from glasstream.models.predictors.kernels.transform import Steps
from glasstream.models.predictors.slots import ABSENT, Given, Slots, value_of

_KIND_OF: Final = {bool: Kind.BOOLEAN, str: Kind.TEXT, int: Kind.NUMBER, float: Kind.NUMBER}
_TYPE_OF: Final = {Kind.NUMBER: float, Kind.BOOLEAN: bool, Kind.TEXT: str}


@dataclass(frozen=True, slots=True)
class _Column:
    """A feature between transformers.

    Attributes
    ----------
    at
        Its column in a row that grows by one with each step.
    type
        Python type of the value in River's dict; some transformers choose by it.
    categories
        Mapping from text to code, if `type` is `str`.
    source
        Feature of the row that it comes from. It is absent where its source is, unless `always` or `sometimes` say
        otherwise.
    always, sometimes
        Whether it is never absent, and whether it may be absent although its source is not.
    """

    name: str
    at: int
    type: type
    categories: Mapping[str, int]
    source: int
    always: bool = False
    sometimes: bool = False

    def given(self) -> Given:
        return Given(self.name, self.at, _KIND_OF[self.type], self.categories)

    def present_with(self, other: "_Column") -> bool:
        """Return whether it is present wherever `other` is."""
        if self.always:
            return True
        return self.source == other.source and not self.sometimes and not other.always


Columns = list[_Column]


@dataclass(slots=True)
class _Script:
    """The steps so far."""

    width: int
    steps: list[tuple[int, int, int, float, float, int, int]] = field(default_factory=list)
    table: list[tuple[float, float]] = field(default_factory=list)

    def add(
        self, kind: int, source: int, number: float = 0.0, *, divisor: float = 0.0, other: int = 0, first: int = 0
    ) -> int:
        """Add a step and return its column; a step that looks up has the table from `first` on."""
        last = len(self.table) if kind == transform.LOOKED_UP else 0
        self.steps.append((kind, source, other, number, divisor, first, last))
        return self.width + len(self.steps) - 1


def compile_transformers(transformers: Iterable[Any], slots: Slots) -> tuple[Steps, Slots]:
    """Return the steps of successive `transformers`, and the inputs of the model behind them.

    Raises
    ------
    NotCompilable
        A transformer has no compiled form.
    """
    script = _Script(len(slots.names))
    columns = [_Column(name, slot, _TYPE_OF[kind], categories, slot) for name, slot, kind, categories in slots]
    for transformer in transformers:
        columns = _apply(transformer, columns, script)
    steps, places = _without_unused(script, [column.at for column in columns])
    given = [replace(column, at=place).given() for place, column in enumerate(columns)]
    arrays = (*zip(*steps, strict=True),) if steps else ((),) * 7
    known, code = zip(*script.table, strict=True) if script.table else ((), ())
    content = (*arrays, known, code, places)
    return sealed_tuple(Steps, content), Slots([column.name for column in columns], given)


def _without_unused(script: _Script, wanted: list[int]) -> tuple[list[tuple[Any, ...]], list[int]]:
    """Return the steps on which the `wanted` columns depend, and the new places of these columns."""
    used = set(wanted)
    for k in range(len(script.steps) - 1, -1, -1):
        kind, source, other, *_ = script.steps[k]
        if script.width + k in used and kind != transform.CONSTANT:
            used |= {source, other} if kind in (transform.FIRST_OF, transform.ANY_OF) else {source}
    place = {at: at for at in range(script.width)}
    kept: list[tuple[Any, ...]] = []
    for k, (kind, source, other, *rest) in enumerate(script.steps):
        if script.width + k in used:
            place[script.width + k] = script.width + len(kept)
            two = kind in (transform.FIRST_OF, transform.ANY_OF)
            kept.append((kind, place[source] if kind != transform.CONSTANT else 0, place[other] if two else 0, *rest))
    return kept, [place[at] for at in wanted]


def _apply(transformer: Any, columns: Columns, script: _Script) -> Columns:
    kind = type(transformer)
    if kind is compose.Pipeline:
        for step in transformer.steps.values():
            columns = _apply(step, columns, script)
        return columns
    if kind is compose.TransformerUnion:
        return _union([_apply(part, columns, script) for part in transformer.transformers.values()], script)
    if kind not in TRANSFORMERS:
        raise NotCompilable(
            f"the transformer {kind.__name__} has no compiled form; only these have one: "
            f"{', '.join(sorted(known.__name__ for known in TRANSFORMERS))}, and pipelines and unions of them"
        )
    return TRANSFORMERS[kind](transformer, columns, script)


def _union(parts: list[Columns], script: _Script) -> Columns:
    """Compile a union: if several parts give the same name, the first one counts.

    Names have the order of River's dict.
    """
    found: dict[str, _Column] = {}
    for columns in reversed(parts):
        for column in columns:
            later = found.get(column.name)
            if later is not None and not column.present_with(later):
                column = _first_of(column, later, script)
            found[column.name] = column
    return list(found.values())


def _first_of(first: _Column, second: _Column, script: _Script) -> _Column:
    if first.type is not second.type or first.type is str:
        raise NotCompilable(f"a union gives {first.name!r} now from one of its parts, now from another")
    at = script.add(transform.FIRST_OF, first.at, other=second.at)
    return replace(first, at=at, source=ABSENT, always=second.always, sometimes=True)


def _select(transformer: Any, columns: Columns, script: _Script) -> Columns:
    """Compile a selection. A row without a selected feature, on which River raises, lacks it."""
    return [column for column in columns if column.name in transformer.keys]


def _discard(transformer: Any, columns: Columns, script: _Script) -> Columns:
    return [column for column in columns if column.name not in transformer.keys]


def _select_type(transformer: Any, columns: Columns, script: _Script) -> Columns:
    return [column for column in columns if issubclass(column.type, transformer.types)]


def _scaled(
    scaling: Callable[[Any, str], tuple[float, float] | None], transformer: Any, columns: Columns, script: _Script
) -> Columns:
    """Compile a scaler.

    `scaling` returns the centre and the divisor of a feature; None means that it was never learned.
    """
    made = []
    for column in columns:
        if column.type is str:
            kind = type(transformer).__name__
            raise NotCompilable(f"a {kind} calculates with {column.name!r}, which is a text feature")
        centre_and_divisor = scaling(transformer, column.name)
        if centre_and_divisor is not None:  # no later model knows an unseen feature
            centre, divisor = centre_and_divisor
            at = script.add(transform.SCALED, column.at, float(centre), divisor=float(divisor))
            made.append(replace(column, at=at, type=float, categories={}))
    return made


def _standard(transformer: Any, name: str) -> tuple[float, float] | None:
    mean, variance = transformer.means.get(name), transformer.vars.get(name)  # indexing would add to the model
    if transformer.window_size is not None:
        mean, variance = (None if one is None else one.get() for one in (mean, variance))
    if not transformer.with_std:
        return mean or 0.0, 1.0
    if variance is not None and variance < 0.0:
        raise NotCompilable(f"the scaler's variance of {name!r} is negative ({variance})")
    return mean or 0.0, (variance or 0.0) ** 0.5


def _min_max(transformer: Any, name: str) -> tuple[float, float] | None:
    if name not in transformer.min or name not in transformer.max:
        return None
    low, high = transformer.min[name].get(), transformer.max[name].get()
    return None if low is None or high is None else (low, high - low)


def _max_abs(transformer: Any, name: str) -> tuple[float, float] | None:
    largest = transformer.abs_max.get(name)
    return 0.0, (0.0 if largest is None else largest.get() or 0.0)


def _binarized(transformer: Any, columns: Columns, script: _Script) -> Columns:
    if transformer.dtype not in (bool, int, float):
        raise NotCompilable(f"a Binarizer to {transformer.dtype} has no compiled form; use bool, int or float")
    made = []
    for column in columns:
        if column.type is not str:
            at = script.add(transform.ABOVE, column.at, float(transformer.threshold))
            column = replace(column, at=at, type=transformer.dtype)
        made.append(column)
    return made


def _ordinal(transformer: Any, columns: Columns, script: _Script) -> Columns:
    unknown = transformer.unknown_value
    if not isinstance(unknown, int | float):
        raise NotCompilable(f"an OrdinalEncoder with the unknown_value {unknown!r}, no number, has no compiled form")
    made = []
    for column in columns:
        first = len(script.table)
        codes = transformer.values.get(column.name, {})  # indexing the defaultdict would add to the model
        values = ((value_of(column.given(), key), code) for key, code in codes.items())
        script.table.extend(sorted((value, float(code)) for value, code in values if value is not None))
        at = script.add(transform.LOOKED_UP, column.at, float(unknown), first=first)
        made.append(replace(column, at=at, type=int, categories={}))
    return made


def _one_hot(transformer: Any, columns: Columns, script: _Script) -> Columns:
    """Compile a one-hot encoder. An unseen category has a name that no later model knows, so it is left out."""
    if transformer.drop_first:
        raise NotCompilable(
            "a OneHotEncoder with drop_first has no compiled form: which name comes first depends on the text of "
            "categories that were never seen"
        )
    zeros = transformer._zero_dict  # empty with drop_zeros
    found: dict[str, _Column] = {}
    for column in columns:
        for name, value in _dummies(transformer, column):
            kind = transform.IS if name in zeros else transform.IS_OR_ABSENT
            made = replace(column, name=name, at=script.add(kind, column.at, value), type=int, categories={})
            made = replace(made, always=kind == transform.IS, sometimes=kind != transform.IS)
            if name in found:
                at = script.add(transform.ANY_OF, found[name].at, other=made.at)
                always = made.always or found[name].always
                made = replace(made, at=at, source=ABSENT, always=always, sometimes=True)
            found[name] = made
    for name in sorted(zeros):
        if name not in found:
            at = script.add(transform.CONSTANT, 0, 0.0)
            found[name] = _Column(name, at, int, {}, ABSENT, always=True)
    return [found[name] for name in (*zeros, *(name for name in found if name not in zeros))]


def _dummies(transformer: Any, column: _Column) -> list[tuple[str, float]]:
    """Return the names that a column's values can have, and the values, in their order."""
    made = []
    for key in _keys(transformer, column):
        value = value_of(column.given(), key)
        if value is None:
            continue
        if transformer.categories is not None and column.type is not str:
            key = column.type(value)  # the value in the row gives the name, not the category that equals it
        made.append((f"{column.name}_{key}", value))
        if column.type is float and value == 0.0 and isinstance(key, float):
            # The two zeros are one category, but two names.
            made.append((f"{column.name}_{-key}", -value))
    return sorted(made, key=lambda one: (one[1], one[0]))


def _keys(transformer: Any, column: _Column) -> set[Hashable]:
    """Return the values of a column that have a name."""
    if transformer.categories is not None:
        return set(transformer.categories.get(column.name, ()))
    if transformer.drop_zeros:  # it remembers no values
        if column.type is str:
            return set(column.categories)
        if column.type is bool:
            return {False, True}
        raise NotCompilable(
            f"a OneHotEncoder with drop_zeros before {column.name!r} has no compiled form: any number may come"
        )
    # Also texts that it has not met in this column, but whose name another column has given: a_b of c and a of b_c.
    clashing = {key for key in column.categories if f"{column.name}_{key}" in transformer._zero_dict}
    return clashing | set(transformer.values.get(column.name, ()))


TRANSFORMERS: Final[Mapping[type, Callable[[Any, Columns, _Script], Columns]]] = {
    compose.Discard: _discard,
    compose.Select: _select,
    compose.SelectType: _select_type,
    preprocessing.Binarizer: _binarized,
    preprocessing.MaxAbsScaler: partial(_scaled, _max_abs),
    preprocessing.MinMaxScaler: partial(_scaled, _min_max),
    preprocessing.OneHotEncoder: _one_hot,
    preprocessing.OrdinalEncoder: _ordinal,
    preprocessing.StandardScaler: partial(_scaled, _standard),
}
"""Compilers by exact type: a subclass may transform differently."""
