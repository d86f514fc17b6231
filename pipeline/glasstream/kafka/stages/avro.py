"""The Avro publisher: copies the published records to topics of their own, in Avro with registered schemas.

A copy has the key, the partition and the timestamp of its record, and Confluent's wire format. The stages write JSON
only, and no reader of Glasstream reads the copies.
"""

import asyncio
import io
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from glasstream.base.errors import TopicError, UnavailableError
from glasstream.base.sparse import logged
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages.registry import SubjectError, value_subject
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.merge import Place
from glasstream.kafka.transport.records import ProducerRecord
from glasstream.kafka.transport.relay import Held
from glasstream.kafka.transport.topic_check import partition_count
from glasstream_topics import avro, events_dead
from glasstream_topics.contract import Topic
from glasstream_topics.errors import RecordError
from glasstream_topics.record import Json

log = logging.getLogger(__name__)

IdOf = Callable[[str, dict[str, Any], str], int]
"""Function that returns the id of a schema: see `glasstream.kafka.stages.registry.Subjects.id_of`."""


class LaterRecordError(Exception):
    """A record of a later release. The copy of this release would lose a part of it."""


class Encoder:
    """Encoder of the copies of one topic.

    Parameters
    ----------
    source
        The published topic.
    """

    def __init__(self, source: Topic) -> None:
        import fastavro

        self.source = source
        self.copy = source.in_avro()
        self.schema = avro.schema(source)
        """Schema of the copies."""
        self._parsed = fastavro.parse_schema(self.schema)
        self._write = fastavro.schemaless_writer

    def encode(self, message: Message, header: bytes = b"") -> bytes:
        """Return a record in Avro, after a header.

        Raises
        ------
        RecordError
            The message is no record of this topic.
        LaterRecordError
            A later release wrote it.
        """
        json = self.source.json
        fields = self._dead_letter(message) if json is None else self._record(json, message.value or b"")
        out = io.BytesIO(header)
        out.seek(len(header))
        try:
            self._write(out, self._parsed, fields, strict_allow_default=True)
        except (OverflowError, TypeError, UnicodeEncodeError) as error:
            raise RecordError(f"{self.source.name}: expected values that Avro can hold: {error}") from error
        except ValueError as error:  # all known fields are valid, so there is another one
            raise LaterRecordError(str(error)) from error
        return out.getvalue()

    def _record(self, json: Json[..., Any], value: bytes) -> dict[str, Any]:
        try:
            json.decode(value)
        except RecordError as error:
            version = _version(value)
            if version is not None and version > self.source.schema_version:
                raise LaterRecordError(f"it has the schema version {version}") from error
            raise
        try:
            fields: dict[str, Any] = orjson.loads(value)
        except orjson.JSONDecodeError as error:  # in a field that the type does not have
            raise RecordError(f"{self.source.name}: expected JSON: {error}") from error
        if self.source.name == "drift":
            _refuse_large(fields["detector"]["parameters"])
        return fields

    def _dead_letter(self, message: Message) -> dict[str, Any]:
        try:
            letter = events_dead.decode(message.headers)
        except RecordError as error:
            version = dict(message.headers).get("schema_version", b"")
            if version.isdigit() and len(version) < _DIGITS and int(version) > self.source.schema_version:
                raise LaterRecordError(f"it has the schema version {int(version)}") from error
            raise
        fields: dict[str, Any] = msgspec.to_builtins(letter)
        if letter.rejected is not None:
            fields["rejected"] = [{"index": index, "reason": reason} for index, reason in letter.rejected]
        return {**fields, avro.VALUE: message.value}


_DIGITS = 10
"""Number of digits that no schema version has."""


class _Version(msgspec.Struct):
    schema_version: int


def _version(value: bytes) -> int | None:
    """Return the schema version of a JSON record that may be of a later release."""
    try:
        return msgspec.json.decode(value, type=_Version).schema_version
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _refuse_large(values: Mapping[str, Any]) -> None:
    """Raise RecordError for an integer beyond 64 bits, which fastavro would write as a double."""
    for name, value in values.items():
        if isinstance(value, int) and not -avro.LARGEST - 1 <= value <= avro.LARGEST:
            raise RecordError(f"drift: expected an integer of 64 bits as {name}, got {value}")


