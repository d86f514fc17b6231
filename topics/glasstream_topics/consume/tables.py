"""Records of a public topic as a table: one column for each field, and one type for each column.

The columns follow from the type of the records. A field that is a struct becomes a column for each of its fields
(`metric_name`, `metric_value`). A field that holds a number or a text becomes two: `target` has the text and
`target_number` the number. A list or a mapping is one column with JSON, unless the table has a row for each of its
entries: a row of `importance` is one feature of one record, and a row of `effects` is one point of one curve.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from importlib.util import find_spec
from operator import or_
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import msgspec

from glasstream_topics.effects import Effect
from glasstream_topics.errors import InputError
from glasstream_topics.importance import Importance

if TYPE_CHECKING:
    import pyarrow

T = TypeVar("T", bound=msgspec.Struct)

Type = Literal["integer", "number", "truth", "name", "text", "json"]
"""Type of a column. `name` is a text of which a table has few different ones, so that it is a category. `json` is a
text with the JSON of a list or a mapping."""

BATCH: Final = 10_000
"""Number of records that are turned into columns at a time."""
_ENTRIES: Final[Mapping[type, tuple[str, ...]]] = {Importance: ("features",), Effect: ("grid", "curve", "margin")}
"""Fields whose entries each have a row of the table. Several fields have as many entries each."""
_ENTRY: Final = {Importance: "feature", Effect: "point"}
"""Column with the key or the place of the entry."""
_FREE_TEXTS: Final = ("id", "summary")
"""Texts of which each record has another."""
_NUMBER: Final = "_number"
"""End of the name of the column with the number, where a field holds a number or a text."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    type: Type
    nullable: bool


class Layout(Generic[T]):
    """The columns of one type of records, and the rows of each record.

    Parameters
    ----------
    record
        Type of the records.

    Attributes
    ----------
    columns
        The columns, in order.

    >>> from glasstream_topics.novelty import Novelty
    >>> [column.name for column in Layout(Novelty).columns][:6]
    ['epoch', 'stream', 'seq', 'id', 'indicator', 'baseline']
    """

    def __init__(self, record: type[T]) -> None:
        self._record = record
        self._entries = _ENTRIES.get(record, ())
        fields = [field for field in _fields(record) if field.name != "schema_version"]
        self._whole = [field for field in fields if field.name not in self._entries]
        self._parts = [field for field in fields if field.name in self._entries]
        self.columns: tuple[Column, ...] = tuple(self._all_columns())

    def rows(self, record: T) -> Iterator[list[Any]]:
        """Yield the rows of a record: values in the order of `columns`, None where there is none."""
        shared: list[Any] = []
        for field in self._whole:
            shared += _values(field.type, getattr(record, field.name))
        if not self._entries:
            yield shared
            return
        fields = [getattr(record, field.name) for field in self._parts]
        if isinstance(fields[0], Mapping):
            kind = get_args(self._parts[0].type)[1]
            for name, value in fields[0].items():
                yield [*shared, name, *_values(kind, value)]
            return
        for place in range(len(fields[0])):
            row = [*shared, place]
            for field, entries in zip(self._parts, fields, strict=True):
                row += _values(_entry_type(field.type), None if entries is None else entries[place])
            yield row

    def _all_columns(self) -> Iterator[Column]:
        for field in self._whole:
            yield from _columns(field.name, field.type)
        for field in self._parts:
            if get_origin(field.type) is dict:
                yield Column(_ENTRY[self._record], "name", nullable=False)
                yield from _columns("", get_args(field.type)[1])
            else:
                if field is self._parts[0]:
                    yield Column(_ENTRY[self._record], "integer", nullable=False)
                yield from _columns(field.name, _entry_type(field.type), field.type is not _plain(field.type))


