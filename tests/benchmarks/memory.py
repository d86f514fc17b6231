"""Memory over a long stream: does it stay flat?

    python tests/benchmarks/memory.py [--rows 1000000] [--model linear] [--blocked | --through | --forest]

Learner, explainer and aggregator run in this process without Kafka, with iPFI, iSAGE and iPDP, on an endless stream of
nine features (text among them) whose labels drift. One JSON line every tenth of the way, and one at the end:

- `rss_mib`: resident size
- `growth`: resident size at the end over that after a tenth of the rows (goal: at most 1.05)

With `--blocked` only a learner runs, as a worker on a real Kafka: without an aggregator it soon has to wait, and the
events queue up in front of it, one in each message. With `--through` learner, explainer and aggregator run as workers,
with iPFI, and each tenth of the events, one in each message, is written and read to its last record: `rss_mib` has the
resident size of each of them.

With `--forest` a forest of ten learns `--rows` events of Agrawal in compiled code, and one line says what it takes, and
what the same forest takes as River's objects: `arrays_mib`, `checkpoint_mib`, `river_mib` (as `tracemalloc` counts what
`to_river` allocates) and `pickle_mib`.
"""

import argparse
import json
import pickle
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])  # not this folder: in it files have the names of packages

import numpy as np
import psutil
from confluent_kafka import Producer

from glasstream.app.brokers.local import local_kafka
from glasstream.app.configuration import load
from glasstream.events.sources.messages import pack
from glasstream.events.sources.source import Event
from glasstream.flow.reference import Reference
from glasstream.models.river.live import take, to_river
from glasstream_topics import events
from tests.benchmarks.learning import MODELS, agrawal, learn_live
from tests.support.deployment import Deployment
from tests.support.waiting import wait_for

ROWS_AT_ONCE = 500


def all_events(rows: int) -> Iterator[Event]:
    random = np.random.Generator(np.random.PCG64(7))
    for first in range(0, rows, ROWS_AT_ONCE):
        numbers = random.normal(size=(ROWS_AT_ONCE, 8))
        towns = random.integers(0, 12, ROWS_AT_ONCE)
        turned = (first // 50_000) % 8  # the feature that counts
        scores = numbers[:, turned] + 0.5 * (towns == 3) + 0.3 * random.normal(size=ROWS_AT_ONCE)
        for row, town, score in zip(numbers.tolist(), towns.tolist(), scores.tolist(), strict=True):
            x = {**{f"n{j}": value for j, value in enumerate(row)}, "town": f"t{town}"}
            yield {"x": x, "y": "yes" if score > 0 else "no"}


def on_kafka(options: argparse.Namespace) -> None:
    """Write events in tenths, before a learner that waits for an aggregator or through all stages."""
    with local_kafka() as kafka, tempfile.TemporaryDirectory() as folder:
        given = [f"broker={kafka.bootstrap}", "prefix=memory.", f"model.name={options.model}", "topics.events=1"]
        deployment = Deployment(load(assignments=given), Path(folder))
        topic, rest = deployment.settings.prefix + events.TOPIC.name, all_events(options.rows)
        marks, sent, learned = list[dict[str, float]](), 0, 0
        try:
            if options.through:
                deployment.start_all()
            else:
                deployment.start("learner")
            while tenth := list(islice(rest, options.rows // 10)):
                for value, _ in pack(tenth, 1, 1 << 20):
                    produce(deployment.producer, topic, value)
                deployment.producer.flush()
                sent += len(tenth)
                if options.through:
                    wait_for(f"{sent} events", lambda sent=sent: deployment.published("s") >= sent - 1, 3_600.0)
                deployment.read_all()
                learned += len(deployment.records["predictions"])
                for records in deployment.records.values():
                    records.clear()
                workers = {name: psutil.Process(process.pid) for name, process in deployment.workers.items()}
                marks.append({name: one.memory_info().rss / 2**20 for name, one in workers.items()})
                sizes = {name: round(size, 1) for name, size in marks[-1].items()}
                print(json.dumps({"sent": sent, "queued": sent - learned, "rss_mib": sizes}), flush=True)
            growth = {name: round(size / marks[0][name], 4) for name, size in marks[-1].items()}
            print(json.dumps({"sent": sent, "queued": sent - learned, "growth": growth}))
        finally:
            deployment.end()


def produce(producer: Producer, topic: str, value: bytes) -> None:
    """Write a message, and wait while too many are on their way."""
    while True:
        try:
            return producer.produce(topic, value, b"s")
        except BufferError:
            producer.poll(0.1)


def of_forest(rows: int) -> dict[str, float]:
    """Return the MiB that a forest takes as arrays and as objects."""
    stream = agrawal(rows)
    live = take(MODELS["forest"]())
    targets = live.numbers_of(stream.labels)
    for first in range(0, rows, ROWS_AT_ONCE):
        learn_live(live, stream, targets, first, first + ROWS_AT_ONCE)
    arrays = sum(array.nbytes for name, array in live.pool._asdict().items() if name != "I")  # I is F as integers
    to_river(live)  # what is imported only now does not count
    tracemalloc.start()
    river = to_river(live)
    objects = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    sizes = {"arrays": arrays, "checkpoint": len(live.to_bytes()), "river": objects, "pickle": len(pickle.dumps(river))}
    nodes = sum(tree.n_nodes for tree in river.data)
    return {"rows": rows, "nodes": nodes, **{f"{name}_mib": round(size / 2**20, 2) for name, size in sizes.items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--model", default="linear")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--blocked", action="store_true")
    what.add_argument("--through", action="store_true")
    what.add_argument("--forest", action="store_true")
    options = parser.parse_args()
    if options.rows < 1_000 or options.rows % 1_000:  # a tenth ends with a record of importance
        parser.error(f"--rows: expected a multiple of 1,000, got {options.rows}")
    if options.forest:
        print(json.dumps(of_forest(options.rows)))
        return
    if options.blocked or options.through:
        on_kafka(options)
        return
    settings = load(assignments=["explain.methods=ipfi,isage,ipdp", f"model.name={options.model}"])
    process = psutil.Process()
    reference = Reference(settings)
    seen = published = 0
    marks = []
    started = time.monotonic()
    for value, count in pack(all_events(options.rows), ROWS_AT_ONCE, 1 << 20):
        published += sum(1 for _ in reference.run([(b"s", value)]))
        reference.notices.clear()
        seen += count
        if seen % (options.rows // 10) < count:
            marks.append(process.memory_info().rss / 2**20)
            rate = round(seen / (time.monotonic() - started))
            print(json.dumps({"rows": seen, "rss_mib": round(marks[-1], 1), "rows_per_s": rate}), flush=True)
    print(json.dumps({"rows": seen, "records": published, "growth": round(marks[-1] / marks[0], 4)}))


if __name__ == "__main__":
    main()
