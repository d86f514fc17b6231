"""Hostile messages with schemas become dead letters, and the messages around them arrive."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.message import Message
from glasstream.kafka.stages.intake import Intake
from glasstream.kafka.stages.schemas import Confined
from glasstream_topics import events_dead
from tests.support.schema_registry import Registry, registry

pytestmark = pytest.mark.program

NULLS = {"type": "record", "name": "r", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]}
LIST = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["null", "r"]}]}
DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
PRICE = {"type": "record", "name": "r", "fields": [{"name": "price", "type": DECIMAL}]}
PATTERN = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
UNIQUE = {"type": "object", "properties": {"a": {"uniqueItems": True}}}
BUSH = {
    "allOf": [{"$ref": "#/$defs/d0"}],
    "$defs": {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(40)} | {"d40": True},
}
GOOD_AVRO = {"type": "record", "name": "g", "fields": [{"name": "n", "type": "int"}]}
GOOD_JSON = {"type": "object", "properties": {"n": {"type": "integer"}}}


def long(number: int) -> bytes:
    content = io.BytesIO()
    fastavro.schemaless_writer(content, "long", number)
    return content.getvalue()


@contextmanager
def confined(name: str, address: str | None, cpu: float = 0.5, **settings: str) -> Iterator[Confined]:
    made = IntakeSettings(topics="t", format=name, registry=address, **settings)  # type: ignore[arg-type]
    form = Confined(made, name, None, cpu, 256 * 1024 * 1024)
    try:
        yield form
    finally:
        form.close()


def framed(schemas: Registry, schema: dict[str, Any], kind: str, body: bytes) -> bytes:
    known = {"schema": json.dumps(schema), "schemaType": kind}
    if known not in schemas.schemas:
        schemas.schemas.append(known)
    return b"\0" + (schemas.schemas.index(known) + 1).to_bytes(4, "big") + body


def handled(form: Confined, values: list[bytes]) -> tuple[list[int], list[events_dead.DeadLetter]]:
    """Return the events and dead letters of an intake that reads these messages in one transaction."""
    settings = load(assignments=["intake.topics=t", "topics.events=1"])
    stage = Intake(settings, lambda name: form, lambda types: types)
    records = stage.handle([Message("t", 0, n, None, value, 0) for n, value in enumerate(values)])
    letters = [events_dead.decode(one.headers) for one in records if one.topic.endswith("dead")]
    events: list[Any] = []
    for one in records:
        if not one.topic.endswith("dead"):
            content = orjson.loads(one.value or b"")
            events += content if isinstance(content, list) else [content]
    return [event["x"]["n"] for event in events], letters


def test_hostile_messages_of_avro_lie_between_good_ones() -> None:
    decimal = io.BytesIO()
    fastavro.schemaless_writer(decimal, "bytes", b"\x7f" * 1_000_000)
    with registry() as schemas, confined("avro", schemas.address) as form:
        good = [framed(schemas, GOOD_AVRO, "AVRO", long(n)) for n in range(5)]
        nulls = framed(schemas, NULLS, "AVRO", long(2**40) + long(0))
        deep = framed(schemas, LIST, "AVRO", long(1) * 500_000 + long(0))
        price = framed(schemas, PRICE, "AVRO", decimal.getvalue())
        found, letters = handled(form, [good[0], nulls, good[1], deep, good[2], price, good[3], nulls, good[4]])
    assert found == [0, 1, 2, 3, 4]
    assert [(one.offset, one.reason) for one in letters] == [(n, "bad_encoding") for n in (1, 3, 5, 7)]
    assert "at most 64 bytes, got 1,000,000" in letters[2].detail


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (PATTERN, {"a": "a" * 60 + "!"}),
        (UNIQUE, {"a": [{"k": n, str(n): [n]} for n in range(10_000)]}),
        (BUSH, {"a": 1}),
    ],
    ids=["pattern", "unique", "references"],
)
def test_hostile_messages_of_json_lie_between_good_ones(schema: dict[str, Any], value: Any) -> None:
    with registry() as schemas, confined("json-schema", schemas.address) as form:
        good = [framed(schemas, GOOD_JSON, "JSON", orjson.dumps({"n": n})) for n in range(2)]
        found, letters = handled(form, [good[0], framed(schemas, schema, "JSON", orjson.dumps(value)), good[1]])
    assert found == [0, 1]
    assert [(one.offset, one.reason) for one in letters] == [(1, "bad_encoding")]
    assert "0.5 s of processor time and 256 MiB suffice" in letters[0].detail


def test_a_message_that_ended_the_process_is_remembered() -> None:
    with registry() as schemas, confined("json-schema", schemas.address) as form:
        bad = framed(schemas, PATTERN, "JSON", orjson.dumps({"a": "a" * 60 + "!"}))
        good = framed(schemas, GOOD_JSON, "JSON", orjson.dumps({"n": 1}))
        form.prepare([("t", bad)])
        assert form.read("t", good) == ([{"n": 1}], False)
        process = form._process
        form.prepare([("t", bad), ("t", good)])
        assert form._process is process  # it has not ended again
        with pytest.raises(Misfit, match="processor time"):
            form.read("t", bad)


def test_a_process_that_something_else_ends_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "s.avsc").write_text(json.dumps(GOOD_AVRO))
    with confined("avro", None, schema=str(tmp_path / "s.avsc")) as form:
        assert form.read("t", long(1)) == ([{"n": 1}], False)
        assert form._process is not None
        form._process.kill()
        form._process.wait()
        assert form.read("t", long(2)) == ([{"n": 2}], False)


def test_values_and_errors_pass_unchanged(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "a", "type": ["long", "double", "bytes", "string"]}]}
    (tmp_path / "s.avsc").write_text(json.dumps(schema))
    with confined("avro", None, schema=str(tmp_path / "s.avsc")) as form:
        for value in (float("inf"), 0.1, b"\xff", "\u2028ä", -(2**63), 2**63 - 1):
            content = io.BytesIO()
            fastavro.schemaless_writer(content, schema, {"a": value})
            assert form.read("t", content.getvalue()) == ([{"a": value}], False)
        with pytest.raises(Misfit, match="bytes that do not fit"):
            form.read("t", b"\x09")
