"""The paper's data sets: its reported scores, and how the files differ from its data (003, Tables 1 and 4)."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from glasstream.gbmap.table import Table
from glasstream.ingest.admission import Task
from glasstream.sources.table_file import read_table

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
        The paper's areas under the ROC curve of the drift indicators (Table 4).
    categories
        Numeric columns that hold category codes.
    differs
        How the rows differ from the paper's; empty if no difference is known.
    """

    task: Task
    gbmap: float
    linear: float
    boosting: float
    auc: float
    auc_euclidean: float
    categories: tuple[str, ...] = ()
    differs: str = ""


_R, _C = Task.REGRESSION, Task.CLASSIFICATION

SETS: Final[dict[str, DataSet]] = {
    "concrete": DataSet(_R, 0.907, 0.582, 0.917, 0.73, 0.81),
    "auto_mpg": DataSet(
        _R,
        0.863,
        0.784,
        0.807,
        0.94,
        0.91,
        ("origin",),
        "7 features, the origin a category; Table 1 says 8",
    ),
    "cpu_small": DataSet(_R, 0.974, 0.713, 0.978, 0.91, 0.84),
    "wine_red": DataSet(_R, 0.396, 0.358, 0.395, 0.85, 0.77),
    "wine_white": DataSet(_R, 0.395, 0.290, 0.432, 0.95, 0.89),
    "abalone": DataSet(_R, 0.577, 0.526, 0.535, 0.95, 0.96),
    "air_quality": DataSet(_R, 0.922, 0.905, 0.912, 0.98, 0.96),
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
    "german_credit": DataSet(_C, 0.730, 0.767, 0.733, 0.65, 0.63),
    "higgs_10k": DataSet(
        _C, 0.681, 0.639, 0.703, 0.70, 0.67, (), "other 10,000 rows of HIGGS than the paper's, with 3 digits a number"
    ),
    "california_housing": DataSet(
        _R, 0.755, 0.602, 0.841, 0.74, 0.64, (), "8 features, as scikit-learn has them; Table 1 says 7"
    ),
}

TABLE_4: Final = tuple(name for name in SETS if name != "california_housing")
"""Data sets on which test scores are compared."""
DRIFT: Final = ("air_quality", "abalone", "concrete", "cpu_small", "california_housing")
"""Data sets on which drift detection is evaluated."""


def read_set(folder: Path, name: str, rows: int | None) -> Table:
    """Read a data set from its file `NAME.csv.gz` in a folder; at most so many rows."""
    one = SETS[name]
    return read_table(folder / f"{name}.csv.gz", TARGET, one.task, one.categories, rows)
