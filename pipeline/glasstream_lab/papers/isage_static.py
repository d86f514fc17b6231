"""iSAGE against batch SAGE on fitted models (Muschalik, Fumagalli et al. 2023, section 4.1, Figures 4 and 9)."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from river import forest, tree

from glasstream.base.errors import InputError
from glasstream.events.admission import Task
from glasstream.events.features import FeatureTable
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.models.predictors.predictor import Floats, Predictor
from glasstream.models.river.compile import compile_model
from glasstream_lab.batch_sage import batch_sage
from glasstream_lab.gbmap.table import Table
from glasstream_lab.gbmap.table_file import read_table
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.models import ScikitLearnPredictor
from glasstream_lab.papers.tasks import Json

ALPHAS: Final = (0.001, 0.0005)
INNER: Final = 5
RESERVOIR: Final = 100
EXPLAINED: Final = 6_000
"""Number of rows at the end of an ordering that are explained."""
SHOWN: Final = 3
"""Number of features of each data set in the table, the most important ones by batch SAGE."""


class DataSet(NamedTuple):
    """Data set, its task, its model and its loss."""

    task: Task
    model: Callable[[Table], Predictor]
    loss: str


def _boosting(table: Table) -> Predictor:
    from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]

    model = HistGradientBoostingClassifier(max_iter=70, learning_rate=0.2, max_depth=15, random_state=0)
    return ScikitLearnPredictor(model.fit(table.rows, table.targets.astype(np.int64)), table.names)


def _random_forest(table: Table) -> Predictor:
    from sklearn.ensemble import RandomForestClassifier

    model = RandomForestClassifier(15, min_samples_leaf=5, random_state=0)
    return ScikitLearnPredictor(model.fit(table.rows, table.targets.astype(np.int64)), table.names)


def _learned(model: Any, table: Table) -> Predictor:
    """Return a River regressor that has learned the rows in random order."""
    for at in np.random.Generator(np.random.PCG64(0)).permutation(len(table.targets)).tolist():
        model.learn_one(dict(zip(table.names, table.rows[at].tolist(), strict=True)), float(table.targets[at]))
    features = FeatureTable()
    features.encode(dict.fromkeys(table.names, 0.0))
    return compile_model(model, features, None)


def _adaptive_forest(table: Table) -> Predictor:
    return _learned(forest.ARFRegressor(3, seed=0), table)


def _adaptive_tree(table: Table) -> Predictor:
    return _learned(tree.HoeffdingAdaptiveTreeRegressor(leaf_prediction="mean", seed=0), table)


SETS: Final = {
    "bank_marketing": DataSet(Task.CLASSIFICATION, _boosting, "cross_entropy"),
    "california_housing": DataSet(Task.REGRESSION, _adaptive_forest, "squared"),
    "adult": DataSet(Task.CLASSIFICATION, _random_forest, "cross_entropy"),
    "bike_hourly": DataSet(Task.REGRESSION, _adaptive_tree, "squared"),
}
QUICK_SETS: Final = ("bike_hourly",)


class Static(Experiment):
    """Mean of iSAGE over orderings of a data set, compared with batch SAGE, for models that do not change."""

    name = "isage-static"
    paper = "iSAGE"
    shows = "Figures 4 and 9"
    summary = "Compare iSAGE with batch SAGE for static models."
    minutes = 8
    data = tuple(SETS)
    quick_data = QUICK_SETS
    repetitions = 20
    quick_repetitions = 5
    quick_omits = "three data sets, and 15 of 20 orderings"
    settings = (
        "The paper publishes box plots. In place of its numbers stand the values of our batch SAGE over all rows with "
        f"the same m, for the {SHOWN} most important features and for the sum of all; their errors are known.",
        f"The paper does not state m ({INNER}), the reservoir ({RESERVOIR} rows, geometric) and the losses "
        f"(cross-entropy, squared). Only the last {EXPLAINED:,} rows of an ordering are explained.",
        "Histogram gradient boosting replaces LightGBM, with the same parameters; leaves of the random forest have at "
        "least 5 rows, so that cross-entropy does not depend on where it is clipped; leaves of the adaptive tree "
        "predict their means. bike has hourly counts.",
    )

    def tasks(self, request: Request) -> list[Json]:
        names = QUICK_SETS if request.quick else tuple(SETS)
        return [{"data": name, "seed": seed} for name in names for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        if folder is None:
            raise InputError(f"{task['data']}: expected a folder of data sets, got none")
        return compare(fitted(folder, task["data"]), SETS[task["data"]].loss, task["seed"])

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for name in SETS:
            found = [result for task, result in results if task["data"] == name]
            if not found:
                continue
            batch, error = (np.array(found[0][key]) for key in ("batch", "errors"))
            top = np.argsort(-batch, kind="stable")[:SHOWN]
            for alpha in ALPHAS:
                for slot in top.tolist():
                    number = f"{name}, {found[0]['names'][slot]}, alpha {alpha:g}"
                    ours = [float(one[f"values {alpha:g}"][slot]) for one in found]
                    rows.append(Row(number, ours, float(batch[slot]), paper_error=float(error[slot])))
                sums = values(results, f"sum {alpha:g}", data=name)
                total, of_total = found[0]["total"]
                rows.append(Row(f"{name}, sum, alpha {alpha:g}", sums, total, paper_error=of_total))
        return rows


class Fitted(NamedTuple):
    """A model with its data, and batch SAGE with its standard errors."""

    predictor: Predictor
    rows: Floats
    targets: Floats
    batch: Floats
    errors: Floats
    total: tuple[float, float]
    """Sum of the values, and its standard error."""


@cache
def fitted(folder: Path, name: str) -> Fitted:
    """Return a data set with its fitted model and its batch SAGE; every process does this once."""
    one = SETS[name]
    table = read_table(folder / f"{name}.csv.gz", "target", one.task, ())
    whole = ~np.isnan(table.rows).any(axis=1)
    table = Table(table.names, table.rows[whole], table.categorical, table.targets[whole], table.classes)
    return explained(one.model(table), one.loss, table.rows, table.targets)


def explained(predictor: Predictor, loss: str, rows: Floats, targets: Floats) -> Fitted:
    """Return a model with batch SAGE of all rows."""
    sage = batch_sage(predictor, loss, rows, targets, inner=INNER, corrected=False)
    sums = sage.contributions.sum(axis=1)
    total = float(sums.mean()), float(sums.std() / np.sqrt(len(sums)))
    return Fitted(predictor, rows, targets, sage.values, sage.standard_errors, total)


def compare(one: Fitted, loss: str, seed: int) -> Json:
    """Return iSAGE values of a random ordering, with those of batch SAGE."""
    count = len(one.targets)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(count)
    result: Json = {
        "names": list(one.predictor.features), "batch": one.batch.tolist(), "errors": one.errors.tolist(),
        "total": list(one.total),
    }  # fmt: skip
    for alpha in ALPHAS:
        sage = IncrementalSAGE(
            loss=loss, alpha=alpha, inner=INNER, reservoir=RESERVOIR, start=max(RESERVOIR, count - EXPLAINED),
            corrected=False, seed=seed,
        )  # fmt: skip
        sage.explain_block(one.predictor, one.rows[order], one.targets[order])
        found = sage.aggregator.smoothing.value
        result[f"values {alpha:g}"], result[f"sum {alpha:g}"] = found.tolist(), float(found.sum())
    return result
