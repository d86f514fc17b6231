"""The laws of iPFI: bias of the start, variance of the smoothing, coverage of the bounds (Fumagalli et al. 2023, 3).

Model and data are such that every constant is known: f(x) = x_1 + x_2, independent standard normal features,
y = f(x) + standard normal noise, and the squared loss. A feature's contribution with the replacement r is
(x - r)² + 2 e (x - r), with noise e. Its mean, the importance, is 2, and its variance 16.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from glasstream.explain.estimators.incremental import IncrementalImportance
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.models.predictors.predictor import REGRESSION, Floats, Output, Task
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.tasks import Json

ALPHAS: Final = (0.01, 0.001)
COUNTS: Final = (100, 1_000)
"""Numbers of explained events after which the laws are checked."""
DELTAS: Final = (0.1, 0.05)
RESERVOIR: Final = 2_000
RUNS: Final = 40
"""Number of streams of a repetition."""


class Sum:
    """The model x_1 + x_2 as a predictor."""

    task: Task = REGRESSION
    features = ("x_1", "x_2")
    classes: tuple[str, ...] = ()
    compiled = False

    def evaluate(self, rows: Floats) -> Output:
        return Output.of_numbers(rows[:, :1] + rows[:, 1:])


class Laws(Experiment):
    """Theorems 2 and 3 of the paper on data with known constants."""

    name = "ipfi-laws"
    paper = "iPFI"
    shows = "Theorems 2 and 3"
    summary = "Compare the errors of iPFI with its theorems."
    minutes = 0.1
    repetitions = 25
    quick_repetitions = 8
    quick_omits = f"17 of 25 repetitions, each of which is {RUNS} streams"
    settings: ClassVar[tuple[str, ...]] = (
        f"The theorems hold for every model; here it is linear, with reservoirs of {RESERVOIR:,} rows.",
        "The column of the paper has the numbers of the theorems. Bounds may be broken less often than they state.",
    )

    importance: ClassVar = 2.0
    """Importance of x_1."""
    variance: ClassVar = 16.0
    """Variance of the contributions of x_1."""

    def estimator(self, alpha: float, seed: int, stream: str) -> IncrementalImportance:
        """Return the estimator of a stream."""
        return IncrementalPFI(loss="squared", alpha=alpha, reservoir=RESERVOIR, seed=seed, stream=stream)

    def bias(self, alpha: float, count: int) -> float:
        """Return the bias of the raw value after a number of explained events."""
        return -((1.0 - alpha) ** count) * self.importance

    def tasks(self, request: Request) -> list[Json]:
        return [{"alpha": alpha, "seed": seed} for alpha in ALPHAS for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        predictor = Sum()
        found = np.empty((RUNS, len(COUNTS), 2 + len(DELTAS)))
        for run in range(RUNS):
            draws = np.random.Generator(np.random.PCG64([task["seed"], run]))
            rows = draws.normal(size=(RESERVOIR + COUNTS[-1], 2))
            targets = rows.sum(axis=1) + draws.normal(size=len(rows))
            estimator = self.estimator(task["alpha"], task["seed"], str(run))
            done = 0
            for place, count in enumerate(COUNTS):
                upto = RESERVOIR + count
                estimator.explain_block(predictor, rows[done:upto], targets[done:upto])
                done = upto
                value = estimator.importance["x_1"]
                bounds = [estimator.bound(delta)["x_1"] for delta in DELTAS]
                found[run, place] = estimator.raw["x_1"], value, *(abs(value - self.importance) > np.array(bounds))
        result: Json = {}
        for place, count in enumerate(COUNTS):
            result[f"bias {count}"] = float(found[:, place, 0].mean() - self.importance)
            result[f"variance {count}"] = float(found[:, place, 0].var(ddof=1))
            for one, delta in enumerate(DELTAS):
                result[f"broken {count} {delta}"] = float(found[:, place, 2 + one].mean())
        return result

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for alpha in ALPHAS:
            for count in COUNTS:
                forgotten = (1 - alpha) ** count
                of = f"alpha {alpha:g}, {count:,} events"
                bias, variance = (values(results, f"{kind} {count}", alpha=alpha) for kind in ("bias", "variance"))
                rows.append(Row(f"bias of the raw value, {of}", bias, self.bias(alpha, count)))
                law = self.variance * alpha / (2 - alpha) * (1 - forgotten**2)
                rows.append(Row(f"variance of the raw value, {of}", variance, law, "above"))
                for delta in DELTAS:
                    broken = values(results, f"broken {count} {delta}", alpha=alpha)
                    rows.append(Row(f"bound of {delta:g} broken, {of}", broken, delta, "above"))
        return rows
