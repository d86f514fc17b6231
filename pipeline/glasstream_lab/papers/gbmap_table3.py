"""Time of a GBMAP embedding and of PCA by rows and features (Patron et al. 2024, section 4.2, Table 3)."""

import time
from collections.abc import Sequence
from dataclasses import replace
from math import log10
from pathlib import Path
from typing import ClassVar, Final

from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.settings import PAPER_SCALING
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Choice, Experiment, Request, Results, values
from glasstream_lab.papers.gbmap_sets import cosines
from glasstream_lab.papers.tasks import Json

METHODS: Final = ("gbmap", "pca")
PAPER: Final = {
    (100_000, 100): (5.8, 0.9),
    (100_000, 200): (4.5, 1.5),
    (100_000, 400): (7.8, 3.1),
    (100_000, 800): (22.5, 8.5),
    (100_000, 1_600): (79.1, 27.3),
    (100_000, 3_200): (204.2, 106.3),
    (100_000, 25): (1.4, 0.1),
    (500_000, 25): (14.3, 0.5),
    (1_000_000, 25): (14.2, 0.9),
    (5_000_000, 25): (174.8, 4.9),
    (10_000_000, 25): (204.9, 9.8),
}
"""Seconds of GBMAP and of PCA by number of rows and of features."""
SMALL: Final = 40_000_000
"""Largest number of values of a small matrix."""
QUICK: Final = 10_000_000
GROWTH: Final = ((100_000, 25), (1_000_000, 25))
"""Sizes between which the growth of the time with the number of rows is measured."""
COMPONENTS: Final = 2


class Table3(Experiment):
    """Seconds of a fit, and how they grow with the number of rows."""

    name = "gbmap-table3"
    paper = "GBMAP"
    shows = "Table 3"
    summary = "Measure the time of embeddings by rows and features."
    minutes = 10
    quick_omits = f"all matrices of more than {QUICK:,} values, and eight of ten repetitions"
    settings = (
        "The paper's times are wall-clock times on two processors of a cluster, and contain what JAX compiles. Ours "
        "are CPU times in one thread, with kernels that are already compiled. So a verdict on seconds also compares "
        "two machines; the growth, the exponent of the number of rows in the time, does not.",
        f"Matrices of more than {SMALL:,} values (0.3 GB) need `--sizes all` and 10 GB of memory.",
        "PCA is scikit-learn's. ivis and LOL, which are other packages, are not run.",
        "Data are synth-cos-c. The settings are those of the paper: 2 components, beta 1, ridge 0.001 and at most 100 "
        "iterations.",
    )
    choices: ClassVar = {"sizes": Choice(("small", "all"), "Sizes of Table 3 to run.")}

    def tasks(self, request: Request) -> list[Json]:
        largest = QUICK if request.quick else SMALL if request.choices["sizes"] == "small" else None
        return [
            {"method": method, "rows": rows, "features": features, "seed": seed}
            for rows, features in PAPER
            if largest is None or rows * features <= largest
            for method in METHODS
            for seed in range(request.repetitions)
        ]

    def work(self, folder: Path | None, task: Json) -> Json:
        table = cosines(task["rows"], task["features"], classes=True, seed=task["seed"])
        if task["method"] == "gbmap":
            targets = 2.0 * table.targets - 1.0
            fit_map(table.rows[:100], targets[:100], replace(PAPER_SCALING, iterations=2))  # loads the kernels
            started = time.process_time()
            fit_map(table.rows, targets, replace(PAPER_SCALING, seed=task["seed"]))
        else:
            from sklearn.decomposition import PCA  # type: ignore[import-untyped]

            started = time.process_time()
            PCA(COMPONENTS, random_state=task["seed"]).fit_transform(table.rows)
        return {"seconds": time.process_time() - started}

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for (count, features), seconds in PAPER.items():
            for method, theirs in zip(METHODS, seconds, strict=True):
                if ours := values(results, "seconds", method=method, rows=count, features=features):
                    rows.append(
                        Row(f"{method}, {count:,} rows, {features:,} features", ours, theirs, "above", tolerance=0.05)
                    )
        for place, method in enumerate(METHODS):
            low, high = (
                values(results, "seconds", method=method, rows=count, features=features) for count, features in GROWTH
            )
            if low and high:
                theirs = growth(*(PAPER[size][place] for size in GROWTH))
                ours = [growth(*pair) for pair in zip(low, high, strict=False)]
                rows.append(Row(f"{method}, growth with the rows", ours, theirs, "above", tolerance=0.05))
        return rows


def growth(low: float, high: float) -> float:
    """Return the exponent of the number of rows in the time, from the first to the second size of `GROWTH`.

    Examples
    --------
    >>> growth(1.5, 15.0)
    1.0
    """
    return log10(high / low) / log10(GROWTH[1][0] / GROWTH[0][0])
