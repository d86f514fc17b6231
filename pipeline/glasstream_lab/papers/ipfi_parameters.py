"""iPFI with several smoothing factors and sizes of the reservoir (Fumagalli et al. 2023, Figure 6)."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from river import forest
from scipy.signal import lfilter  # type: ignore[import-untyped]

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.models.predictors.predictor import Floats
from glasstream_lab.gbmap.table_file import read_table
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.models import StreamLearner
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURE: Final = "nswprice"
ALPHAS: Final = (0.0005, 0.001, 0.005, 0.01, 0.05)
RESERVOIRS: Final = (50, 100, 500, 1_000, 2_000)
ALPHA: Final = 0.001
"""Smoothing factor of the curves with several reservoirs."""
RESERVOIR: Final = 1_000
"""Reservoir of the curves with several smoothing factors."""
REALISATIONS: Final = 10
TREES: Final = 50
BLOCK: Final = 20
"""Number of events that are explained with the same model, after it has learned them."""
SETTLED: Final = 2_000
"""Number of explained events after which curves are compared."""
QUICK_TREES: Final = 5
QUICK_EVENTS: Final = 8_000


class Parameters(Experiment):
    """How far apart the importance of nswprice is for neighbouring values of each parameter."""

    name = "ipfi-parameters"
    paper = "iPFI"
    shows = "Figure 6"
    summary = "Compare smoothing factors and reservoirs on elec2."
    minutes = 25
    data = ("elec2",)
    quick_data = ("elec2",)
    repetitions = 3
    quick_omits = (
        f"one of three repetitions, all but {QUICK_EVENTS:,} events, and all but {QUICK_TREES} of {TREES} trees"
    )
    settings = (
        "The paper publishes two pictures and states that alpha has a substantial effect on the estimates, and the "
        "length of the reservoir no large one. Here this means that curves of neighbouring reservoirs lie closer "
        "together than those of neighbouring values of alpha: the ratio of the mean distances is below 1.",
        f"The text names no values. alpha is one of {', '.join(f'{one:g}' for one in ALPHAS)} with {RESERVOIR:,} rows, "
        f"and the reservoir has {', '.join(f'{one:,}' for one in RESERVOIRS)} rows with alpha {ALPHA:g}. A distance is "
        f"the mean over all events after the first {SETTLED:,} explained ones.",
        f"Sampling is geometric, {REALISATIONS} realisations are averaged, the loss is zero-one, and elec2 keeps its "
        f"order. {BLOCK} events share the model, after they are learned, as in the authors' code.",
    )

    def tasks(self, request: Request) -> list[Json]:
        size = {"events": QUICK_EVENTS if request.quick else None, "trees": QUICK_TREES if request.quick else TREES}
        return [{"data": "elec2", **size, "seed": seed} for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        if folder is None:
            raise InputError("elec2: expected a folder of data sets, got none")
        table = read_table(folder / "elec2.csv.gz", "target", Task.CLASSIFICATION, (), task["events"])
        return compare(table.names, table.rows, table.targets, task["trees"], task["seed"])

    def rows(self, results: Results) -> Sequence[Row]:
        rows = [
            Row(f"distance of reservoirs over that of alphas, {FEATURE}", values(results, "ratio"), 1.0, "above"),
        ]
        for name, tried in (("alpha", ALPHAS), ("reservoir", RESERVOIRS)):
            for place, (one, other) in enumerate(pairwise(tried)):
                distances = [float(result[f"{name} apart"][place]) for _, result in results]
                rows.append(Row(f"distance of {name} {one:,g} from {other:,g}", distances, None))
        return rows

    def figure(self, results: Results) -> "Figure":
        """Return the curves of the first repetition, as in Figure 6."""
        from matplotlib.figure import Figure

        first = results[0][1]
        figure = Figure(figsize=(10, 3.5), layout="constrained")
        panels = (("alpha", ALPHAS), ("reservoir", RESERVOIRS))
        for axes, (name, tried) in zip(figure.subplots(1, 2, sharey=True), panels, strict=True):
            for value, curve in zip(tried, first[f"{name} curves"], strict=True):
                axes.plot(RESERVOIR + 100 * np.arange(len(curve)), curve, label=f"{value:,g}", lw=1)
            axes.set(title=f"iPFI of {FEATURE} by {name}", xlabel="events")
            axes.legend(fontsize=7)
        return figure


def compare(names: Sequence[str], rows: Floats, targets: Floats, trees: int, seed: int) -> Json:
    """Learn a stream with a forest, and return the curves of `FEATURE` by parameter and how far apart they are."""
    learner = StreamLearner(forest.ARFClassifier(trees, binary_split=True, seed=seed), names)
    explainers = {
        size: IncrementalPFI(loss="zero_one", reservoir=size, realisations=REALISATIONS, start=RESERVOIR, seed=seed)
        for size in RESERVOIRS
    }
    contributions: dict[int, list[Floats]] = {size: [] for size in RESERVOIRS}
    for first in range(0, len(rows), BLOCK):
        own = slice(first, first + BLOCK)
        learner.learn(rows[own], targets[own].astype(np.int64))
        predictor = learner.predictor()
        for size, explainer in explainers.items():
            contributions[size].append(explainer.explain_block(predictor, rows[own], targets[own]))
    slot = names.index(FEATURE)
    by_size = {
        size: np.concatenate([part[:, slot] for part in parts if len(part)]) for size, parts in contributions.items()
    }
    curves = {
        "alpha": [smoothed(by_size[RESERVOIR], alpha) for alpha in ALPHAS],
        "reservoir": [smoothed(by_size[size], ALPHA) for size in RESERVOIRS],
    }
    result: Json = {f"{name} curves": [one[::100].tolist() for one in found] for name, found in curves.items()}
    for name, found in curves.items():
        result[f"{name} apart"] = [apart(one, other) for one, other in pairwise(found)]
        result[f"{name} mean"] = float(np.mean(result[f"{name} apart"]))
    result["ratio"] = result["reservoir mean"] / result["alpha mean"]
    return result


def smoothed(contributions: Floats, alpha: float) -> Floats:
    """Return the smoothed values, without the bias of the start, after each row of contributions, float64[n, ...].

    Examples
    --------
    >>> smoothed(np.array([1.0, 4.0]), 0.5).tolist()
    [1.0, 3.0]
    """
    raw = lfilter([alpha], [1.0, alpha - 1.0], contributions, axis=0)
    weights = 1.0 - (1.0 - alpha) ** np.arange(1, 1 + len(raw))
    return np.asarray(raw / weights.reshape(-1, *[1] * (raw.ndim - 1)))


def apart(one: Floats, other: Floats) -> float:
    """Return the mean distance of two curves after the first `SETTLED` events."""
    return float(np.abs(one - other)[SETTLED:].mean())
