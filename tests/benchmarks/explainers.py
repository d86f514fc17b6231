"""Explanations a second, as a ratio to the authors' package `ixai` on the same events, and over learning itself.

    python tests/benchmarks/explainers.py [--models forest,tree,linear] [--repeats 5] [--learned 5000]

Ours is what an explainer and the fold do with a snapshot: contributions of blocks of rows, with their smoothing; the
draws are given. Theirs is `explain_one`, with a plain callable as loss (its River losses fail with River 0.26). Both
explain the same events of Agrawal's stream, with zero-one loss, turn by turn. One JSON line a model and method:

- `ours`, `theirs`: events/s, medians; `ratio`: ours over theirs

and one a model, `cost`: our µs an event for all methods together over River's own predict and learn.

`ixai` 0.1.3 is asked of the index (`pip install ixai==0.1.3`). Its iPDP is only in the development branch of its
repository: `GLASSTREAM_PEERS` names a folder that holds a checkout of it, `iXAI`.
"""

import argparse
import copy
import importlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

sys.path.pop(0)  # this folder: in it files have the names of packages

import numpy as np
from river.datasets import synth

from pipeline.explain import ipdp, ipfi, isage
from pipeline.fold.curves import Curves
from pipeline.fold.isage import SageFold
from pipeline.fold.smoothing import Smoothing
from pipeline.ingest.admission import Task
from pipeline.ingest.features import FeatureTable
from pipeline.models import snapshot
from pipeline.models.catalogue import model_factory
from pipeline.models.compile import compile_model

ALPHA, RESERVOIR, INNER, POINTS, BLOCK, SEED = 0.001, 100, 5, 10, 500, 7
EVENTS = {"forest": 500, "tree": 500, "linear": 1_000}
PASSES = {"forest": 4, "tree": 16, "linear": 16}
LOSS = "zero_one"


class Subject:
    """A model that has learned, as River has it and as a snapshot, and the events to explain."""

    def __init__(self, name: str, learned: int) -> None:
        self.count = EVENTS[name]
        self.passes = PASSES[name]
        stream = [
            ({feature: float(value) for feature, value in x.items()}, y)
            for x, y in synth.Agrawal(classification_function=1, seed=SEED).take(learned + self.count)
        ]
        self.model = model_factory(name, SEED)(Task.CLASSIFICATION)
        keys = (False, True) if not self.model._multiclass else ("0", "1")
        for x, y in stream[:learned]:
            self.model.learn_one(x, keys[y])
        self.events = [(x, keys[y]) for x, y in stream[learned:]]
        self.names = list(stream[0][0])
        table = FeatureTable()
        everything = np.array([list(table.encode(x)[0]) for x, _ in stream])
        compiled = compile_model(self.model, table, {keys[0]: "0", keys[1]: "1"})
        data = snapshot.encode(compiled, stream="s", epoch=0, version=learned, key=None)
        self.predictor = snapshot.decode(data, key=None)
        self.rows = everything[learned:]
        self.targets = np.array([float(y) for _, y in stream[learned:]])
        self._draw(everything[:learned])

    def _draw(self, earlier: np.ndarray) -> None:
        """Background rows of the last `RESERVOIR`, permutations, and grids between the extremes of the last 1,000."""
        random = np.random.default_rng(SEED)
        count, width = self.rows.shape
        recent = earlier[-RESERVOIR:]
        self.single = recent[random.integers(0, RESERVOIR, (count, 1, width)), np.arange(width)]
        self.background = recent[random.integers(0, RESERVOIR, (count, 1, INNER))]
        self.order = np.argsort(random.random((count, width)), axis=1)
        low, high = earlier[-1_000:].min(axis=0), earlier[-1_000:].max(axis=0)
        grid = low + (high - low) * np.linspace(0.0, 1.0, POINTS)[:, np.newaxis]
        self.points = np.repeat(grid[np.newaxis], count, axis=0)

    def blocks(self) -> Iterator[slice]:
        for begin in range(0, self.count, BLOCK):
            yield slice(begin, min(begin + BLOCK, self.count))


def ours(subject: Subject) -> dict[str, Callable[[], None]]:
    """Each method over all events once."""
    predictor, rows, targets = subject.predictor, subject.rows, subject.targets
    smoothing, fold, curves = Smoothing.empty(ALPHA), SageFold.empty(ALPHA), Curves(ALPHA, 0)
    numeric = np.zeros(rows.shape[1], np.bool_)

    def run_ipfi() -> None:
        for part in subject.blocks():
            smoothing.update(ipfi.contributions(predictor, LOSS, rows[part], targets[part], subject.single[part]))

    def run_isage() -> None:
        for part in subject.blocks():
            given = isage.contributions(
                predictor, LOSS, rows[part], targets[part], subject.order[part], subject.background[part]
            )
            fold.update(LOSS, given)

    def run_ipdp() -> None:
        outputs = ipdp.outputs(predictor)
        for part in subject.blocks():
            answers = ipdp.curves(predictor, rows[part], subject.points[part], outputs)
            curves.update(subject.points[part], answers, numeric, [output.name for output in outputs])

    return {"ipfi": run_ipfi, "isage": run_isage, "ipdp": run_ipdp}


