"""The intake with a real schema registry, by TLS and with a login: formats, changed schemas, and failures."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from glasstream.app.command.cli import cli
from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import UnavailableError
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.kafka.stages.registry import LOGIN
from glasstream.kafka.stages.schemas import format_maker
from glasstream.kafka.transport.connection import connection
from glasstream_topics import events_dead
from tests.support.apicurio import Apicurio
from tests.support.deployment import Deployment
from tests.support.metrics import address, ask
from tests.support.orders import (
    ADDED,
    DOUBLE,
    OF_AGE,
    OF_INCOME,
    READER,
    REMOVED,
    RENAMED,
    TEXT,
    V1,
    json_schema,
    message,
)
from tests.support.transport_harness import make_topics, read_all
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
Deploy = Callable[..., Deployment]
Write = Callable[[SchemaRegistryClient, SerializationContext], Iterator[bytes]]
"""Function that registers schemas and yields orders: 3 × that of the first schema, one with a field added, ..."""
SALARY = ("salary", 2, DOUBLE)
NO_SCHEMA = 2**31 - 1
"""Id of a schema that the registry does not have."""


def client(schema_registry: Apicurio) -> SchemaRegistryClient:
    return SchemaRegistryClient(
        {
            "url": schema_registry.address,
            "basic.auth.user.info": schema_registry.login,
            "ssl.ca.location": str(schema_registry.ca),
        }
    )


def avro(registered: SchemaRegistryClient, context: SerializationContext) -> Iterator[bytes]:
    for schema, content in (
        (V1, {"age": 4, "income": 2.5}),
        (ADDED, {"age": 5, "income": 2.5, "town": "Ulm"}),
        (REMOVED, {"age": 6}),
        (RENAMED, {"age": 7, "salary": 2.5}),
        (V1, {"age": 8, "income": 2.5}),
    ):
        yield AvroSerializer(registered, schema)(content, context) or b""


def json_text(registered: SchemaRegistryClient, context: SerializationContext) -> Iterator[bytes]:
    first = {"age": "integer", "income": "number"}
    for properties, content in (
        (first, {"age": 4, "income": 2.5}),
        ({**first, "town": "string"}, {"age": 5, "income": 2.5, "town": "Ulm"}),
        ({"age": "integer"}, {"age": 6}),
        ({"age": "integer", "salary": "number"}, {"age": 7, "salary": 2.5}),
        (first, {"age": 8, "income": 2.5}),
    ):
        yield JSONSerializer(json_schema(**properties), registered)(content, context) or b""


def protobuf(registered: SchemaRegistryClient, context: SerializationContext) -> Iterator[bytes]:
    for fields, content in (
        ([OF_AGE, OF_INCOME], {"age": 4, "income": 2.5}),
        ([OF_AGE, OF_INCOME, ("town", 3, TEXT)], {"age": 5, "income": 2.5, "town": "Ulm"}),
        ([OF_AGE], {"age": 6}),
        ([OF_AGE, SALARY], {"age": 7, "salary": 2.5}),
        ([OF_AGE, OF_INCOME], {"age": 8, "income": 2.5}),
    ):
        order = message(*fields)(**content)
        serializer = ProtobufSerializer(type(order), registered, {"use.deprecated.format": False})
        yield serializer(order, context) or b""


AS_WRITTEN = [
    {"age": 4, "income": 2.5},
    {"age": 5, "income": 2.5, "town": "Ulm"},
    {"age": 6},
    {"age": 7, "salary": 2.5},
    {"age": 8, "income": 2.5},
]
RESOLVED = [{"age": number, "income": 0.0 if number == 6 else 2.5} for number in range(4, 9)]
"""With a reader's schema, or by the numbers of fields: an added field is left out, a removed one has its default."""


