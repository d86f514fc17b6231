"""Strategies for records of a type, with every value that the type allows and JSON can hold."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

LONG = 2**63
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def records(record: type[msgspec.Struct]) -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for the fields of records; fields that may be left out are sometimes left out."""
    return _values(inspect.type_info(record))


def _values(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType():
            return st.integers(-LONG if info.ge is None else info.ge, LONG - 1)
        case inspect.FloatType():
            return st.floats(info.ge, info.le, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return text
        case inspect.LiteralType():
            return st.sampled_from(info.values)
        case inspect.ListType():
            return st.lists(_values(info.item_type), max_size=3)
        case inspect.DictType():
            return st.dictionaries(text, _values(info.value_type), max_size=3)
        case inspect.UnionType():
            return st.one_of(*map(_values, info.types))
        case inspect.Metadata():
            return _values(info.type)
        case inspect.TupleType():
            return st.tuples(*map(_values, info.item_types))
        case inspect.StructType():
            always = {one.encode_name: _values(one.type) for one in info.fields if one.required}
            optional = {one.encode_name: _values(one.type) for one in info.fields if not one.required}
            return st.fixed_dictionaries(always, optional=optional)
    raise TypeError(f"no strategy for {info}")
