"""The section `intake` of the settings."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesNothing
from glasstream.base.errors import SettingsError
from glasstream.events.mapping.fields import (
    Features,
    parse_conditions,
    parse_features,
    parse_kinds,
    parse_meta,
    parse_path,
    parse_reference,
)
from glasstream.events.mapping.pack import ELEMENTS
from glasstream.events.mapping.unwrap import Wrapping
from glasstream_topics import ALL, AVRO, labels

Format = Literal["json", "json-lines", "csv", "avro", "protobuf", "json-schema"]

_Topics = Annotated[
    str,
    Meta(
        pattern=r"^[A-Za-z0-9._-]{1,249}(,[A-Za-z0-9._-]{1,249})*$",
        description="names of topics, separated by commas without spaces",
    ),
]


RegistryAddress = Annotated[
    str, Meta(pattern=r"^https?://[^\s@]+$", description="an http or https address without a login")
]

_ONE = "one character, but no quote and no line break (a tab is $'\\t' in a shell)"


class IntakeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the intake maps messages of other topics to events and labels.

    A *field* is written as its name (``age``) or, where it is nested, as a JSON Pointer (``/customer/age``). The words
    ``@key``, ``@topic``, ``@place`` and ``@timestamp`` stand for the key of the message, its topic, its position
    ``topic[partition]@offset``, and Kafka's timestamp. ``=NAME`` is a constant. The login for the schema registry is
    not a setting: set ``GLASSTREAM_REGISTRY_LOGIN`` (``user:password``) or ``GLASSTREAM_REGISTRY_LOGIN_FILE``.

    Attributes
    ----------
    topics
        Full names of the topics with events, separated by commas.
    format
        Format of the messages. ``json`` is an object or an array of objects, ``json-lines`` one object per line,
        ``csv`` one row per line. ``avro`` and ``protobuf`` need `registry` or `schema`, ``json-schema`` needs
        `registry`.
    features
        Fields that become features, separated by commas. ``*`` is all fields that no other setting uses, also those in
        nested objects, which get names such as ``customer.age``; ``-field`` leaves out a field and all below it;
        ``name=field`` renames it.
    meta
        Fields that become `meta`, separated by commas; ``name=field`` renames one. They are no features unless
        `features` names them. Their values stay as they are.
    where
        Conditions of the documents that are events, separated by commas: ``type=request``, ``type=request|retry`` for
        one of several values, ``type!=heartbeat``. A field that is null or missing has an empty value. Other documents
        are skipped.
    target
        Field with the target. If unset, the events have no labels.
    id
        Field with the id of the event, ``@key`` or ``@place``.
    ts
        Field with the time of the event, or ``@timestamp``. Texts are read as ISO 8601, numbers in the unit `ts_unit`.
    ts_unit
        Unit of times that are numbers: milliseconds, seconds, microseconds or nanoseconds since 1970.
    stream
        Field with the name of the stream, ``@key``, ``@topic`` or ``=NAME``.
    types
        Types of fields, as ``field=number``, ``field=text`` or ``field=boolean``, separated by commas. The types
        ``comma`` and ``point`` read texts such as ``1.234,5 €`` and ``$1,234.5`` as numbers. The intake infers the
        types of the other fields from the first messages and keeps them.
    records
        Field of each ``json`` message with an array of objects, each of which is an event (or a label). The fields
        around the array are not read. If unset, the message itself is the event, or the array.
    nan
        What NaN and the infinities become in ``json`` and ``json-lines``: ``reject`` makes the message a dead letter,
        because JSON does not have them; ``null`` reads them as missing values.
    unwrap
        Who wrote objects into ``json`` and ``json-lines`` that stand for one value of a named type: ``avro``
        (``{"long": 7}``), ``dynamodb`` (``{"N": "7"}``) or ``mongodb`` (``{"$numberLong": "7"}``). They are read as
        the value.
    columns
        Names of the columns of ``csv``, separated by commas.
    delimiter
        Character between the columns of ``csv``.
    labels_topics
        Full names of the topics with labels of earlier events, separated by commas.
    labels_format
        Format of the messages with labels. If unset, that of the events.
    labels_where
        Conditions of the documents that are labels, as in `where`. A topic can have both events and labels if both
        settings separate them.
    labels_id
        Field with the id of the event that a label belongs to, or ``@key``.
    labels_target
        Field with the label.
    labels_stream
        Stream of a label, as in `stream`. If unset, `stream`; ``@topic`` then stands for the topic of the events.
    registry
        Address of the schema registry. The messages then have Confluent's wire format.
    registry_ca
        PEM file of the certificate authority of the schema registry. If unset, the system's authorities are used.
    schema
        File with a schema. ``avro`` with `registry`: the reader's schema, to which messages of other versions are
        resolved; without: the schema of the messages. ``protobuf``: the descriptor set of
        ``protoc --include_imports --descriptor_set_out``.
    message
        Full name of the ``protobuf`` message in `schema`, such as ``shop.Order``.
    batch
        Largest number of events or labels of a stream in a message of `events`. With 1, each event is a message of its
        own, a row for SQL engines that read the topic.
    """

    topics: ChangesNothing[_Topics | None] = None
    format: ChangesNothing[Format] = "json"
    features: ChangesNothing[str] = "*"
    meta: ChangesNothing[str | None] = None
    where: ChangesNothing[str | None] = None
    target: ChangesNothing[str | None] = None
    id: ChangesNothing[str] = "@place"
    ts: ChangesNothing[str] = "@timestamp"
    ts_unit: ChangesNothing[Literal["ms", "s", "us", "ns"]] = "ms"
    stream: ChangesNothing[str] = "@topic"
    types: ChangesNothing[str | None] = None
    records: ChangesNothing[str | None] = None
    nan: ChangesNothing[Literal["reject", "null"]] = "reject"
    unwrap: ChangesNothing[Wrapping | None] = None
    columns: ChangesNothing[str | None] = None
    delimiter: ChangesNothing[Annotated[str, Meta(pattern=r'^[^"\r\n]\Z', description=_ONE)]] = ","
    labels_topics: ChangesNothing[_Topics | None] = None
    labels_format: ChangesNothing[Format | None] = None
    labels_where: ChangesNothing[str | None] = None
    labels_id: ChangesNothing[str | None] = None
    labels_target: ChangesNothing[str | None] = None
    labels_stream: ChangesNothing[str | None] = None
    registry: ChangesNothing[RegistryAddress | None] = None
    registry_ca: ChangesNothing[str | None] = None
    schema: ChangesNothing[str | None] = None
    message: ChangesNothing[str | None] = None
    batch: ChangesNothing[Annotated[int, Meta(ge=1, le=ELEMENTS)]] = ELEMENTS

    def __post_init__(self) -> None:
        """Check that the settings can be used together."""
        found: list[str] = []
        for name, words in _WORDS.items():
            text = getattr(self, name)
            if text is not None:
                _try(found, name, partial(parse_reference, text, words))
        _try(found, "features", lambda: parse_features(self.features))
        _try(found, "meta", lambda: parse_meta(self.meta))
        if self.records is not None:
            _try(found, "records", partial(parse_path, self.records))
        _try(found, "types", lambda: parse_kinds(self.types))
        _try(found, "where", lambda: parse_conditions(self.where))
        _try(found, "labels_where", lambda: parse_conditions(self.labels_where))
        if found:
            raise SettingsError(found)

    def expect_usable(self, prefix: str) -> None:
        """Check that nothing is missing that the intake needs, and that it does not read what this deployment writes.

        Parameters
        ----------
        prefix
            Prefix of the topics of this deployment.

        Raises
        ------
        SettingsError
            Something is missing, or a topic is one of this deployment's own.
        """
        found = [] if self.sources or self.labels_sources else ["topics: expected the topics to read, got none"]
        own = {prefix + topic.name for topic in (*ALL, *AVRO) if topic is not labels.TOPIC}
        for name, topics in (("topics", self.sources), ("labels_topics", self.labels_sources)):
            if written := sorted(own.intersection(topics)):
                found.append(f"{name}: expected topics of other programs, got {', '.join(written)} of this deployment")
        if self.labels_topics is not None:
            found += self._wrong_labels()
        if self.records is not None and "json" not in (self.format, self.labels_format):
            found.append(f"records: expected the format json, with which alone it works, got {self.format}")
        for one in sorted({self.format, self.labels_format or self.format}):
            found += self._wrong_format(one)
        if found:
            raise SettingsError([f"intake.{line}" for line in found])

    def _wrong_labels(self) -> list[str]:
        found = [
            f"{name}: expected the field with the {what}, because labels_topics is set"
            for name, what in (("labels_id", "id of the event"), ("labels_target", "label"))
            if getattr(self, name) is None
        ]
        if twice := ", ".join(sorted(set(self.labels_sources) & set(self.sources))):
            if self.where is None or self.labels_where is None:
                found.append(f"where, labels_where: expected conditions that separate events and labels of {twice}")
            if self.labels_format not in (None, self.format):
                found.append(f"labels_format: expected {self.format}, the format of the events of {twice}")
        if self.labels_stream is None and self.stream == "@topic" and len(self.sources) != 1:
            found.append(
                "labels_stream: expected the stream of the labels, because @topic stands for one topic of events, and "
                f"topics names {len(self.sources)}"
            )
        return found

    def _wrong_format(self, name: str) -> list[str]:
        if name == "csv" and self.columns is None:
            return ["columns: expected the names of the columns, because the format is csv"]
        if name == "json-schema" and self.registry is None:
            return ["registry: expected the address of a schema registry, because the format is json-schema"]
        if name == "avro" and self.registry is None and self.schema is None:
            return ["schema: expected a file with the Avro schema of the messages, because registry is not set"]
        if name == "protobuf" and (self.schema is None or self.message is None):
            return [
                "schema, message: expected a descriptor set and the name of a message in it, because the format is "
                "protobuf"
            ]
        return []

    @property
    def sources(self) -> tuple[str, ...]:
        """Topics with events."""
        return tuple(self.topics.split(",")) if self.topics else ()

    @property
    def labels_sources(self) -> tuple[str, ...]:
        """Topics with labels."""
        return tuple(self.labels_topics.split(",")) if self.labels_topics else ()

    @property
    def chosen(self) -> Features:
        """Fields that become features."""
        return parse_features(self.features)


_WORDS = {
    "target": (),
    "id": ("@key", "@place"),
    "ts": ("@timestamp",),
    "stream": ("@key", "@topic", "="),
    "labels_id": ("@key",),
    "labels_target": (),
    "labels_stream": ("@key", "@topic", "="),
}
"""Words that a setting allows in addition to a field, by its name."""


def _try(found: list[str], name: str, parse: Callable[[], object]) -> None:
    try:
        parse()
    except ValueError as error:
        found.append(f"{name}: {error}")
