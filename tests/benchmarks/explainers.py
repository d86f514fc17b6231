"""Cost of an explanation, relative to the authors' package `ixai` on the same events, and to learning itself.

    python tests/benchmarks/explainers.py [--models forest,tree,linear] [--repeats 5] [--learned 5000]

Both sides explain the same events of Agrawal's stream with the same model, with zero-one loss, turn by turn. *Ours* is
what the three stages do in blocks of 500 rows, with the settings that they have unless told otherwise (grids between
extremes, as theirs are): the learner's draws (background rows, permutations, grids), the explainer's contributions, and
the aggregator, which also watches for incidents. Left out are the transport, and what happens once a snapshot or once a
published record; that has numbers of its own. *Theirs* is `explain_one`, with a plain callable as loss (its River
losses fail with River 0.26). Everything runs on one thread; times are of the processor, medians.

One JSON line a model and method:

- `ours`, `theirs`: events/s; `ratio`: ours over theirs
- `us`: our µs an event, of which `draws_us`, `explain_us` and `aggregate_us`

For the tree also iSAGE with conditional removal, on storage trees that have grown: `ratio` without, and
`ratio_with_learning` with what it takes to let the event enter and be learned by the storage trees.

And one line a model:

- `us` and its parts for all methods together, which share their draws from the reservoir
- `river_us`: River's own predict and learn; `cost`: `us` over it
- `ratio`: theirs, one method after the other, over ours for all together
- `evaluations`: rows that the model is asked about for one event; `ns_an_evaluation`: of `explain_us`
- not part of `us`: `snapshot_ms`, `ready_ms`, once a snapshot from the model to bytes and from those to tables;
  `records_ms`, once every `publish.every` rows the records of all methods

`ixai` 0.1.3 is asked of the index (`pip install ixai==0.1.3`). Its iPDP is only in the development branch of its
repository: `GLASSTREAM_PEERS` names a folder that holds a checkout of it, `iXAI`.
"""

import argparse
import copy
import importlib.util
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

from glasstream.app.configuration import load
from glasstream.events.admission import Task
from glasstream.events.features import FeatureTable, Kind
from glasstream.explain.background import Background
from glasstream.explain.explainer import explain
from glasstream.explain.sampling.storage import ConditionalStorage
from glasstream.explain.sampling.storage_walk import draw
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.models.codec import snapshot
from glasstream.models.river.catalogue import model_factory
from glasstream.models.river.compile import compile_model
from glasstream_topics.requests import ExplainRequest

ALPHA, RESERVOIR, INNER, POINTS, BLOCK, SEED = 0.001, 100, 5, 10, 500, 7
DEPTH, LEAF = 8, 100  # of storage trees, as ours are
EVENTS = {"forest": 500, "tree": 500, "linear": 1_000}
PASSES = {"forest": 4, "tree": 8, "linear": 8}
METHODS = ("ipfi", "isage", "ipdp")
LOSS = "zero_one"


class Subject:
    """A model that has learned, as River has it and as a snapshot, and the events to explain."""

    def __init__(self, name: str, learned: int) -> None:
        self.name = name
        self.count = EVENTS[name]
        self.learned = learned
        stream = [
            ({feature: float(value) for feature, value in x.items()}, y)
            for x, y in synth.Agrawal(classification_function=1, seed=SEED).take(learned + self.count)
        ]
        self.model = model_factory(name, SEED)(Task.CLASSIFICATION)
        keys = (False, True) if not self.model._multiclass else ("0", "1")
        for x, y in stream[:learned]:
            self.model.learn_one(x, keys[y])
        self.earlier = [x for x, _ in stream[:learned]]
        self.events = [(x, keys[y]) for x, y in stream[learned:]]
        self.names = list(stream[0][0])
        self.table = FeatureTable()
        self.rows = np.array([list(self.table.encode(x)[0]) for x, _ in stream])
        self.targets = np.array([float(y) for _, y in stream])
        self.labels = {keys[0]: "0", keys[1]: "1"}
        self.data = self.encoded()
        self.predictor = snapshot.decode(self.data, key=None)

    def encoded(self) -> bytes:
        """The model as a snapshot."""
        compiled = compile_model(self.model, self.table, self.labels)
        return snapshot.encode(compiled, stream="s", epoch=0, version=self.learned, key=None)

    def ready(self) -> None:
        """Make the snapshot a predictor that has explained a row."""
        predictor = snapshot.decode(self.data, key=None)
        if hasattr(predictor, "replaced"):
            predictor.replaced(self.rows[:1], self.rows[:1, np.newaxis])


