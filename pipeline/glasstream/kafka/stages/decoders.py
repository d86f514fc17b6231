"""Decoders of Avro, Protobuf and JSON Schema, by confluent-kafka, fastavro and jsonschema.

With a schema registry, a message has Confluent's wire format: a zero byte, the id of its schema in four bytes, and the
content. A schema is fetched before the content is read, so that an error of the registry differs from a message that
does not fit. An unknown id is a fault of the message. All other errors of the registry are waited for.
"""

import io
import json
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from datetime import time as clock_time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from glasstream.base.errors import SettingsError
from glasstream.events.mapping.formats import Documents, Format, expect_flat
from glasstream.events.mapping.misfit import Misfit, shown
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.kafka.stages.registry import HEADER_BYTES, INSTALL, NOT_FOUND, client, failure, unavailable
from glasstream_topics.events_dead import Reason

Read = Callable[[str, bytes], Any]
"""Function of a topic and the bytes of a message that returns the content. It raises any error for a bad message."""


def decoder(settings: IntakeSettings, name: str, login: str | None) -> Format:
    """Return the format of a name that needs a schema. Hostile messages can hold it up: see `Confined`.

    Parameters
    ----------
    login
        Login for the schema registry.

    Raises
    ------
    SettingsError
        A schema or a package is missing.
    """
    try:
        if settings.registry is None:
            return Plain(_avro(settings) if name == "avro" else _protobuf(settings))
        registry = client("intake", settings.registry, settings.registry_ca, login)
        return Registered(settings.registry, registry, name, settings)
    except ImportError as error:
        raise SettingsError([f"intake.format: {name} needs the package {error.name}; {INSTALL}"]) from error


