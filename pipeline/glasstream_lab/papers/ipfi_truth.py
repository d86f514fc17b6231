"""iPFI of a model whose permutation importance is known (Fumagalli et al. 2023, "Ground-truth PFI for agrawal").

The model is the labelling function of the stream itself. Under the zero-one loss, the importance of a feature is then
the probability that another value changes the label: 0.3419 for age and 0.4734 for salary, and 0 for all others.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.models.predictors.predictor import CLASSIFICATION, Floats, Output, Task
from glasstream_lab.batch_pfi import batch_pfi
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.streams import generated
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLINGS: Final = ("uniform", "geometric")
TRUTH: Final = {"age": 0.3419, "salary": 0.4734}
"""The paper's values."""
ROUNDING: Final = 0.00005
"""Half of the last digit of the paper's values."""
EVENTS: Final = 20_000
EXPLAINED: Final = 10_000
"""Number of events at the end of a stream that are explained. Earlier ones would weigh 0.005 % together."""
QUICK_EVENTS: Final = 8_000
ALPHA: Final = 0.001
RESERVOIR: Final = 1_000
REALISATIONS: Final = 10
PERMUTATIONS: Final = 10
_LOW, _HIGH = np.array([50_000.0, 75_000.0, 25_000.0]), np.array([100_000.0, 125_000.0, 75_000.0])
"""Bounds of the salary for which the label is 1, at ages below 40, below 60, and from 60 on."""


class LabellingFunction:
    """Agrawal's second function (River's 1) as a predictor.

    Parameters
    ----------
    features
        Names of the columns, among them age and salary.
    """

    task: Task = CLASSIFICATION
    classes: tuple[str, ...] = ("0", "1")
    compiled = False

    def __init__(self, features: Sequence[str]) -> None:
        self.features = tuple(features)
        self._age, self._salary = self.features.index("age"), self.features.index("salary")

    def evaluate(self, rows: Floats) -> Output:
        band = np.digitize(rows[:, self._age], (40.0, 60.0))
        salary = rows[:, self._salary]
        labels = ((_LOW[band] <= salary) & (salary <= _HIGH[band])).astype(np.int64)
        return Output(np.eye(2)[labels], labels)


class Truth(Experiment):
    """iPFI and batch PFI of Agrawal's labelling function, compared with its known importance."""

    name = "ipfi-truth"
    paper = "iPFI"
    shows = 'Figure 5 and "Ground-truth PFI for the agrawal stream"'
    summary = "Compare iPFI with known importance."
    minutes = 1
    repetitions = 40
    quick_repetitions = 8
    quick_omits = f"32 of 40 streams, and all but {QUICK_EVENTS:,} of {EVENTS:,} events of each"
    settings = (
        "The paper derives these values for ages that are any real number from 20 to 80, so ages are drawn like that. "
        "River draws whole years, for which the importance of age is 0.3432.",
        f"The model is the labelling function itself, so nothing is learned. alpha is {ALPHA:g}, reservoirs have "
        f"{RESERVOIR:,} rows, and {REALISATIONS} realisations are averaged, as in the other experiments of the paper.",
        "The paper computes the values and compares no estimate with them. Every other feature has the importance 0, "
        "and the estimates are exactly 0, since the function ignores these features.",
    )

    def tasks(self, request: Request) -> list[Json]:
        events = QUICK_EVENTS if request.quick else EVENTS
        return [{"events": events, "seed": seed} for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        names, rows, _ = generated("agrawal", 1, task["events"], task["seed"])
        ages = np.random.Generator(np.random.PCG64(task["seed"])).uniform(20.0, 80.0, len(rows))
        rows[:, names.index("age")] = ages
        predictor = LabellingFunction(names)
        targets = predictor.evaluate(rows).labels.astype(float)
        batch = batch_pfi(predictor, "zero_one", rows, targets, permutations=PERMUTATIONS, seed=task["seed"])
        found = {"batch PFI": batch}
        for sampling in SAMPLINGS:
            pfi = IncrementalPFI(
                loss="zero_one",
                alpha=ALPHA,
                sampling=sampling,
                reservoir=RESERVOIR,
                start=max(RESERVOIR, task["events"] - EXPLAINED),
                realisations=REALISATIONS,
                seed=task["seed"],
            )
            pfi.explain_block(predictor, rows, targets)
            found[sampling] = pfi.smoothing.value
        result: Json = {}
        for method, importance in found.items():
            by_name = dict(zip(names, importance.tolist(), strict=True))
            result |= {f"{method} {name}": by_name.pop(name) for name in TRUTH}
            result[f"{method} others"] = max(map(abs, by_name.values()))
        return result

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for method in ("batch PFI", *SAMPLINGS):
            of = method if method == "batch PFI" else f"{method} sampling"
            for name, known in TRUTH.items():
                rows.append(Row(f"{name}, {of}", values(results, f"{method} {name}"), known, tolerance=ROUNDING))
            rows.append(Row(f"largest of the others, {of}", values(results, f"{method} others"), 0.0))
        return rows

    def figure(self, results: Results) -> "Figure":
        """Return box plots of the estimates over the streams, with the known values."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(8, 3.5), layout="constrained")
        methods = ("batch PFI", *SAMPLINGS)
        for axes, (name, known) in zip(figure.subplots(1, len(TRUTH)), TRUTH.items(), strict=True):
            axes.boxplot([values(results, f"{method} {name}") for method in methods])
            axes.axhline(known, color="grey", linestyle="--", label="known value")
            axes.set_xticks(range(1, 1 + len(methods)), methods)
            axes.set(title=f"importance of {name}")
            axes.legend(fontsize=7)
        return figure
