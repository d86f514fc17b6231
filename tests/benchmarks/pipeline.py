"""Throughput and latency of the whole pipeline on a real Kafka, one event in each message.

    python tests/benchmarks/pipeline.py [--models forest,tree,linear] [--repeats 3] [--broker local|HOST:PORT]
        [--explain ipfi,isage,ipdp] [--explainers 1,2] [--set isage.inner_samples=100] [--per-message 100]
        [--label-delay 300] [--streams 8] [--backlog 200000] [--bare 40000] [--rates 0,1000,10000] [--seconds 15]
    python tests/benchmarks/pipeline.py --table [--scale 0.01] [--repeats 3]

The bare loop of River predicts and learns, nothing else. The pipeline is learner, explainers and aggregator, timed from
the first event to the last committed record, after a warm-up stream, while this program writes the events. Bare and
pipeline runs alternate; one JSON line a model and number of explainers, with medians:

- `bare`, `pipeline`: events/s; `ratio`: pipeline over bare
- `learner_outside_river`: CPU of the learner beyond that of the bare loop, as a share of the bare loop
- `cpu_us`: CPU µs an event in each stage, in the bare loop, in a local `broker`, and `rest`: all else that ran on this
  machine during the pipeline's runs (this program, the system)
- `tail_s`: seconds from the last event written to the last record committed
- `speed_up`: with several numbers of explainers, throughput over that with the first
- `load`: load of the machine over the last minute before the first run

With `--bare` the bare loop learns the first events only, because a forest of River is slow. It is slower with later
events, so the ratio is then too low rather than too high.

With `--backlog` as many events are written before the stages start, and the time is that from the first published row
to the last.

With `--label-delay` events come without labels, and each label follows so many events later in a message of its own.
With `--streams` the events are divided among so many streams, each on a partition of its own.

With `--rates` a record is published for every row, and events are written one by one at each rate, for `--seconds`; one
JSON line a rate:

- `prediction_ms`, `importance_ms`, with the method `attributions` also `attribution_ms`: median and 99th percentile of
  the milliseconds from an event's writing to the moment at which the record of its row has been read, committed
- `share`: CPU of each stage, as a share of one core. At rate 0 nothing is written.

With `--table` the commands of `TABLE` run one after the other, and their figures are printed with their goals, which
are for two cores that nothing else uses. `--scale` multiplies the events of a backlog and the seconds of a rate;
below 1 no goal is judged, because the figures of a short run mean nothing.
"""

import argparse
import itertools
import json
import os
import platform
import shlex
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it this file has the name of the package

import msgspec
import orjson
import psutil
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient
from river.datasets import synth

from glasstream.app.brokers.choose import Broker, open_broker
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
from glasstream_topics.events import partition

ROWS = {"forest": 6_000, "tree": 40_000, "linear": 150_000}
WARM_UP = 1_500
READ = ("predictions", "importance")
QUANTILES = {"p50": 0.5, "p99": 0.99}
SEED = 7
DEADLINE_S = 300.0

Event = dict


class Goal(NamedTuple):
    """Figure of a JSON line, and its bound; without a bound it is only shown."""

    what: str
    path: str
    """Path of the figure in the JSON line: keys with points between them."""
    least: float | None = None
    most: float | None = None

    def row(self, line: dict[str, Any], *, judged: bool) -> str:
        """Cells of a table: figure, goal, measured, and whether the goal is met."""
        found: Any = line
        for key in self.path.split("."):
            found = found.get(key)
            if found is None:  # a broker that is not of this program
                return f"{self.what} | – | – | not measured"
        if self.least is None and self.most is None:
            return f"{self.what} | – | {found:,} | –"
        bound = f"≥ {self.least:,}" if self.least is not None else f"≤ {self.most:,}"
        if not judged:
            return f"{self.what} | {bound} | {found:,} | –"
        met = (self.least is None or found >= self.least) and (self.most is None or found <= self.most)
        return f"{self.what} | {bound} | {found:,} | {'met' if met else 'missed'}"


def from_backlog_goals(rate: float, ratio: float, learner: float) -> tuple[Goal, ...]:
    return (
        Goal("events/s", "pipeline", least=rate),
        Goal("over the bare loop", "ratio", least=ratio),
        Goal("learner, CPU µs an event", "cpu_us.learner", most=learner),
        Goal("broker, CPU µs an event", "cpu_us.broker", most=25),
    )


def late_goals(learner: float) -> tuple[Goal, ...]:
    return (Goal("events/s", "pipeline"), Goal("learner, CPU µs an event", "cpu_us.learner", most=learner))