class Plain(Format):
    """Messages of one schema, which the settings name.

    Parameters
    ----------
    read
        Decoder of a message.
    """

    def __init__(self, read: Read) -> None:
        self._read = read

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message: see `Format`."""
        try:
            found = self._read(topic, value)
        except Exception as error:
            raise _bad(value, error) from error
        return _documents(found), False


class Registered(Format):
    """Messages in Confluent's wire format.

    Parameters
    ----------
    address
        Address of the registry, for errors.
    client
        Client of the registry.
    name
        Name of the format.
    settings
        Settings of the intake.
    """

    def __init__(self, address: str, client: Any, name: str, settings: IntakeSettings) -> None:
        self._address = address
        self._client = client
        self._known: set[int] = set()
        self._read = _deserializer(client, name, settings)

    def read(self, topic: str, value: bytes) -> tuple[Documents, bool]:
        """Return the documents of a message: see `Format`."""
        if len(value) < HEADER_BYTES or value[0] != 0:
            raise Misfit(
                Reason.BAD_ENCODING,
                f"expected a zero byte and the id of a schema in four bytes, got {shown(value[:HEADER_BYTES])}",
            )
        number = int.from_bytes(value[1:HEADER_BYTES], "big")
        try:
            if number not in self._known:
                self._client.get_schema(number)
                self._known.add(number)
            found = self._read(topic, value)
        except Exception as error:
            cause = failure(error)
            if cause is None:
                raise _bad(value, error) from error
            if getattr(error, "http_status_code", None) == NOT_FOUND and number not in self._known:
                raise Misfit(
                    Reason.UNKNOWN_SCHEMA,
                    f"expected a schema that the registry at {self._address} has, got the id {number}",
                ) from error
            raise unavailable("intake", self._address, cause) from error
        return _documents(found), False


def _deserializer(client: Any, name: str, settings: IntakeSettings) -> Read:
    from confluent_kafka.serialization import MessageField, SerializationContext

    if name == "avro":
        from confluent_kafka.schema_registry.avro import AvroDeserializer

        reader = None if settings.schema is None else _text(settings.schema)
        made: Any = AvroDeserializer(client, reader)
    elif name == "json-schema":
        return _json_schema(client)
    else:
        from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

        message = _message_class(settings)
        inner = ProtobufDeserializer(message, {"use.deprecated.format": False}, client)
        return lambda topic, value: _fields(inner(value, SerializationContext(topic, MessageField.VALUE)))
    return lambda topic, value: made(value, SerializationContext(topic, MessageField.VALUE))


def _json_schema(client: Any) -> Read:
    """Return a reader of JSON that checks it against its schema.

    A reference of a schema leads to a subject of the registry, or to a part of itself. Nothing is read from other
    addresses, which a schema could name.
    """
    from jsonschema.validators import validator_for
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.jsonschema import DRAFT7

    validators: dict[int, Any] = {}

    def known(schema: Any, registry: Any) -> Any:
        for one in schema.references or ():
            found = client.get_version(one.subject, one.version, True).schema
            content = json.loads(found.schema_str)
            registry = known(found, registry).with_resource(
                one.name, Resource.from_contents(content, default_specification=DRAFT7)
            )
        return registry

    def read(topic: str, value: bytes) -> Any:
        number = int.from_bytes(value[1:HEADER_BYTES], "big")
        if number not in validators:
            schema = client.get_schema(number)
            content = json.loads(schema.schema_str)
            if len(validators) >= _SCHEMAS:
                validators.clear()
            validators[number] = validator_for(content)(content, registry=known(schema, REGISTRY))
        found = orjson.loads(value[HEADER_BYTES:])
        validators[number].validate(found)
        return found

    return read


_SCHEMAS = 1_000
"""Largest number of schemas that are kept."""


def _avro(settings: IntakeSettings) -> Read:
    import fastavro

    try:
        schema = fastavro.parse_schema(json.loads(_text(settings.schema or "")))
    except (ValueError, fastavro.schema.SchemaParseException, fastavro.schema.UnknownType) as error:
        raise SettingsError([f"intake.schema: expected an Avro schema in {settings.schema}, got: {error}"]) from error

    def read(topic: str, value: bytes) -> Any:
        content = io.BytesIO(value)
        found = fastavro.schemaless_reader(content, schema, None)
        if rest := len(value) - content.tell():
            raise ValueError(f"{rest} bytes follow the record")
        return found

    return read


def _protobuf(settings: IntakeSettings) -> Read:
    message = _message_class(settings)

    def read(topic: str, value: bytes) -> Any:
        made = message()
        made.ParseFromString(value)
        return _fields(made)

    return read


def _message_class(settings: IntakeSettings) -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(settings.schema or "").read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for one in files.file:
            pool.Add(one)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(settings.message or ""))
    except OSError as error:
        raise SettingsError([f"intake.schema: {settings.schema} cannot be read: {error.strerror}"]) from error
    except (DecodeError, TypeError) as error:
        raise SettingsError(
            [
                f"intake.schema: expected a descriptor set in {settings.schema} (protoc --include_imports "
                f"--descriptor_set_out), got: {error}"
            ]
        ) from error
    except KeyError as error:
        raise SettingsError(
            [f"intake.message: expected a message in {settings.schema}, got {settings.message!r}"]
        ) from error


def _fields(message: Any) -> dict[str, Any]:
    """Return the fields of a Protobuf message: those that are set, and those without presence, by their defaults."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            inner = field.message_type.fields_by_name["value"]
            found[field.name] = {str(key): _value(inner, one) for key, one in value.items()}
        elif field.is_repeated:
            found[field.name] = [_value(field, one) for one in value]
        elif not field.has_presence or message.HasField(field.name):
            found[field.name] = _value(field, value)
    return found


def _value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        name = field.message_type.full_name
        if name == "google.protobuf.Timestamp":
            return value.ToMilliseconds()
        if (
            name.startswith("google.protobuf.")
            and name.endswith("Value")
            and "value" in field.message_type.fields_by_name
        ):
            return value.value
        return _fields(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name
    return value


def _documents(found: Any) -> Sequence[dict[str, Any] | Misfit]:
    if not isinstance(found, dict):
        return (Misfit(Reason.NOT_AN_OBJECT, f"expected a record with fields, got {shown(found)}"),)
    expect_flat(found)
    return (_plain(found),)


def _plain(value: Any) -> Any:
    """Return a value of Avro as JSON has it: times in milliseconds since 1970, decimals as numbers."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, datetime):
        at = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return (at - _EPOCH) // timedelta(milliseconds=1)
    if isinstance(value, date):
        return (value - _EPOCH.date()).days * 86_400_000
    if isinstance(value, Decimal) or (isinstance(value, int) and not -(2**63) <= value < 2**64):
        return float(value)
    if isinstance(value, (UUID, clock_time)):
        return str(value)
    return value


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _bad(value: bytes, error: Exception) -> Misfit:
    return Misfit(
        Reason.BAD_ENCODING,
        f"expected a message of its schema, got {len(value)} bytes that do not fit: {type(error).__name__}: {error}"[
            :900
        ],
    )


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"intake.schema: {path} cannot be read: {error}"]) from error
