"""Nearest neighbours by the embedding distance against the Euclidean one (Patron et al. 2024, 4.1, 4.3, Table 4)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import numpy as np

from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.events.admission import Task
from glasstream_lab.gbmap.knn import GBMAPNeighborsClassifier, GBMAPNeighborsRegressor
from glasstream_lab.gbmap.table import Table
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Choice, Experiment, Request, Results, values
from glasstream_lab.papers.gbmap_contestants import TEST_SHARE, parted
from glasstream_lab.papers.gbmap_sets import DIFFERENCES, FILES, SETS, cosines, read_set
from glasstream_lab.papers.gbmap_table4 import drawn, search
from glasstream_lab.papers.tasks import Json

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor  # type: ignore[import-untyped]  # isort: skip

NEIGHBOURS: Final = 10
ROWS: Final = 10_000
"""Number of rows to which larger data sets are reduced, and of the generated ones."""
SYNTHETIC_FEATURES: Final = 20
LEARNERS: Final = 50
"""Largest number of learners that the search tries."""
QUICK_SETS: Final = ("concrete", "pima_diabetes")
QUICK_CANDIDATES: Final = 2

PAPER: Final = {
    "abalone": (0.517, 0.556),
    "air_quality": (0.914, 0.912),
    "auto_mpg": (0.840, 0.855),
    "california_housing": (0.689, 0.767),
    "concrete": (0.634, 0.871),
    "cpu_small": (0.945, 0.974),
    "qm9_10k": (0.574, 0.689),
    "superconductor_sample": (0.852, 0.869),
    "synth_cos_r": (0.411, 0.748),
    "wine_red": (0.292, 0.362),
    "wine_white": (0.335, 0.363),
    "breast_cancer_wdbc": (0.947, 0.982),
    "pima_diabetes": (0.727, 0.784),
    "eeg_eye_state": (0.773, 0.801),
    "german_credit": (0.703, 0.713),
    "higgs_10k": (0.615, 0.661),
    "synth_cos_c": (0.593, 0.698),
}
"""The paper's scores with the Euclidean distance and with the embedding distance."""


class Knn(Experiment):
    """Both distances, on the same splits."""

    name = "gbmap-knn"
    paper = "GBMAP"
    shows = "Table 4 (k-NN)"
    summary = "Compare nearest neighbours by two distances."
    minutes = 45
    repetitions = 5
    data = FILES
    quick_data = QUICK_SETS
    quick_omits = (
        f"all data sets but {' and '.join(QUICK_SETS)}, {10 - QUICK_CANDIDATES} of ten candidates, and three of "
        "five splits"
    )
    settings = (
        f"The paper states neither the share of test rows ({TEST_SHARE:.0%}), nor the number of splits (5), nor the "
        "spread of its scores. The distance is therefore in standard errors of ours.",
        f"GBMAP's parameters are those with which GBMAP itself predicts best, with 2 to {LEARNERS} learners. The paper "
        "does not say whether its search scored GBMAP or the neighbours.",
        "A candidate is scored with every number of learners. Ten candidates are therefore "
        f"{10 * (LEARNERS - 1)} parameter sets. The paper has 50 sets (`--candidates 50` draws 50 candidates).",
        "Both distances are of standardised rows, with categories one-hot encoded.",
        f"A split of a larger data set has {ROWS:,} rows at random. synth-cos has {ROWS:,} rows and "
        f"{SYNTHETIC_FEATURES} features.",
        f"Differences in the data: {DIFFERENCES}.",
    )
    choices: ClassVar = {
        "candidates": Choice(("10", "50"), "Number of hyperparameter candidates of GBMAP in each split.")
    }

    def tasks(self, request: Request) -> list[Json]:
        candidates = QUICK_CANDIDATES if request.quick else int(request.choices["candidates"])
        names = QUICK_SETS if request.quick else SETS
        return [
            {"data": name, "candidates": candidates, "split": split}
            for name in names
            for split in range(request.repetitions)
        ]

    def work(self, folder: Path | None, task: Json) -> Json:
        name, split = task["data"], task["split"]
        if SETS[name].generated:
            table = cosines(ROWS, SYNTHETIC_FEATURES, classes=SETS[name].task is Task.CLASSIFICATION)
        else:
            table = read_set(folder, name)
        euclidean, embedding = scores(table, split, task["candidates"])
        return {"euclidean": euclidean, "embedding": embedding}

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for name, papers in PAPER.items():
            for distance, theirs in zip(("euclidean", "embedding"), papers, strict=True):
                if found := values(results, distance, data=name):
                    rows.append(Row(f"{name}, {distance}", found, theirs, "below", tolerance=0.0005))
        return rows


def scores(table: Table, split: int, candidates: int) -> tuple[float, float]:
    """Return the test scores (R² or accuracy) of a split with the Euclidean and with the embedding distance."""
    draws = np.random.Generator(np.random.PCG64([split, 2]))
    chosen = draws.permutation(len(table.targets))[:ROWS]
    table = Table(table.names, table.rows[chosen], table.categorical, table.targets[chosen], table.classes)
    train, test = parted(len(chosen), split, 0)
    tried: list[dict[str, Any]] = [drawn("gbmap", draws) | {"n_learners": LEARNERS} for _ in range(candidates)]
    _, parameters = search(table, "gbmap", train, tried, split)
    kind = GBMAPClassifier if table.classes else GBMAPRegressor
    neighbours = GBMAPNeighborsClassifier if table.classes else GBMAPNeighborsRegressor
    map = kind(categories=table.categorical, random_state=split, **parameters)
    embedded = neighbours(map, n_neighbors=NEIGHBOURS).fit(table.rows[train], table.targets[train])
    encoding = Encoding.learn(table.rows[train], table.categorical)
    plain = (KNeighborsClassifier if table.classes else KNeighborsRegressor)(NEIGHBOURS)
    plain.fit(encoding.encode(table.rows[train]), table.targets[train])
    return (
        float(plain.score(encoding.encode(table.rows[test]), table.targets[test])),
        float(embedded.score(table.rows[test], table.targets[test])),
    )
