"""The intake on a real Kafka, which alone has groups, isolation, and offsets that are part of a transaction."""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import orjson
import pytest
from confluent_kafka import Producer

from glasstream.app.command.cli import cli
from glasstream.app.configuration import load
from glasstream.app.operate.intake import attempt
from glasstream.base.errors import TopicError
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.progress import watermarks
from glasstream_topics import events, events_dead
from tests.support.deployment import Deployment
from tests.support.transport_harness import make_topics, read_all
from tests.support.waiting import wait_for

PARTITIONS, BATCHES, SIZE, KILLS = 3, 120, 50, 20


class Shop:
    """A producer that knows nothing of us: null keys, partitions of its own, transactions, some of them aborted.

    Attributes
    ----------
    sent
        Numbers of the orders that were committed, by partition and stream, in their order.
    garbage
        Number of committed messages that are no orders.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        self.sent: dict[tuple[int, str], list[int]] = {}
        self.garbage = 0
        self._topic = topic
        self._draws = random.Random(5)
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}.shop"})
        self._producer.init_transactions(60)

    def send(self, batches: range) -> None:
        for batch in batches:
            aborted = batch % 4 == 1
            self._producer.begin_transaction()
            for number in range(batch * SIZE, (batch + 1) * SIZE):
                partition, stream = self._draws.randrange(PARTITIONS), f"shop-{self._draws.randrange(4)}"
                broken = number % 100 == 7
                order = {"n": number, "shop": stream, "sum": number / 7, "paid": number % 3 == 0}
                self._producer.produce(self._topic, b"{" if broken else orjson.dumps(order), None, partition)
                if not aborted and broken:
                    self.garbage += 1
                elif not aborted:
                    self.sent.setdefault((partition, stream), []).append(number)
            self._producer.flush(60)
            if aborted:
                self._producer.abort_transaction(60)
            else:
                self._producer.commit_transaction(60)


def events_of(bootstrap: str, prefix: str, partitions: int) -> dict[str, list[dict[str, Any]]]:
    """Return the events by stream, and check that all of a stream are on its partition."""
    found: dict[str, list[dict[str, Any]]] = {}
    for partition, values in enumerate(read_all(bootstrap, f"{prefix}events", partitions)):
        for value in values:
            content = orjson.loads(value or b"")
            for event in content if isinstance(content, list) else [content]:
                stream = event["x"].pop("shop")
                assert events.partition(stream.encode(), partitions) == partition
                found.setdefault(stream, []).append(event)
    return found


@pytest.mark.slow
def test_killed_at_random_moments_every_order_is_one_event_in_order(
    deploy: Callable[..., Deployment], kafka: str, prefix: str
) -> None:
    source = f"{prefix}orders"
    make_topics(kafka, {source: PARTITIONS})
    deployment = deploy(
        f"intake.topics={source}", "intake.stream=shop", "intake.target=paid", "intake.features=*,shop=shop",
        "topics.events=2", "transaction.seconds=0.05",
    )  # fmt: skip
    shop, draws, link = Shop(kafka, source), random.Random(9), Connection(kafka)
    sender = threading.Thread(target=shop.send, args=(range(BATCHES),), daemon=True)
    sender.start()

    def written() -> int:
        return sum(watermarks(link, f"{prefix}events", partition, 10.0)[1] for partition in range(2))

    for _ in range(KILLS):
        deployment.start("intake")
        enough = written() + draws.randrange(12)
        wait_for("messages of events", lambda enough=enough: not sender.is_alive() or written() >= enough)  # type: ignore[misc]
        deployment.kill("intake-1")
    sender.join(300)
    deployment.start("intake")
    wanted = sum(map(len, shop.sent.values()))

    def arrived() -> int:
        return sum(map(len, events_of(kafka, prefix, 2).values()))

    wait_for("all orders", lambda: arrived() >= wanted)
    assert deployment.stop("intake-1") == 0
    found = events_of(kafka, prefix, 2)
    assert sum(map(len, found.values())) == wanted
    for (partition, stream), numbers in shop.sent.items():
        of_partition = [one for one in found[stream] if one["id"].startswith(f"{source}[{partition}]@")]
        assert [one["x"]["n"] for one in of_partition] == numbers
        assert all(one["y"] == (one["x"]["n"] % 3 == 0) for one in of_partition)
        offsets = [int(one["id"].rpartition("@")[2]) for one in of_partition]
        assert offsets == sorted(set(offsets))
    letters = [value for part in read_all(kafka, f"{prefix}{events_dead.TOPIC.name}", 2) for value in part]
    assert Counter(letters) == Counter({b"{": shop.garbage})


def test_a_backlog_of_several_partitions_becomes_events_in_the_order_of_time(
    deploy: Callable[..., Deployment], kafka: str, prefix: str
) -> None:
    """Partitions of very different sizes, so that the client must stop reading some of them meanwhile."""
    source, count, draws = f"{prefix}orders", 30_000, random.Random(3)
    make_topics(kafka, {source: 4})
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 50})
    last, begin = [0] * 4, int(time.time() * 1000) - count  # brokers delete what is older than a week
    for number in range(count):
        (partition,) = draws.choices(range(4), (60, 30, 9, 1))
        last[partition] = number
        order = {"n": number, "shop": "s", "text": "x" * 400, "paid": number % 3 == 0}
        producer.produce(source, orjson.dumps(order), partition=partition, timestamp=begin + number)
        producer.poll(0)
    assert producer.flush(60) == 0
    deployment = deploy(
        f"intake.topics={source}", "intake.stream=shop", "intake.target=paid", "intake.features=n,shop",
        "topics.events=1", "transaction.seconds=0.05",
    )  # fmt: skip
    deployment.start("intake")
    wait_for("all orders", lambda: len(events_of(kafka, prefix, 1).get("s", [])) == count)
    assert deployment.stop("intake-1") == 0
    found = [event["x"]["n"] for event in events_of(kafka, prefix, 1)["s"]]
    # The last message of a partition may be taken for the end of a transaction, for which nothing waits.
    assert sorted(found) == list(range(count))
    assert [n for n in found if n not in last] == [n for n in range(count) if n not in last]


def test_two_workers_share_the_partitions_and_try_writes_nothing(
    deploy: Callable[..., Deployment], kafka: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = f"{prefix}orders"
    make_topics(kafka, {source: PARTITIONS})
    shop = Shop(kafka, source)
    shop.send(range(2))
    options = ["--broker", kafka, "--prefix", prefix, "--set", "intake.stream=shop"]
    cli.main(["intake", "try", "--topic", source, "--target", "paid", *options], standalone_mode=False)
    said = capsys.readouterr().out
    assert "paid" in said and '"x":{"n":' in said and "not_json" in said
    deployment = deploy(
        f"intake.topics={source}", "intake.stream=shop", "intake.target=paid", "intake.features=*,shop=shop",
        "topics.events=2",
    )  # fmt: skip
    assert not any(values for values in read_all(kafka, f"{prefix}events", 2))
    deployment.start("intake", "a")
    wait_for("first orders", lambda: any(read_all(kafka, f"{prefix}events", 2)))
    deployment.start("intake", "b")
    shop.send(range(2, 12))
    wanted = sum(map(len, shop.sent.values()))
    wait_for("all orders", lambda: sum(map(len, events_of(kafka, prefix, 2).values())) >= wanted)
    assert (deployment.stop("a"), deployment.stop("b")) == (0, 0)
    found = events_of(kafka, prefix, 2)
    for (partition, stream), numbers in shop.sent.items():
        mine = [one["x"]["n"] for one in found[stream] if f"[{partition}]@" in one["id"]]
        assert mine == numbers


def test_a_trial_is_of_the_newest_messages(kafka: str, prefix: str) -> None:
    """Only a broker's transactions take offsets of their own."""
    source, count = f"{prefix}orders", 900
    make_topics(kafka, {source: 3})
    producer = Producer({"bootstrap.servers": kafka, "transactional.id": source})
    producer.init_transactions(30)
    begin = int(time.time() * 1000) - count
    for first in range(0, count, 30):
        producer.begin_transaction()
        for n in range(first, first + 30):
            producer.produce(
                source, orjson.dumps({"n": n, "a": n % 7, "y": n % 2}), partition=n % 3, timestamp=begin + n
            )
        producer.commit_transaction(30)
    settings = {"broker": kafka, "prefix": prefix, "intake.topics": source, "intake.id": "n"}
    trial = attempt(load(assignments=[f"{name}={value}" for name, value in settings.items()]), 300)
    assert (trial.made, trial.rejected) == (300, [])
    assert [orjson.loads(event)["id"] for _, event in trial.events] == [*range(600, 605)]
    with pytest.raises(TopicError, match=rf"intake\.topics: expected a topic that exists .*\(there is .*{source}"):
        attempt(load(assignments=[f"broker={kafka}", f"intake.topics={source}s"]), 300)


