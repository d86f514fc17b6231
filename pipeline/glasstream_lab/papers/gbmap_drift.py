"""How well the indicators detect a drift that a split creates (Patron et al. 2024, 4.1 and 4.5, Table 4).

The rows are cut in half in the order of one feature, which is then dropped. The first half is what a model learns, the
second what it meets later. The chosen feature is the one whose split raises the model's loss most.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.encoding import Encoding, scale_of
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.indicator import DriftIndicator, calibrate
from glasstream.detect.gbmap.map import BoostedMap
from glasstream.detect.gbmap.rows import Floats
from glasstream.detect.gbmap.settings import PAPER_DRIFT, SENSITIVE, GbmapSettings
from glasstream_lab.gbmap.table import Table
from glasstream_lab.papers.comparison import Row, of_one_run
from glasstream_lab.papers.experiment import Choice, Experiment, Request, Results, values
from glasstream_lab.papers.gbmap_sets import DIFFERENCES, FILES, SETS, read_set
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

QUANTILE: Final = 0.95
"""Quantile of the losses on a2. A row with a larger loss should be flagged."""
RATE: Final = 0.05
"""Requested share of flags among rows without drift."""
RESAMPLINGS: Final = 20
"""Number of random splits of a2 into rows that calibrate a threshold and rows that test it."""
FEWEST: Final = 160
"""Smallest number of rows. An eighth of them suffices to calibrate a threshold."""
QUICK_SETS: Final = ("auto_mpg", "concrete", "wine_red", "pima_diabetes")

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Drifted:
    """Result for one data set and seed.

    Attributes
    ----------
    feature
        The feature that was split by and dropped.
    drift
        Mean loss on b minus mean loss on a2: squared, in units of the target's variance, or logistic.
    gbmap, euclidean
        Area under the ROC curve of either indicator over the rows of a2 and b.
    positives
        Share of the rows of a2 and b whose loss exceeds the quantile on a2.
    flagged
        Share of the rows of a2 above a threshold that was calibrated on other rows of a2, averaged over resamplings.
    stated
        Share of flags that the calibration states for such a threshold.
    """

    feature: str
    drift: float
    gbmap: float
    euclidean: float
    positives: float
    flagged: float
    stated: float


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """A data set that is cut in half by a feature, and the map of the rows to learn.

    Attributes
    ----------
    map
        The map.
    rows
        All rows, encoded, without the feature.
    known, within, beyond
        Indices of the rows in a1, which the model learns, in a2, the other part of the first half, and in b, the second
        half.
    """

    map: BoostedMap
    rows: Floats
    known: Integers
    within: Integers
    beyond: Integers

    def losses(self, targets: Floats) -> Floats:
        """Return the loss of each row: squared, or logistic."""
        predicted = self.map.predict(self.rows)
        if self.map.loss == "logistic":
            return np.logaddexp(0.0, -targets * predicted)
        return np.square(targets - predicted)

    def excess(self, targets: Floats) -> float:
        """Return the mean loss on b minus that on a2, by which the paper chooses the feature."""
        losses = self.losses(targets)
        return float(losses[self.beyond].mean() - losses[self.within].mean())


def drift(
    table: Table,
    seed: int,
    settings: GbmapSettings = PAPER_DRIFT,
    *,
    indicator: GbmapSettings | None = None,
    feature: str | None = None,
    by_score: bool = False,
) -> Drifted:
    """Split a data set by each numeric feature, and judge the indicators on the split with the most drift.

    Rows and target are standardised over all rows, as in the paper. Categorical features do not split the rows, because
    a column of zeros and ones has no halves.

    Parameters
    ----------
    table
        Data set.
    seed
        Random seed of the cut of the first half into a1 and a2, of the fits, and of the resamplings.
    settings
        Settings of the maps. Their loss follows from the table.
    indicator
        Settings of another map for the indicator; None uses the map whose losses are to be detected.
    feature
        Only feature to split by; None for all numeric features.
    by_score
        Whether the loss to detect, for two classes, is the squared distance of f from the score of a logistic
        regression on all rows; else it is the logistic loss.

    Raises
    ------
    InputError
        There are other than two classes, the named feature does not exist or is not a number, there are fewer than two
        features or no number among them, or there are too few rows.
    """
    if len(table.classes) not in (0, 2):
        raise InputError(f"drift: expected a number or two classes as target, got {len(table.classes)} classes")
    numbers = [column for column in range(len(table.names)) if column not in table.categorical]
    if feature is not None:
        numbers = [column for column in numbers if table.names[column] == feature]
        if not numbers:
            raise InputError(f"drift: expected a number among {', '.join(table.names)} to split by, got {feature!r}")
    if not numbers or len(table.names) < 2:
        raise InputError("drift: expected at least 2 features, a number among them, to split by one and keep the other")
    if len(table.rows) < FEWEST:
        raise InputError(f"drift: expected at least {FEWEST} rows, got {len(table.rows)}")
    if table.classes:
        settings = replace(settings, loss="logistic", seed=seed)
        targets = 2.0 * table.targets - 1.0
    else:
        settings = replace(settings, loss="quadratic", seed=seed)
        centre, deviation = scale_of(table.targets)
        targets = (table.targets - centre) / deviation
    draws = np.random.Generator(np.random.PCG64(seed))
    splits = [(column, split_at(table, targets, column, settings, draws)) for column in numbers]
    fitted = [(split.excess(targets), column, split) for column, split in splits if split is not None]
    if not fitted:
        raise InputError("drift: expected a feature whose lower half has rows of both classes, got none")
    most, column, split = max(fitted, key=lambda one: one[0])
    known, own = split.rows[split.known], split.map
    if indicator is not None:
        own = fit_map(known, targets[split.known], replace(indicator, loss=settings.loss, seed=seed)).map
    judged = DriftIndicator.of(own, known, targets[split.known])
    if table.classes and by_score:
        losses = np.square(scores_of(table) - split.map.predict(split.rows))
    else:
        losses = split.losses(targets)
    return Drifted(
        table.names[column],
        most,
        *_areas(split, judged, losses),
        *_flags(judged.indicator(split.rows[split.within]), draws),
    )


def scores_of(table: Table) -> Floats:
    """Return the score of each row by a logistic regression without penalty on all rows."""
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    rows = Encoding.learn(table.rows, table.categorical).encode(table.rows)
    model = LogisticRegression(C=np.inf, max_iter=1_000).fit(rows, table.targets)
    return np.asarray(model.decision_function(rows), np.float64)


def split_at(
    table: Table, targets: Floats, column: int, settings: GbmapSettings, draws: np.random.Generator
) -> Split | None:
    """Return the split by a feature with its map, or None if the rows to learn are all of one class."""
    order = np.argsort(table.rows[:, column], kind="stable")
    half = len(order) // 2
    first = draws.permutation(order[:half])
    known, within = first[: half // 2], first[half // 2 :]
    if table.classes and np.ptp(targets[known]) == 0.0:
        return None
    kept = [other for other in range(len(table.names)) if other != column]
    categorical = [place for place, other in enumerate(kept) if other in table.categorical]
    raw = table.rows[:, kept]
    rows = Encoding.learn(raw, categorical).encode(raw)
    return Split(fit_map(rows[known], targets[known], settings).map, rows, known, within, order[half:])


def _areas(split: Split, indicator: DriftIndicator, losses: Floats) -> tuple[float, float, float]:
    asked = np.concatenate((split.within, split.beyond))
    positive = losses[asked] > np.quantile(losses[split.within], QUANTILE)
    rows = split.rows[asked]
    areas = (area(indicator.indicator(rows), positive), area(indicator.baseline(rows), positive))
    return *areas, float(positive.mean())


def _flags(indicators: Floats, draws: np.random.Generator) -> tuple[float, float]:
    half = len(indicators) // 2
    shares, stated = [], 0.0
    for _ in range(RESAMPLINGS):
        mixed = draws.permutation(indicators)
        threshold = calibrate(mixed[:half], RATE)
        shares.append(float(threshold.flags(mixed[half:]).mean()))
        stated = threshold.rate  # depends on the number of rows alone
    return float(np.mean(shares)), stated


def area(scores: Floats, positive: npt.NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: the chance that a positive row scores above a negative one, ties count half.

    >>> import numpy as np
    >>> area(np.array([0.1, 0.4, 0.35, 0.8]), np.array([False, False, True, True]))
    0.75
    """
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    hits = int(positive.sum())
    others = len(scores) - hits
    if not hits or not others:
        raise InputError("drift: expected rows above the quantile and below it, got one sort only")
    return float((ranks[positive].sum() - hits * (hits + 1) / 2) / (hits * others))


