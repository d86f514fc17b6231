"""Cost of trees and forests that learn in compiled code, beside River.

    python tests/benchmarks/learning.py [--models forest,adaptive,tree] [--repeats 3] [--data elec2,agrawal]
    python tests/benchmarks/learning.py --models forest_regressor,tree_regressor --data bike_hourly,wine_white

Both predict and learn the same events in one process, in alternating turns, so that a machine whose speed varies is as
fast for the one as for the other. River learns the first events only. One JSON line a model and stream, with medians:

- `river_us`, `compiled_us`: CPU µs an event of predict and learn, over the same events
- `ratio`: the one divided by the other
- `whole_us`: CPU µs an event of the compiled model over the whole stream
- `same`: whether both predicted the same, bit for bit
"""

import argparse
import csv
import gzip
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.pop(0)  # this folder: in it another file may have the name of a package

import numpy as np
from river import base, forest, tree
from river.datasets import synth

from glasstream.models.online.live import Columns, LiveModel, LiveRegressor
from glasstream.models.river.catalogue import ClassesInOrder
from glasstream.models.river.live import take

SEED = 7
TURN = 500
ROWS = {
    "forest": 4_000,
    "adaptive": 12_000,
    "tree": 20_000,
    "forest_regressor": 2_000,
    "adaptive_regressor": 6_000,
    "tree_regressor": 6_000,
}
"""Number of events that River learns too."""
WHOLE = 45_000
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"


Live = LiveModel | LiveRegressor


class Stream(NamedTuple):
    names: list[str]
    values: np.ndarray
    labels: list[str]
    """Classes, or the texts of numbers."""


def adaptive_tree() -> Any:
    model = tree.HoeffdingAdaptiveTreeClassifier(seed=SEED)
    model.classes = ClassesInOrder()
    return model


MODELS: dict[str, Callable[[], Any]] = {
    "forest": lambda: forest.ARFClassifier(n_models=10, seed=SEED),
    "adaptive": adaptive_tree,
    "tree": tree.HoeffdingTreeClassifier,
    "forest_regressor": lambda: forest.ARFRegressor(n_models=10, seed=SEED),
    "adaptive_regressor": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=SEED),
    "tree_regressor": tree.HoeffdingTreeRegressor,
}


def agrawal(rows: int) -> Stream:
    events = list(synth.Agrawal(classification_function=1, seed=SEED).take(rows))
    values = np.array([[float(value) for value in x.values()] for x, _ in events])
    return Stream(list(events[0][0]), values, [str(y) for _, y in events])


def data_set(name: str, rows: int) -> Stream:
    with gzip.open(DATA / f"{name}.csv.gz", "rt", newline="") as file:
        records = [record for record, _ in zip(csv.DictReader(file), range(rows), strict=False)]
    labels = [record.pop("target") for record in records]
    return Stream(list(records[0]), np.array([[float(v) for v in record.values()] for record in records]), labels)


def targets_of(live: Live, stream: Stream) -> np.ndarray:
    """Return the numbers of the classes, or the numbers to predict."""
    return np.array(stream.labels, float) if isinstance(live, LiveRegressor) else live.numbers_of(stream.labels)


def learn_live(live: Live, stream: Stream, targets: np.ndarray, first: int, last: int) -> tuple[float, list[Any]]:
    """Learn a turn in one block; return CPU seconds and what was predicted."""
    columns, turn = Columns(stream.names, stream.values[first:last]), targets[first:last]
    learn = live.predict_learn_numbers if isinstance(live, LiveRegressor) else live.predict_learn_block
    begun = time.process_time()
    answers = learn(columns, turn)
    spent = time.process_time() - begun
    return spent, answers[0].tolist()


def learn_river(model: Any, events: list[tuple[dict, Any]]) -> tuple[float, list[Any]]:
    predict = model.predict_one if isinstance(model, base.Regressor) else model.predict_proba_one
    begun = time.process_time()
    said = []
    for x, y in events:
        said.append(predict(x))
        model.learn_one(x, y)
    return time.process_time() - begun, said


def measure(make: Callable[[], Any], stream: Stream, rows: int) -> tuple[float, float, bool]:
    """CPU µs an event of River and of the live model, and whether they predicted the same."""
    river, live = make(), take(make())
    targets = targets_of(live, stream)
    labels = targets.tolist() if isinstance(live, LiveRegressor) else stream.labels
    events = [
        (dict(zip(stream.names, row, strict=True)), label)
        for row, label in zip(stream.values[:rows].tolist(), labels, strict=False)
    ]
    spent = [0.0, 0.0]
    same = True
    for first in range(0, rows, TURN):
        turn, expected = learn_river(river, events[first : first + TURN])
        spent[0] += turn
        turn, answers = learn_live(live, stream, targets, first, min(first + TURN, rows))
        spent[1] += turn
        if isinstance(live, LiveRegressor):
            same &= answers == expected
            continue
        for row, wanted in zip(answers, expected, strict=True):
            same &= {label: vote for label, vote in zip(live.classes, row, strict=True) if vote == vote} == wanted
    return spent[0] / rows * 1e6, spent[1] / rows * 1e6, same


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,adaptive,tree", help=f"of {', '.join(MODELS)}")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data", default="elec2,agrawal")
    options = parser.parse_args()
    for name in options.data.split(","):
        stream = agrawal(WHOLE) if name == "agrawal" else data_set(name, WHOLE)
        for model in options.models.split(","):
            make, rows = MODELS[model], min(ROWS[model], len(stream.labels))
            measure(make, stream, 2 * TURN)  # compiles, or loads what is compiled
            runs = [measure(make, stream, rows) for _ in range(options.repeats)]
            whole = []
            for _ in range(options.repeats):
                live = take(make())
                targets = targets_of(live, stream)
                blocks = range(0, len(targets), TURN)
                whole.append(sum(learn_live(live, stream, targets, first, first + TURN)[0] for first in blocks))
            line = {
                "model": model,
                "stream": name,
                "rows": rows,
                "repeats": options.repeats,
                "river_us": round(statistics.median(run[0] for run in runs), 1),
                "compiled_us": round(statistics.median(run[1] for run in runs), 2),
                "ratio": round(statistics.median(run[0] / run[1] for run in runs), 1),
                "whole_us": round(statistics.median(whole) / len(stream.labels) * 1e6, 2),
                "same": all(run[2] for run in runs),
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
