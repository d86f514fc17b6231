"""Messages with schemas, as confluent-kafka's own serializers write them, and what they become when schemas change."""

import io
import json
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest
import trustme
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from glasstream.base.errors import SettingsError, UnavailableError
from glasstream.events.mapping.formats import Format
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.kafka.secret import registry_login
from glasstream.kafka.stages.decoders import decoder
from glasstream.kafka.stages.registry import LOGIN
from tests.support.orders import (
    ADDED,
    DOUBLE,
    INCOME,
    OF_AGE,
    OF_INCOME,
    READER,
    REMOVED,
    RENAMED,
    TEXT,
    V1,
    json_schema,
    message,
    record,
)
from tests.support.schema_registry import Registry, registry

CONTEXT = SerializationContext("orders", MessageField.VALUE)


@pytest.fixture
def schemas() -> Iterator[Registry]:
    with registry() as made:
        yield made


def reader(address: str | None, name: str, environment: dict[str, str] | None = None, **settings: Any) -> Format:
    made = IntakeSettings(topics="orders", format=name, registry=address, **settings)  # type: ignore[arg-type]
    return decoder(made, name, registry_login(environment or {}))


def avro(address: str, schema: str, content: dict[str, Any]) -> bytes:
    found = AvroSerializer(SchemaRegistryClient({"url": address}), schema)(content, CONTEXT)
    assert found is not None
    return found


def read(one: Format, value: bytes) -> Any:
    documents, several = one.read("orders", value)
    assert not several and len(documents) == 1
    return documents[0]


def test_avro_of_any_version_is_read_by_its_own_schema(schemas: Registry) -> None:
    one = reader(schemas.address, "avro")
    assert read(one, avro(schemas.address, V1, {"age": 4, "income": 2.5})) == {"age": 4, "income": 2.5}
    added = avro(schemas.address, ADDED, {"age": 4, "income": 2.5, "town": "Ulm"})
    assert read(one, added) == {"age": 4, "income": 2.5, "town": "Ulm"}
    assert read(one, avro(schemas.address, REMOVED, {"age": 4})) == {"age": 4}
    assert read(one, avro(schemas.address, RENAMED, {"age": 4, "salary": 2.5})) == {"age": 4, "salary": 2.5}


def test_a_readers_schema_resolves_what_was_added_removed_or_renamed(schemas: Registry, tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(READER)
    one = reader(schemas.address, "avro", schema=str(tmp_path / "order.avsc"))
    for schema, content, income in (
        (V1, {"age": 4, "income": 2.5}, 2.5),
        (ADDED, {"age": 4, "income": 2.5, "town": "Ulm"}, 2.5),
        (REMOVED, {"age": 4}, 0.0),
        (RENAMED, {"age": 4, "salary": 2.5}, 2.5),
        (record({"name": "years", "type": "int"}, INCOME), {"years": 4, "income": 2.5}, 2.5),
    ):
        assert read(one, avro(schemas.address, schema, content)) == {"age": 4, "income": income}
    with pytest.raises(Misfit) as found:
        one.read("orders", avro(schemas.address, record({"name": "age", "type": "string"}), {"age": "x"}))
    assert found.value.reason == "bad_encoding"


def test_times_and_decimals_of_avro_are_numbers(schemas: Registry) -> None:
    schema = record(
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "sum", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "deep", "type": {"type": "map", "values": "long"}},
    )
    at = datetime(1970, 1, 1, 0, 0, 1, 234_000, UTC)
    content = {"at": at, "day": datetime(1970, 1, 2).date(), "sum": Decimal("12.50"), "deep": {"a": 1}}
    found = read(reader(schemas.address, "avro"), avro(schemas.address, schema, content))
    assert found == {"at": 1234, "day": 86_400_000, "sum": 12.5, "deep": {"a": 1}}


def test_json_schema_of_any_version(schemas: Registry) -> None:
    one = reader(schemas.address, "json-schema")
    client = SchemaRegistryClient({"url": schemas.address})
    for properties in ({"age": "integer"}, {"age": "integer", "town": "string"}):
        schema = json_schema(**properties)
        value = JSONSerializer(schema, client)({"age": 4}, CONTEXT)
        assert value is not None and read(one, value) == {"age": 4}
    with pytest.raises(Misfit, match="do not fit"):
        one.read("orders", value[:5] + b'{"age": "x"}')


def test_protobuf_by_numbers_of_fields(schemas: Registry, tmp_path: Path) -> None:
    path = tmp_path / "order.desc"
    message(OF_AGE, OF_INCOME, path=path)
    settings = {"schema": str(path), "message": "shop.Order"}
    one, plain = reader(schemas.address, "protobuf", **settings), reader(None, "protobuf", **settings)
    client = SchemaRegistryClient({"url": schemas.address})
    for fields, content, expected in (
        ([OF_AGE, OF_INCOME], {"age": 2**40, "income": 2.5}, {"age": 2**40, "income": 2.5}),
        ([OF_AGE, OF_INCOME, ("town", 3, TEXT)], {"age": 4, "town": "Ulm"}, {"age": 4, "income": 0.0}),
        ([OF_AGE], {"age": 4}, {"age": 4, "income": 0.0}),
        ([OF_AGE, ("salary", 2, DOUBLE)], {"age": 4, "salary": 2.5}, {"age": 4, "income": 2.5}),
    ):
        written = message(*fields)(**content)
        value = ProtobufSerializer(type(written), client, {"use.deprecated.format": False})(written, CONTEXT)
        assert value is not None and read(one, value) == expected
        assert read(plain, written.SerializeToString()) == expected
    for broken in (reader(None, "protobuf", **settings), one):
        with pytest.raises(Misfit) as found:
            broken.read("orders", value[:6] + b"\xff\xff" if broken is one else b"\xff\xff")
        assert found.value.reason == "bad_encoding"


