"""Throughput of the whole pipeline on a real Kafka, as a ratio to a bare River loop on the same events.

    python tests/benchmarks/pipeline.py [--models forest,tree,linear] [--repeats 3] [--broker local|HOST:PORT]

The bare loop predicts and learns, nothing else. The pipeline is learner, one explainer and fold with iPFI on, events
in arrays of 100, timed from the first event to the last committed record, after a warm-up stream. Bare and pipeline
runs alternate; one JSON line a model, with medians:

- `bare`, `pipeline`: events/s; `ratio`: pipeline over bare
- `learner_outside_river`: CPU of the learner beyond that of the bare loop, as a share of the bare loop
- `cpu_us`: CPU µs an event in each stage, and in the bare loop
- `latency_s`: seconds from the last event written to the last record committed
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

sys.path.pop(0)  # this folder: in it this file has the name of the package

import msgspec
import psutil
from river.datasets import synth

from pipeline.brokers.choose import open_broker
from pipeline.command.children import Children
from pipeline.command.messages import pack
from pipeline.command.monitor import Monitor
from pipeline.command.replay import Replay
from pipeline.command.run import create_topics, environment
from pipeline.configuration import load
from pipeline.ingest.admission import Task
from pipeline.models.catalogue import model_factory
from pipeline.settings import Settings
from pipeline.stages.build import connection

ROWS = {"forest": 6_000, "tree": 40_000, "linear": 150_000}
WARM_UP = 1_500
ROWS_PER_MESSAGE = 100
SEED = 7
DEADLINE_S = 300.0

Event = dict


@dataclass
class Timed:
    seconds: float
    cpu: dict[str, float]
    tail: float = 0.0


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
        for stage in ("learner", "explainer", "fold"):
            times = [psutil.Process(pid).cpu_times() for pid in self.children.pids(stage)]
            used[stage] = sum(one.user + one.system for one in times)
        return used

    def through(self, name: str, stream: list[Event]) -> Timed:
        packed = list(pack(stream, ROWS_PER_MESSAGE, 1 << 20))
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


def measure(model: str, repeats: int, broker: str, rows: int | None) -> dict[str, object]:
    stream = events(rows or ROWS[model])
    settings = load(
        assignments=[
            f"model.name={model}",
            f"prefix=bench-{model}-{os.getpid()}.",
            f"broker={broker}",
            f"seed={SEED}",
            "model.task=classification",
        ]
    )
    with open_broker(broker) as kafka:
        settings = msgspec.structs.replace(settings, broker=kafka.bootstrap)
        create_topics(kafka, settings)
        with Children(environment(settings), restart=False, say=lambda line: print(line, file=sys.stderr)) as children:
            for stage in ("fold", "explainer", "learner"):
                children.add(stage, f"{stage}-1")
            deployment = Deployment(settings, children)
            deployment.through("warm-up", stream[:WARM_UP])
            bares, pipelines = [], []
            for number in range(repeats):
                bares.append(bare(model, stream))
                pipelines.append(deployment.through(f"run-{number}", stream))
            children.stop()
    count = len(stream)
    bare_rate = count / median(bares, lambda one: one.seconds)
    pipeline_rate = count / median(pipelines, lambda one: one.seconds)
    bare_cpu = median(bares, lambda one: one.cpu["bare"])
    learner_cpu = median(pipelines, lambda one: one.cpu["learner"])
    cpu_us = {"bare": bare_cpu, **{s: median(pipelines, lambda one, s=s: one.cpu[s]) for s in pipelines[0].cpu}}
    return {
        "model": model,
        "rows": count,
        "repeats": repeats,
        "bare": round(bare_rate),
        "pipeline": round(pipeline_rate),
        "ratio": round(pipeline_rate / bare_rate, 3),
        "learner_outside_river": round((learner_cpu - bare_cpu) / bare_cpu, 3),
        "cpu_us": {stage: round(1e6 * used / count, 1) for stage, used in cpu_us.items()},
        "latency_s": round(median(pipelines, lambda one: one.tail), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, help="events a run, instead of a number for each model")
    parser.add_argument("--broker", default="local")
    arguments = parser.parse_args()
    for model in arguments.models.split(","):
        print(json.dumps(measure(model, arguments.repeats, arguments.broker, arguments.rows)), flush=True)


if __name__ == "__main__":
    main()
