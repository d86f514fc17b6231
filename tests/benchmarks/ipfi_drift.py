"""Errors of iPFI on streams with a drift, ours beside the authors' package `ixai`. One JSON line a stream and seed.

    python tests/benchmarks/ipfi_drift.py --data DIR [--streams "agrawal fu. 1" "elec2 fe. 1"] [--seeds 0,1]
        [--ours] [--forest '{"max_features": null}']

Both explain the events of `glasstream paper ipfi-drift` in its order, with the same forest after the same events and
with ten reservoirs of 1,000 rows for each sampling. Both are compared with the same interval PFI. They draw other rows.

- `paper`, `ours`, `theirs`: for each sampling and alpha the errors of the whole stream, before and after the drift
- `correct`: share of the events that the forest predicts correctly before it learns them, in tenths of the stream
- `seconds`: CPU time of the line

`ixai` 0.1.3 (`pip install ixai==0.1.3`) is no dependency of Glasstream. It asks the forest for the class of one row
after the other, 200 times an event; the loss is a plain function. Its geometric reservoir takes in every row, as in the
paper; by default it would take in one of a thousand.
"""

import argparse
import importlib.util
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

sys.path.pop(0)  # this folder: in it files have the names of packages

import numpy as np
from river import forest

from glasstream_lab.papers.ipfi_drift import (
    PHASES,
    REALISATIONS,
    RESERVOIR,
    SAMPLINGS,
    STREAMS,
    TREES,
    events_of,
    explainers_of,
    followed,
)
from glasstream_lab.papers.models import StreamLearner

DATA = Path(os.environ.get("GLASSTREAM_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))


class Theirs:
    """Explainers of `ixai` side by side, whose contributions are averaged."""

    def __init__(self, sampling: str, names: tuple[str, ...]) -> None:
        from ixai.explainer.pfi import IncrementalPFI
        from ixai.storage import GeometricReservoirStorage, UniformReservoirStorage

        self._names = names
        self._predictor: Any = None
        self._explainers = []
        for _ in range(REALISATIONS):
            storage = (
                UniformReservoirStorage(RESERVOIR)
                if sampling == "uniform"
                else GeometricReservoirStorage(RESERVOIR, constant_probability=1.0)
            )
            self._explainers.append(IncrementalPFI(self._label, zero_one, list(names), storage, smoothing_alpha=1.0))

    def _label(self, x: dict[str, float]) -> int:
        row = np.array([[x[name] for name in self._names]])
        return int(self._predictor.evaluate(row).labels[0])

    def explain_block(self, predictor: Any, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Explain events one after the other. Those of the first block enter the reservoirs only."""
        first = self._predictor is None
        self._predictor = predictor
        values = []
        for row, y in zip(rows.tolist(), targets.tolist(), strict=True):
            x = dict(zip(self._names, row, strict=True))
            if first:
                for one in self._explainers:
                    one.update_storage(x)
                    one.seen_samples += 1
            else:
                found = [one.explain_one(x, int(y)) for one in self._explainers]  # with alpha 1 the newest contribution
                values.append([np.mean([one[name] for one in found]) for name in self._names])
        return np.array(values).reshape(-1, len(self._names))


def zero_one(y: int, label: int) -> float:
    return float(label != y)


class Learner(StreamLearner):
    """Forest that keeps which events it predicted correctly."""

    def __init__(self, seed: int, names: tuple[str, ...], options: dict[str, Any]) -> None:
        super().__init__(
            forest.ARFClassifier(**{"n_models": TREES, "binary_split": True, "seed": seed} | options), names
        )
        self.correct: list[bool] = []

    def learn(self, rows: np.ndarray, targets: np.ndarray) -> np.ndarray:
        predicted = super().learn(rows, targets)
        self.correct += (predicted == targets).tolist()
        return predicted


def compared(folder: Path, name: str, seed: int, sides: tuple[str, ...], options: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a stream and seed."""
    stream, started = STREAMS[name], time.process_time()
    names, rows, targets = events_of(folder, stream, seed, shuffle=True)
    random.seed(seed)
    explainers: dict[str, Any] = {f"ours {sampling}": one for sampling, one in explainers_of(seed).items()}
    if "theirs" in sides:
        explainers |= {f"theirs {sampling}": Theirs(sampling, names) for sampling in SAMPLINGS}
    learner = Learner(seed, names, options)
    found = followed(stream, rows, targets, learner, explainers, seed, order="after")
    line: dict[str, Any] = {"stream": name, "seed": seed, "forest": options, "paper": {}} | {side: {} for side in sides}
    for (sampling, alpha), numbers in stream.paper.items():
        key = f"{sampling} {alpha:g}"
        line["paper"][key] = list(numbers)
        for side in sides:
            line[side][key] = [round(found[f"{side} {key} {phase}"], 4) for phase in PHASES]
    line["correct"] = [round(float(part.mean()), 3) for part in np.array_split(learner.correct, 10)]
    return line | {"seconds": round(time.process_time() - started)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--seeds", default="0", help="seeds, with commas between them")
    parser.add_argument("--ours", action="store_true", help="leave out theirs, whose time is most of it")
    parser.add_argument("--forest", type=json.loads, default={}, help="other settings of the forest, as JSON")
    arguments = parser.parse_args()
    if not arguments.ours and importlib.util.find_spec("ixai") is None:
        parser.error("ixai is not installed: pip install ixai==0.1.3, or give --ours")
    sides = ("ours",) if arguments.ours else ("ours", "theirs")
    for name in arguments.streams:
        for seed in map(int, arguments.seeds.split(",")):
            line = compared(arguments.data, name, seed, sides, arguments.forest)
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
