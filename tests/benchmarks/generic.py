"""Cost of an answer through River itself, row by row, and by the compiled predictor of the same model.

    python tests/benchmarks/generic.py [--models forest,tree,linear] [--learned 1500] [--asked 1000]

The models learn Agrawal's stream and are then asked about its last rows, by both predictors in turn. One JSON line a
model, medians of the processor's time:

- `compiled_us`, `generic_us`: µs a row; `ratio`: generic over compiled
"""

import argparse
import json
import statistics
import sys
import time

sys.path.pop(0)  # this folder: in it files have the names of packages

import numpy as np
from river.datasets import synth

from glasstream.events.admission import Task
from glasstream.explain.estimators.live_model import LiveModel
from glasstream.models.river.catalogue import model_factory

SEED = 7
REPEATS = 3


def measured(name: str, learned: int, asked: int) -> dict[str, object]:
    model = model_factory(name, SEED)(Task.CLASSIFICATION)
    compiled, through_river = LiveModel(model, snapshot_every=1), LiveModel(model)
    rows = []
    for x, y in synth.Agrawal(classification_function=1, seed=SEED).take(learned):
        rows.append(compiled.event(x, bool(y))[0])
        through_river.event(x, bool(y))
        model.learn_one(x, bool(y))
    block = np.concatenate(rows[-asked:])
    predictors = {"compiled_us": compiled.predictor, "generic_us": through_river.predictor}
    times: dict[str, list[float]] = {key: [] for key in predictors}
    for predictor in predictors.values():
        predictor.evaluate(block[:2])  # what is compiled at the first call
    for _ in range(REPEATS):
        for key, predictor in predictors.items():
            begun = time.process_time()
            predictor.evaluate(block)
            times[key].append((time.process_time() - begun) / len(block) * 1e6)
    found = {key: statistics.median(values) for key, values in times.items()}
    ratio = found["generic_us"] / found["compiled_us"]
    return {"model": name, **{key: round(value, 2) for key, value in found.items()}, "ratio": round(ratio, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--learned", type=int, default=1_500)
    parser.add_argument("--asked", type=int, default=1_000)
    options = parser.parse_args()
    for name in options.models.split(","):
        print(json.dumps(measured(name, options.learned, options.asked)))


if __name__ == "__main__":
    main()
