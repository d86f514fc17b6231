"""Labels on a topic of their own, moved into `events` exactly once; learner and forwarder are killed on the way."""

from collections.abc import Callable

import orjson
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from glasstream.transport.connection import connection
from glasstream.transport.progress import watermarks
from glasstream_topics import events, events_dead
from tests.deployment import SETTINGS, Deployment, assert_same, wait_for
from tests.integration.conftest import Run
from tests.logs import event, reference

Deploy = Callable[..., Deployment]
Finish = Callable[..., Run]


def read_events(deployment: Deployment, partition: int) -> list[bytes | None]:
    """Every committed message of a partition of `events`, in order."""
    link = connection(deployment.settings)
    name = deployment.settings.prefix + "events"
    reader = Consumer(link.consumer(read_committed=True, enable_partition_eof=True))
    reader.assign([TopicPartition(name, partition, OFFSET_BEGINNING)])
    values: list[bytes | None] = []
    _, high = watermarks(link, name, partition, 30.0)
    position = 0
    while position < high:
        for message in reader.consume(500, timeout=0.2):
            if message.error() is None:
                values.append(message.value())
                position = message.offset() + 1
            else:
                position = max(position, message.offset())
    reader.close()
    return values


def send_labels(deployment: Deployment, *values: bytes) -> None:
    for value in values:
        deployment.producer.produce(deployment.settings.prefix + "labels", value, b"s")
    assert deployment.producer.flush(30.0) == 0


def test_labels_of_a_topic_of_their_own_are_moved_once_through_a_crash(deploy: Deploy) -> None:
    """Only a broker shows that what moves and how far it is are one transaction over two topics."""
    deployment = deploy(*SETTINGS, "transaction.rows=20")
    made = [event(n) for n in range(600)]
    labels = [{"id": one["id"], "y": one["y"]} for one in made]
    deployment.start_all()
    deployment.start("labels")
    deployment.send(
        *[orjson.dumps([{"id": one["id"], "x": one["x"]} for one in made[n : n + 10]]) for n in range(0, 600, 10)]
    )
    send_labels(deployment, *map(orjson.dumps, labels[:400]))
    wait_for("some rows", lambda: deployment.poll().progress.rows.get("s", 0) > 0)
    deployment.kill("labels-1")
    send_labels(deployment, *[orjson.dumps(labels[n : n + 5]) for n in range(400, 600, 5)])
    send_labels(deployment, orjson.dumps({"id": 599, "y": True}), b"no label", orjson.dumps({"id": "x", "y": True}))
    deployment.start("labels")
    wait_for("the dead letters", lambda: deployment.poll() and len(deployment.records["events.dead"]) >= 3)
    deployment.send(events.FLUSH)
    deployment.wait_published("s", 599)
    letters = [events_dead.decode(message.headers() or []) for message in deployment.records["events.dead"]]
    assert [letter.reason for letter in letters] == ["doubled_label", "not_json", "unknown_id"]
    log = read_events(deployment, events.partition(b"s", deployment.settings.topics.events))
    moved = [orjson.loads(value) for value in log if value and b'"y"' in value]
    flat = [one for message in moved for one in (message if isinstance(message, list) else [message])]
    assert flat == [*labels, {"id": 599, "y": True}, {"id": "x", "y": True}], "each once, in order"
    assert_same(deployment, reference(deployment.settings, log))
