"""iSAGE, iPFI and mean decrease in impurity of a tree on elec2 (Muschalik, Fumagalli et al. 2023, E.3.3, Figure 12)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from river import tree

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.models.predictors.predictor import Floats
from glasstream.models.river.catalogue import ClassesInOrder
from glasstream_lab.gbmap.table_file import read_table
from glasstream_lab.mdi import mean_decrease_impurity
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.models import StreamLearner
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METHODS: Final = ("iSAGE", "iPFI", "MDI")
ALPHA: Final = 0.001
INNER: Final = 5
TOP: Final = 2
BLOCK: Final = 20
"""Number of events that are explained with the same model, before it learns them."""
EVERY: Final = 1_000
"""Number of events between two looks at the methods."""
QUICK_EVENTS: Final = 10_000


class Mdi(Experiment):
    """The most important features by iSAGE and iPFI, compared with those by mean decrease in impurity."""

    name = "isage-mdi"
    paper = "iSAGE"
    shows = "Figure 12"
    summary = "Compare iSAGE and iPFI with mean decrease in impurity."
    minutes = 3
    data = ("elec2",)
    quick_data = ("elec2",)
    repetitions = 5
    quick_omits = f"three of five repetitions, and all events after the first {QUICK_EVENTS:,}"
    settings = (
        f"The paper publishes a picture and states that all methods identify the {TOP} most important features. Here "
        f"this means that iSAGE and iPFI have the same {TOP} as MDI, by the mean over the stream, with a look every "
        f"{EVERY:,} events.",
        f"The paper does not state alpha ({ALPHA:g}), m ({INNER}) and the losses (Brier for iSAGE, zero-one for iPFI). "
        "MDI uses the Gini impurity. The tree has River's defaults, and a repetition another random seed.",
        "With cross-entropy, iSAGE and MDI have 0.2 of 2 features in common (five repetitions): naive Bayes in the "
        "leaves gives probabilities near 0 and 1, and the few events for which these are wrong decide the values.",
        f"{BLOCK} events share the model, before they are learned.",
    )

    def tasks(self, request: Request) -> list[Json]:
        events = QUICK_EVENTS if request.quick else None
        return [{"data": "elec2", "events": events, "seed": seed} for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        if folder is None:
            raise InputError("elec2: expected a folder of data sets, got none")
        table = read_table(folder / "elec2.csv.gz", "target", Task.CLASSIFICATION, (), task["events"])
        return compare(table.names, table.rows, table.targets, task["seed"])

    def rows(self, results: Results) -> Sequence[Row]:
        return [
            Row(f"features of {method} and MDI in common, of the first {TOP}", values(results, method), TOP, "below")
            for method in METHODS[:-1]
        ]

    def figure(self, results: Results) -> "Figure":
        """Return the three methods along the stream of the first repetition."""
        from matplotlib.figure import Figure

        one = results[0][1]
        figure = Figure(figsize=(12, 3.5), layout="constrained")
        for axes, method in zip(figure.subplots(1, len(METHODS)), METHODS, strict=True):
            lines = np.array(one["lines"][method])
            for place, feature in enumerate(one["names"]):
                axes.plot(EVERY * np.arange(1, 1 + len(lines)), lines[:, place], label=feature, lw=1)
            axes.set(title=f"{method} on elec2", xlabel="events")
            axes.legend(fontsize=6, ncols=2)
        return figure


def compare(names: Sequence[str], rows: Floats, targets: Floats, seed: int) -> Json:
    """Learn a stream with an adaptive tree, and return the values of all methods and how they agree."""
    model = tree.HoeffdingAdaptiveTreeClassifier(seed=seed)
    model.classes = ClassesInOrder()
    learner = StreamLearner(model, names)
    sage = IncrementalSAGE(loss="brier", alpha=ALPHA, inner=INNER, seed=seed)
    pfi = IncrementalPFI(loss="zero_one", alpha=ALPHA, seed=seed)
    lines: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    for first in range(0, len(rows), BLOCK):
        own = slice(first, first + BLOCK)
        if first:
            predictor = learner.predictor()
            for explainer in (sage, pfi):
                explainer.explain_block(predictor, rows[own], targets[own])
        learner.learn(rows[own], targets[own].astype(np.int64))
        if (first + BLOCK) % EVERY == 0:
            impurity = mean_decrease_impurity(learner.river())
            lines["iSAGE"].append(sage.aggregator.smoothing.value.tolist())
            lines["iPFI"].append(pfi.smoothing.value.tolist())
            lines["MDI"].append([float(impurity.get(name, 0.0)) for name in names])
    means = {method: np.mean(found, axis=0) for method, found in lines.items()}
    result: Json = {"names": list(names), "lines": lines}
    for method in METHODS[:-1]:
        result[method] = in_common(means[method], means["MDI"])
    return result


def in_common(one: Floats, other: Floats) -> int:
    """Return how many of the `TOP` largest places two arrays have in common.

    Examples
    --------
    >>> in_common(np.array([3.0, 2.0, 1.0]), np.array([5.0, 1.0, 2.0]))
    1
    """
    first, second = (set(np.argsort(-values, kind="stable")[:TOP].tolist()) for values in (one, other))
    return len(first & second)
