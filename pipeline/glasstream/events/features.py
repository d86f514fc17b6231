"""Features of a stream: their names and kinds, and the encoding of events as rows of numbers.

A feature can be in one of these states. None of them is an error:

=============  =========================================================================================
new            gets the next slot; earlier rows have it absent
vanished       absent in the rows that lack it; keeps its slot and kind
missing        (null, or not in `x`) absent: NaN in the row, not in what the model is given
re-typed       a value of another kind than the feature's first is treated as absent and counted
over a limit   more features or categories than configured, or a longer name or text, or names that together take
               more than `NAMES_BYTES`: absent, counted
=============  =========================================================================================
"""

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import chain, islice, repeat
from math import isnan, nan
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.events.limits import IngestLimits
from glasstream_topics.events import LARGEST

Value = float | str | bool | None


class Kind(IntEnum):
    """Kind of a feature, which its first value determines."""

    NUMBER = 0
    BOOLEAN = 1
    TEXT = 2


def decoded(number: float, kind: int, texts: Mapping[int, str] | Sequence[str]) -> Value:
    """Return the value of a feature of this kind, with these texts by code, for which a number of a row stands.

    >>> decoded(1.0, Kind.TEXT, ["a", "b"]), decoded(1.0, Kind.BOOLEAN, ()), decoded(nan, Kind.NUMBER, ())
    ('b', True, None)
    """
    if isnan(number):
        return None
    if kind == Kind.TEXT:
        return texts[int(number)]
    return bool(number) if kind == Kind.BOOLEAN else float(number)


NAMED: Final = 32
"""Number of categories of a feature that incidents can name: the first ones."""
LONGEST_NAMED: Final = 64
"""Characters of the longest category that incidents can name."""
NAMED_SLOTS: Final = 64
"""Number of features of texts whose categories they can name. With these bounds, the names of a row take few bytes."""

NAMES_BYTES: Final = 256 * 1024
"""Largest size of all names of a stream, as JSON. Records with a number or more for each name then fit a broker."""

_KIND_OF = {float: Kind.NUMBER, bool: Kind.BOOLEAN, str: Kind.TEXT}
_NUMBER: Final = Kind.NUMBER  # a member is looked up in its class slowly
_TEXT: Final = Kind.TEXT


@dataclass(slots=True)
class FeatureCounts:
    """Numbers of values that were treated as absent, by reason."""

    retyped: int = 0
    over_limit: int = 0


class KeptFeatures(msgspec.Struct, frozen=True, gc=False):
    """What a stream keeps of an event that waits for its label: the values that count, as numbers.

    Attributes
    ----------
    slots
        Their slots in the order of the event; None for the first slots, one after the other.
    values
        Numbers and booleans as they are, and the codes of texts.
    """

    slots: "array[int] | None"
    values: "array[float]"

    @property
    def size(self) -> int:
        """Bytes of the numbers."""
        return 8 * len(self.values) + (0 if self.slots is None else 4 * len(self.slots))

    @staticmethod
    def most(features: int) -> int:
        """Return the largest size of an event with this number of features."""
        return 12 * features


@dataclass(frozen=True, slots=True)
class _Plan:
    """Plan that turns events of one form (same names, same types, same order) into rows."""

    direct: bool
    """Whether the values of `x`, in their order, are the row, and the model gets `x` itself."""
    slots: tuple[tuple[str, int, bool], ...]
    """(name, slot, is text) of every value that the row uses; empty for a direct plan."""
    retyped: int
    over_limit: int
    order: tuple[int, ...] | None
    """The slots in the order of the features of `x`; None if they ascend."""


FORMS_BYTES: Final = 2 * 1024 * 1024
"""Approximate limit on the bytes of the forms that a table remembers. A stream with optional features has a few forms,
and a hostile one has arbitrarily many.
"""
_FORM_BYTES: Final = 400
"""Estimated bytes of a form and its plan, without its values."""
_VALUE_BYTES: Final = 24
"""Estimated bytes of one value of a form, whose name, type and slot are references."""


