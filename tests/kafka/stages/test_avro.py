"""The Avro publisher copies published records completely, and waits where it cannot."""

import asyncio
import io
import json
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import fastavro
import msgspec
import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.configuration import load
from glasstream.base.errors import TopicError, UnavailableError
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.health.catalogue import DAMAGED, RECORDS
from glasstream.kafka.stages.avro import AvroPublisher, Encoder, LaterRecordError, PartitionCheck
from glasstream.kafka.stages.registry import LOGIN, SubjectError, Subjects, client
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.relay import Relay
from glasstream_topics import ALL, avro, events_dead, incidents, novelty, predictions, schema
from glasstream_topics.contract import Topic
from glasstream_topics.errors import RecordError
from tests.support.any_record import records
from tests.support.golden_records import GOLDEN, checked_in
from tests.support.schema_registry import Registry, registry
from tests.support.transport_harness import embedded_topics, options
from tests.support.waiting import until

PUBLISHED = [topic for topic in ALL if topic.published]
JSON = [topic for topic in PUBLISHED if topic.json is not None]
EVERY = pytest.mark.parametrize("topic", JSON, ids=lambda topic: topic.name)
ENCODERS = {topic.name: Encoder(topic) for topic in PUBLISHED}
HOLE = [9, 4]
"""Bytes that stand before the record, as the header of the wire format does."""


def message(value: bytes | None, offset: int = 0, topic: str = "t", **fields: Any) -> Message:
    return Message(topic, fields.pop("partition", 0), offset, fields.pop("key", b"s"), value, **fields)


def decoded(topic: Topic, data: bytes) -> Any:
    """Return the content by the schema that is checked in, and check that nothing follows it."""
    file = schema.path_of(f"{topic.name}.v{topic.schema_version}.avsc")
    content = io.BytesIO(data)
    found = fastavro.schemaless_reader(content, fastavro.parse_schema(json.loads(file.read_bytes())), None)
    assert content.tell() == len(data)
    return found


def comes_back(topic: Topic, value: bytes) -> None:
    assert topic.json is not None
    data = ENCODERS[topic.name].encode(message(value), bytes(HOLE))
    assert data[:2] == bytes(HOLE)
    wanted = topic.json.decode(value)
    assert msgspec.convert(decoded(topic, data[2:]), topic.json.record) == wanted
    assert len(data) <= 3 * len(value)  # the room that the topic has


@EVERY
@given(data=st.data())
def test_every_record_comes_back(topic: Topic, data: st.DataObject) -> None:
    """Texts beside numbers, large integers, every float, null and absent fields, nested records and mappings."""
    fields = data.draw(records(topic.records[0]))
    comes_back(topic, orjson.dumps(fields))


@pytest.mark.parametrize("name", [name for name in GOLDEN for topic in JSON if name.startswith(f"{topic.name}.v")])
def test_golden_records_come_back(name: str) -> None:
    (topic,) = (topic for topic in JSON if name.startswith(f"{topic.name}.v"))
    comes_back(topic, checked_in(name))


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.sampled_from(events_dead.Reason)), max_size=4) | st.none(),
    st.binary(max_size=20) | st.none(),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(0, 2**62),
)
def test_dead_letters_come_back(
    rejected: list[tuple[int, events_dead.Reason]] | None, value: bytes | None, detail: str, offset: int
) -> None:
    said = events_dead.headers(
        epoch=0, reason="not_json", topic="orders", partition=3, offset=offset, time=7, detail=detail,
        rejected=rejected, omitted_bytes=None if value is not None else 9_000_000,
    )  # fmt: skip
    headers = tuple(said)
    data = ENCODERS["events.dead"].encode(message(value, headers=headers))
    found = decoded(events_dead.TOPIC, data)
    assert found.pop("value") == value
    if found["rejected"] is not None:
        found["rejected"] = [(one["index"], one["reason"]) for one in found["rejected"]]
    assert msgspec.convert(found, events_dead.DeadLetter) == events_dead.decode(headers)
    assert len(data) <= events_dead.size(b"s", value, headers)


