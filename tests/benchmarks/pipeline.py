"""Throughput of the whole pipeline on a real Kafka, as a ratio to a bare River loop on the same events.

    python tests/benchmarks/pipeline.py [--models forest,tree,linear] [--repeats 3] [--broker local|HOST:PORT]
        [--explain ipfi,isage,ipdp] [--explainers 1,2] [--set isage.inner_samples=100] [--per-message 1] [--latency]

The bare loop predicts and learns, nothing else. The pipeline is learner, explainers and aggregator, with 100 events in
each message (or `--per-message`), timed from the first event to the last committed record, after a warm-up stream. Bare
and pipeline runs alternate; one JSON line a model and number of explainers, with medians:

- `bare`, `pipeline`: events/s; `ratio`: pipeline over bare
- `learner_outside_river`: CPU of the learner beyond that of the bare loop, as a share of the bare loop
- `cpu_us`: CPU µs an event in each stage, in the bare loop, and `rest`: all else that ran on this machine during the
  pipeline's runs (a local broker, this program, the system)
- `tail_s`: seconds from the last event written to the last record committed
- `speed_up`: with several numbers of explainers, throughput over that with the first

With `--latency` a record is published for every row and events come in arrays of 10; the throughput is measured anew,
then events come at 80 % of it:

- `every_row`: events/s of a run that publishes every row
- `p50_s`, `p99_s`: from an event's writing to the moment at which its importance record has been read, committed
"""

import argparse
import json
import os
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it this file has the name of the package

import msgspec
import orjson
import psutil
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from river.datasets import synth

from glasstream.app.brokers.choose import open_broker
from glasstream.app.configuration import load
from glasstream.app.runner.children import Children
from glasstream.app.runner.monitor import Monitor
from glasstream.app.runner.prepare import create_topics, environment
from glasstream.app.runner.replay import Replay
from glasstream.events.admission import Task
from glasstream.events.sources.messages import pack
from glasstream.flow.settings import Publish, Settings
from glasstream.kafka.transport.connection import connection
from glasstream.models.river.catalogue import model_factory
from glasstream_topics import admin

ROWS = {"forest": 6_000, "tree": 40_000, "linear": 150_000}
WARM_UP = 1_500
ROWS_PER_MESSAGE = 100
LOAD, PACED_ROWS, PACED_SECONDS = 0.8, 10, 15.0
SEED = 7
DEADLINE_S = 300.0

Event = dict


@dataclass
class Timed:
    seconds: float
    cpu: dict[str, float]
    tail: float = 0.0


class RowNumber(msgspec.Struct):
    """The part of an importance record that tells its row."""

    row: int


def events(rows: int) -> list[Event]:
    return [
        {"id": number, "x": {name: float(value) for name, value in x.items()}, "y": str(y)}
        for number, (x, y) in enumerate(synth.Agrawal(classification_function=1, seed=SEED).take(rows))
    ]


def bare(model_name: str, stream: list[Event]) -> Timed:
    """Predict, then learn; a binary model gets booleans."""
    model = model_factory(model_name, SEED)(Task.CLASSIFICATION)
    pairs = [(one["x"], one["y"] == "1" if not model._multiclass else one["y"]) for one in stream]
    cpu = time.process_time()
    started = time.perf_counter()
    for x, y in pairs:
        model.predict_one(x)
        model.learn_one(x, y)
    return Timed(time.perf_counter() - started, {"bare": time.process_time() - cpu})


class Deployment:
    """The three stages as processes."""

    def __init__(self, settings: Settings, children: Children) -> None:
        self.settings = settings
        self.children = children
        self.link = connection(settings)
        self.monitor = Monitor(self.link, settings, lambda topic, messages: None, public=())

    def cpu(self) -> dict[str, float]:
        used = {}
        for stage in ("learner", "explainer", "aggregator"):
            times = [psutil.Process(pid).cpu_times() for pid in self.children.pids(stage)]
            used[stage] = sum(one.user + one.system for one in times)
        whole = psutil.cpu_times()
        used["rest"] = sum(whole) - whole.idle - getattr(whole, "iowait", 0.0) - sum(used.values())
        return used

    def paced(self, name: str, stream: list[Event], rate: float) -> list[float]:
        """Seconds from event to record, in the order of the rows, at `rate` events a second."""
        written: list[float] = []
        read: dict[int, float] = {}
        numbers = msgspec.json.Decoder(RowNumber)  # to read all of a record would take a share of the two cores

        def take(topic: str, messages: list[Message]) -> None:
            now = time.perf_counter()
            for message in messages:
                if message.key() == name.encode():
                    read.setdefault(numbers.decode(message.value()).row, now)

        reader = Monitor(self.link, self.settings, take, public=("importance",), from_start=False)
        producer = Producer(self.link.producer(linger_ms=0))
        topic, key = self.settings.prefix + "events", name.encode()
        ended = threading.Event()

        def write() -> None:
            begun = time.perf_counter()
            for first in range(0, len(stream), PACED_ROWS):
                ended.wait(max(0.0, begun + first / rate - time.perf_counter()))
                written.extend([time.perf_counter()] * len(stream[first : first + PACED_ROWS]))
                producer.produce(topic, orjson.dumps(stream[first : first + PACED_ROWS]), key)
                producer.poll(0)
            producer.flush(30.0)

        writer = threading.Thread(target=write)
        writer.start()
        until = time.perf_counter() + DEADLINE_S
        while len(stream) - 1 not in read:
            self.children.check()
            reader.poll(0.005)
            if time.perf_counter() > until:
                ended.set()
                sys.exit(f"{name}: not through after {DEADLINE_S:.0f} s")
        writer.join()
        reader.close()
        first = self.settings.explain.first_row
        return [read[row] - written[row] for row in range(first, len(stream))]

    def through(self, name: str, stream: list[Event], rows: int = ROWS_PER_MESSAGE) -> Timed:
        packed = list(pack(stream, rows, 1 << 20))
        replay = Replay(self.link, self.settings, name, packed)
        before = self.cpu()
        started = time.perf_counter()
        written = 0.0
        while self.monitor.progress.published.get(name, -1) != len(stream) - 1:
            self.children.check()
            replay.step(0)
            if replay.end is not None and not written:
                written = time.perf_counter()
            self.monitor.poll(0.02)
            if time.perf_counter() - started > DEADLINE_S:
                sys.exit(f"{name}: not through after {DEADLINE_S:.0f} s: {self.monitor.progress}")
        ended = time.perf_counter()
        after = self.cpu()
        replay.close()
        return Timed(ended - started, {stage: after[stage] - before[stage] for stage in after}, ended - written)


