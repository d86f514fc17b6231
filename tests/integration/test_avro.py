"""The Avro publisher on a real Kafka with default limits, and a real schema registry with TLS and a login."""

import json
import random
import time
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import orjson
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, Producer, TopicPartition
from confluent_kafka.schema_registry import ConfigCompatibilityLevel, Schema, SchemaRegistryClient, ServerConfig
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from glasstream.kafka.stages.registry import LOGIN
from glasstream_topics import ALL, avro, drift, effects, events_dead, novelty, predictions, schema
from glasstream_topics.consume.offsets import bounds
from glasstream_topics.contract import MIB, Topic
from tests.support.apicurio import Apicurio
from tests.support.deployment import Deployment
from tests.support.golden_records import GOLDEN, checked_in
from tests.support.metrics import address, ask, metrics, total
from tests.support.waiting import wait_for

pytestmark = pytest.mark.slow
Deploy = Callable[..., Deployment]
PARTITIONS, SIZE = 2, 40
PUBLISHED = [topic for topic in ALL if topic.published]
LETTER = tuple(
    events_dead.headers(epoch=0, reason="not_json", topic="orders", partition=1, offset=3, time=1_700_000_000_000)
)


def client(schema_registry: Apicurio) -> SchemaRegistryClient:
    return SchemaRegistryClient(
        {
            "url": schema_registry.address,
            "basic.auth.user.info": schema_registry.login,
            "ssl.ca.location": str(schema_registry.ca),
        }
    )


def publishing(deploy: Deploy, schema_registry: Apicurio, *settings: str) -> Deployment:
    return deploy(
        f"avro.registry={schema_registry.address}", f"avro.registry_ca={schema_registry.ca}",
        f"topics.events={PARTITIONS}", "transaction.seconds=0.05", *settings,
    )  # fmt: skip


@cache
def asking(kafka: str) -> Consumer:
    """Return the client that asks for ends, which would cost more to make than to ask."""
    return Consumer({"bootstrap.servers": kafka, "group.id": "tests"})


def end(kafka: str, topic: str) -> int:
    return sum(bounds(asking(kafka), topic, partition, 10.0)[1] for partition in range(PARTITIONS))


def messages(kafka: str, topic: str) -> dict[int, list[Message]]:
    """Return the committed messages of each partition, up to its end."""
    reader = Consumer(
        {"bootstrap.servers": kafka, "group.id": "tests", "isolation.level": "read_committed",
         "enable.auto.commit": False, "enable.partition.eof": True}
    )  # fmt: skip
    reader.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in range(PARTITIONS)])
    found: dict[int, list[Message]] = {partition: [] for partition in range(PARTITIONS)}
    ended = 0
    while ended < PARTITIONS:
        one = reader.poll(1.0)
        if one is None:
            continue
        if one.error() is None:
            found[one.partition()].append(one)
        else:
            ended += 1
    reader.close()
    return found


class Stages:
    """A writer of every published topic, in transactions, some of them aborted, as the stages write them.

    Attributes
    ----------
    sent
        Key, value and timestamp of the committed records of each topic and partition, in their order.
    began
        The first timestamp, in milliseconds. It is younger than the retention of the broker.
    """

    def __init__(self, bootstrap: str, prefix: str) -> None:
        self.sent: dict[tuple[str, int], list[tuple[bytes, bytes | None, int]]] = defaultdict(list)
        self._prefix = prefix
        self.began = time.time_ns() // 1_000_000 - 60_000
        self._draws = random.Random(7)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"{prefix}stages", "message.max.bytes": 8 * MIB}
        )
        self._producer.init_transactions(60)

    def send(self, batches: range) -> None:
        for batch in batches:
            self.write(
                [self._any(number) for number in range(batch * SIZE, (batch + 1) * SIZE)], aborted=batch % 5 == 1
            )

    def write(self, records: list[tuple[Topic, bytes, bytes | None, int]], aborted: bool = False) -> None:
        self._producer.begin_transaction()
        for topic, key, value, at in records:
            partition = self._draws.randrange(PARTITIONS)
            headers = list(LETTER) if topic is events_dead.TOPIC else None
            self._producer.produce(self._prefix + topic.name, value, key, partition, timestamp=at, headers=headers)
            if not aborted:
                self.sent[topic.name, partition].append((key, value, at))
        self._producer.flush(60)
        if aborted:
            self._producer.abort_transaction(60)
        else:
            self._producer.commit_transaction(60)

    def _any(self, number: int) -> tuple[Topic, bytes, bytes | None, int]:
        topic = self._draws.choice(PUBLISHED)
        at = self.began + number
        if topic is events_dead.TOPIC:
            return topic, b"dead", b"\xff%d" % number, at
        if topic is effects.TOPIC and number % 7 == 0:
            return topic, b"gone", None, at
        name = self._draws.choice([name for name in GOLDEN if name.startswith(f"{topic.name}.v")])
        record = orjson.loads(checked_in(name))
        record["epoch"] = number
        return topic, b"k%d" % (number % 5), orjson.dumps(record), at