def test_a_reader_may_choose_fields_and_name_one_type_of_a_union() -> None:
    """A table has a column of one type, and Avro resolves the union record by record."""
    encoder = ENCODERS["predictions"]
    fields = [{"name": "seq", "type": "long"}, {"name": "target", "type": ["null", "string"]}]
    reader = fastavro.parse_schema({"type": "record", "name": "glasstream.predictions.Prediction", "fields": fields})
    writer = fastavro.parse_schema(encoder.schema)
    for name, target in (("predictions.v1.json", "DOWN"), ("predictions.v1.ts.json", None)):
        data = encoder.encode(message(checked_in(name)))
        found: Any = fastavro.schemaless_reader(io.BytesIO(data), writer, reader)
        assert found == {"seq": orjson.loads(checked_in(name))["seq"], "target": target}
    with pytest.raises(fastavro.read.SchemaResolutionError):
        data = encoder.encode(message(checked_in("predictions.v1.nothing.json")))  # its target is a number
        fastavro.schemaless_reader(io.BytesIO(data), writer, reader)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the place of each object in a JSON value that is no mapping with keys of users."""
    if isinstance(value, dict):
        if not path or path[-1] not in ("features", "probabilities", "parameters", "attribution"):
            yield path
        for name, inner in value.items():
            yield from places(inner, (*path, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*path, index))


@EVERY
def test_a_field_that_this_release_does_not_know_is_not_left_out(topic: Topic) -> None:
    for name in GOLDEN:
        if name.startswith(f"{topic.name}.v"):
            record = orjson.loads(checked_in(name))
            for path in places(record):
                later = deepcopy(record)
                at = later
                for step in path:
                    at = at[step]
                at["colour"] = 1
                with pytest.raises(LaterRecordError, match="colour"):
                    ENCODERS[topic.name].encode(message(orjson.dumps(later)))


@EVERY
def test_a_record_of_a_later_version_is_told_apart_from_a_damaged_one(topic: Topic) -> None:
    name = next(name for name in GOLDEN if name.startswith(f"{topic.name}.v"))
    record = orjson.loads(checked_in(name))
    with pytest.raises(LaterRecordError, match=f"schema version {topic.schema_version + 1}"):
        ENCODERS[topic.name].encode(message(orjson.dumps({"new": {}, "schema_version": topic.schema_version + 1})))
    for damaged in ({**record, "schema_version": 0}, {**record, "epoch": -1}, {**record, "epoch": 2**63}, {}, []):
        with pytest.raises(RecordError):
            ENCODERS[topic.name].encode(message(orjson.dumps(damaged)))
    for value in (b"", b"{", b"\xff", checked_in(name)[:-1]):
        with pytest.raises(RecordError):
            ENCODERS[topic.name].encode(message(value))


@EVERY
@given(data=st.data())
def test_damaged_bytes_are_told(topic: Topic, data: st.DataObject) -> None:
    """Whatever they are, they make a copy of a valid record, or one of two errors."""
    assert topic.json is not None
    names = [name for name in GOLDEN if name.startswith(f"{topic.name}.v")]
    value = bytearray(checked_in(data.draw(st.sampled_from(names))))
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(value) - 1))
        value[place : place + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b'"\\ud800"', b"1e400", b"null", b'{"":', b'"a":"\xff",'])
        )
    try:
        found = ENCODERS[topic.name].encode(message(bytes(value)))
    except (RecordError, LaterRecordError):
        return
    assert msgspec.convert(decoded(topic, found), topic.json.record) == topic.json.decode(bytes(value))


def test_no_integer_becomes_a_double() -> None:
    record = orjson.loads(checked_in("drift.v2.json"))
    record["detector"]["parameters"]["seed"] = 2**63
    with pytest.raises(RecordError, match="64 bits as seed"):
        ENCODERS["drift"].encode(message(orjson.dumps(record)))


def test_dead_letters_of_a_later_release_are_not_cut() -> None:
    encoder = ENCODERS["events.dead"]
    with pytest.raises(LaterRecordError, match="schema version 2"):
        encoder.encode(message(b"", headers=(("schema_version", b"2"),)))
    with pytest.raises(RecordError):
        encoder.encode(message(b"", headers=(("schema_version", b"1"),)))


@EVERY
def test_the_documents_of_a_schema_are_those_of_the_fields(topic: Topic) -> None:
    made = avro.schema(topic)
    assert made["doc"] and all(field["doc"] for field in made["fields"])
    assert made["namespace"] == f"glasstream.{topic.name}"
    for field in made["fields"]:
        assert ("default" in field) >= (isinstance(field["type"], list) and field["type"][0] == "null")


# The worker


def configured(*assignments: str) -> Settings:
    return load(assignments=["avro.registry=http://localhost:1", "topics.events=2", *assignments])


def publisher(*assignments: str) -> AvroPublisher:
    return AvroPublisher(configured(*assignments), lambda subject, schema, file: 258)


def test_damaged_messages_are_counted_and_the_others_published_in_order(caplog: pytest.LogCaptureFixture) -> None:
    worker = publisher()
    good = checked_in("novelty.v2.json")
    log = [
        message(b"{" if n % 10 == 3 else good, n, "glasstream.novelty", key=b"%d" % n, partition=n % 2, timestamp=5 + n)
        for n in range(100)
    ]
    made = worker.handle(log)
    assert not caplog.records and not [*worker.samples()]  # not before the transaction is durable
    worker.committed()
    assert [(one.topic, one.key, one.partition, one.timestamp) for one in made] == [
        ("glasstream.novelty.avro", b"%d" % n, n % 2, 5 + n) for n in range(100) if n % 10 != 3
    ]
    assert {one.value[:5] for one in made if one.value is not None} == {b"\0\0\0\1\2"}
    assert {(one.metric.name, one.labels): one.value for one in worker.samples()} == {
        (RECORDS.name, ("novelty.avro", "0")): 50, (RECORDS.name, ("novelty.avro", "1")): 40,
        (DAMAGED.name, ("glasstream.novelty[1]",)): 10,
    }  # fmt: skip
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == [
        "skipping glasstream.novelty[1]@3, which is no record of this topic (1 so far)",
        "skipping glasstream.novelty[1]@93, which is no record of this topic (10 so far)",
    ]


def test_a_null_message_stays_one() -> None:
    (made,) = publisher().handle([message(None, topic="glasstream.effects")])
    assert made.value is None and made.key == b"s"


def test_only_the_partition_of_a_record_of_a_later_release_waits() -> None:
    """From that record on: what stands before it, and in other partitions, is copied."""
    good = checked_in("drift.v2.json")
    later = orjson.dumps({**orjson.loads(good), "colour": 1})
    worker = publisher()
    log = [
        message(later if (n, partition) == (7, 1) else good, n, "glasstream.drift", partition=partition)
        for n in range(10)
        for partition in (0, 1)
    ]
    made = worker.handle(log)
    worker.committed()
    assert Counter(one.partition for one in made) == {0: 10, 1: 7}
    ((place, held),) = worker.held().items()
    assert (place, held.offset) == (("glasstream.drift", 1), 7)
    assert "the record @7 is of a later release" in held.reason and "colour; update this worker" in held.reason
    assert len(worker.handle(log[:2])) == 2 and not worker.held()


def test_topics_without_a_schema_wait_and_a_registry_that_is_away_is_asked_once() -> None:
    asked: list[str] = []
    answers: dict[str, Exception] = {
        "glasstream.drift.avro-value": SubjectError("refused"),
        "glasstream.incidents.avro-value": UnavailableError("away"),
        "glasstream.novelty.avro-value": UnavailableError("away"),
    }

    def id_of(subject: str, schema: dict[str, Any], file: str) -> int:
        asked.append(subject)
        if subject in answers:
            raise answers[subject]
        return 1

    worker = AvroPublisher(configured(), id_of)
    names = ("novelty", "incidents", "drift", "predictions", "effects")
    records = {name: next(one for one in GOLDEN if one.startswith(f"{name}.v")) for name in names}
    log = [message(checked_in(records[name]), 3, f"glasstream.{name}", partition=1) for name in names]
    assert {one.topic for one in worker.handle(log)} == {"glasstream.effects.avro"}
    assert worker.held() == {
        ("glasstream.drift", 1): (3, "refused"),
        **{(f"glasstream.{name}", 1): (3, "away") for name in ("incidents", "novelty", "predictions")},
    }
    assert len(asked) == 3, "effects and drift, then incidents, which is away, and nobody else"
    answers.clear()
    assert len(worker.handle(log)) == 5 and not worker.held()


def test_only_chosen_topics_are_copied() -> None:
    assert configured().in_avro == tuple(PUBLISHED)
    chosen = configured("avro.topics=incidents,events.dead")
    assert chosen.in_avro == (events_dead.TOPIC, incidents.TOPIC)
    assert load(assignments=["avro.topics=drift"]).in_avro == ()
    assert load().all_topics == ALL


# The registry


@pytest.fixture
def schemas() -> Iterator[Registry]:
    with registry() as made:
        yield made


def subjects(schemas: Registry, login: str | None = None, register: bool = True) -> Subjects:
    return Subjects("avro", schemas.address, client("avro", schemas.address, None, login), register=register)


SUBJECT = "glasstream.novelty.avro-value"


def id_of(found: Subjects, made: dict[str, Any] | None = None) -> int:
    return found.id_of(SUBJECT, made or avro.schema(novelty.TOPIC), "novelty.v2.avsc")


def test_a_schema_is_registered_once_whatever_its_texts(schemas: Registry) -> None:
    first = id_of(subjects(schemas))
    other = avro.schema(novelty.TOPIC)
    other["doc"] = other["fields"][0]["doc"] = "better words"
    assert id_of(subjects(schemas), other) == first
    assert schemas.subjects == {SUBJECT: [first]}
    other["fields"].append({"name": "colour", "type": ["null", "string"], "default": None})
    second = id_of(subjects(schemas), other)
    assert second != first and id_of(subjects(schemas)) == first, "an earlier release finds its own version"
    assert schemas.subjects == {SUBJECT: [first, second]}


def test_a_schema_that_is_not_to_be_registered_is_waited_for(schemas: Registry) -> None:
    found = subjects(schemas, register=False)
    with pytest.raises(UnavailableError, match=rf"no version of the subject {SUBJECT} .*novelty\.v2\.avsc"):
        id_of(found)
    assert not schemas.subjects
    file = schema.path_of("novelty.v2.avsc").read_text()
    number = SchemaRegistryClient({"url": schemas.address}).register_schema(SUBJECT, Schema(file, "AVRO"))
    assert id_of(found) == number


def test_versions_that_others_registered_are_passed_over(schemas: Registry) -> None:
    others = SchemaRegistryClient({"url": schemas.address})
    others.register_schema(SUBJECT, Schema('{"type": "object"}', "JSON"))
    incomplete = '{"type": "record", "name": "A", "fields": [{"name": "a", "type": "B"}]}'
    others.register_schema(SUBJECT, Schema(incomplete, "AVRO"))
    assert id_of(subjects(schemas)) == 3


def test_a_registry_that_refuses_or_fails_is_waited_for(schemas: Registry) -> None:
    found = subjects(schemas)
    SchemaRegistryClient({"url": schemas.address}).register_schema(SUBJECT, Schema('"string"', "AVRO"))
    schemas.incompatible = True
    with pytest.raises(UnavailableError, match=rf"refuses the schema .* {SUBJECT}: 409.*compatibility mode"):
        id_of(found)
    for status in (403, 422):
        schemas.answer = status
        with pytest.raises(SubjectError, match=rf"refuses the schema .* {SUBJECT}: {status}"):
            id_of(found)
    schemas.incompatible, schemas.answer = False, 503
    with pytest.raises(UnavailableError, match=r"registry at http://localhost:\d+ gives no schema: .*503"):
        id_of(found)
    schemas.answer, schemas.login = None, "ann:secret"
    with pytest.raises(UnavailableError, match=rf"401.*avro\.registry.*{LOGIN}"):
        id_of(found)
    assert id_of(subjects(schemas, "ann:secret")) == 2
    with pytest.raises(UnavailableError, match="gives no schema"):
        id_of(Subjects("avro", "http://localhost:9", client("avro", "http://localhost:9", None, None), register=True))


# Registry and broker together, in memory


def copies(bootstrap: str, topic: str, partitions: int, count: int) -> list[Any]:
    """Return the messages of a topic as soon as there are so many."""
    reader = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    found: list[Any] = []
    while len(found) < count:
        found += [one for one in reader.consume(100, 0.2) if one.error() is None]
    reader.close()
    return found


def test_every_record_is_copied_once_the_registry_answers(
    embedded: EmbeddedKafka, prefix: str, schemas: Registry
) -> None:
    """With its key, partition and timestamp, readable by a plain deserializer.

    The embedded broker keeps no offsets of transactions: restarts are in tests/integration/test_avro.py.
    """
    source, copy = f"{prefix}predictions", f"{prefix}predictions.avro"
    link = embedded_topics(embedded, prefix, 2, names="predictions predictions.avro")
    settings = configured("avro.topics=predictions", f"prefix={prefix}")
    values = [
        predictions.encode(
            epoch=0, stream="s", seq=n, id=f"{n}", prediction="a", probabilities={"a": 1.0}, target=None, loss=None,
            loss_name="brier", metric_name="accuracy", metric_value=None, model_version=n,
        )
        for n in range(300)
    ]  # fmt: skip
    producer = Producer({"bootstrap.servers": link.bootstrap})

    def send(numbers: range) -> None:
        for n in numbers:
            producer.produce(source, values[n], b"k%d" % (n % 7), n % 2, timestamp=1_000_000 + n)
        assert producer.flush(30.0) == 0

    async def run() -> None:
        worker = AvroPublisher(settings, subjects(schemas).id_of)
        relay = Relay(link, options(prefix, name="avro"), (source,), worker, {copy: None}, 0.05, "avro.topics")
        relay.services.append(PartitionCheck(link, {source: copy}))
        await relay.start()
        try:
            await until(lambda: "503" in (relay.unready() or ""))
            assert not worker.published
            schemas.answer = None
            send(range(100, 300))
            await until(lambda: relay.failure is not None or worker.published.total() == 300)
            assert relay.failure is None
            await until(lambda: relay.unready() is None)
        finally:
            await relay.stop()

    schemas.answer = 503
    send(range(100))
    asyncio.run(run())
    found = copies(link.bootstrap, copy, 2, 300)
    read = AvroDeserializer(SchemaRegistryClient({"url": schemas.address}))
    context = SerializationContext(copy, MessageField.VALUE)
    for partition in range(2):
        mine = [one for one in found if one.partition() == partition]
        assert [(one.key(), one.timestamp()[1]) for one in mine] == [
            (b"k%d" % (n % 7), 1_000_000 + n) for n in range(partition, 300, 2)
        ]
        content = [msgspec.convert(read(one.value(), context), predictions.Prediction) for one in mine]
        assert content == [predictions.decode(values[n]) for n in range(partition, 300, 2)]


def test_copies_need_the_partitions_of_their_records(embedded: EmbeddedKafka, prefix: str) -> None:
    source, copy = f"{prefix}drift", f"{prefix}drift.avro"
    embedded.create_topic(source, 2)
    embedded.create_topic(copy, 1)
    link = Connection(embedded.bootstrap)
    with pytest.raises(TopicError, match=rf"expected {copy} to have the 2 partitions of {source}, found 1"):
        PartitionCheck(link, {source: copy}).check()
    PartitionCheck(link, {copy: source}).check()