class Ours:
    """The stages' work on the events of a subject, again and again; each part counts its own seconds."""

    def __init__(self, subject: Subject, methods: tuple[str, ...], removal: str = "marginal") -> None:
        self.subject = subject
        self.settings = load(
            assignments=[
                f"explain.methods={','.join(methods)}",
                f"explain.alpha={ALPHA}",
                f"explain.reservoir={RESERVOIR}",
                f"explain.start={subject.learned}",
                f"isage.inner_samples={INNER}",
                f"isage.removal={removal}",
                f"ipdp.points={POINTS}",
                f"publish.every={10**9}",
                "ipdp.grid=extremes",
            ]
        )
        self.kinds = [Kind.NUMBER] * len(subject.names)
        self.background = Background(self.settings, "s")
        self.background.pass_through(subject.rows[: subject.learned], self.kinds, 0)
        self.aggregator = StreamAggregator.empty("s", self.settings)
        self.next_row = subject.learned
        self.draws = self.background.pass_through

    def run(self) -> np.ndarray:
        """Seconds of draws, explanations and aggregation for all events once."""
        subject, spent = self.subject, np.zeros(3)
        for begin in range(subject.learned, subject.learned + subject.count, BLOCK):
            part = slice(begin, min(begin + BLOCK, len(subject.rows)))
            rows = subject.rows[part]
            marks = [time.process_time()]
            drawn = self.draws(rows, self.kinds, self.next_row)
            marks.append(time.process_time())
            block = ExplainRequest(
                stream="s",
                epoch=0,
                partition=0,
                first_row=self.next_row,
                version=subject.learned,
                seqs=np.arange(self.next_row, self.next_row + len(rows)),
                x=rows,
                y=subject.targets[part],
                draws=drawn,
                names=subject.names,
                kinds=[int(kind) for kind in self.kinds],
                classes=["0", "1"],
                task="classification",
                loss=LOSS,
                watched=self.settings.drift.finds_incidents,
                **self.background.fields(drawn, rows, FeatureTable(), rows.shape[1]),
            )
            given = explain(block, subject.predictor)
            marks.append(time.process_time())
            for contributions in given:
                self.aggregator.offer(contributions, 0)
            marks.append(time.process_time())
            self.next_row += len(rows)
            if self.aggregator.failed or self.aggregator.next_row != self.next_row:
                raise SystemExit(f"{subject.name}: {self.aggregator.failed} rows failed")
            spent += np.diff(marks)
        return spent

    def publish(self) -> None:
        """Make the records of the newest row."""
        for timeline in self.aggregator.timelines:
            self.aggregator._publish(timeline)
        self.aggregator.records.clear()


class FromGrownTrees:
    """The draws of conditional removal alone: rows neither enter nor are learned."""

    def __init__(self, ours: Ours) -> None:
        storage = getattr(ours.background.methods["isage"], "storage", None)
        if not isinstance(storage, ConditionalStorage):
            raise TypeError("no storage trees")
        self.storage = storage
        self.ours = ours

    def __call__(self, rows: np.ndarray, kinds: list[Kind], first_row: int) -> dict[str, np.ndarray]:
        storage, count, width = self.storage, *rows.shape
        order = np.argsort(np.random.default_rng(first_row).random((count, width)), axis=1)
        out = np.empty((count, width - 1, INNER, width))
        for i in range(count):
            row = first_row + i
            draw(
                storage.flat, storage.leaves, storage.rows, storage.key, row, rows[i], rows[i], order[i], out[i],
                storage.counts,
            )  # fmt: skip
        return {"isage": out, "isage.order": order}