@dataclass(slots=True)
class FeatureTable:
    """Features of one stream, in the order of their first appearance ("slots").

    Parameters
    ----------
    limits
        Limits; see `IngestLimits`.
    model_takes_text
        Whether the model gets text features. The row contains them in any case.

    Examples
    --------
    >>> table = FeatureTable()
    >>> values, given = table.encode({"price": 1.5, "day": "mon", "open": True})
    >>> [float(value) for value in values], given
    ([1.5, 0.0, 1.0], {'price': 1.5, 'day': 'mon', 'open': True})
    >>> values, given = table.encode({"day": "tue", "price": None})
    >>> [float(value) for value in values], given
    ([nan, 1.0, nan], {'day': 'tue'})
    """

    limits: IngestLimits = field(default_factory=IngestLimits)
    model_takes_text: bool = True
    names: list[str] = field(default_factory=list)
    kinds: list[Kind] = field(default_factory=list)
    categories: list[dict[str, int]] = field(default_factory=list)
    """Codes 0, 1, 2, ... of the texts of each slot, in order of first appearance; empty unless the kind is TEXT."""
    counts: FeatureCounts = field(default_factory=FeatureCounts)
    declared: int = 0
    """Number of the first slots whose kind a model has declared. A boolean counts as a number there."""
    remarks: list[str] = field(default_factory=list, compare=False)
    """Lines for the user about values that are treated as absent, one for each feature and reason."""
    _remarked: set[tuple[str, str]] = field(default_factory=set, compare=False)
    """Pairs (reason, feature) that have a line."""
    _slot: dict[str, int] = field(default_factory=dict)
    _names_bytes: int = 0
    _plans: dict[tuple[object, ...], _Plan] = field(default_factory=dict)
    _plans_bytes: int = 0
    _uses: list[tuple[str, int, bool]] = field(init=False)
    """Tuples that plans use, one per slot, shared by all plans."""
    _texts: dict[int, list[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._uses = _uses(self.names, self.kinds)

    @classmethod
    def restored(
        cls, limits: IngestLimits, names: list[str], kinds: list[Kind], categories: list[list[str]]
    ) -> "FeatureTable":
        """Return a table with these names, kinds and categories (in the order of their codes)."""
        return cls(
            limits,
            names=names,
            kinds=kinds,
            categories=[{text: code for code, text in enumerate(texts)} for texts in categories],
            _slot={name: slot for slot, name in enumerate(names)},
            _names_bytes=sum(map(_json_bytes, names)),
        )

    @classmethod
    def of_state(
        cls, limits: IngestLimits, names: list[str], kinds: list[Kind], categories: list[list[str]], of: str
    ) -> "FeatureTable":
        """Return a table with the names, kinds and categories of a saved state.

        Raises
        ------
        FrameError
            No stream can have them within these limits; `of` names the state.
        """
        form.distinct(names, limits.features, NAMES_BYTES, "names of features", of)
        fits = len(names) == len(kinds) == len(categories)
        form.expect(fits, "a kind and categories for each feature", (len(kinds), len(categories)), of)
        for name, kind, texts in zip(names, kinds, categories, strict=True):
            form.expect(kind is Kind.TEXT or not texts, f"categories of texts only, not of {name!r}", texts, of)
            fits = len(set(texts)) == len(texts) <= limits.categories
            form.expect(fits, f"at most {limits.categories} distinct categories of {name!r}", len(texts), of)
        return cls.restored(limits, names, kinds, categories)

    def __getstate__(self) -> dict[str, Any]:
        """Return all fields except the remembered forms, which follow from the others."""
        return {name: getattr(self, name) for name in self.__slots__ if name not in _DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.declared = 0
        for name, value in state.items():
            setattr(self, name, value)
        self._plans, self._plans_bytes, self._uses, self._texts = {}, 0, _uses(self.names, self.kinds), {}
        self.remarks, self._remarked = [], set()

    def __len__(self) -> int:
        return len(self.names)

    def encode(self, x: Mapping[str, Value]) -> tuple[Iterable[float], Mapping[str, Value]]:
        """Return the row of `x` (one float per slot, NaN where absent) and the features that the model gets.

        Numbers and booleans stand for themselves, and a text for the code of its category.
        """
        form = (*x, *map(type, x.values()))
        plan = self._plans.get(form)
        if plan is None:
            plan = self._remember(form, x)
        if plan.direct:
            return x.values(), x  # type: ignore[return-value]  # a direct plan has numbers and booleans only
        return self._follow(plan, x)

    def _follow(self, plan: _Plan, x: Mapping[str, Value]) -> tuple[Iterable[float], Mapping[str, Value]]:
        self.counts.retyped += plan.retyped
        self.counts.over_limit += plan.over_limit
        row = [nan] * len(self.names)
        given: dict[str, Value] = {}
        for name, slot, is_text in plan.slots:
            value = x[name]
            if is_text:
                code = self._category(slot, value)  # type: ignore[arg-type]
                if code is None:
                    self.counts.over_limit += 1
                    self._remark_category(name)
                    continue
                row[slot] = code
                if self.model_takes_text:
                    given[name] = value
            else:
                row[slot] = value  # type: ignore[assignment]
                given[name] = value
        return row, given

    def block(self) -> "RowBlock":
        """Return an empty block to encode the next events in."""
        return RowBlock(self)

    def texts(self, slot: int) -> Sequence[str]:
        """Return the texts of a slot by code."""
        texts, codes = self._texts.setdefault(slot, []), self.categories[slot]
        if len(texts) < len(codes):
            texts += islice(codes, len(texts), None)
        return texts

    def named(self, rows: NDArray[np.float64]) -> dict[int, dict[int, str]]:
        """Return the texts of the categories in rows that incidents can name, by slot and code."""
        slots = [slot for slot, kind in enumerate(self.kinds[: rows.shape[1]]) if kind is Kind.TEXT]
        found = {}
        for slot in slots[:NAMED_SLOTS]:
            codes = set(rows[:, slot].tolist())
            texts = enumerate(self.texts(slot)[:NAMED])
            found[slot] = {code: text for code, text in texts if code in codes and len(text) <= LONGEST_NAMED}
        return found

    def keep(self, x: Mapping[str, Value]) -> KeptFeatures:
        """Return what has to be kept of features that were encoded before, to encode them `again` later.

        A value that counts as absent is not kept: a feature beyond the limits, a value of another kind, a new text of a
        feature that has no room for it.
        """
        form = (*x, *map(type, x.values()))
        plan = self._plans.get(form)
        if plan is None:
            plan = self._remember(form, x)
        if plan.direct:
            return KeptFeatures(None, array("d", x.values()))  # type: ignore[arg-type]  # numbers and booleans only
        slots, values = array("i"), array("d")
        for name, slot, is_text in plan.slots:
            value = self.categories[slot].get(x[name]) if is_text else x[name]  # type: ignore[arg-type]
            if value is not None:
                slots.append(slot)
                values.append(value)  # type: ignore[arg-type]
        return KeptFeatures(None if slots == array("i", range(len(slots))) else slots, values)

    def again(self, kept: KeptFeatures) -> dict[str, Value]:
        """Return features that were kept, in the order of their event."""
        slots, values = kept.slots, kept.values
        if slots is None and self.kinds.count(_NUMBER) == len(self.kinds):
            return dict(zip(self.names, values, strict=False))
        x: dict[str, Value] = {}
        for slot, value in zip(range(len(values)) if slots is None else slots, values, strict=True):
            kind = self.kinds[slot]
            if kind is _TEXT:
                x[self.names[slot]] = self.texts(slot)[int(value)]
            else:
                x[self.names[slot]] = value if kind is _NUMBER else value == 1.0
        return x

    def encode_kept(self, kept: KeptFeatures) -> tuple[Iterable[float], Mapping[str, Value]]:
        """Return the row and the features that `encode` returned for the event, with slots of later features absent."""
        slots, values = kept.slots, kept.values
        row = [nan] * len(self.names)
        if slots is None:
            row[: len(values)] = values
        else:
            for slot, value in zip(slots, values, strict=True):
                row[slot] = value
        x = self.again(kept)
        if self.model_takes_text:
            return row, x
        return row, {name: value for name, value in x.items() if not isinstance(value, str)}

    @contextmanager
    def _uncounted(self) -> Iterator[None]:
        counts = self.counts
        before = counts.retyped, counts.over_limit
        try:
            yield
        finally:
            counts.retyped, counts.over_limit = before

    def can_hold(self, rows: NDArray[np.float64]) -> bool:
        """Return whether rows of the first features consist of absent values and of what an event can have there."""
        present = ~np.isnan(rows)
        return self.can_have(np.nonzero(present)[1], rows[present])

    def can_have(self, slots: NDArray[Any], values: NDArray[np.float64]) -> bool:
        """Return whether each value is one that an event can have for the feature in its slot."""
        is_number = np.array([kind is Kind.NUMBER for kind in self.kinds], np.bool_)
        codes = np.array(
            [
                max(2 * (kind is Kind.BOOLEAN), len(codes))
                for kind, codes in zip(self.kinds, self.categories, strict=True)
            ]
        )
        numbers = is_number[slots]
        coded, most = values[~numbers], codes[slots[~numbers]]
        fits = (coded >= 0) & (coded < most) & (coded == np.floor(coded))
        return bool((np.abs(values[numbers]) <= LARGEST).all() and fits.all())

    def given(self) -> list[bool]:
        """Return for each slot whether the model gets this feature."""
        return [self.model_takes_text or kind is not Kind.TEXT for kind in self.kinds]

    @property
    def forms_bytes(self) -> int:
        """Return an estimate of the bytes that the remembered forms take."""
        return self._plans_bytes

    def _remember(self, form: tuple[object, ...], x: Mapping[str, Value]) -> _Plan:
        """Make a plan for events of a form. Keep the plan if it is no wider than a row and there is room."""
        known, most = len(self.names), self.limits.features
        slots: list[tuple[str, int, bool]] = []
        retyped = over_limit = unnamed_bytes = 0
        is_kept = len(x) <= most
        for name, value in x.items():
            if value is None:
                unnamed_bytes += 0 if name in self._slot or not is_kept else _text_bytes(name)
                continue
            kind = _KIND_OF[type(value)]
            slot = self._slot.get(name)
            if slot is None:
                size = NAMES_BYTES + 1
                if len(self.names) < most and len(str(name)) <= self.limits.text:
                    size = self._names_bytes + _json_bytes(name)
                if size > NAMES_BYTES:
                    over_limit += 1
                    unnamed_bytes += _text_bytes(name) if is_kept else 0
                    self._remark_surplus(name)
                    continue
                self._names_bytes = size
                slot = self._slot[name] = len(self.names)
                self.names.append(name)
                self.kinds.append(kind)
                self.categories.append({})
                self._uses.append((name, slot, kind is Kind.TEXT))
            if kind is Kind.BOOLEAN and slot < self.declared and self.kinds[slot] is Kind.NUMBER:
                kind = Kind.NUMBER
            if kind is not self.kinds[slot]:
                retyped += 1
                self._remark_kind(name, self.kinds[slot], kind)
                continue
            slots.append(self._uses[slot])
        direct = (
            len(x) == len(slots)
            and [slot for _, slot, _ in slots] == list(range(len(self.names)))
            and not any(is_text for _, _, is_text in slots)
        )
        order = tuple(slot for _, slot, _ in slots)
        ascends = list(order) == sorted(order)
        plan = _Plan(direct, () if direct else tuple(slots), retyped, over_limit, None if ascends else order)
        size = _FORM_BYTES + _VALUE_BYTES * len(x) + unnamed_bytes
        if len(self.names) > known or self._plans_bytes + size > FORMS_BYTES:
            self._plans.clear()  # a plan that was direct does not fill the longer row
            self._plans_bytes = 0
        if is_kept and size <= FORMS_BYTES:
            names = (self._uses[slot][0] if (slot := self._slot.get(name)) is not None else name for name in x)
            self._plans[*names, *form[len(x) :]] = plan
            self._plans_bytes += size
        return plan

    def _remark_kind(self, name: str, first: Kind, kind: Kind) -> None:
        if ("kind", name) not in self._remarked:
            self._remarked.add(("kind", name))
            self.remarks.append(
                f"feature {name!r}: expected a {first.name.lower()}, as its first value was, got a "
                f"{kind.name.lower()}; every value of another kind is treated as absent"
            )

    def _remark_category(self, name: str) -> None:
        if ("category", name) not in self._remarked:
            self._remarked.add(("category", name))
            self.remarks.append(
                f"feature {name!r}: expected at most {self.limits.categories:,} different texts (limits.categories) of "
                f"at most {self.limits.text:,} characters (limits.text), got another or a longer one; every such text "
                "is treated as absent"
            )

    def _remark_surplus(self, name: str) -> None:
        """Remark on the first feature that is left out. An event can have any number of them."""
        if ("surplus", "") not in self._remarked:
            self._remarked.add(("surplus", ""))
            self.remarks.append(
                f"feature {str(name)[:60]!r} is left out, and so is every other one beyond {self.limits.features:,} "
                f"features (limits.features), names of {self.limits.text:,} characters (limits.text) or "
                f"{NAMES_BYTES // 1024} KiB of names"
            )

    def _category(self, slot: int, text: str) -> int | None:
        codes = self.categories[slot]
        code = codes.get(text)
        if code is None and len(codes) < self.limits.categories and len(text) <= self.limits.text:
            code = codes[text] = len(codes)
        return code


_DERIVED: Final = frozenset({"_plans", "_plans_bytes", "_uses", "_texts", "remarks", "_remarked"})
"""Fields of a `FeatureTable` that are computed again, or begin again, after unpickling."""


def _uses(names: Sequence[str], kinds: Sequence[Kind]) -> list[tuple[str, int, bool]]:
    return [(name, slot, kind is Kind.TEXT) for slot, (name, kind) in enumerate(zip(names, kinds, strict=True))]


def _json_bytes(name: str) -> int:
    return len(msgspec.json.encode(str(name)))


def _text_bytes(name: str) -> int:
    """Return an upper bound on the bytes that a text takes in memory."""
    return 80 + 4 * len(str(name))


class RowBlock:
    """Events that name their features in one order, encoded as rows.

    Only forms that the table remembers can be added, so no event of a block has a new feature.

    Parameters
    ----------
    table
        Features of the stream.
    """

    def __init__(self, table: FeatureTable) -> None:
        self._table = table
        self._width = len(table)
        self.values: list[Iterable[Any]] = []
        """The values of each row. An event of a form that is `direct` is added by adding its values."""
        self._order: tuple[int, ...] | None = None
        self._begun = False

    def direct(self, form: tuple[object, ...]) -> bool:
        """Return whether the values of every event of a form are a row of the block, which is still empty."""
        plan = self._table._plans.get(form)
        self._begun = plan is not None and plan.direct
        return self._begun

    def add(self, x: Mapping[str, Value], *, again: bool = False) -> bool:
        """Encode an event as the next row, or return False if it does not belong to the block and change nothing.

        Parameters
        ----------
        again
            Whether the event was encoded before, so that its absent values are not counted again.
        """
        table = self._table
        plan = table._plans.get((*x, *map(type, x.values())))
        if plan is None or not self._is_next(plan.order):
            return False
        if plan.direct:
            self.values.append(x.values())
        elif again:
            with table._uncounted():
                self.values.append(table._follow(plan, x)[0])
        else:
            self.values.append(table._follow(plan, x)[0])
        return True

    def add_kept(self, kept: KeptFeatures) -> bool:
        """Add the row of an event that was kept, or return False if it does not belong to the block."""
        slots, values = kept.slots, kept.values
        if slots is None:
            if not self._is_next(None):
                return False
            missing = self._width - len(values)
            self.values.append(chain(values, repeat(nan, missing)) if missing else values)
            return True
        order = tuple(slots)
        if not self._is_next(None if list(order) == sorted(order) else order):
            return False
        row = [nan] * self._width
        for slot, value in zip(slots, values, strict=True):
            row[slot] = value
        self.values.append(row)
        return True

    def _is_next(self, order: tuple[int, ...] | None) -> bool:
        """Return whether an event with its features in this order can be the next row."""
        if self._begun:
            return order == self._order
        self._order, self._begun = order, True
        return True

    def rows(self) -> NDArray[np.float64]:
        """Return (count, d) rows, NaN where a feature is absent."""
        count = len(self.values)
        flat = np.fromiter(chain.from_iterable(self.values), np.float64, count * self._width)
        return flat.reshape(count, self._width)

    def order(self) -> Sequence[int]:
        """Return the slots in the order in which the events name their features."""
        return range(self._width) if self._order is None else self._order


@dataclass(slots=True)
class RowBuffer:
    """Rows of equal width that are collected for a block."""

    width: int = 0
    count: int = 0
    _values: "array[float]" = field(default_factory=lambda: array("d"))

    def append(self, row: Iterable[float]) -> None:
        """Add a row."""
        self._values.extend(row)
        self.count += 1

    def extend(self, rows: NDArray[np.float64]) -> None:
        """Add all rows of a matrix."""
        self._values.frombytes(rows.tobytes())
        self.count += len(rows)

    def matrix(self) -> NDArray[np.float64]:
        """Return the rows as a matrix of shape (count, width)."""
        if not self._values:
            return np.empty((self.count, self.width))
        return np.frombuffer(self._values, dtype=np.float64).reshape(self.count, self.width)

    def clear(self, width: int) -> None:
        """Remove the rows, and set the width of the next ones."""
        self._values = array("d")
        self.count = 0
        self.width = width
