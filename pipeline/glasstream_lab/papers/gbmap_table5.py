"""Linear models on the first components of GBMAP and of PCA (Patron et al. 2024, section 4.4, Table 5, Figure 1)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.detect.gbmap.settings import PAPER_FEATURES
from glasstream.events.admission import Task
from glasstream.models.predictors.predictor import Floats
from glasstream_lab.gbmap.table import Table
from glasstream_lab.papers.comparison import Row, Worse
from glasstream_lab.papers.experiment import Choice, Experiment, Request, Results
from glasstream_lab.papers.gbmap_contestants import parted
from glasstream_lab.papers.gbmap_sets import DIFFERENCES, SETS, read_set
from glasstream_lab.papers.tasks import Json

# Imported after the estimators, whose error names the install command if scikit-learn is missing.
from sklearn.decomposition import PCA  # type: ignore[import-untyped]  # isort: skip
from sklearn.linear_model import LinearRegression, LogisticRegression  # type: ignore[import-untyped]  # isort: skip

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Scores = tuple[float, float]
"""The paper's mean and standard deviation."""

SPLITS: Final = 5
CANDIDATES: Final = 10
STARTS: Final = 5
"""Number of starts of each learner."""
FEW, MANY = (2, 8, 12, 16, 32), (2, 8, 12, 16, 32, 64, 128)
PAPER: Final[dict[str, dict[str, tuple[Scores, ...]]]] = {
    "california_housing": {
        "gbmap": ((0.64, 0.01), (0.72, 0.01), (0.73, 0.01), (0.73, 0.01), (0.74, 0.01)),
        "pca": ((0.03, 0.01), (0.61, 0.01)),
    },
    "concrete": {
        "gbmap": ((0.73, 0.04), (0.85, 0.01), (0.85, 0.02), (0.86, 0.02), (0.85, 0.05)),
        "pca": ((0.11, 0.06), (0.62, 0.03)),
    },
    "cpu_small": {
        "gbmap": ((0.97, 0.0), (0.97, 0.0), (0.97, 0.0), (0.97, 0.01), (0.97, 0.01)),
        "pca": ((0.36, 0.02), (0.69, 0.01), (0.72, 0.01)),
    },
    "superconductor_sample": {
        "gbmap": ((0.82, 0.0), (0.84, 0.0), (0.84, 0.01), (0.84, 0.0), (0.85, 0.01)),
        "pca": ((0.46, 0.01), (0.56, 0.0), (0.59, 0.0), (0.60, 0.0), (0.69, 0.01)),
    },
    "qm9_10k": {
        "gbmap": ((0.51, 0.01), (0.61, 0.02), (0.65, 0.02), (0.66, 0.02), (0.68, 0.02)),
        "pca": ((0.07, 0.0), (0.19, 0.01), (0.27, 0.01), (0.34, 0.01)),
    },
    "higgs_10k": {
        "gbmap": ((0.66, 0.01), (0.68, 0.01), (0.68, 0.01), (0.68, 0.01), (0.67, 0.01)),
        "pca": ((0.53, 0.01), (0.54, 0.01), (0.54, 0.0), (0.55, 0.0)),
    },
    "eeg_eye_state": {
        "gbmap": ((0.61, 0.01), (0.65, 0.01), (0.69, 0.02), (0.71, 0.01), (0.75, 0.01)),
        "pca": ((0.55, 0.0), (0.57, 0.01), (0.62, 0.01)),
    },
    "synth_cos_r": {
        "gbmap": ((0.06, 0.0), (0.16, 0.0), (0.20, 0.0), (0.23, 0.0), (0.34, 0.0), (0.46, 0.0), (0.52, 0.0)),
        "pca": ((0.0, 0.0),) * 7,
    },
    "synth_cos_c": {
        "gbmap": ((0.56, 0.0), (0.59, 0.0), (0.60, 0.0), (0.61, 0.0), (0.62, 0.0), (0.64, 0.0), (0.64, 0.0)),
        "pca": ((0.50, 0.0),) * 7,
    },
}
"""Scores by data set, method and number of components, as far as there are fewer components than features."""
SIDES: Final[dict[str, Worse]] = {"gbmap": "below", "pca": "apart"}
"""Side of the paper's score on which ours is worse."""
QUICK_SETS: Final = ("concrete",)
QUICK_CANDIDATES: Final = 2
SYNTHETIC_ROWS: Final = 10_000
"""Number of training rows on which the candidates for generated data are compared."""