class AvroPublisher:
    """Turns published records into their copies in Avro.

    Parameters
    ----------
    settings
        Configuration.
    id_of
        See `IdOf`.
    """

    def __init__(self, settings: Settings, id_of: IdOf) -> None:
        self.published: Counter[tuple[str, int]] = Counter()
        """Number of copies by topic (without the prefix) and partition."""
        self.damaged: Counter[tuple[str, int]] = Counter()
        """Number of messages that are no records, by full topic and partition."""
        self._id_of = id_of
        self._prefix = settings.prefix
        self._encoders = {source.full_name(settings.prefix): Encoder(source) for source in settings.in_avro}
        self._headers: dict[str, bytes] = {}
        self._held: dict[Place, Held] = {}
        self._pending: tuple[Counter[tuple[str, int]], Counter[tuple[str, int]], list[str]] | None = None

    def handle(self, messages: Sequence[Message]) -> list[ProducerRecord]:
        """Return the copies of records: see `glasstream.kafka.transport.relay.Worker`."""
        self._held = {}
        lacking = self._lacking(sorted({message.topic for message in messages}))
        records: list[ProducerRecord] = []
        published: Counter[tuple[str, int]] = Counter()
        damaged: Counter[tuple[str, int]] = Counter()
        lines: list[str] = []
        for message in messages:
            place = message.topic, message.partition
            if place in self._held:
                continue
            if message.topic in lacking:
                self._held[place] = Held(message.offset, lacking[message.topic])
                continue
            encoder = self._encoders[message.topic]
            value: bytes | None = None
            if message.value is not None or encoder.source.json is None:
                try:
                    value = encoder.encode(message, self._headers[message.topic])
                except RecordError as error:
                    damaged[place] += 1
                    total = damaged[place] + self.damaged[place]
                    if logged(total):
                        lines.append(
                            f"skipping {message.topic}[{message.partition}]@{message.offset}, which is no record of "
                            f"this topic ({total} so far): {error}"
                        )
                    continue
                except LaterRecordError as error:
                    reason = f"the record @{message.offset} is of a later release: {error}; update this worker"
                    self._held[place] = Held(message.offset, reason)
                    continue
            published[encoder.copy.name, message.partition] += 1
            copy = encoder.copy.full_name(self._prefix)
            records.append(ProducerRecord(copy, message.key, value, message.partition, timestamp=message.timestamp))
        self._pending = published, damaged, lines
        return records

    def held(self) -> Mapping[Place, Held]:
        """Return the partitions that wait: see `glasstream.kafka.transport.relay.Worker`."""
        return self._held

    def committed(self) -> None:
        """Count what `handle` returned last, and log some of the damaged messages."""
        if self._pending is not None:
            published, damaged, lines = self._pending
            self.published.update(published)
            self.damaged.update(damaged)
            self._pending = None
            for line in lines:
                log.error("%s", line)

    def _lacking(self, names: Sequence[str]) -> dict[str, str]:
        """Return the topics of which the registry does not give the id of the schema, and why.

        A registry that does not answer for one topic is not asked for the next ones.
        """
        lacking: dict[str, str] = {}
        away: str | None = None
        for name in names:
            if name in self._headers:
                continue
            if away is None:
                encoder = self._encoders[name]
                subject = value_subject(encoder.copy, self._prefix)
                try:
                    number = self._id_of(subject, encoder.schema, encoder.copy.schema_file)
                except SubjectError as error:
                    lacking[name] = str(error)
                    continue
                except UnavailableError as error:
                    away = str(error)
                else:
                    self._headers[name] = b"\0" + number.to_bytes(4, "big")
                    continue
            lacking[name] = away
        return lacking

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of this worker."""
        for (name, partition), count in list(self.published.items()):
            yield Sample(catalogue.RECORDS, count, (name, str(partition)))
        for (name, partition), count in list(self.damaged.items()):
            yield Sample(catalogue.DAMAGED, count, (f"{name}[{partition}]",))


@dataclass(frozen=True, slots=True)
class PartitionCheck:
    """Check, when the stage starts, that each copy can have the partition of its record.

    Parameters
    ----------
    connection
        Connection to the brokers.
    copies
        Full names of the topics of copies, by those of their sources.
    """

    connection: Connection
    copies: Mapping[str, str]

    async def start(self) -> None:
        """Check the topics.

        Raises
        ------
        TopicError
            A topic of copies has fewer partitions than its source.
        """
        await asyncio.to_thread(self.check)

    async def stop(self) -> None:
        """Do nothing, because the check holds nothing."""

    def check(self) -> None:
        """Check the topics, blocking."""
        for source, copy in self.copies.items():
            wanted, found = partition_count(self.connection, source), partition_count(self.connection, copy)
            if found < wanted:
                raise TopicError(
                    f"expected {copy} to have the {wanted} partitions of {source}, found {found}; add partitions with "
                    f"kafka-topics.sh --alter --topic {copy} --partitions {wanted}"
                )