class Theirs:
    """The authors' explainers, what of them is here, for the events of a subject."""

    def __init__(self, subject: Subject, development: ModuleType | None) -> None:
        self.subject = subject
        self.development = development
        positive = subject.events[0][1].__class__(1)

        def loss(y: object, prediction: dict) -> float:
            return float(max(prediction, key=prediction.get) != y) if prediction else 1.0

        self.loss, self.positive = loss, positive
        try:
            importlib.import_module("ixai")
        except ImportError:
            self.there = False
        else:
            self.there = True

    def runs(self) -> dict[str, Callable[[], None]]:
        """Each method over all events once."""
        if not self.there:
            return {}
        from ixai.explainer.pfi import IncrementalPFI
        from ixai.explainer.sage import IncrementalSage
        from ixai.imputer import MarginalImputer

        def marginal(kind: type, inner: int) -> Callable[[], None]:
            storage = self._reservoir()
            one = self._explainer(
                kind, inner, storage, MarginalImputer(self.subject.model.predict_proba_one, "joint", storage)
            )
            for x in self.subject.earlier[-RESERVOIR:]:
                storage.update(x)
            return self._each(one.explain_one)

        made = {"ipfi": marginal(IncrementalPFI, 1), "isage": marginal(IncrementalSage, INNER)}
        if self.development is not None:
            made["ipdp"] = self._ipdp(self.development)
        return made

    def conditional(self) -> dict[str, Callable[[], None]]:
        """iSAGE with conditional removal, on storage trees that have grown, and with these growing on."""
        if not self.there:
            return {}
        from ixai.explainer.sage import IncrementalSage
        from ixai.imputer import TreeImputer
        from ixai.storage import TreeStorage

        grown = TreeStorage([], self.subject.names, max_depth=DEPTH, leaf_reservoir_length=LEAF, seed=SEED)
        for x in self.subject.earlier:
            grown.update(x)
        made = {}
        for name, update in (("isage conditional", False), ("with learning", True)):
            storage = copy.deepcopy(grown)
            imputer = TreeImputer(self.subject.model.predict_proba_one, storage, use_storage=True)
            one = self._explainer(IncrementalSage, INNER, storage, imputer)
            one.seen_samples = 1  # it explains nothing before
            made[name] = self._each(one.explain_one, update_storage=update)
        return made

    def _reservoir(self) -> object:
        from ixai.storage import GeometricReservoirStorage

        return GeometricReservoirStorage(size=RESERVOIR, store_targets=False, constant_probability=1.0)

    def _explainer(self, kind: type, inner: int, storage: object, imputer: object) -> object:
        return kind(
            model_function=self.subject.model.predict_proba_one,
            loss_function=self.loss,
            feature_names=self.subject.names,
            storage=storage,
            imputer=imputer,
            n_inner_samples=inner,
            smoothing_alpha=ALPHA,
            dynamic_setting=True,
        )

    def _each(self, explain_one: Callable[..., object], **how: bool) -> Callable[[], None]:
        def run() -> None:
            for x, y in self.subject.events:
                explain_one(x, y, **how)

        return run

    def _ipdp(self, development: ModuleType) -> Callable[[], None]:
        curves = [
            development.IncrementalPDP(
                model_function=self.subject.model.predict_proba_one,
                pdp_feature=name,
                gridsize=POINTS,
                storage=self._reservoir(),
                smoothing_alpha=ALPHA,
                dynamic_setting=True,
                storage_size=RESERVOIR,
                output_key=self.positive,
                min_max_grid=True,
            )
            for name in self.subject.names
        ]
        for one in curves:  # it explains nothing before
            for x in self.subject.earlier[-one.waiting_period - 1 :]:
                one.explain_one(x)

        def run() -> None:
            for x, _ in self.subject.events:
                for one in curves:
                    one.explain_one(x)

        return run


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


def learn_seconds(subject: Subject) -> float:
    """River's own predict and learn over all events, from the state in which they found the model."""
    model = copy.deepcopy(subject.model)
    started = time.process_time()
    for x, y in subject.events:
        model.predict_one(x)
        model.learn_one(x, y)
    return time.process_time() - started


def seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


