"""A value that another system has wrapped in its type is the value."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.mapping.formats import Json, JsonLines
from glasstream.events.mapping.unwrap import Wrapping, unwrap

NAMES = st.from_regex(r"[a-z]{2,5}_", fullmatch=True)
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.none() | st.booleans() | NUMBERS | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.dictionaries(NAMES, inner, max_size=3), max_leaves=8)
DOCUMENTS = st.dictionaries(NAMES, VALUES, min_size=1)


def avro(value: Any) -> Any:
    if isinstance(value, dict):
        return {"shop.Inner": {name: avro(inner) for name, inner in value.items()}}
    if value is None:
        return None
    return {{bool: "boolean", int: "long", float: "double", str: "string"}[type(value)]: value}


def dynamodb(value: Any) -> Any:
    if isinstance(value, dict):
        return {"M": {name: dynamodb(inner) for name, inner in value.items()}}
    if value is None:
        return {"NULL": True}
    if isinstance(value, bool):
        return {"BOOL": value}
    return {"S": value} if isinstance(value, str) else {"N": repr(value)}


def mongodb(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: mongodb(inner) for name, inner in value.items()}
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    return {"$numberLong" if isinstance(value, int) else "$numberDouble": repr(value)}


@pytest.mark.parametrize(("wrapping", "wrap"), [("avro", avro), ("dynamodb", dynamodb), ("mongodb", mongodb)])
@given(document=DOCUMENTS)
def test_what_is_wrapped_comes_back(wrapping: Wrapping, wrap: Any, document: dict[str, Any]) -> None:
    wrapped = orjson.loads(orjson.dumps({name: wrap(value) for name, value in document.items()}))
    assert unwrap(wrapped, wrapping) == document


@pytest.mark.parametrize("wrapping", ["avro", "dynamodb", "mongodb"])
@given(document=DOCUMENTS)
def test_what_is_not_wrapped_stays(wrapping: Wrapping, document: dict[str, Any]) -> None:
    assert unwrap(document, wrapping) == document


def test_what_is_no_number_is_missing_if_the_settings_say_so() -> None:
    document = b'{"a":{"$numberDouble":"NaN"},"b":{"$numberDouble":"-Infinity"},"c":1}'
    for read in (Json, JsonLines):
        ((found,), _) = read(wrapping="mongodb", nan_as_null=True).read("t", document)
        assert found == {"a": None, "b": None, "c": 1}
        ((mixed,), _) = read(wrapping="mongodb", nan_as_null=True).read("t", document.replace(b"1}", b"NaN}"))
        assert mixed == {"a": None, "b": None, "c": None}


@pytest.mark.parametrize("value", [{"N": "x"}, {"N": "9" * 5_000}, {"N": 7}])
def test_a_number_that_is_none_stays_what_it_is(value: dict[str, Any]) -> None:
    assert unwrap({"a": value}, "dynamodb") == {"a": value["N"]}