def rate_goal(rate: float) -> tuple[Goal, ...]:
    return (Goal("events/s", "pipeline", least=rate),)


RATE_ONLY = (Goal("events/s", "pipeline"),)
TABLE: dict[str, tuple[Goal, ...]] = {
    "--models linear --backlog 200000": from_backlog_goals(28_000, 0.4, 14),
    "--models tree --backlog 200000": from_backlog_goals(24_000, 3.0, 17),
    "--models forest --backlog 200000 --bare 40000": from_backlog_goals(14_000, 11.0, 32),
    "--models linear": rate_goal(20_000),
    "--models tree": rate_goal(17_000),
    "--models forest --rows 60000 --bare 6000": rate_goal(11_000),
    "--models linear --backlog 200000 --label-delay 300": late_goals(24),
    "--models tree --backlog 200000 --label-delay 300": late_goals(30),
    "--models forest --backlog 200000 --bare 40000 --label-delay 300": late_goals(50),
    "--models linear --backlog 200000 --explain ipfi,isage,ipdp": rate_goal(15_000),
    "--models tree --backlog 200000 --explain ipfi,isage,ipdp": rate_goal(13_000),
    "--models forest --backlog 200000 --bare 40000 --explain ipfi,isage,ipdp": rate_goal(9_000),
    "--models tree --backlog 200000 --explain ipfi,attributions": rate_goal(14_000),
    "--models forest --backlog 200000 --bare 40000 --explain ipfi,attributions": rate_goal(9_000),
    "--models linear --backlog 200000 --streams 8": RATE_ONLY,
    "--models linear --rates 1000": (
        Goal("event to prediction, p50 ms", "prediction_ms.p50", most=20),
        Goal("event to prediction, p99 ms", "prediction_ms.p99", most=60),
        Goal("event to importance, p50 ms", "importance_ms.p50", most=50),
        Goal("event to importance, p99 ms", "importance_ms.p99", most=120),
        Goal("learner, share of a core", "share.learner", most=0.06),
    ),
    "--models linear --rates 10000": (
        Goal("event to prediction, p99 ms", "prediction_ms.p99", most=150),
        Goal("event to importance, p99 ms", "importance_ms.p99", most=300),
    ),
    "--models tree --rates 1000 --explain ipfi,attributions": (
        Goal("event to attribution, p50 ms", "attribution_ms.p50", most=50),
        Goal("event to attribution, p99 ms", "attribution_ms.p99", most=120),
    ),
    "--models linear --rates 0": (Goal("idle learner, share of a core", "share.learner", most=0.01),),
}
"""Commands of this program, and the goals of their figures."""


@dataclass
class Timed:
    seconds: float
    cpu: dict[str, float]
    tail: float = 0.0


class RowNumber(msgspec.Struct):
    """The part of a record that tells its row. With a label in each event `seq` is the row."""

    row: int = -1
    seq: int = -1


def events(rows: int) -> list[Event]:
    return [
        {"id": number, "x": {name: float(value) for name, value in x.items()}, "y": str(y)}
        for number, (x, y) in enumerate(synth.Agrawal(classification_function=1, seed=SEED).take(rows))
    ]


def bare(model_name: str, stream: list[Event]) -> Timed:
    """Predict, then learn; a binary model gets booleans. The times are those of one event."""
    model = model_factory(model_name, SEED)(Task.CLASSIFICATION)
    pairs = [(one["x"], one["y"] == "1" if not model._multiclass else one["y"]) for one in stream]
    cpu = time.process_time()
    started = time.perf_counter()
    for x, y in pairs:
        model.predict_one(x)
        model.learn_one(x, y)
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return Timed(seconds / len(stream), {"bare": cpu / len(stream)})


def log_of(stream: list[Event], label_delay: int) -> Iterator[Event]:
    """Events and labels in the order in which they are written."""
    if not label_delay:
        yield from stream
        return
    for number in range(len(stream) + label_delay):
        if number < len(stream):
            yield {"id": stream[number]["id"], "x": stream[number]["x"]}
        if 0 <= (late := number - label_delay) < len(stream):
            yield {"id": stream[late]["id"], "y": stream[late]["y"]}


def divided(name: str, stream: list[Event], streams: int) -> dict[str, list[Event]]:
    """Events by stream: with several streams, each is on a partition of its own."""
    if streams == 1:
        return {name: stream}
    by_partition: dict[int, str] = {}
    for number in itertools.count():
        by_partition.setdefault(partition(f"{name}-{number}".encode(), streams), f"{name}-{number}")
        if len(by_partition) == streams:
            break
    return {one: stream[place::streams] for place, one in enumerate(by_partition.values())}


