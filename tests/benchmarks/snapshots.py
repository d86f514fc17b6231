"""Size of a forest's snapshot against its pickle, the time to compile it, and what its age costs. JSON lines.

    python tests/benchmarks/snapshots.py [--events 20000] [--models 10] [--repeats 25] [--no-staleness]

River's adaptive random forest learns a stream (Agrawal, seed 7); then:

- `raw`, `compressed`, `pickle`: bytes of the snapshot's frame, of the snapshot, and of the pickled model
- `raw_ratio`, `compressed_ratio`: pickle over them (goals: 50 and 250)
- `compile_ms`: CPU from the model to arrays, median (goal: 30); `encode_ms`, `decode_ms`: to bytes and back
- `unchanged_trees`: the share of trees that did not learn between two events, the most that an update could spare

Then the lines of `staleness.py` for as many events and trees.
"""

import argparse
import gc
import json
import pickle
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.pop(0)  # this folder: in it a file has the name of a package

from river import forest
from river.datasets import synth

from glasstream.events.features import FeatureTable
from glasstream.models.codec import snapshot
from glasstream.models.codec.warm_up import warm_up
from glasstream.models.river.compile import compile_model

SEED = 7


def learned(events: int, models: int) -> tuple[forest.ARFClassifier, FeatureTable, float]:
    """A forest, the features that it met, and how often a tree learned nothing of an event."""
    model = forest.ARFClassifier(n_models=models, seed=SEED)
    table = FeatureTable()
    unchanged = 0
    before = [0.0] * models
    for x, y in synth.Agrawal(classification_function=1, seed=SEED).take(events):
        x = {name: float(value) for name, value in x.items()}
        table.encode(x)
        model.learn_one(x, y)
        seen = [one._train_weight_seen_by_model for one in model]
        unchanged += sum(old == new for old, new in zip(before, seen, strict=True))
        before = seen
    return model, table, unchanged / (events * models)


def milliseconds(what: Callable[[], object], repeats: int) -> float:
    took = []
    for _ in range(repeats):
        started = time.process_time()
        what()
        took.append(time.process_time() - started)
    return round(1e3 * statistics.median(took), 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--models", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--no-staleness", action="store_true", help="the line on sizes and times only")
    arguments = parser.parse_args()
    warm_up()
    model, table, unchanged = learned(arguments.events, arguments.models)
    labels = {0: "0", 1: "1"}
    predictor = compile_model(model, table, labels)
    origin = {"stream": "s", "epoch": 0, "version": arguments.events, "key": None}
    data = snapshot.encode(predictor, **origin)
    raw, whole = len(snapshot.inflate(data)), len(pickle.dumps(model, protocol=5))
    gc.collect()
    found = {
        "model": f"forest of {arguments.models}",
        "events": arguments.events,
        "leaves": sum(one.n_leaves for one in model),
        "raw": raw,
        "compressed": len(data),
        "pickle": whole,
        "raw_ratio": round(whole / raw, 1),
        "compressed_ratio": round(whole / len(data), 1),
        "compile_ms": milliseconds(lambda: compile_model(model, table, labels), arguments.repeats),
        "encode_ms": milliseconds(lambda: snapshot.encode(predictor, **origin), arguments.repeats),
        "decode_ms": milliseconds(lambda: snapshot.decode(data, key=None), arguments.repeats),
        "unchanged_trees": round(unchanged, 3),
    }
    print(json.dumps(found), flush=True)
    if not arguments.no_staleness:
        staleness = Path(__file__).with_name("staleness.py")
        size = ("--rows", str(arguments.events), "--trees", str(arguments.models))
        subprocess.run([sys.executable, staleness, *size], check=True)


if __name__ == "__main__":
    main()