def median(timed: list[Timed], of: Callable[[Timed], float]) -> float:
    return statistics.median(of(one) for one in timed)


def measure(model: str, explainers: int, options: argparse.Namespace) -> dict[str, object]:
    broker, repeats = options.broker, options.repeats
    stream = events(options.rows or ROWS.get(model, 2_000))
    settings = load(
        assignments=[
            f"model.name={model}",
            f"prefix=bench-{model.rpartition(':')[2]}-{explainers}-{os.getpid()}.",
            f"broker={broker}",
            f"seed={SEED}",
            "model.task=classification",
            f"explain.methods={options.explain}",
            *options.assignments,
        ]
    )
    line: dict[str, object]
    with open_broker(broker) as kafka:
        settings = msgspec.structs.replace(settings, broker=kafka.bootstrap)
        create_topics(kafka, settings)
        with Children(environment(settings), restart=False, say=lambda line: print(line, file=sys.stderr)) as children:
            for stage, number in (("aggregator", 1), ("explainer", explainers), ("learner", 1)):
                for instance in range(number):
                    children.add(stage, f"{stage}-{instance + 1}")
            deployment = Deployment(settings, children)
            deployment.through("warm-up", stream[:WARM_UP], options.per_message)
            bares, pipelines = [], []
            for number in range(repeats):
                bares.append(bare(model, stream))
                pipelines.append(deployment.through(f"run-{number}", stream, options.per_message))
            children.stop()
        line = summary(model, explainers, options, stream, bares, pipelines)
        if options.latency:
            line |= latency(settings, stream)
    return line


def latency(settings: Settings, stream: list[Event]) -> dict[str, object]:
    """Workers of their own, that publish at every row."""
    settings = msgspec.structs.replace(settings, publish=Publish(every=1))
    settings = msgspec.structs.replace(settings, prefix=f"{settings.prefix}latency.")
    admin.create(AdminClient({"bootstrap.servers": settings.broker}), settings.partitions, settings.prefix)
    with Children(environment(settings), restart=False, say=lambda line: print(line, file=sys.stderr)) as children:
        for stage in ("aggregator", "explainer", "learner"):
            children.add(stage, f"{stage}-1")
        deployment = Deployment(settings, children)
        deployment.through("warm-up", stream[:WARM_UP])
        throughput = len(stream) / deployment.through("unpaced", stream, PACED_ROWS).seconds
        rate = LOAD * throughput
        seconds = sorted(deployment.paced("paced", stream[: int(rate * PACED_SECONDS)], rate))
        children.stop()
    places = {"p50_s": 0.5, "p99_s": 0.99}
    return {
        "every_row": round(throughput),
        "load": LOAD,
        "latency_rows": len(seconds),
        **{name: round(seconds[int(place * len(seconds))], 3) for name, place in places.items()},
    }


def summary(
    model: str,
    explainers: int,
    options: argparse.Namespace,
    stream: list[Event],
    bares: list[Timed],
    pipelines: list[Timed],
) -> dict[str, object]:
    count, repeats = len(stream), options.repeats
    bare_rate = count / median(bares, lambda one: one.seconds)
    pipeline_rate = count / median(pipelines, lambda one: one.seconds)
    bare_cpu = median(bares, lambda one: one.cpu["bare"])
    learner_cpu = median(pipelines, lambda one: one.cpu["learner"])
    cpu_us = {"bare": bare_cpu, **{s: median(pipelines, lambda one, s=s: one.cpu[s]) for s in pipelines[0].cpu}}
    return {
        "model": model,
        "explain": options.explain,
        "explainers": explainers,
        "rows": count,
        "repeats": repeats,
        "bare": round(bare_rate),
        "pipeline": round(pipeline_rate),
        "ratio": round(pipeline_rate / bare_rate, 3),
        "learner_outside_river": round((learner_cpu - bare_cpu) / bare_cpu, 3),
        "cpu_us": {stage: round(1e6 * used / count, 1) for stage, used in cpu_us.items()},
        "tail_s": round(median(pipelines, lambda one: one.tail), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, help="events a run, instead of a number for each model")
    parser.add_argument("--broker", default="local")
    parser.add_argument("--explain", default="ipfi")
    parser.add_argument("--explainers", default="1", help="numbers of explainers, one after the other")
    parser.add_argument("--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--per-message", type=int, default=ROWS_PER_MESSAGE, help="events in each message")
    parser.add_argument("--latency", action="store_true")
    options = parser.parse_args()
    for model in options.models.split(","):
        first = 0.0
        for explainers in map(int, options.explainers.split(",")):
            line = measure(model, explainers, options)
            rate = float(str(line["pipeline"]))
            if first:
                line["speed_up"] = round(rate / first, 2)
            first = first or rate
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