def same(topic: Topic, value: bytes | None, copy: Any) -> bool:
    """Return whether a decoded copy has the content of a record."""
    if topic.json is None:
        found = {**copy}
        return found.pop("value") == value and msgspec.convert(found, events_dead.DeadLetter) == events_dead.decode(
            LETTER
        )
    if value is None:
        return copy is None
    return bool(msgspec.convert(copy, topic.json.record) == topic.json.decode(value))


@pytest.mark.parametrize("kills", [6, pytest.param(12, marks=pytest.mark.long)])
def test_killed_at_random_moments_every_record_is_copied_once_in_order(
    deploy: Deploy, kafka: str, prefix: str, schema_registry: Apicurio, kills: int
) -> None:
    deployment = publishing(deploy, schema_registry)
    stages, draws = Stages(kafka, prefix), random.Random(9)
    login = {LOGIN: schema_registry.login}

    def written() -> int:
        return sum(end(kafka, topic.in_avro().full_name(prefix)) for topic in PUBLISHED)

    batches = 8 * kills
    for batch in range(0, batches, 8):
        deployment.start("avro", **login)
        enough = written() + draws.randrange(150)
        stages.send(range(batch, batch + 8))
        wait_for("copies", lambda enough=enough: written() >= enough)  # type: ignore[misc]
        deployment.kill("avro-1")
    with schema_registry.paused():
        stages.send(range(batches, batches + 5))
        deployment.start("avro", "waiting", **login)
        wait_for("the registry is away", lambda: says(deployment, "waiting", schema_registry.address))
        deployment.kill("waiting")
    deployment.start("avro", **login)

    def copied() -> dict[tuple[str, int], list[Message]]:
        return {
            (topic.name, partition): found
            for topic in PUBLISHED
            for partition, found in messages(kafka, topic.in_avro().full_name(prefix)).items()
        }

    wanted = sum(map(len, stages.sent.values()))
    wait_for("all copies", lambda: sum(map(len, copied().values())) >= wanted)
    assert deployment.stop("avro-1") == 0
    read = AvroDeserializer(client(schema_registry))
    found = copied()
    assert sum(map(len, found.values())) == wanted
    for topic in PUBLISHED:
        context = SerializationContext(topic.in_avro().full_name(prefix), MessageField.VALUE)
        for partition in range(PARTITIONS):
            mine, sent = found[topic.name, partition], stages.sent[topic.name, partition]
            assert [(one.key(), one.timestamp()[1]) for one in mine] == [(key, at) for key, _, at in sent]
            pairs = zip(mine, sent, strict=True)
            assert all(same(topic, value, read(one.value(), context)) for one, (_, value, _) in pairs)


def says(deployment: Deployment, worker: str, *texts: str) -> bool:
    """Return whether a worker is not ready for this reason."""
    deployment.poll()
    log = deployment.folder / f"{worker}.log"
    if not log.exists() or "health and metrics on" not in log.read_text():
        return False
    status, body = ask(address(deployment, worker) + "/readyz")
    return status == 503 and all(text in body for text in texts)


def test_nothing_is_lost_while_the_registry_or_a_later_record_makes_the_worker_wait(
    deploy: Deploy, kafka: str, prefix: str, schema_registry: Apicurio
) -> None:
    deployment = publishing(deploy, schema_registry, "avro.topics=drift,novelty", "avro.register=false")
    copy, subject = f"{prefix}novelty.avro", f"{prefix}novelty.avro-value"
    stages, registered = Stages(kafka, prefix), client(schema_registry)
    record = checked_in("novelty.v2.alarm.json")
    stages.write([(novelty.TOPIC, b"s", record, stages.began), (novelty.TOPIC, b"s", b"{", stages.began + 1)])

    deployment.start("avro", "wrong", **{LOGIN: f"{schema_registry.login}?"})
    wait_for("the login is refused", lambda: says(deployment, "wrong", "401", LOGIN))
    assert deployment.stop("wrong") == 0
    login = {LOGIN: schema_registry.login}
    with schema_registry.paused():
        deployment.start("avro", "right", **login)
        wait_for("the registry does not answer", lambda: says(deployment, "right", schema_registry.address))
    wait_for("the schema is missing", lambda: says(deployment, "right", subject, "novelty.v2.avsc"))
    assert end(kafka, copy) == 0

    def count() -> int:
        return sum(map(len, messages(kafka, copy).values()))

    registered.register_schema(subject, Schema(schema.path_of("novelty.v2.avsc").read_text(), "AVRO"))
    wait_for("the copy", lambda: count() == 1)
    wait_for("damaged", lambda: total(metrics(deployment, "right"), "damaged_messages_total") == 1)
    assert f"skipping {prefix}novelty" in deployment.log("right")

    later = orjson.dumps({**orjson.loads(record), "colour": 1})
    stages.write([(novelty.TOPIC, b"s", one, stages.began + 2) for one in (*[record] * 20, later, *[record] * 20)])
    wait_for("the later record is named", lambda: says(deployment, "right", "later release", "colour"))
    values = [[value for _, value, _ in found] for found in stages.sent.values()]
    before = [found[: found.index(later)] if later in found else found for found in values]
    wait_for("what stands before it", lambda: count() == sum(found.count(record) for found in before))
    assert says(deployment, "right", "later release") and deployment.stop("right") == 0