@pytest.mark.parametrize(
    ("name", "write", "resolved"),
    [
        ("avro", avro, False),
        ("avro", avro, True),
        ("json-schema", json_text, False),
        ("protobuf", protobuf, True),
    ],
    ids=["avro", "avro with a reader's schema", "json-schema", "protobuf"],
)
def test_orders_of_changed_schemas_become_events(
    name: str,
    write: Write,
    resolved: bool,
    schema_registry: Apicurio,
    deploy: Deploy,
    kafka: str,
    prefix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Those of an unknown schema, or that do not fit theirs, become dead letters with their bytes."""
    source = f"{prefix}orders"
    make_topics(kafka, {source: 1})
    settings = [f"intake.topics={source}", f"intake.format={name}", f"intake.registry={schema_registry.address}"]
    settings += [f"intake.registry_ca={schema_registry.ca}", "intake.stream==shop", "intake.id=@place"]
    if name == "protobuf":
        message(OF_AGE, OF_INCOME, path=tmp_path / "schema")
        settings += ["intake.message=shop.Order"]
    elif resolved:
        (tmp_path / "schema").write_text(READER)
    if resolved:
        settings += [f"intake.schema={tmp_path / 'schema'}"]

    context = SerializationContext(source, MessageField.VALUE)
    registered = client(schema_registry)
    good = [*write(registered, context)]
    assert len(registered.get_versions(f"{source}-value")) == 4  # the first schema is not registered again
    unknown = b"\0" + NO_SCHEMA.to_bytes(4, "big") + good[0][5:]
    broken = [b'{"age":4}', b"\0\0\0", good[0][:7]]
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for value in (*good[:2], unknown, *broken, *good[2:]):
        producer.produce(source, value)
    assert producer.flush(60.0) == 0

    monkeypatch.setenv(LOGIN, schema_registry.login)
    given = [word for setting in settings for word in ("--set", setting)]
    tried = ["intake", "try", "--topic", source, "--broker", kafka, "--prefix", prefix, *given]
    cli.main(tried, standalone_mode=False)
    said = capsys.readouterr().out
    assert "unknown_schema" in said and "bad_encoding" in said and '"age":4' in said

    deployment = deploy(*settings)
    deployment.start("intake", **{LOGIN: schema_registry.login})

    def arrived() -> bool:
        return len(events(kafka, prefix)) >= len(good) and len(letters(deployment)) >= 4

    wait_for("all orders", arrived)
    assert deployment.stop("intake-1") == 0
    assert [one["x"] for one in events(kafka, prefix)] == (RESOLVED if resolved else AS_WRITTEN)
    places = [0, 1, 6, 7, 8]
    assert [one["id"] for one in events(kafka, prefix)] == [f"{source}[0]@{place}" for place in places]
    assert Counter(letters(deployment)) == Counter(
        [(unknown, "unknown_schema"), *((value, "bad_encoding") for value in broken)]
    )


def events(kafka: str, prefix: str) -> list[dict[str, Any]]:
    """Return all events, in order."""
    found: list[dict[str, Any]] = []
    for values in read_all(kafka, f"{prefix}events"):
        for value in values:
            content = orjson.loads(value or b"")
            found += content if isinstance(content, list) else [content]
    return found


def letters(deployment: Deployment) -> list[tuple[bytes | None, str]]:
    """Return the content and the reason of each dead letter."""
    settings = deployment.settings
    begin = {(settings.prefix + events_dead.TOPIC.name, part): 0 for part in range(settings.topics.events)}
    return [
        (one.value, events_dead.decode(one.headers).reason)
        for one in read_records(connection(settings), begin, read_committed=True)
    ]


def test_a_registry_that_refuses_or_does_not_answer_is_waited_for(
    schema_registry: Apicurio, deploy: Deploy, kafka: str, prefix: str, tmp_path: Path
) -> None:
    """No order is lost or skipped meanwhile, and /readyz says what is wrong."""
    source = f"{prefix}orders"
    make_topics(kafka, {source: 1})
    deployment = deploy(
        f"intake.topics={source}", "intake.format=avro", f"intake.registry={schema_registry.address}",
        f"intake.registry_ca={schema_registry.ca}", "intake.stream==shop",
    )  # fmt: skip
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    context = SerializationContext(source, MessageField.VALUE)
    for value in avro(client(schema_registry), context):
        producer.produce(source, value)
    assert producer.flush(60.0) == 0

    def says(worker: str, text: str) -> bool:
        deployment.poll()
        if "health and metrics on" not in deployment.log(worker):
            return False
        status, body = ask(address(deployment, worker) + "/readyz")
        return status == 503 and text in body

    deployment.start("intake", "wrong", **{LOGIN: f"{schema_registry.login}?"})
    wait_for("the login is refused", lambda: says("wrong", "401"))
    assert deployment.stop("wrong") == 0

    (tmp_path / "login").write_text(schema_registry.login + "\n")
    with schema_registry.paused():
        deployment.start("intake", "right", **{f"{LOGIN}_FILE": str(tmp_path / "login")})
        wait_for("the registry does not answer", lambda: says("right", f"registry at {schema_registry.address}"))
        assert not events(kafka, prefix)
    wait_for("all orders", lambda: len(events(kafka, prefix)) >= len(AS_WRITTEN))
    assert deployment.stop("right") == 0
    assert [one["x"] for one in events(kafka, prefix)] == AS_WRITTEN
    assert not letters(deployment)


def test_errors_of_the_registry_are_told_apart(schema_registry: Apicurio) -> None:
    """What is waited for, and what is a fault of the message: by the answers of a real registry."""
    (good, *_) = avro(client(schema_registry), SerializationContext("told-apart", MessageField.VALUE))

    def read(login: str | None, ca: str | None, value: bytes = good) -> Any:
        settings = IntakeSettings(topics="orders", format="avro", registry=schema_registry.address, registry_ca=ca)
        return format_maker(settings, {} if login is None else {LOGIN: login})("avro").read("orders", value)

    ca = str(schema_registry.ca)
    assert read(schema_registry.login, ca) == ([{"age": 4, "income": 2.5}], False)
    for login in (None, "ann:wrong", "bob:secret"):
        with pytest.raises(UnavailableError, match=f"gives no schema: 401.*{LOGIN}"):
            read(login, ca)
    with pytest.raises(UnavailableError, match=r"certificate.*intake\.registry_ca"):
        read(schema_registry.login, None)
    with pytest.raises(Misfit, match=f"got the id {NO_SCHEMA}") as found:
        read(schema_registry.login, ca, b"\0" + NO_SCHEMA.to_bytes(4, "big") + good[5:])
    assert found.value.reason == "unknown_schema"