class Deployment:
    """The three stages as processes."""

    def __init__(self, settings: Settings, children: Children) -> None:
        self.settings = settings
        self.children = children
        own = psutil.Process().children(recursive=True)
        self.broker = next((one for one in own if one.name() == "java"), None)
        """Process of a local broker."""
        self.link = connection(settings)
        self.monitor = Monitor(self.link, settings, lambda topic, messages: None, public=())

    def cpu(self) -> dict[str, float]:
        used = {}
        for stage in ("learner", "explainer", "aggregator"):
            times = [psutil.Process(pid).cpu_times() for pid in self.children.pids(stage)]
            used[stage] = sum(one.user + one.system for one in times)
        if self.broker is not None:
            broker = self.broker.cpu_times()
            used["broker"] = broker.user + broker.system
        whole = psutil.cpu_times()
        used["rest"] = sum(whole) - whole.idle - getattr(whole, "iowait", 0.0) - sum(used.values())
        return used

    def paced(self, name: str, stream: list[Event], rate: float) -> dict[str, list[float]]:
        """Seconds from event to record in each topic, for events that are written one by one at `rate` a second."""
        written: list[float] = []
        topics = (*READ, *({"attributions"} & {*self.settings.explain.names}))
        read: dict[str, dict[int, float]] = {topic: {} for topic in topics}
        numbers = msgspec.json.Decoder(RowNumber)  # to read all of a record would take a share of the two cores

        def take(topic: str, messages: list[Message]) -> None:
            now = time.perf_counter()
            for message in messages:
                if message.key() == name.encode():
                    number = numbers.decode(message.value())
                    read[topic].setdefault(max(number.row, number.seq), now)

        reader = Monitor(self.link, self.settings, take, public=topics, from_start=False)
        producer = Producer(self.link.producer(linger_ms=0))
        topic, key = self.settings.prefix + "events", name.encode()
        values = [orjson.dumps(event) for event in stream]
        ended = threading.Event()

        def write() -> None:
            begun = time.perf_counter()
            for number, value in enumerate(values):
                ended.wait(max(0.0, begun + number / rate - time.perf_counter()))
                written.append(time.perf_counter())
                producer.produce(topic, value, key)
                producer.poll(0)
            producer.flush(30.0)

        writer = threading.Thread(target=write)
        writer.start()
        until = time.perf_counter() + DEADLINE_S
        while any(len(stream) - 1 not in found for found in read.values()):
            self.children.check()
            reader.poll(0.002)
            if time.perf_counter() > until:
                ended.set()
                sys.exit(f"{name}: not through after {DEADLINE_S:.0f} s")
        writer.join()
        reader.close()
        first = self.settings.explain.first_row
        return {
            topic: [found[row] - written[row] for row in range(first, len(stream))] for topic, found in read.items()
        }

    def replays(self, parts: dict[str, list[Event]], options: argparse.Namespace) -> list[Replay]:
        return [
            Replay(
                self.link,
                self.settings,
                name,
                list(pack(log_of(part, options.label_delay), options.per_message, 1 << 20)),
            )
            for name, part in parts.items()
        ]

    def rows(self, parts: dict[str, list[Event]]) -> int:
        """Number of rows up to the newest record of each stream."""
        return sum(self.monitor.progress.published.get(name, -1) + 1 for name in parts)

    def through(self, name: str, stream: list[Event], options: argparse.Namespace) -> Timed:
        parts = divided(name, stream, options.streams)
        replays = self.replays(parts, options)
        before = self.cpu()
        started = time.perf_counter()
        written = 0.0
        while self.rows(parts) < len(stream):
            self.children.check()
            for replay in replays:
                replay.step(0)
            if not written and all(replay.end is not None for replay in replays):
                written = time.perf_counter()
            self.monitor.poll(0.02)
            if time.perf_counter() - started > DEADLINE_S:
                sys.exit(f"{name}: not through after {DEADLINE_S:.0f} s: {self.monitor.progress}")
        ended = time.perf_counter()
        after = self.cpu()
        for replay in replays:
            replay.close()
        return Timed(ended - started, {stage: after[stage] - before[stage] for stage in after}, ended - written)


def median(timed: list[Timed], of: Callable[[Timed], float]) -> float:
    return statistics.median(of(one) for one in timed)


def add_stages(children: Children, explainers: int) -> None:
    for stage, count in (("aggregator", 1), ("explainer", explainers), ("learner", 1)):
        for instance in range(count):
            children.add(stage, f"{stage}-{instance + 1}")


