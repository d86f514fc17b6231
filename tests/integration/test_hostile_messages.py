"""Whatever stands on the topics, no stage dies, every message is accounted for, and good events are explained."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import numpy as np
import orjson
import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Fetched
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from glasstream.app.brokers.local import Kafka
from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.aggregator_progress import AggregatorProgress
from glasstream.kafka.stages.explainer import ExplainerTask
from glasstream.kafka.transport.connection import connection
from glasstream.models.codec import snapshot as codec
from glasstream_topics import contributions, events, events_dead, frames, importance, requests, snapshots
from glasstream_topics.errors import FrameError
from tests.support.deployment import Deployment
from tests.support.hostile import GHOSTS, KEY, Genuine, Hostile, Log, hostile, mistakes
from tests.support.metrics import address, ask, metrics, total
from tests.support.waiting import wait_for

Deploy = Callable[..., Deployment]
SETTINGS = (
    "model.name=tree", "seed=3", "model.task=classification", "explain.methods=ipfi,isage,ipdp,novelty",
    "explain.reservoir=20", "publish.every=50", "drift.detector=adwin", "limits.features=12", "limits.categories=20",
    "limits.streams=10", "limits.message_bytes=100000", "novelty.window=200", "novelty.stride=300",
    "novelty.delay=150", "novelty.held=0.5", "novelty.rate=0.05", "novelty.learners=5",
)  # fmt: skip
SEED = 7
COUNT = int(os.environ.get("HOSTILE_MESSAGES", "5000"))
WORKERS = ("learner-1", "explainer-1", "aggregator-1", "novelty-1")


def event(number: int) -> dict:
    a, b = (number * 7919 % 1000) / 1000, (number * 104729 % 1000) / 1000
    return {"id": number, "x": {"a": a, "b": b, "t": "kpq"[number % 3], "u": number % 5 == 0}, "y": a + b > 1}


def values(first: int, end: int, size: int = 4) -> list[bytes]:
    numbers = range(first, end, size)
    return [orjson.dumps([event(number) for number in range(start, min(start + size, end))]) for start in numbers]


def interleaved(rng: Random, count: int, settings: Settings) -> Iterator[Hostile]:
    """Good events before, between and after so many hostile messages."""
    home = events.partition(b"s", settings.topics.events)
    good = values(0, 2_000)
    genuine = Genuine.of(settings, b"s", good[:100])
    for ghost in GHOSTS:
        yield from genuine.snapshots_of(ghost, settings.epoch)
    attack = list(hostile(rng, count, genuine, good, settings, b"s"))
    begin, end = len(good) // 4, 3 * len(good) // 4
    sent = 0
    for place, value in enumerate(good):
        if begin <= place < end:
            until = count * (place - begin + 1) // (end - begin)
            yield from attack[sent:until]
            sent = until
        yield Hostile("events", b"s", value, home)
    yield Hostile("events", b"s", events.FLUSH, home)


def send(deployment: Deployment, messages: list[Hostile]) -> None:
    def delivered(error: KafkaError | None, message: Fetched) -> None:
        assert error is None, error

    producer = Producer(
        {**connection(deployment.settings).producer(linger_ms=5), "queue.buffering.max.messages": 500_000}
    )
    for one in messages:
        while True:
            try:
                name = deployment.settings.prefix + one.topic
                producer.produce(name, one.value, one.key, one.partition, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    assert producer.flush(60.0) == 0


def read_all(deployment: Deployment, topic: str) -> list[Fetched]:
    """Everything on a topic that is committed."""
    link, name = connection(deployment.settings), deployment.settings.prefix + topic
    consumer = Consumer(link.consumer(read_committed=True, enable_partition_eof=True))
    partitions = consumer.list_topics(name, 10.0).topics[name].partitions
    consumer.assign([TopicPartition(name, number, 0) for number in partitions])
    left, found = len(partitions), []
    while left:
        message = consumer.poll(10.0)
        assert message is not None
        if message.error() is None:
            found.append(message)
        else:
            left -= 1
    consumer.close()
    return found


def is_request(value: bytes | None, settings: Settings) -> bool:
    try:
        return requests.decode(value or b"").partition < settings.topics.events
    except FrameError:
        return False


async def refused(messages: list[Fetched], settings: Settings) -> int:
    """How many of `contributions` an aggregator leaves out."""
    aggregators = [AggregatorTask(partition, settings) for partition in range(settings.topics.events)]
    for message in messages:
        aggregator = aggregators[message.partition()]
        await aggregator.feed(
            [Message("contributions", message.partition(), message.offset(), message.key(), message.value())]
        )
        aggregator.collect()
    return sum(aggregator.damaged for aggregator in aggregators)


def an_explainer() -> tuple[ExplainerTask, Genuine, Settings]:
    settings = load(assignments=SETTINGS)
    return ExplainerTask(settings, None, AggregatorProgress()), Genuine.of(settings, b"s", values(0, 200)), settings


def chunk(settings: Settings, version: int, data: bytes) -> tuple[bytes, bytes]:
    return snapshots.split("s", settings.epoch, version, data)[0]


@pytest.mark.parametrize("wrong", ["bytes", "another version"])
def test_a_snapshot_that_is_not_what_its_key_says_is_left_out_until_it_comes_again(wrong: str) -> None:
    explainer, genuine, settings = an_explainer()
    block = requests.decode(genuine.requests[-1])
    right = genuine.snapshots[block.version]
    forged = b"no model" if wrong == "bytes" else genuine.snapshots[min(genuine.snapshots)]
    explainer.on_snapshot(*chunk(settings, block.version, forged))

    async def handled() -> list[bytes | None]:
        waiting = asyncio.ensure_future(explainer.handle(Message("explain.requests", 0, 0, None, genuine.requests[-1])))
        async with asyncio.timeout(30):
            while not explainer.damaged:
                await asyncio.sleep(0.01)
        assert not waiting.done()
        explainer.on_snapshot(*chunk(settings, block.version, right))
        return [record.value for record in await waiting]

    assert asyncio.run(handled()) == genuine.contributions[-1:]
    assert explainer.damaged == 1


@pytest.mark.parametrize("wrong", ["no key", "another key", "forged seal"])
def test_a_model_that_cannot_be_opened_is_waited_for_and_the_worker_is_not_ready(wrong: str, caplog) -> None:
    """A pickled model that cannot be opened does not end an explainer: its rows wait, and it says what it lacks."""
    settings = load(assignments=[*SETTINGS, "model.name=river.neighbors:KNNClassifier"])
    numbers = [orjson.dumps({"x": {"a": n % 7, "b": n % 3}, "y": n % 7 > 3}) for n in range(100)]
    genuine = Genuine.of(settings, b"s", numbers)
    key = {"no key": None, "another key": b"some other key of ours", "forged seal": KEY}[wrong]
    explainer = ExplainerTask(settings, key, AggregatorProgress())
    block = requests.decode(genuine.requests[-1])
    right = genuine.snapshots[block.version]
    frame = frames.decode(codec.inflate(right), codec.KIND, codec.VERSION)
    sealed = np.array(frame.arrays["sealed"])
    sealed[-1] ^= 1
    forged = codec.compress(frames.encode(codec.KIND, codec.VERSION, frame.meta, {"sealed": sealed}))
    explainer.on_snapshot(*chunk(settings, block.version, forged if wrong == "forged seal" else right))
    lanes = {partition: SimpleNamespace(waits=None) for partition in range(3)}

    async def handled() -> list[bytes | None]:
        waiting = asyncio.ensure_future(explainer.handle(Message("explain.requests", 2, 0, None, genuine.requests[-1])))
        async with asyncio.timeout(30):
            while not lanes[2].waits:
                await asyncio.sleep(0.01)
                explainer.tell(lanes)
        assert not waiting.done() and explainer.damaged == 1
        assert "stream 's'" in lanes[2].waits and "GLASSTREAM_HMAC_KEY" in lanes[2].waits
        assert (lanes[0].waits, lanes[1].waits) == (None, None)
        if wrong != "forged seal":
            explainer.on_snapshot(*chunk(settings, block.version, right))
            async with asyncio.timeout(30):
                while explainer.damaged < 2:
                    await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            records = []
        else:
            explainer.on_snapshot(*chunk(settings, block.version, right))
            records = [record.value for record in await waiting]
        explainer.tell(lanes)
        assert lanes[2].waits is None
        return records

    assert asyncio.run(handled()) == (genuine.contributions[-1:] if wrong == "forged seal" else [])
    assert "GLASSTREAM_HMAC_KEY" in caplog.text


def test_a_block_that_only_an_explanation_shows_to_contradict_itself_counts_as_failed() -> None:
    explainer, genuine, settings = an_explainer()
    block = requests.decode(genuine.requests[-1])
    explainer.on_snapshot(*chunk(settings, block.version, genuine.snapshots[block.version]))
    places = {**block.draws, "ipdp.place": block.draws["ipdp.place"] + 1_000}
    records = asyncio.run(
        explainer.handle(Message("explain.requests", 0, 0, None, requests.encode(replace(block, draws=places))))
    )
    (answer,) = [contributions.decode(record.value or b"") for record in records]
    assert (answer.kind, answer.count) == ("failed", block.count) and "changes of grids" in answer.reason
    assert explainer.blocks["failed"] == 1


def test_what_has_no_partition_or_no_answer_to_what_was_asked_is_left_out() -> None:
    explainer, genuine, settings = an_explainer()
    elsewhere = replace(requests.decode(genuine.requests[-1]), partition=settings.topics.events)
    assert asyncio.run(explainer.handle(Message("explain.requests", 0, 0, None, requests.encode(elsewhere)))) == []
    assert explainer.damaged == 1
    answer = contributions.decode(genuine.contributions[0])
    aggregator = AggregatorTask(answer.partition, settings)
    some = {name: array for name, array in answer.values.items() if not name.startswith("isage")}
    for other in (replace(answer, partition=9), replace(answer, values=some), replace(answer, loss="hinge")):
        message = Message("contributions", answer.partition, 0, b"s", contributions.encode(other))
        asyncio.run(aggregator.feed([message]))
    assert aggregator.damaged == 3 and aggregator.core.streams == {}


DEFAULT_LIMIT = {"message.max.bytes": "1048588", "replica.fetch.max.bytes": "1048588"}
"""Kafka's own: every topic that says nothing of it takes no more."""