class Table5(Experiment):
    """Scores of least squares or logistic regression on new features."""

    name = "gbmap-table5"
    paper = "GBMAP"
    shows = "Table 5, Figure 1"
    summary = "Compare GBMAP and PCA as features of linear models."
    minutes = 60
    data = tuple(name for name in PAPER if not SETS[name].generated)
    quick_data = QUICK_SETS
    repetitions = SPLITS
    quick_omits = (
        f"all data sets but {', '.join(QUICK_SETS)}, {CANDIDATES - QUICK_CANDIDATES} of {CANDIDATES} candidates, and "
        "three of five splits"
    )
    settings = (
        f"As in the paper: {SPLITS} splits into halves, ridge {PAPER_FEATURES.ridge:g}, at most "
        f"{PAPER_FEATURES.iterations} iterations, and beta by random search with {CANDIDATES} candidates from 1 to 20.",
        "The paper does not say how the search scores a beta. Here a quarter of the training rows is held out for it, "
        "for each number of components.",
        f"Each learner has {STARTS} starts, of which the best is kept. The authors' code for features fits the "
        "whole map ten times (`n_fit`).",
        "The learners of GBMAP are fitted one after another, so one fit has the components for every smaller number.",
        "ivis and LOL, which are other packages, are not run.",
        "synth-cos (200,000 rows with 200 features, 128 learners) takes hours and needs `--synthetic yes`. Its "
        f"candidates are compared on {SYNTHETIC_ROWS:,} rows.",
        f"Differences in the data: {DIFFERENCES}.",
    )
    choices: ClassVar = {"synthetic": Choice(("no", "yes"), "Run synth-cos as well.")}

    def tasks(self, request: Request) -> list[Json]:
        names = [name for name in PAPER if request.choices["synthetic"] == "yes" or not SETS[name].generated]
        return [
            {"data": name, "candidates": QUICK_CANDIDATES if request.quick else CANDIDATES, "split": split}
            for name in (QUICK_SETS if request.quick else names)
            for split in range(request.repetitions)
        ]

    def work(self, folder: Path | None, task: Json) -> Json:
        one = SETS[task["data"]]
        table = read_set(folder, task["data"])
        searched = SYNTHETIC_ROWS if one.generated else None
        sizes = MANY if one.generated else FEW
        return scores(table, sizes, task["split"], task["candidates"], searched)

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for name, methods in PAPER.items():
            found = [result for task, result in results if task["data"] == name]
            for method, numbers in methods.items() if found else ():
                sizes = MANY if SETS[name].generated else FEW
                for size, (theirs, spread) in zip(sizes, numbers, strict=False):
                    ours = [float(result[f"{method} {size}"]) for result in found]
                    error = spread / SPLITS**0.5
                    number = f"{name}, {method}, {size} components"
                    rows.append(Row(number, ours, theirs, SIDES[method], paper_error=error, tolerance=0.005))
        return rows

    def figure(self, results: Results) -> "Figure":
        """Return the scores by number of components, one panel for each data set, as in Figure 1."""
        from matplotlib.figure import Figure

        names = [name for name in PAPER if any(task["data"] == name for task, _ in results)]
        figure = Figure(figsize=(3.5 * len(names), 3), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            found = [result for task, result in results if task["data"] == name]
            for method, marker in (("gbmap", "o-"), ("pca", "s--")):
                sizes = [size for size in MANY if f"{method} {size}" in found[0]]
                means = [np.mean([one[f"{method} {size}"] for one in found]) for size in sizes]
                axes.plot(sizes, means, marker, label=method, ms=4)
            axes.axhline(np.mean([one["linear"] for one in found]), color="grey", label="all original features")
            axes.set(
                title=name, xlabel="components", ylabel="accuracy" if SETS[name].task is Task.CLASSIFICATION else "R²"
            )
            axes.legend(fontsize=7)
        return figure


def scores(
    table: Table,
    sizes: Sequence[int],
    split: int,
    candidates: int,
    searched: int | None = None,
    *,
    starts: int = STARTS,
    tested: float = 0.5,
) -> Json:
    """Return the test scores of a split by method and number of components, and of all original features.

    Parameters
    ----------
    sizes
        Numbers of components. PCA has those that are at most the number of features.
    candidates
        Number of β to draw.
    searched
        Number of training rows that the search for β uses; None for all.
    starts
        Number of starts of each learner.
    tested
        Share of the rows to test with.
    """
    train, test = parted(len(table.targets), split, 0, tested)
    draws = np.random.Generator(np.random.PCG64([split, 3]))
    betas = draws.uniform(1.0, 20.0, candidates).tolist()
    chosen = train[:searched]
    held, kept = np.split(chosen, [len(chosen) // 4])
    tried = []
    for beta in betas:
        model = _fitted(table, kept, beta, max(sizes), starts, split)
        embedded = model.transform(table.rows[chosen])
        own, other = embedded[len(held) :], embedded[: len(held)]
        tried.append([score(table, kept, own[:, :size], held, other[:, :size]) for size in sizes])
    best = [betas[place] for place in np.argmax(tried, axis=0).tolist()]
    encoding = Encoding.learn(table.rows[train], table.categorical)
    rows = {"train": encoding.encode(table.rows[train]), "test": encoding.encode(table.rows[test])}
    result: Json = {"betas": best, "linear": score(table, train, rows["train"], test, rows["test"])}
    for beta in dict.fromkeys(best):
        model = _fitted(table, train, beta, max(sizes), starts, split)
        one, other = model.transform(table.rows[train]), model.transform(table.rows[test])
        for size, own_beta in zip(sizes, best, strict=True):
            if own_beta == beta:
                result[f"gbmap {size}"] = score(table, train, one[:, :size], test, other[:, :size])
    for size in sizes:
        if size <= rows["train"].shape[1]:
            components = PCA(size, random_state=split).fit(rows["train"])
            one, other = (components.transform(rows[part]) for part in ("train", "test"))
            result[f"pca {size}"] = score(table, train, one, test, other)
    return result


def _fitted(table: Table, places: Any, beta: float, learners: int, starts: int, seed: int) -> Any:
    kind = GBMAPClassifier if table.classes else GBMAPRegressor
    model = kind(
        n_learners=learners, beta=beta, ridge=PAPER_FEATURES.ridge, max_iter=PAPER_FEATURES.iterations,
        n_starts=starts, categories=table.categorical, random_state=seed,
    )  # fmt: skip
    return model.fit(table.rows[places], table.targets[places])


def score(table: Table, train: Any, features: Floats, test: Any, test_features: Floats) -> float:
    """Return R² or accuracy on the test rows of a linear model of the training rows' features."""
    model = LogisticRegression(max_iter=1_000) if table.classes else LinearRegression()
    model.fit(features, table.targets[train])
    return float(model.score(test_features, table.targets[test]))
