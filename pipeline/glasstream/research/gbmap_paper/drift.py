"""Measure how well the indicators detect a drift that a split creates (003, 4.1 and 4.5).

The rows are cut in half in the order of one feature, which is then dropped. The first half is what a model learns, the
second what it meets later. The chosen feature is the one whose split raises the model's loss most.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from rich.table import Table as Shown

from glasstream.errors import InputError
from glasstream.gbmap.encoding import Encoding, scale_of
from glasstream.gbmap.fit import fit_map
from glasstream.gbmap.indicator import DriftIndicator, calibrate
from glasstream.gbmap.map import BoostedMap
from glasstream.gbmap.rows import Floats
from glasstream.gbmap.settings import PAPER_DRIFT, GbmapSettings
from glasstream.gbmap.table import Table
from glasstream.research.gbmap_paper.sets import SETS, read_set
from glasstream.research.gbmap_paper.tasks import Json

QUANTILE: Final = 0.95
"""Quantile of the losses on a2. A row with a larger loss should be flagged."""
RATE: Final = 0.05
"""Requested share of flags among rows without drift."""
RESAMPLINGS: Final = 20
"""Number of random splits of a2 into rows that calibrate a threshold and rows that test it."""
FEWEST: Final = 160
"""Smallest number of rows. An eighth of them suffices to calibrate a threshold."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Drifted:
    """Result for one data set and seed.

    Attributes
    ----------
    feature
        The feature that was split by and dropped.
    drift
        Mean loss on b minus mean loss on a2, in units of the target's variance.
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
class _Split:
    map: BoostedMap
    rows: Floats
    """All rows, encoded, without the feature."""
    known: Integers
    """Indices of the rows in a1, which the model learns."""
    within: Integers
    """Indices of the rows in a2, the other part of the first half."""
    beyond: Integers
    """Indices of the rows in b, the second half."""

    def losses(self, targets: Floats) -> Floats:
        """Return the squared losses of all rows."""
        return np.square(targets - self.map.predict(self.rows))


def drift(table: Table, seed: int, settings: GbmapSettings = PAPER_DRIFT, *, feature: str | None = None) -> Drifted:
    """Split a regression data set by each numeric feature, and judge the indicators on the split with the most drift.

    Rows and target are standardised over all rows, as in the paper. Categorical features do not split the rows, because
    a column of zeros and ones has no halves.

    Parameters
    ----------
    table
        Data set.
    seed
        Random seed of the cut of the first half into a1 and a2, of the fits, and of the resamplings.
    settings
        Settings of the maps.
    feature
        Only feature to split by; None for all numeric features.

    Raises
    ------
    InputError
        The target is a class, the named feature does not exist or is not a number, there are fewer than two features or
        no number among them, or there are too few rows.
    """
    if table.classes:
        raise InputError("drift: expected a number as target, got classes")
    numbers = [column for column in range(len(table.names)) if column not in table.categorical]
    if feature is not None:
        numbers = [column for column in numbers if table.names[column] == feature]
        if not numbers:
            raise InputError(f"drift: expected a number among {', '.join(table.names)} to split by, got {feature!r}")
    if not numbers or len(table.names) < 2:
        raise InputError("drift: expected at least 2 features, a number among them, to split by one and keep the other")
    if len(table.rows) < FEWEST:
        raise InputError(f"drift: expected at least {FEWEST} rows, got {len(table.rows)}")
    centre, deviation = scale_of(table.targets)
    targets = (table.targets - centre) / deviation
    draws = np.random.Generator(np.random.PCG64(seed))
    made: list[tuple[float, int, _Split]] = []
    for column in numbers:
        split = _split(table, targets, column, replace(settings, seed=seed), draws)
        losses = split.losses(targets)
        made.append((float(losses[split.beyond].mean() - losses[split.within].mean()), column, split))
    most, column, split = max(made, key=lambda one: one[0])
    indicator = DriftIndicator.of(split.map, split.rows[split.known], targets[split.known])
    return Drifted(
        table.names[column],
        most,
        *_areas(split, indicator, targets),
        *_flags(indicator.indicator(split.rows[split.within]), draws),
    )


def _split(table: Table, targets: Floats, column: int, settings: GbmapSettings, draws: np.random.Generator) -> _Split:
    order = np.argsort(table.rows[:, column], kind="stable")
    half = len(order) // 2
    first = draws.permutation(order[:half])
    known, within = first[: half // 2], first[half // 2 :]
    kept = [other for other in range(len(table.names)) if other != column]
    categorical = [place for place, other in enumerate(kept) if other in table.categorical]
    raw = table.rows[:, kept]
    rows = Encoding.learn(raw, categorical).encode(raw)
    return _Split(fit_map(rows[known], targets[known], settings).map, rows, known, within, order[half:])


def _areas(split: _Split, indicator: DriftIndicator, targets: Floats) -> tuple[float, float, float]:
    losses = split.losses(targets)
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


class DriftExperiment:
    """One task of the drift experiment, which any process can run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, asked: Json) -> Json:
        table = read_set(self.folder, asked["data"], asked["rows"])
        return asdict(drift(table, asked["seed"], feature=asked["feature"]))


def show_drift(names: Iterable[str], seeds: int, found: list[tuple[Json, Json]]) -> Shown:
    """Return the table of the areas under the ROC curve beside those of the paper."""
    shown = Shown(
        title=f"Drift, 003, 4.5: area under the ROC curve, median (least to largest) of {seeds} seeds",
        title_justify="left",
    )
    columns = ("data", "GBMAP", "paper", "Euclidean", "paper", "dropped (seeds)", "drift", "positives", "flags/stated")
    for column in columns:
        shown.add_column(column, justify="left" if column in ("data", "dropped (seeds)") else "right")
    for name in names:
        came = [result for one, result in found if one["data"] == name]
        features = Counter(result["feature"] for result in came).most_common()
        shown.add_row(
            name,
            _range(came, "gbmap"),
            f"{SETS[name].auc:.2f}",
            _range(came, "euclidean"),
            f"{SETS[name].auc_euclidean:.2f}",
            ", ".join(f"{feature} ({count})" for feature, count in features),
            _range(came, "drift"),
            _range(came, "positives"),
            _range([{"ratio": one["flagged"] / one["stated"]} for one in came], "ratio"),
        )
    return shown


def _range(came: Sequence[Mapping[str, Any]], key: str) -> str:
    """Format the median and the range of a number.

    >>> _range([{"x": 0.5}, {"x": 0.75}, {"x": 0.25}], "x")
    '0.50 (0.25 to 0.75)'
    """
    values = [float(one[key]) for one in came]
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
