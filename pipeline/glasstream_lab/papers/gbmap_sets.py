"""Data sets of the GBMAP paper: its reported scores, and how our data differ (Patron et al. 2024, Tables 1 and 4)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.map import sigmoids
from glasstream.events.admission import Task
from glasstream_lab.gbmap.table import Table
from glasstream_lab.gbmap.table_file import read_table

TARGET: Final = "target"
"""Name of the target column in each file."""


@dataclass(frozen=True, slots=True)
class DataSet:
    """One data set.

    Attributes
    ----------
    task
        Classification is scored by accuracy, regression by R².
    gbmap, linear, boosting
        The paper's test scores (Table 4) of GBMAP, of least squares or logistic regression, and of XGBoost.
    auc, auc_euclidean
        The paper's areas under the ROC curve of the drift indicators (Table 4); None if it has none.
    categories
        Numeric columns that hold category codes.
    differs
        How the rows differ from the paper's; empty if no difference is known.
    generated
        Whether the rows are drawn instead of read from a file.
    """

    task: Task
    gbmap: float
    linear: float
    boosting: float
    auc: float | None
    auc_euclidean: float | None
    categories: tuple[str, ...] = ()
    differs: str = ""
    generated: bool = False


_R, _C = Task.REGRESSION, Task.CLASSIFICATION

SETS: Final[dict[str, DataSet]] = {
    "abalone": DataSet(_R, 0.577, 0.526, 0.535, 0.95, 0.96),
    "air_quality": DataSet(_R, 0.922, 0.905, 0.912, 0.98, 0.96),
    "auto_mpg": DataSet(
        _R, 0.863, 0.784, 0.807, 0.94, 0.91, ("origin",), "7 features, the origin a category; Table 1 says 8"
    ),
    "california_housing": DataSet(
        _R, 0.755, 0.602, 0.841, 0.74, 0.64, (), "8 features, as scikit-learn has them; Table 1 says 7"
    ),
    "concrete": DataSet(_R, 0.907, 0.582, 0.917, 0.73, 0.81),
    "cpu_small": DataSet(_R, 0.974, 0.713, 0.978, 0.91, 0.84),
    "qm9_10k": DataSet(
        _R,
        0.701,
        0.471,
        0.707,
        0.96,
        0.87,
        (),
        "several molecules weigh the same at the cut to 10,000, so a few may be others",
    ),
    "superconductor_sample": DataSet(
        _R, 0.874, 0.730, 0.911, 0.98, 0.97, (), "5,424 of 21,263 rows (the paper's drift experiment has 10,000)"
    ),
    "synth_cos_r": DataSet(_R, 0.452, 0.0, 0.025, None, None, (), "other draws than the paper's", generated=True),
    "wine_red": DataSet(_R, 0.396, 0.358, 0.395, 0.85, 0.77),
    "wine_white": DataSet(_R, 0.395, 0.290, 0.432, 0.95, 0.89),
    "breast_cancer_wdbc": DataSet(
        _C,
        0.965,
        0.953,
        0.971,
        0.51,
        0.59,
        (),
        "the diagnostic set of Wisconsin, as the size in Table 1 says; the paper's reference is of another",
    ),
    "pima_diabetes": DataSet(_C, 0.766, 0.775, 0.758, 0.63, 0.75),
    "eeg_eye_state": DataSet(_C, 0.755, 0.642, 0.944, 0.66, 0.74),
    "german_credit": DataSet(_C, 0.730, 0.767, 0.733, 0.65, 0.63),
    "higgs_10k": DataSet(
        _C, 0.681, 0.639, 0.703, 0.70, 0.67, (), "other 10,000 rows of HIGGS than the paper's, with 3 digits a number"
    ),
    "synth_cos_c": DataSet(_C, 0.583, 0.50, 0.582, None, None, (), "other draws than the paper's", generated=True),
}

FILES: Final = tuple(name for name, one in SETS.items() if not one.generated)
"""Data sets that are read from files."""
DIFFERENCES: Final = "; ".join(f"{name}: {one.differs}" for name, one in SETS.items() if one.differs)
"""How our data differ from the paper's."""
_COSINES: Final = (200_000, 200)
"""Rows and features of synth-cos."""


def read_set(folder: Path | None, name: str) -> Table:
    """Return a data set, read from its file `NAME.csv.gz` in a folder or generated.

    Raises
    ------
    InputError
        There is no folder, or the file is not valid.
    """
    one = SETS[name]
    if one.generated:
        return cosines(*_COSINES, classes=one.task is Task.CLASSIFICATION)
    if folder is None:
        raise InputError(f"{name}: expected a folder of data sets, got none")
    return read_table(folder / f"{name}.csv.gz", TARGET, one.task, one.categories)


def cosines(count: int, features: int, *, classes: bool, seed: int = 0) -> Table:
    """Draw synth-cos-r, or with classes synth-cos-c (Patron et al. 2024, 4.1)."""
    draws = np.random.Generator(np.random.PCG64(seed))
    direction = draws.normal(size=features)
    rows = draws.normal(size=(count, features))
    targets = 5.0 * np.cos(rows) @ (direction / np.linalg.norm(direction))
    targets -= targets.mean()
    names = tuple(f"x_{number}" for number in range(1, features + 1))
    if not classes:
        return Table(names, rows, (), targets)
    return Table(names, rows, (), (draws.uniform(size=count) < sigmoids(targets)).astype(np.float64), ("-1", "1"))