def tell(line: str) -> None:
    print(line, file=sys.stderr)


def measure(model: str, explainers: int, options: argparse.Namespace) -> dict[str, object]:
    repeats = options.repeats
    stream = events(options.backlog or options.rows or ROWS.get(model, 2_000))
    with deployed(model, options) as (settings, kafka):
        create_topics(kafka, settings)
        load_before = os.getloadavg()[0]
        bares, pipelines = [], []
        if options.backlog:
            for number in range(repeats):
                own = msgspec.structs.replace(settings, prefix=f"{settings.prefix}{number}.")
                create_topics(kafka, own)
                bares.append(bare(model, stream[: options.bare or None]))
                pipelines.append(from_backlog(own, stream, explainers, options))
        else:
            with Children(environment(settings), restart=False, say=tell) as children:
                add_stages(children, explainers)
                deployment = Deployment(settings, children)
                deployment.through("warm-up", stream[:WARM_UP], options)
                for number in range(repeats):
                    bares.append(bare(model, stream[: options.bare or None]))
                    pipelines.append(deployment.through(f"run-{number}", stream, options))
                children.stop()
        line = summary(model, explainers, options, stream, bares, pipelines)
    return line | {"load": round(load_before, 2)}


@contextmanager
def deployed(model: str, options: argparse.Namespace) -> Iterator[tuple[Settings, Broker]]:
    """A broker, and the settings of stages on it."""
    settings = load(
        assignments=[
            f"model.name={model}",
            f"prefix=bench-{model.rpartition(':')[2]}-{os.getpid()}-{time.monotonic_ns()}.",
            f"broker={options.broker}",
            f"seed={SEED}",
            "model.task=classification",
            f"explain.methods={options.explain}",
            *([f"topics.events={options.streams}"] if options.streams > 1 else []),
            *options.assignments,
        ]
    )
    with open_broker(options.broker) as kafka:
        yield msgspec.structs.replace(settings, broker=kafka.bootstrap), kafka


def latencies(model: str, explainers: int, options: argparse.Namespace) -> Iterator[dict[str, object]]:
    rates = [int(rate) for rate in options.rates.split(",")]
    stream = events(max(WARM_UP, int(max(rates) * options.seconds)))
    with deployed(model, options) as (settings, _):
        for rate in rates:
            yield {
                "model": model,
                "explain": options.explain,
                "explainers": explainers,
                "load": round(os.getloadavg()[0], 2),
                **at_rate(settings, stream, rate, explainers, options),
            }


def at_rate(
    settings: Settings,
    stream: list[Event],
    rate: int,
    explainers: int,
    options: argparse.Namespace,
) -> dict[str, object]:
    """Latency and CPU of workers of their own, that publish at every row."""
    settings = msgspec.structs.replace(settings, publish=Publish(every=1), prefix=f"{settings.prefix}{rate}.")
    admin.create(AdminClient({"bootstrap.servers": settings.broker}), settings.partitions, settings.prefix)
    with Children(environment(settings), restart=False, say=tell) as children:
        add_stages(children, explainers)
        deployment = Deployment(settings, children)
        deployment.through("warm-up", stream[:WARM_UP], options)
        before, begun = deployment.cpu(), time.perf_counter()
        line: dict[str, object] = {"rate": rate}
        if rate:
            waited = deployment.paced("paced", stream[: int(rate * options.seconds)], rate)
            line["rows"] = len(waited["importance"])
            line |= {f"{topic.removesuffix('s')}_ms": quantiles(seconds) for topic, seconds in waited.items()}
        else:
            time.sleep(options.seconds)
        seconds, after = time.perf_counter() - begun, deployment.cpu()
        children.stop()
    return line | {"share": {stage: round((after[stage] - before[stage]) / seconds, 3) for stage in after}}


