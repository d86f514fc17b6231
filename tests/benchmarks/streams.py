"""Many wide streams on one partition through a restart of every stage, on a real Kafka: memory, state, time.

    python tests/benchmarks/streams.py [--streams 1000] [--features 100] [--rows 80] [--later 20]
        [--explain ipfi,isage,ipdp] [--model linear] [--broker local|HOST:PORT] [--compare 3]

Sends `rows` events of each stream, waits until all are aggregated, stops learner, explainer and aggregator, starts them
again and sends `later` events more of each stream. One JSON object:

- `rss_before`, `rss_after`: MiB of each stage, before the restart and at the end; `rss_peak`: while it took over
- `state_mib`: what a successor of the aggregator reads
- `first_s`, `later_s`: seconds for the two parts
- `same`: whether the records of the first `compare` streams are those of the plain loop
"""

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import numpy as np
import orjson
import psutil

from glasstream.app.brokers.choose import open_broker
from glasstream.app.configuration import load
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.progress import read_to_end
from glasstream_topics import events
from tests.support.deployment import Deployment
from tests.support.waiting import wait_for

STAGES = ("learner-1", "explainer-1", "aggregator-1")
PACKED = 20
PATIENCE = 3_000.0


def log_of(options: argparse.Namespace, first: int, end: int) -> Iterator[tuple[bytes, bytes]]:
    """All streams by turns, `PACKED` events a message."""
    for begin in range(first, end, PACKED):
        for number in range(options.streams):
            random = np.random.default_rng((number, begin))
            rows = random.normal(size=(min(PACKED, end - begin), options.features)).round(3).tolist()
            packed = [
                {
                    "x": {f"f{at:03d}": value for at, value in enumerate(row)},
                    "y": "yes" if row[number % 7] > 0 else "no",
                }
                for row in rows
            ]
            yield f"stream-{number:04d}".encode(), orjson.dumps(packed)


class Memory(threading.Thread):
    """Looks at the resident size of workers, ten times a second."""

    def __init__(self, deployment: Deployment) -> None:
        super().__init__(daemon=True)
        self.now: dict[str, float] = {}
        self.peak: dict[str, float] = {}
        self._deployment = deployment
        self.start()

    def run(self) -> None:
        while True:
            for name, worker in list(self._deployment.workers.items()):
                try:
                    self.now[name] = round(psutil.Process(worker.pid).memory_info().rss / 2**20, 1)
                except psutil.Error:
                    continue
                self.peak[name] = max(self.now[name], self.peak.get(name, 0.0))
            time.sleep(0.1)


def aggregated(deployment: Deployment, options: argparse.Namespace, rows: int) -> None:
    """Wait until all rows are aggregated."""

    def done() -> bool:
        for name, worker in deployment.workers.items():
            if (code := worker.poll()) is not None:
                raise RuntimeError(f"{name} ended with code {code}: {deployment.log(name)[-2_000:]}")
        found = deployment.poll().progress.aggregated
        return sum(found.get(f"stream-{number:04d}", 0) >= rows for number in range(options.streams)) == options.streams

    wait_for(f"{rows} rows of every stream aggregated", done, PATIENCE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=1_000)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--rows", type=int, default=80)
    parser.add_argument("--later", type=int, default=20)
    parser.add_argument("--explain", default="ipfi,isage,ipdp")
    parser.add_argument("--model", default="linear")
    parser.add_argument("--broker", default="local")
    parser.add_argument("--compare", type=int, default=3)
    options = parser.parse_args()
    given = [
        f"explain.methods={options.explain}", f"model.name={options.model}", "model.task=classification",
        "explain.reservoir=10", "topics.events=1", "topics.requests=1", f"limits.streams={options.streams}",
        "worker.session_seconds=30",
    ]  # fmt: skip
    with ExitStack() as stack:
        kafka = stack.enter_context(open_broker(options.broker))
        settings = load(assignments=[*given, f"broker={kafka.bootstrap}", f"prefix=streams-{os.getpid()}."])
        deployment = Deployment(settings, Path(stack.enter_context(tempfile.TemporaryDirectory())))
        stack.callback(deployment.close)
        print(json.dumps(measure(options, settings, deployment)))


def measure(options: argparse.Namespace, settings: Settings, deployment: Deployment) -> dict[str, object]:
    memory = Memory(deployment)
    deployment.start_all()
    begun = time.monotonic()
    send(deployment, log_of(options, 0, options.rows))
    aggregated(deployment, options, options.rows)
    first = time.monotonic() - begun
    before = dict(memory.now)
    codes = [deployment.stop(name) for name in STAGES]
    memory.peak.clear()

    topic = f"{settings.prefix}progress.aggregator"
    latest = read_to_end(connection(settings), topic, 0, 600.0)
    state = sum(map(len, latest.values())) / 2**20
    del latest
    begun = time.monotonic()
    deployment.start_all()
    send(deployment, log_of(options, options.rows, options.rows + options.later))
    aggregated(deployment, options, options.rows + options.later)
    later = time.monotonic() - begun
    send(deployment, ((f"stream-{number:04d}".encode(), events.FLUSH) for number in range(options.compare)))
    end = options.rows + options.later - 1
    for number in range(options.compare):
        deployment.wait_published(f"stream-{number:04d}", end)
    return {
        "streams": options.streams,
        "features": options.features,
        "rows": options.rows,
        "explain": options.explain,
        "exit_codes": codes,
        "rss_before": before,
        "rss_after": memory.now,
        "rss_peak": memory.peak,
        "state_mib": round(state, 1),
        "first_s": round(first, 1),
        "later_s": round(later, 1),
        "same": same(options, settings, deployment),
        "load": [round(one, 1) for one in psutil.getloadavg()],
    }


def send(deployment: Deployment, log: Iterator[tuple[bytes, bytes]]) -> None:
    for number, (key, value) in enumerate(log):
        deployment.producer.produce(deployment.settings.prefix + events.TOPIC.name, value, key, partition=0)
        if number % 100 == 0:
            deployment.producer.flush()
            deployment.poll()
    deployment.producer.flush()


def same(options: argparse.Namespace, settings: Settings, deployment: Deployment) -> bool:
    """Whether some streams' importance is byte for byte that of the plain loop."""
    names = {f"stream-{number:04d}".encode() for number in range(options.compare)}
    log = [one for one in log_of(options, 0, options.rows) if one[0] in names]
    log += [one for one in log_of(options, options.rows, options.rows + options.later) if one[0] in names]
    log += [(name, events.FLUSH) for name in sorted(names)]
    expected = sorted(record for topic, record in Reference(settings).run(log) if topic == "importance")
    found = [message.value() for message in deployment.records["importance"] if message.key() in names]
    return sorted(found) == expected and len(expected) > 0


if __name__ == "__main__":
    main()
