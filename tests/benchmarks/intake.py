"""Rate of the intake on a real Kafka, beside that of a plain loop of confluent-kafka.

    python tests/benchmarks/intake.py [--messages 400000] [--repeats 3] [--broker local|HOST:PORT]

The source topic has flat JSON of ten fields, with null keys, on four partitions. *Plain* consumes, decodes with orjson,
encodes an event for each message, and produces it, in transactions with the offsets: exactly once, with no checks. Both
run turn by turn in this process, beside the broker, with transactions of the same length. One JSON object:

- `intake`, `plain`: messages/s, from the start of the consumer to the last commit; medians; `ratio`: intake over plain.
  At its start, the intake infers types for 0.2 s, so that a short run gives a lower ratio
- `intake_cpu`, `plain_cpu`: messages per second of processor time of this process, all its threads; `ratio_cpu`
- `map`: messages per second of processor time of the mapping alone
"""

import argparse
import asyncio
import json
import statistics
import sys
import time
import uuid
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import orjson
from confluent_kafka import Consumer, Producer, TopicPartition

from glasstream.app.brokers.choose import open_broker
from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.kafka.stages.intake import Intake
from glasstream.kafka.stages.schemas import format_maker
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.relay import Relay
from glasstream_topics.progress_intake import IntakeTypes
from tests.support.transport_harness import make_topics

PARTITIONS = 4
SECONDS = 0.2


def row(n: int) -> bytes:
    fields = {f"f{k}": n * (k + 1) % 997 / 7 for k in range(6)}
    return orjson.dumps({**fields, "town": f"t{n % 50}", "member": n % 3 == 0, "age": n % 80, "approved": "yes"})


def held(types: IntakeTypes) -> IntakeTypes:
    return types


def stage_of(source: str, prefix: str) -> Intake:
    settings = load(assignments=[f"intake.topics={source}", "intake.target=approved", f"prefix={prefix}"])
    return Intake(settings, format_maker(settings.intake, {}), held)


async def intake(link: Connection, source: str, prefix: str, count: int) -> None:
    worker = stage_of(source, prefix)
    options = StageOptions("intake", uuid.uuid4().hex[:8], prefix)
    topics = {f"{prefix}events": PARTITIONS, f"{prefix}events.dead": PARTITIONS}
    relay = Relay(link, options, (source,), worker, topics, SECONDS, "intake.topics")
    await relay.start()
    while worker.written["events"] < count:
        if relay.failure is not None:
            raise relay.failure
        await asyncio.sleep(0.01)
    await relay.stop()


def plain(link: Connection, source: str, prefix: str, count: int) -> None:
    group = f"plain-{uuid.uuid4().hex[:8]}"
    consumer = Consumer({**link.consumer(read_committed=True), "group.id": group})
    producer = Producer(link.producer(transactional_id=group, delivery_report_only_error=True))
    producer.init_transactions(30)
    consumer.subscribe([source])
    done = 0
    while done < count:
        until, batch = time.monotonic() + SECONDS, []
        while (left := until - time.monotonic()) > 0 and len(batch) < 20_000:
            batch += consumer.consume(1_000, left)
        if not batch:
            continue
        offsets: dict[int, int] = {}
        producer.begin_transaction()
        for message in batch:
            content = orjson.loads(message.value())
            target = content.pop("approved")
            value = orjson.dumps({"x": content, "y": target})
            while True:
                try:
                    producer.produce(f"{prefix}events", value, source.encode())
                    break
                except BufferError:
                    producer.poll(0.01)
            offsets[message.partition()] = message.offset() + 1
        places = [TopicPartition(source, *one) for one in offsets.items()]
        producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 30)
        producer.commit_transaction(30)
        done += len(batch)
    consumer.close()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--broker", default="local")
    given = parser.parse_args()
    count, found = given.messages, {"intake": [], "plain": [], "intake_cpu": [], "plain_cpu": []}
    with open_broker(given.broker, client={}) as broker:
        link, source = Connection(broker.bootstrap), f"rows-{uuid.uuid4().hex[:8]}"
        make_topics(broker.bootstrap, {source: PARTITIONS})
        producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 0})
        for n in range(count):
            producer.produce(source, row(n), None, n % PARTITIONS)
        producer.flush()
        for _ in range(given.repeats):
            for name in ("intake", "plain"):
                prefix = f"{uuid.uuid4().hex[:8]}."
                make_topics(broker.bootstrap, {f"{prefix}events": PARTITIONS, f"{prefix}events.dead": PARTITIONS})
                wall, cpu = time.perf_counter(), time.process_time()
                if name == "intake":
                    asyncio.run(intake(link, source, prefix, count))
                else:
                    plain(link, source, prefix, count)
                found[name].append(count / (time.perf_counter() - wall))
                found[f"{name}_cpu"].append(count / (time.process_time() - cpu))
    log = [Message("rows", n % PARTITIONS, n // PARTITIONS, None, row(n), 0) for n in range(20_000)]
    stage = stage_of("rows", "p.")
    stage.handle(log)
    begun = time.process_time()
    stage.handle(log)
    mapped = len(log) / (time.process_time() - begun)
    middle = {name: statistics.median(values) for name, values in found.items()}
    ratio, ratio_cpu = middle["intake"] / middle["plain"], middle["intake_cpu"] / middle["plain_cpu"]
    print(json.dumps({**middle, "ratio": ratio, "ratio_cpu": ratio_cpu, "map": mapped}))


if __name__ == "__main__":
    main()
