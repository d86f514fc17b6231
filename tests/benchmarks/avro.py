"""Rate of the Avro publisher on a real Kafka, and what a conversion in the stages would cost.

    python tests/benchmarks/avro.py [--records 200000] [--repeats 3] [--broker local|HOST:PORT]

The records are predictions of two classes, then importance of 20 features. The registry is a number: each schema is
asked for once in the life of a worker. One JSON object, whose rates are records per second of processor time of this
process, all its threads, as medians:

- `published`: from the start of the worker to the last commit, with a consumer and a transactional producer
- `encoded`: the conversion alone, from a record in JSON to one in Avro
- `written_json`, `written_avro`: what a stage spends on a record: JSON as it is written now, and Avro from its fields,
  without reading JSON
- `bytes_json`, `bytes_avro`: size of a record
"""

import argparse
import asyncio
import io
import json
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import fastavro
import orjson
from confluent_kafka import Producer

from glasstream.app.brokers.choose import open_broker
from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.kafka.stages.avro import AvroPublisher, Encoder
from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.options import StageOptions
from glasstream.kafka.transport.relay import Relay
from glasstream_topics import Topic, importance, predictions
from tests.support.transport_harness import make_topics

PARTITIONS = 4
SECONDS = 0.2
FEATURES = [f"feature_{number:02}" for number in range(20)]


def prediction(n: int) -> bytes:
    chance = (n % 997) / 997
    return ENCODER.encode(
        seq=n, id=f"0-{n}-0", prediction="paid", probabilities={"lost": 1 - chance, "paid": chance}, target="lost",
        loss=chance * chance, loss_name="brier", metric_name="accuracy", metric_value=chance / 3, model_version=n,
    )  # fmt: skip


def estimate(n: int) -> bytes:
    values = [(n + number) % 991 / 991 for number in range(len(FEATURES))]
    return importance.encode(
        epoch=0, stream="loans", row=n, seq=n, method="ipfi", loss="brier", alpha=0.001, sampling="geometric", n=n + 1,
        coverage=1.0, model_version=n, lag=0, names=FEATURES, value=values, raw=values, variance=values, low=values,
        high=values, interval_kind="normal", interval_level=0.95, staleness=0.0,
    )  # fmt: skip


ENCODER = predictions.Encoder(epoch=0, stream="loans")
HEADER = bytes(5)


async def publish(link: Connection, prefix: str, topic: str, count: int) -> None:
    settings = load(assignments=[f"prefix={prefix}", "avro.registry=http://localhost:1", f"avro.topics={topic}"])
    worker = AvroPublisher(settings, lambda subject, schema, file: 1)
    options = StageOptions("avro", uuid.uuid4().hex[:8], prefix)
    copies = {f"{prefix}{topic}.avro": PARTITIONS}
    relay = Relay(link, options, (f"{prefix}{topic}",), worker, copies, SECONDS, "avro.topics")
    await relay.start()
    while worker.published.total() < count:
        if relay.failure is not None:
            raise relay.failure
        await asyncio.sleep(0.01)
    await relay.stop()


def per_second(count: int, run: Callable[[], object]) -> float:
    begun = time.process_time()
    run()
    return count / (time.process_time() - begun)


def measure(bootstrap: str, topic: Topic, make: Callable[[int], bytes], count: int, repeats: int) -> dict[str, int]:
    rates: dict[str, list[float]] = {"published": [], "encoded": [], "written_json": [], "written_avro": []}
    values = [make(n) for n in range(count // 10)]
    fields = [orjson.loads(value) for value in values]
    encoder, log = Encoder(topic), [Message(topic.name, 0, n, b"loans", value) for n, value in enumerate(values)]
    schema, write = fastavro.parse_schema(encoder.schema), fastavro.schemaless_writer
    for _ in range(repeats):
        prefix = f"{uuid.uuid4().hex[:8]}."
        make_topics(bootstrap, {f"{prefix}{topic.name}": PARTITIONS, f"{prefix}{topic.name}.avro": PARTITIONS})
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 0})
        for n in range(count):
            producer.produce(f"{prefix}{topic.name}", values[n % len(values)], b"loans", n % PARTITIONS)
        producer.flush()
        run = publish(Connection(bootstrap), prefix, topic.name, count)
        rates["published"].append(per_second(count, lambda run=run: asyncio.run(run)))
        rates["encoded"].append(per_second(len(log), lambda: [encoder.encode(one) for one in log]))
        rates["written_json"].append(per_second(len(log), lambda: [make(n) for n in range(len(log))]))
        rates["written_avro"].append(per_second(len(log), lambda: [write(io.BytesIO(), schema, one) for one in fields]))
    sizes = {"bytes_json": len(values[-1]), "bytes_avro": len(encoder.encode(log[-1], HEADER))}
    return {**{name: round(statistics.median(found)) for name, found in rates.items()}, **sizes}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--broker", default="local")
    given = parser.parse_args()
    with open_broker(given.broker, client={}) as broker:
        found = {
            topic.name: measure(broker.bootstrap, topic, make, given.records, given.repeats)
            for topic, make in ((predictions.TOPIC, prediction), (importance.TOPIC, estimate))
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