def test_events_and_labels_of_one_topic(
    deploy: Callable[..., Deployment], kafka: str, prefix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only a broker refuses a topic that is subscribed to twice."""
    source = f"{prefix}bank"
    make_topics(kafka, {source: 1})
    producer = Producer({"bootstrap.servers": kafka, "enable.idempotence": True})
    for number in range(20):
        for document in (
            {"kind": "request", "no": number, "age": 30},
            {"kind": "outcome", "no": number, "paid": "yes"},
        ):
            producer.produce(source, orjson.dumps(document), partition=0)
    producer.flush(60)
    mapping = [
        f"intake.topics={source}", "intake.where=kind=request", "intake.id=no", "intake.stream==bank",
        f"intake.labels_topics={source}", "intake.labels_where=kind=outcome", "intake.labels_id=no",
        "intake.labels_target=paid",
    ]  # fmt: skip
    words = [word for one in mapping for word in ("--set", one)]
    cli.main(["intake", "try", "--broker", kafka, "--prefix", prefix, *words], standalone_mode=False)
    assert "labels: 20, of which 20 belong to these events" in capsys.readouterr().out
    deployment = deploy(*mapping, "topics.events=1")
    deployment.start("intake")

    def arrived() -> list[dict[str, Any]]:
        values = [orjson.loads(value or b"") for part in read_all(kafka, f"{prefix}events", 1) for value in part]
        return [one for content in values for one in (content if isinstance(content, list) else [content])]

    wait_for("all events and labels", lambda: len(arrived()) == 40)
    assert [one["id"] for one in arrived()] == [number for number in range(20) for _ in range(2)]
    assert ["x" in one for one in arrived()] == [True, False] * 20
