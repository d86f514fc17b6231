"""Loss of exactness from explaining with snapshots, for fixed cadences and the adaptive one. One JSON line each.

    python tests/benchmarks/staleness.py [--rows 20000] [--trees 10] [--targets 0.15]

The bundled stream (a change of concept half-way) is learned by a forest. iPFI is estimated with the exact model of
every event, and with the snapshots of each schedule, on the same background rows. The adaptive schedule is that of the
settings, with each of the targets.

- `snapshots`: how many a schedule made; `mean_interval`: events between them, after the start
- `error_over_se`: |value - exact value|, as a share of the standard error of the exact value: the mean over features
  and rows from `settled` on (goal: 0.3)
- `worst_over_se`: the same, the 95 % quantile over rows of the largest over features
- `sum_of_errors`: the sum over features of the error, mean over rows
"""

import argparse
import json
import sys
from dataclasses import dataclass, field

sys.path.pop(0)  # this folder: in it files have the names of packages

import msgspec
import numpy as np
from river import forest

from glasstream.base.draws import stream_key
from glasstream.events.features import FeatureTable
from glasstream.events.sources.bundled import BundledStream
from glasstream.explain import pfi as ipfi
from glasstream.explain.intervals import variance_of_value
from glasstream.explain.overlap import Overlap
from glasstream.explain.sampling.reservoir import Reservoir
from glasstream.explain.smoothing import Smoothing
from glasstream.flow.learner.staleness import staleness
from glasstream.flow.schedule import Schedule
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.compile import compile_model
from glasstream.models.river.generic import GenericPredictor

ALPHA, SIZE, SEED = 0.001, 100, 7
LOSS = "zero_one"
CADENCES = (100, 200, 500, 1_000)
ADAPTIVE = Schedule()
SETTLED = 1_000
LOOK_EVERY = 100
LABELS = {0: "0", 1: "1"}


@dataclass
class Followed:
    """One schedule: its model as it is, and its estimate."""

    name: str
    schedule: Schedule
    due: int = 1
    version: int = 0
    model: Predictor | None = None
    rows: list[tuple[np.ndarray, float, np.ndarray]] = field(default_factory=list)
    smoothing: Smoothing = field(default_factory=lambda: Smoothing.empty(ALPHA))
    versions: list[int] = field(default_factory=list)
    shares: list[np.ndarray] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)

    def explain(self) -> None:
        if self.rows and self.model is not None:
            x, y, draws = (np.array(column) for column in zip(*self.rows, strict=True))
            self.smoothing.update(ipfi.contributions(self.model, LOSS, x, y, draws))
        self.rows.clear()

    def renew(self, learned: int, model: Predictor, held: np.ndarray) -> None:
        change = staleness(model, self.model, LOSS, held) if self.model is not None else None
        self.due = self.schedule.after(learned, change, learned - self.version)
        self.model, self.version = model, learned
        self.versions.append(learned)


def measure(rows: int, trees: int, followed: list[Followed]) -> None:
    river = forest.ARFClassifier(n_models=trees, seed=SEED)
    table = FeatureTable()
    reservoir = Reservoir.empty(SIZE, "geometric", stream_key(1, "agrawal"))
    exact = Smoothing.empty(ALPHA, Overlap.of("geometric", SIZE))
    live: GenericPredictor | None = None
    for row, event in enumerate(BundledStream(1, rows).events()):
        x = {name: float(value) for name, value in event["x"].items()}
        values, given = table.encode(x)
        block = np.array([list(values)])
        draws = reservoir.pass_through(block, row, SIZE, 1)
        if row >= SIZE:
            live = live or GenericPredictor(river, table, LABELS)
            y = np.array([float(event["y"])])
            exact.update(ipfi.contributions(live, LOSS, block, y, draws))
            for one in followed:
                one.rows.append((block[0], y[0], draws[0]))
        river.learn_one(dict(given), event["y"])
        learned = row + 1
        due = [one for one in followed if one.due == learned]
        model = compile_model(river, table, LABELS) if due else None
        for one in due:
            one.explain()
            one.renew(learned, model, reservoir.rows[: min(learned, SIZE)])
        if learned % LOOK_EVERY == 0 and learned >= SETTLED:
            error = np.sqrt(variance_of_value(exact))
            for one in followed:
                one.explain()
                distance = np.abs(one.smoothing.value - exact.value)
                one.shares.append(distance / np.where(error > 0, error, np.inf))
                one.errors.append(float(distance.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--trees", type=int, default=10)
    parser.add_argument("--targets", default=str(ADAPTIVE.target), help="numbers, with commas between them")
    options = parser.parse_args()
    followed = [Followed(f"every {cadence}", Schedule(cadence=cadence, target=0.0)) for cadence in CADENCES]
    for target in options.targets.split(","):
        adaptive = msgspec.structs.asdict(ADAPTIVE) | {"target": float(target)}
        followed.append(Followed(f"adaptive, target {target}", Schedule(**adaptive)))
    measure(options.rows, options.trees, followed)
    for one in followed:
        shares = np.array(one.shares)
        late = [version for version in one.versions if version > one.schedule.doubling]
        line = {
            "schedule": one.name,
            "snapshots": len(one.versions),
            "mean_interval": round(float(np.diff(late).mean()), 1),
            "error_over_se": round(float(shares.mean()), 3),
            "worst_over_se": round(float(np.quantile(shares.max(axis=1), 0.95)), 3),
            "sum_of_errors": round(float(np.mean(one.errors)), 4),
        }
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