def test_schemas_change_as_the_registry_allows_and_old_and_new_programs_read_all(
    deploy: Deploy, kafka: str, prefix: str, schema_registry: Apicurio
) -> None:
    """An earlier release, without a field that records have now, has published before; another topic was misused."""
    deployment = publishing(deploy, schema_registry, "avro.topics=drift,predictions")
    stages, registered = Stages(kafka, prefix), client(schema_registry)
    copy, subject = f"{prefix}predictions.avro", f"{prefix}predictions.avro-value"
    earlier = avro.schema(predictions.TOPIC)
    earlier["fields"] = [field for field in earlier["fields"] if field["name"] not in ("estimates", "ts")]
    old = registered.register_schema(subject, Schema(json.dumps(earlier), "AVRO"))
    registered.set_config(subject, ServerConfig(compatibility=ConfigCompatibilityLevel.FULL))
    other = f"{prefix}drift.avro-value"
    registered.register_schema(
        other, Schema('{"type":"record","name":"Other","fields":[{"name":"a","type":"int"}]}', "AVRO")
    )
    registered.set_config(other, ServerConfig(compatibility=ConfigCompatibilityLevel.BACKWARD))

    stages.write([(predictions.TOPIC, b"s", checked_in("predictions.v1.estimates.json"), stages.began)])
    deployment.start("avro", **{LOGIN: schema_registry.login})
    wait_for("the copy", lambda: sum(map(len, messages(kafka, copy).values())) == 1)
    assert len(registered.get_versions(subject)) == 2
    ((one,),) = (found for found in messages(kafka, copy).values() if found)
    value = one.value() or b""
    assert int.from_bytes(value[1:5], "big") != old
    context = SerializationContext(copy, MessageField.VALUE)
    known = {field["name"] for field in earlier["fields"]}
    now = AvroDeserializer(registered)(value, context)
    before = AvroDeserializer(registered, json.dumps(earlier))(value, context)
    assert isinstance(now, dict) and now["estimates"] and before == {name: now[name] for name in known}

    stages.write([(drift.TOPIC, b"s", checked_in("drift.v2.json"), stages.began)])
    wait_for("the schema is refused", lambda: says(deployment, "avro-1", "refuses the schema", other, "compatib"))
    stages.write([(predictions.TOPIC, b"s", checked_in("predictions.v1.json"), stages.began + 1)] * 10)
    wait_for("the other topic goes on", lambda: sum(map(len, messages(kafka, copy).values())) == 11)
    assert says(deployment, "avro-1", "refuses the schema")
    registered.set_config(other, ServerConfig(compatibility=ConfigCompatibilityLevel.NONE))
    wait_for("the alarm", lambda: sum(map(len, messages(kafka, f"{prefix}drift.avro").values())) == 1)
    assert deployment.stop("avro-1") == 0


def test_the_largest_records_fit_their_topics(
    deploy: Deploy, kafka: str, prefix: str, schema_registry: Apicurio
) -> None:
    """A record of zeros takes twice as much in Avro as in JSON."""
    deployment = publishing(deploy, schema_registry, "avro.topics=effects,events.dead")
    record = orjson.loads(checked_in("effects.v2.json"))
    record["curve"] = [0.0] * 65_000
    record["grid"] = record["curve"]
    record["ice"] = [{"grid": record["grid"], "curve": record["curve"]}]
    value = orjson.dumps(record)
    assert 0.95 * MIB < len(value) < MIB
    stages = Stages(kafka, prefix)
    letter = bytes(events_dead.MAX_LETTER_BYTES - events_dead.size(b"k", b"", LETTER))
    stages.write([(effects.TOPIC, b"k", value, stages.began), (events_dead.TOPIC, b"k", letter, stages.began)])
    deployment.start("avro", **{LOGIN: schema_registry.login})
    for topic in (effects.TOPIC, events_dead.TOPIC):
        copy = topic.in_avro().full_name(prefix)
        wait_for(copy, lambda copy=copy: sum(map(len, messages(kafka, copy).values())) == 1)  # type: ignore[misc]
    assert deployment.stop("avro-1") == 0