def test_avro_without_a_registry(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(V1)
    one = reader(None, "avro", schema=str(tmp_path / "order.avsc"))
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(V1)), {"age": 4, "income": 2.5})
    assert read(one, out.getvalue()) == {"age": 4, "income": 2.5}
    for value in (out.getvalue()[:-1], out.getvalue() + b"x", b""):
        with pytest.raises(Misfit, match="do not fit"):
            one.read("orders", value)


def test_what_has_no_known_schema_is_a_dead_letter(schemas: Registry) -> None:
    one = reader(schemas.address, "avro")
    good = avro(schemas.address, V1, {"age": 4, "income": 2.5})
    for value, reason in (
        (b'{"age":4}', "bad_encoding"),
        (b"\0\0\0", "bad_encoding"),
        (b"\0\0\0\1\0" + good[5:], "unknown_schema"),
        (good[:-3], "bad_encoding"),
    ):
        with pytest.raises(Misfit) as found:
            one.read("orders", value)
        assert found.value.reason == reason
    assert read(one, good) == {"age": 4, "income": 2.5}


def test_a_registry_that_fails_is_waited_for(schemas: Registry) -> None:
    good, one = avro(schemas.address, V1, {"age": 4, "income": 2.5}), reader(schemas.address, "avro")
    schemas.answer = 503
    with pytest.raises(UnavailableError, match=r"registry at http://localhost:\d+ gives no schema: .*503"):
        one.read("orders", good)
    schemas.answer, schemas.login = None, "ann:secret"
    with pytest.raises(UnavailableError, match=f"401.*{LOGIN}"):
        one.read("orders", good)
    with pytest.raises(UnavailableError, match="401"):
        reader(schemas.address, "avro", {LOGIN: "ann:wrong"}).read("orders", good)
    allowed = reader(schemas.address, "avro", {LOGIN: "ann:secret"})
    assert read(allowed, good) == {"age": 4, "income": 2.5}
    schemas.answer = 503  # known schemas need no registry
    assert read(allowed, good) == {"age": 4, "income": 2.5}
    with pytest.raises(UnavailableError, match="gives no schema"):
        reader("http://localhost:9", "avro").read("orders", good)


def test_a_json_schema_refers_to_subjects_and_to_no_other_address(schemas: Registry) -> None:
    count = {"schema": json.dumps({"type": "integer"}), "schemaType": "JSON"}
    schemas.schemas.append(count)
    schemas.subjects["count"] = [1]
    of_subject = {"properties": {"n": {"$ref": "count.json"}}}
    reference = {"name": "count.json", "subject": "count", "version": 1}
    schemas.schemas.append({"schema": json.dumps(of_subject), "schemaType": "JSON", "references": [reference]})
    elsewhere = {"properties": {"n": {"$ref": f"{schemas.address}/schemas/ids/1"}}}
    schemas.schemas.append({"schema": json.dumps(elsewhere), "schemaType": "JSON"})
    one = reader(schemas.address, "json-schema")
    assert read(one, b'\0\0\0\0\2{"n": 1}') == {"n": 1}
    with pytest.raises(Misfit, match="bytes that do not fit: ValidationError"):
        one.read("orders", b'\0\0\0\0\2{"n": "x"}')
    before = schemas.requests
    with pytest.raises(Misfit, match=r"Unresolvable|WrappedReferencingError"):
        one.read("orders", b'\0\0\0\0\3{"n": 1}')
    assert schemas.requests == before + 1  # for the schema itself


def test_a_registry_with_tls_needs_its_authority(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    with registry(context) as made:
        made.schemas.append({"schema": V1})
        value = b"\0\0\0\0\1" + b"\x08" + b"\0" * 8
        with pytest.raises(UnavailableError, match="certificate"):
            reader(made.address, "avro").read("orders", value)
        one = reader(made.address, "avro", registry_ca=str(tmp_path / "ca.pem"))
        assert read(one, value) == {"age": 4, "income": 0.0}


def test_a_schema_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x"
    for name, settings, says in (
        ("avro", {}, r"intake.schema: .*x cannot be read"),
        ("protobuf", {"message": "a.B"}, r"intake.schema: .*x cannot be read"),
    ):
        with pytest.raises(SettingsError, match=says):
            reader(None, name, schema=str(path), **settings)
    path.write_text('{"type": "nonsense"}')
    with pytest.raises(SettingsError, match="expected an Avro schema"):
        reader(None, "avro", schema=str(path))
    with pytest.raises(SettingsError, match="expected a descriptor set"):
        reader(None, "protobuf", schema=str(path), message="a.B")
    message(OF_AGE, path=path)
    with pytest.raises(SettingsError, match=r"intake.message: expected a message in .*'a.B'"):
        reader(None, "protobuf", schema=str(path), message="a.B")
