"""Pictures of an embedding and of a local explanation (Patron et al. 2024, 5.2 and appendix F, Figures 3 and 8)."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from glasstream.app.plots.embedding import principal_components
from glasstream.base.errors import InputError
from glasstream.detect.gbmap.estimators import GBMAPRegressor
from glasstream.detect.gbmap.settings import PAPER_DRIFT
from glasstream.models.predictors.predictor import Floats
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results
from glasstream_lab.papers.gbmap_contestants import parted
from glasstream_lab.papers.gbmap_sets import read_set
from glasstream_lab.papers.tasks import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLUSTER: Final = 1_000
"""Number of points of each of the clusters a, b1 and b2."""
CLUSTERS: Final = ("a", "b1", "b2")
MERGED: Final = 1.0
"""Distance of two centres, in widths of the clusters, up to which two clusters count as one."""
ROW: Final = 49
"""Number of the explained training row, counted from 0."""
MOST, LEAST = "C6H6(GT)", "AH"
"""Features with the largest and with no importance in the paper's Figure 3."""
SHARE: Final = 0.05
"""Share of all slopes up to which a feature counts as without importance."""


class Views(Experiment):
    """Clusters that differ in irrelevant features merge, and a local explanation names the features that count."""

    name = "gbmap-views"
    paper = "GBMAP"
    shows = "Figures 3 and 8"
    summary = "Draw an embedding and a local explanation."
    minutes = 1
    data = ("air_quality",)
    quick_data = ("air_quality",)
    quick_omits = "eight of ten repetitions"
    settings = (
        "The paper publishes pictures. Of Figure 8 it states that the clusters b1 and b2, which differ in irrelevant "
        f"features alone, merge in the embedding: their centres are at most {MERGED:g} width apart in the first two "
        "principal components. A width is the root of the mean variance within the two clusters, over both components.",
        f"Of Figure 3 it states that {MOST} is the most essential feature and that {LEAST} plays no role for the 50th "
        f"training row: the first has rank 1, and the second at most {SHARE:.0%} of all slopes. The paper does not "
        "state its training rows, so a repetition takes the 50th of another split.",
        f"The paper does not state the settings: {PAPER_DRIFT.learners} learners, beta {PAPER_DRIFT.beta:g}, ridge "
        f"{PAPER_DRIFT.ridge:g} and {PAPER_DRIFT.iterations} iterations, as in its drift experiment.",
        "Figures 2 and 4 to 7 belong to `gbmap-drift`, and Figure 1 to `gbmap-table5`.",
    )

    def tasks(self, request: Request) -> list[Json]:
        return [{"data": "air_quality", "seed": seed} for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        return clusters(CLUSTER, task["seed"]) | explanation(folder, task["seed"])

    def rows(self, results: Results) -> Sequence[Row]:
        found = [result for _, result in results]
        rows = []
        for space in ("embedding", "original space"):
            merged, apart = ([float(one[f"{space} {pair}"]) for one in found] for pair in ("b1 b2", "a b2"))
            theirs = 0.0 if space == "embedding" else None
            rows.append(Row(f"distance of b1 from b2, {space}", merged, theirs, "above", tolerance=MERGED))
            rows.append(Row(f"distance of a from b2, {space}", apart, None))
        ranks = [float(one["rank"]) for one in found]
        shares = [float(one["shares"][one["names"].index(LEAST)]) for one in found]
        rows.append(Row(f"rank of {MOST}", ranks, 1.0, "above"))
        rows.append(Row(f"share of {LEAST}", shares, 0.0, "above", tolerance=SHARE))
        return rows

    def figure(self, results: Results) -> "Figure":
        """Return the two views of the clusters and the local explanation, for the first repetition."""
        from matplotlib.figure import Figure

        one = results[0][1]
        figure = Figure(figsize=(13, 3.5), layout="constrained")
        axes = figure.subplots(1, 3)
        for panel, space in zip(axes, ("embedding", "original space"), strict=False):
            for name, points in zip(CLUSTERS, one[f"{space} points"], strict=True):
                panel.scatter(*np.array(points).T, s=4, label=name)
            panel.set(title=f"first two principal components, {space}")
            panel.legend(fontsize=7)
        axes[2].barh(one["names"], one["slopes"])
        axes[2].set(title="slopes at the 50th training row, air_quality")
        return figure


def clusters(count: int, seed: int) -> Json:
    """Return how far apart three clusters are in the embedding and in the original space, and their points there.

    Only the first four of eight features decide the target. Cluster a differs from b2 in these, and b1 in the others
    (equations 17 and 18).
    """
    draws = np.random.Generator(np.random.PCG64(seed))
    rows = draws.normal(size=(3 * count, 8))
    rows[:count, :4] += 4.0
    rows[count : 2 * count, 4:] += 4.0
    direction = np.append(draws.normal(size=4), np.zeros(4))
    targets = np.cos(rows) @ (direction / np.linalg.norm(direction))
    model = _regressor(seed).fit(rows, targets)
    result: Json = {}
    for space, points in (("embedding", model.transform(rows)), ("original space", rows)):
        placed, _ = principal_components(points)
        parts = placed.reshape(3, count, 2)
        result[f"{space} b1 b2"] = apart(parts[1], parts[2])
        result[f"{space} a b2"] = apart(parts[0], parts[2])
        result[f"{space} points"] = parts[:, :200].tolist()
    return result


def apart(one: Floats, other: Floats) -> float:
    """Return the distance of the centres of two sets of points, in units of their width.

    Examples
    --------
    >>> apart(np.array([[0.0, -1.0], [0.0, 1.0]]), np.array([[3.0, -1.0], [3.0, 1.0]]))
    4.242640687119285
    """
    width = np.sqrt((one.var(axis=0) + other.var(axis=0)).mean() / 2)
    return float(np.linalg.norm(one.mean(axis=0) - other.mean(axis=0)) / width)


def explanation(folder: Path | None, seed: int) -> Json:
    """Return the slopes at a training row of air_quality, their shares, and the rank of the feature `MOST`."""
    if folder is None:
        raise InputError("air_quality: expected a folder of data sets, got none")
    table = read_set(folder, "air_quality")
    train, _ = parted(len(table.targets), seed, 0)
    model = _regressor(seed).fit(table.rows[train], table.targets[train])
    slopes = model.attributions(table.rows[train[ROW : ROW + 1]])[0]
    sizes = np.abs(slopes)
    rank = 1 + int((sizes > sizes[table.names.index(MOST)]).sum())
    return {
        "names": list(table.names), "slopes": slopes.tolist(), "shares": (sizes / sizes.sum()).tolist(), "rank": rank,
    }  # fmt: skip


def _regressor(seed: int) -> Any:
    return GBMAPRegressor(
        n_learners=PAPER_DRIFT.learners, beta=PAPER_DRIFT.beta, ridge=PAPER_DRIFT.ridge,
        max_iter=PAPER_DRIFT.iterations, random_state=seed,
    )  # fmt: skip