class Drift(Experiment):
    """GBMAP's drift indicator against the Euclidean distance."""

    name = "gbmap-drift"
    paper = "GBMAP"
    shows = "Table 4 (drift), Figures 4 to 7"
    summary = "Detect, without labels, the rows on which a model fails."
    minutes = 30
    data = FILES
    quick_data = QUICK_SETS
    quick_omits = f"all data sets but {', '.join(QUICK_SETS)}, and eight of ten seeds"
    settings = (
        "The numbers are areas under the ROC curve. The paper shows one run, whose spread counts as that of ours.",
        "--start normal is that of the authors' code: N(0, 1), every learner kept, end at a gradient of 1e-3. rows "
        "has the start that fits best. indicator has a model that starts in the rows, and an indicator whose own map "
        "starts from N(0, 1).",
        "Numeric features alone split the rows. Rows whose value is at the median fall to either half in their order.",
        f"flags/promise: share of flags among the rows of a2, with a threshold for {RATE:.0%} that was calibrated on "
        "other rows of a2, divided by the share that the calibration promises. The paper has no thresholds.",
        "For a classification, section 4.5 names two losses that the indicators should detect. --loss logistic has the "
        "loss by which it defines a row out of distribution, score the squared distance from the actual score. The "
        "areas in Table 4 agree with the former, but for breast_cancer_wdbc.",
        "The score of --loss score is that of a logistic regression without penalty on all rows and all features, "
        "with at most 1,000 iterations. The classes of breast_cancer_wdbc can be separated, so its scores depend on "
        "where the regression ends.",
        f"Differences in the data: {DIFFERENCES}.",
    )

    choices: ClassVar = {
        "start": Choice(("normal", "rows", "indicator"), "Initial learners of the map and of the indicator."),
        "loss": Choice(("logistic", "score"), "For two classes, the loss that the indicators should detect."),
    }

    def tasks(self, request: Request) -> list[Json]:
        names = QUICK_SETS if request.quick else FILES
        return [
            {"data": name, "start": request.choices["start"], "loss": request.choices["loss"], "seed": seed}
            for name in names
            for seed in range(request.repetitions)
        ]

    def work(self, folder: Path | None, task: Json) -> Json:
        model = SENSITIVE if task["start"] == "normal" else PAPER_DRIFT
        indicator = SENSITIVE if task["start"] == "indicator" else None
        table, by_score = read_set(folder, task["data"]), task["loss"] == "score"
        return asdict(drift(table, task["seed"], model, indicator=indicator, by_score=by_score))

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for name in FILES:
            features = Counter(result["feature"] for task, result in results if task["data"] == name).most_common()
            if not features:
                continue
            dropped = ", ".join(f"{feature} ({count})" for feature, count in features[:2])
            more = f" and {len(features) - 2} more" if len(features) > 2 else ""
            gbmap, euclidean = (values(results, key, data=name) for key in ("gbmap", "euclidean"))
            number = f"{name} without {dropped}{more}: GBMAP"
            rows.append(of_one_run(Row(number, gbmap, SETS[name].auc, "below", tolerance=0.005)))
            number = f"{name}: Euclidean"
            rows.append(of_one_run(Row(number, euclidean, SETS[name].auc_euclidean, "apart", tolerance=0.005)))
            flags = zip(*(values(results, key, data=name) for key in ("flagged", "stated")), strict=True)
            rows.append(Row(f"{name}: flags/promise", [flagged / stated for flagged, stated in flags], None))
        return rows

    def figure(self, results: Results) -> "Figure":
        """Return the areas of all seeds by data set, with a cross for the paper's."""
        from matplotlib.figure import Figure

        names = [name for name in FILES if values(results, "gbmap", data=name)]
        figure = Figure(figsize=(10, 0.35 * len(names) + 1.5), layout="constrained")
        papers = {"gbmap": "auc", "euclidean": "auc_euclidean"}
        for axes, (key, theirs) in zip(figure.subplots(1, 2, sharey=True), papers.items(), strict=True):
            for place, name in enumerate(names):
                found = values(results, key, data=name)
                axes.plot(found, [place] * len(found), ".", color="tab:blue")
                axes.plot(getattr(SETS[name], theirs), place, "x", color="tab:red")
            axes.set_yticks(range(len(names)), names)
            axes.set_title(f"{key}: area under the ROC curve", fontsize=9)
        return figure
