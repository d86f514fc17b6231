"""Error and time of iPFI and iSAGE, beside the authors' package `ixai` on the same streams. One JSON line a method.

    python tests/benchmarks/peers.py [--events 8000] [--repeats 5]

The model is the labelling function of Agrawal's stream (River's function 1), so nothing is learned and the zero-one
loss has known values: for iPFI those of 004 (0.3432 for age in whole years, 0.4734 for salary, else 0), for iSAGE
batch SAGE of 40,000 other events with the same m = 5, whose standard error is 0.002. Both sides have alpha 0.001 and a
geometric reservoir of 100 rows, explain the same events one after the other (ours in blocks of 500), and start from
the same seed, which means other draws.

- `ours`, `theirs`: mean over the repeats of the sum over the features of |value - known value| at the end; `spread` and
  `their_spread`: the standard deviations
- `us`, `their_us`: µs of CPU time an event; `ratio`: theirs over ours

`ixai` 0.1.3 (`pip install ixai==0.1.3`) is no dependency of Glasstream. Without it, only ours is measured. Its River
losses fail with River 0.26, so the loss is a plain function.
"""

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from statistics import mean, stdev
from typing import Any

sys.path.pop(0)  # this folder: in it files have the names of packages

import numpy as np

from glasstream import IncrementalPFI, IncrementalSAGE
from glasstream_lab.batch_sage import batch_sage
from glasstream_lab.papers.ipfi_truth import LabellingFunction
from glasstream_lab.papers.streams import generated

ALPHA, INNER, RESERVOIR, BLOCK = 0.001, 5, 100, 500
PFI = {"age": 0.3432, "salary": 0.4734}
KNOWN_ROWS = 40_000

Values = np.ndarray
Run = tuple[Values, float]
"""Values at the end, and the seconds."""


def ours(method: str, names: tuple[str, ...], rows: np.ndarray, classes: np.ndarray, seed: int) -> Run:
    """Explain a stream with our estimator."""
    common: dict[str, Any] = {"loss": "zero_one", "alpha": ALPHA, "reservoir": RESERVOIR, "seed": seed}
    estimator = (
        IncrementalPFI(**common) if method == "ipfi" else IncrementalSAGE(inner=INNER, corrected=False, **common)
    )
    predictor, targets = LabellingFunction(names), classes.astype(float)
    started = time.process_time()
    for first in range(0, len(rows), BLOCK):
        estimator.explain_block(predictor, rows[first : first + BLOCK], targets[first : first + BLOCK])
    seconds = time.process_time() - started
    return np.array([estimator.importance[name] for name in names]), seconds


def theirs(method: str, names: tuple[str, ...], rows: np.ndarray, classes: np.ndarray, seed: int) -> Run:
    """Explain a stream with the authors' estimator."""
    import random

    from ixai.explainer.pfi import IncrementalPFI as TheirPFI
    from ixai.explainer.sage import IncrementalSage
    from ixai.storage import GeometricReservoirStorage

    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    storage = GeometricReservoirStorage(size=RESERVOIR, store_targets=False)
    common = {"smoothing_alpha": ALPHA, "storage": storage, "dynamic_setting": True}
    inner = 1 if method == "ipfi" else INNER
    kind = TheirPFI if method == "ipfi" else IncrementalSage
    explainer = kind(label, zero_one, list(names), n_inner_samples=inner, **common)
    events = [(dict(zip(names, row, strict=True)), int(y)) for row, y in zip(rows.tolist(), classes, strict=True)]
    for x, _ in events[:RESERVOIR]:
        storage.update(x)
    explainer.seen_samples = RESERVOIR
    started = time.process_time()
    for x, y in events[RESERVOIR:]:
        explainer.explain_one(x, y)
    seconds = time.process_time() - started
    values = explainer.importance_values
    return np.array([values[name] for name in names]) / (1 - (1 - ALPHA) ** (len(events) - RESERVOIR)), seconds


def label(x: dict[str, float]) -> dict[int, float]:
    """Return the probabilities of the labelling function."""
    low, high = (50e3, 100e3) if x["age"] < 40 else (75e3, 125e3) if x["age"] < 60 else (25e3, 75e3)
    return {0: 0.0, 1: 1.0} if low <= x["salary"] <= high else {0: 1.0, 1: 0.0}


def zero_one(y: int, prediction: dict[int, float]) -> float:
    """Return the zero-one loss; of equally likely classes, the first is predicted."""
    return float(max((0, 1), key=lambda one: prediction.get(one, 0.0)) != y)


def known(method: str, names: tuple[str, ...]) -> Values:
    """Return the known values."""
    if method == "ipfi":
        return np.array([PFI.get(name, 0.0) for name in names])
    _, rows, classes = generated("agrawal", 1, KNOWN_ROWS, 10_000)
    predictor = LabellingFunction(names)
    return batch_sage(predictor, "zero_one", rows, classes.astype(float), inner=INNER, corrected=False).values


def compared(method: str, events: int, sides: dict[str, Callable[..., Run]], repeats: int) -> dict[str, Any]:
    """Return the line of a method."""
    names, *_ = generated("agrawal", 1, 1, 0)
    truth = known(method, names)
    errors: dict[str, list[float]] = {side: [] for side in sides}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    ours(method, *generated("agrawal", 1, 1_000, 0), seed=0)  # loads the kernels
    for seed in range(repeats):
        stream = generated("agrawal", 1, events, seed)
        for side, run in sides.items():
            values, spent = run(method, *stream, seed=seed)
            errors[side].append(float(np.abs(values - truth).sum()))
            seconds[side].append(spent)
            print(f"{method} {side} {seed}: {errors[side][-1]:.4f} after {spent:.1f} s", file=sys.stderr, flush=True)
    us = {side: 1e6 * mean(found) / (events - RESERVOIR) for side, found in seconds.items()}
    line: dict[str, Any] = {"method": method, "events": events, "repeats": repeats}
    line |= {"ours": mean(errors["ours"]), "spread": stdev(errors["ours"]), "us": us["ours"]}
    if "theirs" in sides:
        line |= {"theirs": mean(errors["theirs"]), "their_spread": stdev(errors["theirs"]), "their_us": us["theirs"]}
        line["ratio"] = us["theirs"] / us["ours"]
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=8_000)
    parser.add_argument("--repeats", type=int, default=5, help="2 or more")
    arguments = parser.parse_args()
    sides: dict[str, Callable[..., Run]] = {"ours": ours}
    if importlib.util.find_spec("ixai") is not None:
        sides["theirs"] = theirs
    else:
        print("ixai is not installed, so nothing is compared: pip install ixai==0.1.3", file=sys.stderr)
    for method in ("ipfi", "isage"):
        print(json.dumps(compared(method, arguments.events, sides, arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