class Times:
    """Seconds of what is named, turn by turn."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats
        self.found: dict[str, list[np.ndarray]] = {}

    def measure(self, runs: dict[str, Callable[[], object]], passes: dict[str, int], what: str) -> None:
        """All in turn; a run may give its parts itself."""
        for repeat in range(self.repeats):
            say(f"{what}: {repeat + 1} of {self.repeats}")
            for name, run in runs.items():
                spent = np.zeros(3)
                for _ in range(passes.get(name, 1)):
                    started = time.process_time()
                    parts = run()
                    spent += parts if isinstance(parts, np.ndarray) else [time.process_time() - started, 0.0, 0.0]
                self.found.setdefault(name, []).append(spent / passes.get(name, 1))

    def median(self, name: str) -> float:
        return statistics.median(float(parts.sum()) for parts in self.found[name])

    def parts(self, name: str) -> list[float]:
        return [float(part) for part in np.median(self.found[name], axis=0)]


def ours_line(times: Times, name: str, count: int) -> dict[str, object]:
    parts = zip(("draws_us", "explain_us", "aggregate_us"), times.parts(name), strict=True)
    us = {"us": 1e6 * times.median(name) / count} | {part: 1e6 * spent / count for part, spent in parts}
    return {key: round(value, 2) for key, value in us.items()}


def compared(times: Times, method: str, subject: Subject) -> dict[str, object]:
    """The line of a method."""
    here = times.median(f"ours {method}")
    line: dict[str, object] = {"model": subject.name, "method": method, "events": subject.count}
    line["ours"] = round(subject.count / here)
    if f"theirs {method}" in times.found:
        there = times.median(f"theirs {method}")
        line |= {"theirs": round(subject.count / there, 1), "ratio": round(there / here, 1)}
    return line | ours_line(times, f"ours {method}", subject.count)


def measure(name: str, repeats: int, learned: int, development: ModuleType | None) -> None:
    """Print the lines of a model."""
    say(f"{name}: learns {learned} events")
    subject = Subject(name, learned)
    theirs = Theirs(subject, development)
    together = Ours(subject, METHODS)
    ours = {f"ours {method}": Ours(subject, (method,)).run for method in METHODS} | {"ours together": together.run}
    for run in ours.values():
        run()  # compiles
    times = Times(repeats)
    runs: dict[str, Callable[[], object]] = {}
    there = theirs.runs()
    for method in METHODS:
        runs[f"ours {method}"] = ours[f"ours {method}"]
        if method in there:
            runs[f"theirs {method}"] = there[method]
    runs["ours together"] = ours["ours together"]
    passes = dict.fromkeys(ours, PASSES[name])
    times.measure(runs, passes, name)
    for method in METHODS:
        show(compared(times, method, subject))
    if name == "tree":
        conditional(subject, theirs, times)
    summary(subject, times, together)


def conditional(subject: Subject, theirs: Theirs, times: Times) -> None:
    """Print the line of iSAGE with conditional removal."""
    method = "isage conditional"
    say(f"{subject.name}: storage trees grow")
    learning = Ours(subject, ("isage",), "conditional")
    grown = copy.copy(learning)
    grown.aggregator = StreamAggregator.empty("s", learning.settings)
    grown.draws = FromGrownTrees(copy.deepcopy(learning))  # type: ignore[assignment]
    runs: dict[str, Callable[[], object]] = {f"ours {method}": grown.run, "ours with learning": learning.run}
    runs |= {f"theirs {name}": run for name, run in theirs.conditional().items()}
    for run in (grown.run, learning.run):
        run()  # compiles
    times.measure(runs, {f"ours {method}": 4}, f"{subject.name} {method}")
    line = compared(times, method, subject)
    line["ours_with_learning"] = round(subject.count / times.median("ours with learning"))
    if "theirs with learning" in times.found:
        there = times.median("theirs with learning")
        line["theirs_with_learning"] = round(subject.count / there, 1)
        line["ratio_with_learning"] = round(there / times.median("ours with learning"), 1)
    show(line)


def summary(subject: Subject, times: Times, all_methods: Ours) -> None:
    """Print the line of a model."""
    count, width = subject.count, len(subject.names)
    river = statistics.median(learn_seconds(subject) for _ in range(times.repeats))
    together = times.median("ours together")
    line: dict[str, object] = {"model": subject.name} | ours_line(times, "ours together", count)
    line |= {"river_us": round(1e6 * river / count, 2), "cost": round(together / river, 4)}
    if all(f"theirs {method}" in times.found for method in METHODS):
        line["ratio"] = round(sum(times.median(f"theirs {method}") for method in METHODS) / together, 1)
    evaluations = 3 + width + (width - 1) * INNER + width * POINTS
    line["evaluations"] = evaluations
    line["ns_an_evaluation"] = round(1e9 * times.parts("ours together")[1] / count / evaluations, 1)
    rare = {"snapshot_ms": subject.encoded, "ready_ms": subject.ready, "records_ms": all_methods.publish}
    for key, run in rare.items():
        run()
        line[key] = round(1e3 * statistics.median(seconds(run) for _ in range(times.repeats)), 2)
    show(line)


def show(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="forest,tree,linear")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--learned", type=int, default=5_000, help="events that the model has learned before")
    arguments = parser.parse_args()
    development = development_branch()
    if importlib.util.find_spec("ixai") is None:
        say("ixai is not installed, so nothing is compared: pip install ixai==0.1.3")
    elif development is None:
        say(
            "iPDP is not compared: it is only in the development branch of the authors' repository; check that out as "
            "a folder iXAI and name the folder around it in GLASSTREAM_PEERS"
        )
    for model in arguments.models.split(","):
        measure(model, arguments.repeats, arguments.learned, development)


if __name__ == "__main__":
    main()