def quantiles(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {name: round(1e3 * ordered[int(place * len(ordered))], 1) for name, place in QUANTILES.items()}


def from_backlog(settings: Settings, stream: list[Event], explainers: int, options: argparse.Namespace) -> Timed:
    """Time from the first row to the last that stages publish which find all events written when they start."""
    with Children(environment(settings), restart=False, say=tell) as children:
        deployment = Deployment(settings, children)
        parts = divided("backlog", stream, options.streams)
        for replay in deployment.replays(parts, options):
            while replay.end is None:
                replay.step(0, wait=0.1)
            replay.close()
        add_stages(children, explainers)
        begun, first, before = 0.0, 0, {}
        while (rows := deployment.rows(parts)) < len(stream):
            children.check()
            deployment.monitor.poll(0.02)
            if rows and not begun:
                begun, first, before = time.perf_counter(), rows, deployment.cpu()
        seconds, after = time.perf_counter() - begun, deployment.cpu()
        children.stop()
    if not begun:
        sys.exit(f"all {len(stream):,} rows were published at once; measure with more events")
    share = len(stream) / (len(stream) - first)
    return Timed(seconds * share, {stage: (after[stage] - before[stage]) * share for stage in after})


def summary(
    model: str,
    explainers: int,
    options: argparse.Namespace,
    stream: list[Event],
    bares: list[Timed],
    pipelines: list[Timed],
) -> dict[str, object]:
    count, repeats = len(stream), options.repeats
    bare_rate = 1.0 / median(bares, lambda one: one.seconds)
    pipeline_rate = count / median(pipelines, lambda one: one.seconds)
    bare_cpu = count * median(bares, lambda one: one.cpu["bare"])
    learner_cpu = median(pipelines, lambda one: one.cpu["learner"])
    cpu_us = {"bare": bare_cpu, **{s: median(pipelines, lambda one, s=s: one.cpu[s]) for s in pipelines[0].cpu}}
    return {
        "model": model,
        "explain": options.explain,
        "explainers": explainers,
        "label_delay": options.label_delay,
        "streams": options.streams,
        "rows": count,
        "repeats": repeats,
        "bare": round(bare_rate),
        "pipeline": round(pipeline_rate),
        "ratio": round(pipeline_rate / bare_rate, 3),
        "learner_outside_river": round((learner_cpu - bare_cpu) / bare_cpu, 3),
        "cpu_us": {stage: round(1e6 * used / count, 1) for stage, used in cpu_us.items()},
        "tail_s": round(median(pipelines, lambda one: one.tail), 3),
    }


def lines(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """The JSON lines of a command."""
    for model in options.models.split(","):
        first = 0.0
        for explainers in map(int, options.explainers.split(",")):
            if options.rates:
                yield from latencies(model, explainers, options)
                continue
            line = measure(model, explainers, options)
            rate = float(str(line["pipeline"]))
            if first:
                line["speed_up"] = round(rate / first, 2)
            first = first or rate
            yield line


def table(parser: argparse.ArgumentParser, options: argparse.Namespace) -> Iterator[str]:
    """The lines of a table in Markdown: commands, goals, figures, and the load of the machine before each command."""
    versions = f"Python {platform.python_version()}, {platform.system()} {platform.release()}"
    yield f"{platform.machine()}, {os.cpu_count()} cores, {versions}; scale {options.scale:g}"
    yield ""
    yield "| command | figure | goal | measured | | load |"
    yield "|---|---|---|---|---|---|"
    for command, goals in TABLE.items():
        own = parser.parse_args([*shlex.split(command), "--repeats", str(options.repeats), "--broker", options.broker])
        own.backlog, own.seconds = int(own.backlog * options.scale), own.seconds * options.scale
        for line in lines(own):
            print(json.dumps(line), file=sys.stderr, flush=True)
            for goal in goals:
                yield f"| `{command}` | {goal.row(line, judged=options.scale >= 1)} | {line['load']} |"


def checked(parser: argparse.ArgumentParser) -> argparse.Namespace:
    options = parser.parse_args()
    if options.rates and (options.label_delay or options.streams > 1):
        parser.error("--rates: expected labels with their events and one stream, which latencies are measured with")
    if options.label_delay < 0 or options.streams < 1:
        parser.error("expected --label-delay from 0 and --streams from 1 on")
    return options


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, help="events a run, instead of a number for each model")
    parser.add_argument("--broker", default="local")
    parser.add_argument("--explain", default="ipfi")
    parser.add_argument("--explainers", default="1", help="numbers of explainers, one after the other")
    parser.add_argument("--set", dest="assignments", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--per-message", type=int, default=1, help="events in each message")
    parser.add_argument("--label-delay", type=int, default=0, help="events between an event and its label")
    parser.add_argument("--streams", type=int, default=1, help="streams, each on a partition of its own")
    parser.add_argument("--backlog", type=int, default=0, help="events that are written before the stages start")
    parser.add_argument("--bare", type=int, default=0, help="events that the bare loop learns; all by default")
    parser.add_argument("--rates", help="measure latency at these numbers of events a second")
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds for which events are written at a rate")
    parser.add_argument("--table", action="store_true", help="run all commands that have goals")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the events and seconds of a table")
    options = checked(parser)
    for line in table(parser, options) if options.table else map(json.dumps, lines(options)):
        print(line, flush=True)


if __name__ == "__main__":
    main()