def theirs(subject: Subject, development: ModuleType | None) -> dict[str, Callable[[], None]]:
    """The same by the authors' package, what of it is here."""
    said = subject.model.predict_proba_one
    positive = subject.events[0][1].__class__(1)

    def loss(y: object, prediction: dict) -> float:
        return float(max(prediction, key=prediction.get) != y) if prediction else 1.0

    made: dict[str, Callable[[], None]] = {}
    try:
        from ixai.explainer.pfi import IncrementalPFI
        from ixai.explainer.sage import IncrementalSage
        from ixai.imputer import MarginalImputer
        from ixai.storage import GeometricReservoirStorage
    except ImportError:
        say("ixai is not installed, so nothing is compared: pip install ixai==0.1.3")
        return made

    def explainer(kind: type, inner: int) -> Callable[[], None]:
        storage = GeometricReservoirStorage(size=RESERVOIR, store_targets=False, constant_probability=1.0)
        one = kind(
            model_function=said,
            loss_function=loss,
            feature_names=subject.names,
            storage=storage,
            imputer=MarginalImputer(said, "joint", storage),
            n_inner_samples=inner,
            smoothing_alpha=ALPHA,
            dynamic_setting=True,
        )
        for x, y in subject.events[:RESERVOIR]:
            one._storage.update(x, y)

        def run() -> None:
            for x, y in subject.events:
                one.explain_one(x, y)

        return run

    made["ipfi"] = explainer(IncrementalPFI, 1)
    made["isage"] = explainer(IncrementalSage, INNER)
    if development is None:
        say(
            "iPDP is not compared: it is only in the development branch of the authors' repository; check that out as "
            "a folder iXAI and name the folder around it in GLASSTREAM_PEERS"
        )
        return made
    curves = [
        development.IncrementalPDP(
            model_function=said,
            pdp_feature=name,
            gridsize=POINTS,
            storage=GeometricReservoirStorage(size=RESERVOIR, store_targets=False, constant_probability=1.0),
            smoothing_alpha=ALPHA,
            dynamic_setting=True,
            storage_size=RESERVOIR,
            output_key=positive,
            min_max_grid=True,
        )
        for name in subject.names
    ]
    for one in curves:  # it explains nothing before
        for x, _ in subject.events[: one.waiting_period + 1]:
            one.explain_one(x)

    def run_ipdp() -> None:
        for x, _ in subject.events:
            for one in curves:
                one.explain_one(x)

    made["ipdp"] = run_ipdp
    return made


def development_branch() -> ModuleType | None:
    """The authors' iPDP from a checkout; its package has the name of the one on the index, which stays as it is."""
    checkout = Path(os.environ.get("GLASSTREAM_PEERS", "")) / "iXAI"
    if not (checkout / "ixai" / "explainer" / "pdp.py").is_file():
        return None
    with _instead("ixai", checkout):
        return importlib.import_module("ixai.explainer.pdp")


@contextmanager
def _instead(package: str, folder: Path) -> Iterator[None]:
    def own() -> list[str]:
        return [name for name in sys.modules if name.split(".")[0] == package]

    installed = {name: sys.modules.pop(name) for name in own()}
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        for name in own():
            del sys.modules[name]
        sys.modules.update(installed)


def river(subject: Subject) -> Callable[[], None]:
    """River's own predict and learn over all events, each time from the same state."""
    state = {"next": copy.deepcopy(subject.model)}

    def run() -> None:
        model = state["next"]
        for x, y in subject.events:
            model.predict_one(x)
            model.learn_one(x, y)

    def prepared() -> Callable[[], None]:
        state["next"] = copy.deepcopy(subject.model)
        return run

    run.prepared = prepared  # type: ignore[attr-defined]
    return run


def say(line: str) -> None:
    print(line, file=sys.stderr)


def seconds(run: Callable[[], None], passes: int = 1) -> float:
    started = time.perf_counter()
    for _ in range(passes):
        run()
    return (time.perf_counter() - started) / passes


def measure(name: str, repeats: int, learned: int) -> None:
    subject = Subject(name, learned)
    here, there = ours(subject), theirs(subject, development_branch())
    learning = river(subject)
    for run in here.values():
        run()  # compiles
    times: dict[tuple[str, str], list[float]] = {}
    for _ in range(repeats):
        for method, run in here.items():
            times.setdefault(("ours", method), []).append(seconds(run, subject.passes))
            if method in there:
                times.setdefault(("theirs", method), []).append(seconds(there[method]))
        times.setdefault(("river", ""), []).append(seconds(learning.prepared()))
    medians = {key: statistics.median(found) / subject.count for key, found in times.items()}
    for method in here:
        line: dict[str, object] = {"model": name, "method": method, "events": subject.count, "repeats": repeats}
        line["ours"] = round(1.0 / medians["ours", method])
        if ("theirs", method) in medians:
            line["theirs"] = round(1.0 / medians["theirs", method], 1)
            line["ratio"] = round(medians["theirs", method] / medians["ours", method], 1)
        print(json.dumps(line), flush=True)
    together = sum(medians["ours", method] for method in here)
    line = {"model": name, "us": round(1e6 * together, 2), "river_us": round(1e6 * medians["river", ""], 2)}
    line["cost"] = round(together / medians["river", ""], 4)
    if len(there) == len(here):
        line["ratio"] = round(sum(medians["theirs", method] for method in here) / together, 1)
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--learned", type=int, default=5_000, help="events that the model has learned before")
    arguments = parser.parse_args()
    for model in arguments.models.split(","):
        measure(model, arguments.repeats, arguments.learned)


if __name__ == "__main__":
    main()
