"""Objects in JSON that stand for one value of a named type, as Avro, DynamoDB and MongoDB write them."""

import re
from collections.abc import Callable, Collection, Mapping
from math import isfinite
from typing import Any, Final, Literal

from glasstream.events.mapping.fields import Path

Wrapping = Literal["avro", "dynamodb", "mongodb"]
_DIGITS: Final = 400
"""Longest number in a text: as many digits as the largest float has, with sign and fraction."""
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|NaN|Infinity)")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+")
"""Full name of a record or enumeration of Avro."""


def unwrap(found: Any, wrapping: Wrapping, *, nan_as_null: bool = False) -> Any:
    """Return JSON with values in place of the objects that name their types.

    A value that does not have the form of its type stays as it is. Integers beyond 64 bits become floats, as JSON's do.

    Parameters
    ----------
    nan_as_null
        Whether NaN and the infinities, which these systems write as texts, are missing values.

    >>> unwrap({"age": {"int": 41}, "name": {"string": "a"}, "home": {"shop.Address": {"zip": None}}}, "avro")
    {'age': 41, 'name': 'a', 'home': {'zip': None}}
    >>> unwrap({"age": {"N": "41"}, "home": {"M": {"zip": {"S": "a"}, "flat": {"NULL": True}}}}, "dynamodb")
    {'age': 41, 'home': {'zip': 'a', 'flat': None}}
    >>> unwrap({"_id": {"$oid": "5f"}, "at": {"$date": "Z"}, "x": {"$numberDouble": "1.5"}}, "mongodb")
    {'_id': '5f', 'at': 'Z', 'x': 1.5}
    """
    if isinstance(found, list):
        return [unwrap(one, wrapping, nan_as_null=nan_as_null) for one in found]
    if not isinstance(found, dict):
        return found
    if len(found) == 1:
        [(name, inner)] = found.items()
        read = _TYPES[wrapping].get(name)
        if read is None and wrapping == "avro" and _NAME.fullmatch(name):
            read = _same
        if read is not None:
            value = read(unwrap(inner, wrapping, nan_as_null=nan_as_null))
            return None if nan_as_null and isinstance(value, float) and not isfinite(value) else value
    return {name: unwrap(inner, wrapping, nan_as_null=nan_as_null) for name, inner in found.items()}


def _same(value: Any) -> Any:
    return value


def _null(_: Any) -> None:
    return None


def _number(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > _DIGITS or not _NUMBER.fullmatch(value):
        return value
    number = float(value)
    return int(value) if _WHOLE.fullmatch(value) and abs(number) < 2**63 else number


_AVRO = ("boolean", "int", "long", "float", "double", "string", "bytes", "array", "map")
_TYPES: Final[Mapping[Wrapping, Mapping[str, Callable[[Any], Any]]]] = {
    "avro": dict.fromkeys(_AVRO, _same),
    "dynamodb": {**dict.fromkeys(("S", "BOOL", "M", "L", "B", "SS", "NS", "BS"), _same), "N": _number, "NULL": _null},
    "mongodb": {
        **dict.fromkeys(("$oid", "$date", "$uuid", "$symbol"), _same),
        **dict.fromkeys(("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"), _number),
        "$undefined": _null,
    },
}


def wrapping_of(paths: Collection[Path]) -> Wrapping | None:
    """Return how the values of a sample are wrapped, None if most are not.

    Parameters
    ----------
    paths
        Paths of its fields.

    >>> wrapping_of([("age", "N"), ("name", "S"), ("id",)]), wrapping_of([("age", "N"), ("name",)])
    ('dynamodb', None)
    """
    for wrapping, types in _TYPES.items():
        if sum(len(path) > 1 and path[-1] in types for path in paths) > len(paths) / 2:
            return wrapping
    return None
