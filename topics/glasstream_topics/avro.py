"""Avro schemas of the published records, generated from the types of the records as their JSON Schemas are.

A field that may be null or absent is a union with null, which is its default. A field that may be a text or a number is
a union of both. Mappings are Avro maps. A dead letter, whose JSON type describes headers, has the rejected message in
the field `value`. The texts of the schemas are those of the docstrings.
"""

from inspect import cleandoc
from typing import Any, Final

import msgspec
from msgspec import inspect

from glasstream_topics.contract import Topic
from glasstream_topics.errors import ContractError
from glasstream_topics.reference import meanings

VALUE: Final = "value"
"""Field with the rejected message of a dead letter."""

LARGEST: Final = 2**63 - 1
"""Largest integer of Avro. The smallest is `-LARGEST - 1`."""

_PLAIN: Final = {
    inspect.NoneType: "null",
    inspect.BoolType: "boolean",
    inspect.IntType: "long",
    inspect.FloatType: "double",
    inspect.StrType: "string",
    inspect.BytesType: "bytes",
}
_ORDER: Final = tuple(_PLAIN.values())
"""Order of the types in a union. Who writes a number takes the first type that it fits: an integer is no double."""


def schema(topic: Topic) -> dict[str, Any]:
    """Return the Avro schema of the records of a published topic.

    Raises
    ------
    ContractError
        Avro has no type for a field.
    """
    (record,) = topic.records
    made: dict[str, Any] = _type(inspect.type_info(record), set())
    if topic.codec == "raw":
        made["fields"].append(_field(VALUE, "the rejected message; null if it was not kept.", ["null", "bytes"], None))
    return {"type": "record", "name": made.pop("name"), "namespace": f"glasstream.{topic.name}", **made}


def _type(info: inspect.Type, named: set[str]) -> Any:
    """Return the schema of a type. A record that is in `named` already is only named."""
    plain = _PLAIN.get(type(info))
    if plain is not None:
        return plain
    if isinstance(info, inspect.LiteralType):
        return "long" if isinstance(info.values[0], int) else "string"
    if isinstance(info, inspect.ListType):
        return {"type": "array", "items": _type(info.item_type, named)}
    if isinstance(info, inspect.DictType):
        return {"type": "map", "values": _type(info.value_type, named)}
    if isinstance(info, inspect.UnionType):
        found = [_type(one, named) for one in info.types]
        return sorted(found, key=lambda one: _ORDER.index(one) if one in _ORDER else len(_ORDER))
    if isinstance(info, inspect.StructType):
        return _record(info, named)
    if isinstance(info, inspect.Metadata):  # of a tuple: the names of its elements
        extra, inner = info.extra or {}, info.type
        if isinstance(inner, inspect.TupleType):
            types = [_type(one, named) for one in inner.item_types]
            fields = [{"name": name, "type": kind} for name, kind in zip(extra["fields"], types, strict=True)]
            return {"type": "record", "name": extra["record"], "fields": fields}
    raise ContractError(f"expected a type of JSON records, got {info}")


def _record(info: inspect.StructType, named: set[str]) -> Any:
    name = info.cls.__name__
    if name in named:
        return name
    named.add(name)
    text = cleandoc(info.cls.__doc__ or "")
    described = {"schema_version": "version of this record's schema."} | meanings(text)
    fields = [
        _field(one.encode_name, described.get(one.name, ""), _type(one.type, named), _default(one))
        for one in info.fields
    ]
    return {"type": "record", "name": name, "doc": text.partition("\n\n")[0].replace("\n", " "), "fields": fields}


def _default(field: inspect.Field) -> Any:
    return field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _field(name: str, doc: str, kind: Any, default: Any) -> dict[str, Any]:
    """Return a field. The default of a field that may be null is null, so that later schemas can leave it out."""
    if isinstance(kind, list) and kind[0] == "null":
        default = None
    described = {"doc": doc} if doc else {}
    defaults = {} if default is msgspec.NODEFAULT else {"default": default}
    return {"name": name, "type": kind, **described, **defaults}