def test_what_users_send_by_mistake_ends_no_stage_and_changes_no_other_stream(
    local_broker: Callable[..., Kafka], prefix: str, tmp_path: Path
) -> None:
    """Only a broker limits messages by topic: here by default, and the topic of dead letters as an operator made it."""
    own = ("topics.events=1", "limits.rows_ahead=800", f"broker={local_broker(settings=DEFAULT_LIMIT).bootstrap}")
    only = {"model.name=tree", "seed=3", "model.task=classification", "explain.methods=ipfi,isage,ipdp,novelty",
            "explain.reservoir=20", "publish.every=50", "novelty.window=200", "novelty.stride=300",
            "novelty.delay=150", "novelty.held=0.5", "novelty.learners=5"}  # fmt: skip
    settings = load(assignments=[*sorted(only), *own, f"prefix={prefix}", "worker.session_seconds=60",
                                 "health.stall_seconds=600"])  # fmt: skip
    deployment = Deployment(settings, tmp_path)
    try:
        _send_mistakes(deployment)
    finally:
        deployment.close()


def _send_mistakes(deployment: Deployment) -> None:
    settings = deployment.settings
    dead, events_topic = f"{settings.prefix}events.dead", f"{settings.prefix}events"
    limit = ConfigEntry("max.message.bytes", "1048588", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, dead, incremental_configs=[limit])
    for future in deployment.admin.incremental_alter_configs([changed]).values():
        future.result(30.0)
    good, made = values(0, 480), list(mistakes())
    deployment.start_all()
    deployment.start("novelty")
    deployment.start("labels")
    client = Producer(
        {"bootstrap.servers": settings.broker, "compression.type": "zstd", "message.max.bytes": 200_000_000,
         "partitioner": "murmur2_random", "batch.num.messages": 1, "enable.idempotence": True}
    )  # fmt: skip
    late = [b'{"id":1,"y":"' + b"a" * size + b'"}' for size in (2_600_000, 9_000_000)]
    for value in late:
        client.produce(f"{settings.prefix}labels", value, b"late")
    for place in range(0, len(good), 10):
        for value in good[place : place + 10]:
            client.produce(events_topic, value, b"s")
        for mistake in made[place // 10 :: len(good) // 10]:
            client.produce(events_topic, mistake.value, mistake.key)
            assert client.flush(120.0) == 0
    ends: list[int] = []
    client.produce(events_topic, events.FLUSH, b"s", on_delivery=lambda _, message: ends.append(message.offset() + 1))
    assert client.flush(120.0) == 0
    wait_for("the good events are explained", lambda: alive(deployment) and deployment.published("s") == 479, 900.0)
    wanted = Counter(mistake.reason for mistake in made if mistake.reason) + Counter(too_large=len(late))
    wait_for(
        "all mistakes are dead letters",
        lambda: alive(deployment) and deployment.poll() and len(deployment.records["events.dead"]) >= wanted.total(),
        900.0,
    )
    # Not `deployment.watched()`: the mark of an aborted transaction of the forwarder may stand at the end of `events`.
    watched = deployment.poll().progress.watched
    wait_for("all is watched", lambda: alive(deployment) and deployment.poll() and watched.get(0, 0) >= ends[0], 900.0)
    deployment.read_all()

    quiet = Log(settings)
    for value in [*good, events.FLUSH]:
        quiet.add(b"s", value, 0)
    for topic in ("predictions", "importance", "effects", "novelty"):
        expected = of_stream(record for name, record in quiet.published if name == topic)
        assert of_stream(deployment.values(topic)) == expected != [], topic
    letters = [events_dead.decode(message.headers() or []) for message in deployment.records["events.dead"]]
    assert Counter(letter.reason for letter in letters) == wanted
    by_topic = Counter(letter.topic.removeprefix(settings.prefix) for letter in letters if letter.reason == "too_large")
    assert by_topic == {"labels": len(late), "events": 1}
    refused = [letter for letter in letters if letter.reason == "not_json"]
    assert refused[0].omitted_bytes == len(made[-1].value), "the topic takes no letter with the original"
    assert [letter.rejected_count for letter in letters if letter.reason == "rejected_elements"] == [
        450_000,
        None,
        None,
    ]
    (many,) = (letter for letter in letters if (letter.rejected or [])[:1] == [(256, "too_many_classes")])
    assert len(many.rejected or ()) == 300 - settings.limits.classes
    largest = max(len(value) for value in deployment.values("predictions"))
    assert largest < 64 * 1024, "records of the stream with ids for classes are bounded"
    for name in list(deployment.workers):
        assert deployment.stop(name) == 0, deployment.log(name)


def test_an_explainer_with_another_key_stays_up_not_ready_until_another_takes_its_place(deploy: Deploy) -> None:
    """Only a broker moves the partitions of one worker to another."""
    deployment = deploy("model.name=tests.support.models:knn", "model.task=regression")
    deployment.start("aggregator")
    deployment.start("learner")
    deployment.start("explainer", "explainer-1", GLASSTREAM_HMAC_KEY="not-the-key-of-the-learner")
    numbers = [{"x": {"a": n % 11, "b": n % 5}, "y": n % 7} for n in range(300)]
    deployment.send(*[orjson.dumps(numbers[n : n + 20]) for n in range(0, 300, 20)], events.FLUSH)

    def stalled() -> bool:
        deployment.poll()
        if "health and metrics" not in deployment.log("explainer-1"):
            return False
        status, body = ask(address(deployment, "explainer-1") + "/readyz")
        return status == 503 and "its HMAC does not match" in body and "GLASSTREAM_HMAC_KEY" in body

    wait_for("it says what it lacks", lambda: alive(deployment) and stalled())
    told = metrics(deployment, "explainer-1")
    assert max(amount for name, amount in told.items() if name.startswith("stalled ")) == 1.0
    deployment.start("explainer", "explainer-2")
    assert deployment.stop("explainer-1") == 0, deployment.log("explainer-1")
    deployment.wait_published("s", 299)
    assert importance.decode(deployment.values("importance")[-1]).coverage == 1.0


@pytest.mark.slow
def test_hostile_messages_are_accounted_for_and_good_events_are_explained(deploy: Deploy) -> None:
    """Only a broker hands all that any client may write on any topic to workers through the client libraries."""
    deployment = deploy(*SETTINGS)
    settings = deployment.settings
    messages = list(interleaved(Random(SEED), COUNT, settings))
    quiet = Log(settings)
    for one in messages:
        if one.topic == "events":
            quiet.add(one.key, one.value, one.partition)
    deployment.start_all()
    deployment.start("novelty")
    started = time.monotonic()
    send(deployment, messages)
    quiet_rows = [orjson.loads(record) for topic, record in quiet.published if topic == "importance"]
    last = max(record["row"] for record in quiet_rows if record["stream"] == "s")
    wait_for("the good events are explained", lambda: alive(deployment) and deployment.published("s") == last, 300.0)
    wait_for("nothing is left", lambda: alive(deployment) and lag(deployment) <= 2 * settings.topics.events, 300.0)
    wait_for("all is watched", lambda: alive(deployment) and deployment.watched(), 300.0)
    seconds = time.monotonic() - started
    deployment.read_all()

    for topic in ("predictions", "importance", "effects", "drift", "incidents", "novelty"):
        expected = of_stream(record for name, record in quiet.published if name == topic)
        got = of_stream(deployment.values(topic))
        if topic == "effects":  # its keys spread over partitions
            expected, got = sorted(expected), sorted(got)
        assert got == expected, topic
        assert expected or topic in ("drift", "incidents"), topic
    learner, explainer, aggregator = (metrics(deployment, worker) for worker in WORKERS[:3])
    letters = [events_dead.decode(message.headers() or []) for message in deployment.records["events.dead"]]
    dead = [record for topic, record in quiet.published if topic == "events.dead"]
    assert len(letters) == len(dead)
    assert total(learner, "dead_letters_total") == len(dead)

    blocks = [is_request(message.value(), settings) for message in read_all(deployment, "explain.requests")]
    handled = sum(explainer[f"blocks_total {outcome}"] for outcome in ("ok", "failed", "stale"))
    assert handled == sum(blocks)
    assert total(explainer, "damaged_messages_total") >= len(blocks) - sum(blocks) + unusable(messages)
    answers = read_all(deployment, "contributions")
    assert total(aggregator, "damaged_messages_total") == asyncio.run(refused(answers, settings))
    assert aggregator["coverage s"] == 1.0
    sizes = {name: psutil.Process(deployment.workers[name].pid).memory_info().rss >> 20 for name in WORKERS}
    by_topic = Counter(one.topic for one in messages)
    print(
        f"\n{COUNT:,} hostile messages, {seconds:.0f} s; {dict(by_topic)}; dead letters {len(dead):,}; requests out "
        f"{len(blocks) - sum(blocks):,}, explained {explainer['blocks_total ok']:,.0f}, failed "
        f"{explainer['blocks_total failed']:,.0f}; contributions {len(answers):,}, left out "
        f"{total(aggregator, 'damaged_messages_total'):,.0f}; resident MiB {sizes}"
    )
    for name in WORKERS:
        assert deployment.stop(name) == 0, deployment.log(name)


def alive(deployment: Deployment) -> bool:
    for name, process in deployment.workers.items():
        assert process.poll() is None, f"{name} died: {deployment.log(name)[-2_000:]}"
    return True


def lag(deployment: Deployment) -> float:
    """Messages that no stage has used yet; markers of transactions count too."""
    deployment.poll()
    return max(
        sum(amount for name, amount in metrics(deployment, worker).items() if name.startswith("input_lag"))
        for worker in WORKERS
    )


def of_stream(records: Iterable[bytes]) -> list[bytes]:
    return [record for record in records if orjson.loads(record)["stream"] == "s"]


def unusable(messages: list[Hostile]) -> int:
    """Records of `snapshots` that are surely refused, whatever was there before: a key that is none."""
    found = 0
    for one in messages:
        if one.topic == "snapshots":
            try:
                snapshots.Key.decode(one.key or b"")
            except FrameError:
                found += 1
    return found