def arrow(layout: Layout[T], records: Iterable[T]) -> "Iterator[pyarrow.RecordBatch]":
    """Yield the rows of records as batches of Arrow columns.

    Raises
    ------
    InputError
        pyarrow is not installed.
    """
    import pyarrow

    schema = arrow_schema(layout)
    rows: list[list[Any]] = []

    def batch() -> "pyarrow.RecordBatch":
        columns = list(zip(*rows, strict=True)) or [()] * len(layout.columns)
        arrays = [pyarrow.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        return pyarrow.record_batch(arrays, schema=schema)

    for count, record in enumerate(records, 1):
        rows += layout.rows(record)
        if count % BATCH == 0:
            yield batch()
            rows = []
    if rows:
        yield batch()


def arrow_schema(layout: Layout[Any]) -> "pyarrow.Schema":
    """Return the Arrow types of the columns.

    Raises
    ------
    InputError
        pyarrow is not installed.
    """
    with_tables("pyarrow")
    import pyarrow

    types = {"integer": pyarrow.int64(), "number": pyarrow.float64(), "truth": pyarrow.bool_()}
    fields = [pyarrow.field(one.name, types.get(one.type, pyarrow.string()), one.nullable) for one in layout.columns]
    return pyarrow.schema(fields)


def with_tables(*modules: str, extra: str = "tables") -> None:
    """Check that libraries of an extra are installed.

    Raises
    ------
    InputError
        One is not.
    """
    for module in modules:
        if find_spec(module) is None:
            raise InputError(f"{extra}: expected {module}, got none; pip install 'glasstream[{extra}]'")


class _Field(NamedTuple):
    name: str
    type: Any


def _fields(record: type[msgspec.Struct]) -> list[_Field]:
    return [_Field(field.name, field.type) for field in msgspec.structs.fields(record)]


def _plain(kind: Any) -> Any:
    """Return a type without None and without the limits of its values."""
    if get_origin(kind) not in (Union, UnionType):
        return get_args(kind)[0] if hasattr(kind, "__metadata__") else kind
    left = [one for one in get_args(kind) if one is not NoneType]
    return _plain(left[0]) if len(left) == 1 else reduce(or_, map(_plain, left))


def _entry_type(kind: Any) -> Any:
    """Return the type of the entries of a list, or of a list that may be None."""
    return get_args(_plain(kind))[0]


def _alternatives(kind: Any) -> set[Any]:
    plain = _plain(kind)
    return set(get_args(plain)) if get_origin(plain) in (Union, UnionType) else {plain}


def _nullable(kind: Any) -> bool:
    return get_origin(kind) in (Union, UnionType) and NoneType in get_args(kind)


def _columns(name: str, kind: Any, nullable: bool = False) -> Iterator[Column]:
    """Yield the columns of a field. A name without text is that of a struct whose fields keep their own names."""
    plain, nullable = _plain(kind), nullable or _nullable(kind)
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        for field in _fields(plain):
            yield from _columns(f"{name}_{field.name}" if name else field.name, field.type, nullable)
        return
    several = _alternatives(kind)
    if len(several) > 1:
        yield Column(name, "name", nullable=True)
        yield Column(name + _NUMBER, "number", nullable=True)
    else:
        types: dict[Any, Type] = {int: "integer", float: "number", bool: "truth"}
        name_or_json: Type = "name" if plain is str or get_origin(plain) is Literal else "json"
        yield Column(name, types.get(plain, "text" if name in _FREE_TEXTS else name_or_json), nullable)


def _values(kind: Any, value: Any) -> Sequence[Any]:
    """Return the values of the columns that `_columns` makes of a field."""
    plain = _plain(kind)
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        values: list[Any] = []
        for field in _fields(plain):
            values += _values(field.type, None if value is None else getattr(value, field.name))
        return values
    if len(_alternatives(kind)) > 1:
        number = isinstance(value, float | int) and not isinstance(value, bool)
        text = value if isinstance(value, str) or value is None else "true" if value else "false"
        return (None, float(value)) if number else (text, None)
    if value is None or plain in (int, float, bool, str) or get_origin(plain) is Literal:
        return (value,)
    return (msgspec.json.encode(value).decode(),)
