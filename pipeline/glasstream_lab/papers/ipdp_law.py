"""The laws of iPDP: expectation, variance and error of the curve (Muschalik et al. 2023, Theorems 3.2 to 3.4).

The model is f(x) = x_1 + x_2, and x_2 is normal with mean 3 and variance 1. The partial dependence on x_1 is x_1 + 3,
and the variance of the predictions at a point is 1. If x_1 is either -1 or 1, these are the ends of the grid in every
row, as Theorem 3.2 requires. If x_1 is normal, the grid moves, and Theorem 3.3 holds because the model is linear.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Final, NamedTuple

import numpy as np

from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.sampling.settings import GridSettings
from glasstream.models.predictors.predictor import Floats
from glasstream_lab.papers.comparison import Row
from glasstream_lab.papers.experiment import Experiment, Request, Results, values
from glasstream_lab.papers.ipfi_laws import ALPHAS, COUNTS, DELTAS, RUNS, Sum
from glasstream_lab.papers.tasks import Json

MEAN: Final = 3.0
EFFECT: Final = MEAN + 1.0
"""Partial dependence at x_1 = 1, the highest point of the grid."""
POINTS: Final = 3
WINDOW: Final = 50


class Law(Experiment):
    """Theorems 3.2 to 3.4 of the paper on data with known constants."""

    name = "ipdp-law"
    paper = "iPDP"
    shows = "Theorems 3.2 to 3.4"
    summary = "Compare the smoothed curve with its theorems."
    minutes = 0.1
    repetitions = 25
    quick_repetitions = 8
    quick_omits = f"17 of 25 repetitions, each of which is {RUNS} streams"
    settings: ClassVar = (
        f"The theorems hold for every model; here it is linear. The grid has {POINTS} points between the extremes of "
        f"{WINDOW} rows, and the numbers are those of the highest point.",
        "The column of the paper has the numbers of the theorems. Theorem 3.4 is checked in the form of its proof, "
        "Chebyshev's inequality. It may be exceeded less often than it states.",
    )

    def tasks(self, request: Request) -> list[Json]:
        return [{"alpha": alpha, "seed": seed} for alpha in ALPHAS for seed in range(request.repetitions)]

    def work(self, folder: Path | None, task: Json) -> Json:
        alpha = task["alpha"]
        found = np.empty((RUNS, len(COUNTS), 3))
        for run in range(RUNS):
            draws = np.random.Generator(np.random.PCG64([task["seed"], run, ALPHAS.index(alpha)]))
            size = WINDOW + COUNTS[-1]
            staying, moving = (
                np.stack([one, draws.normal(MEAN, 1.0, size)], axis=1, dtype=np.float64)
                for one in (draws.choice([-1.0, 1.0], size), draws.normal(size=size))
            )
            estimators = [
                IncrementalPDP(
                    alpha=alpha, grid=GridSettings(grid="extremes", points=POINTS, window=WINDOW), start=WINDOW
                )
                for _ in range(2)
            ]
            for place, upto in enumerate(COUNTS):
                fixed, moved = _after(upto, estimators[0], staying), _after(upto, estimators[1], moving)
                found[run, place] = fixed.raw, fixed.curve - EFFECT, moved.curve - (moved.grid + MEAN)
        result: Json = {}
        for place, count in enumerate(COUNTS):
            raw, apart, moved_apart = found[:, place].T
            result[f"bias {count}"] = float(raw.mean() - EFFECT)
            result[f"variance {count}"] = float(raw.var(ddof=1))
            result[f"moving {count}"] = float(moved_apart.mean())
            for delta in DELTAS:
                result[f"exceeded {count} {delta}"] = float((np.abs(apart) > _error(alpha, count, delta)).mean())
        return result

    def rows(self, results: Results) -> Sequence[Row]:
        rows = []
        for alpha in ALPHAS:
            for count in COUNTS:
                forgotten = (1 - alpha) ** count
                of = f"alpha {alpha:g}, {count:,} events"
                bias, variance, moving = (
                    values(results, f"{kind} {count}", alpha=alpha) for kind in ("bias", "variance", "moving")
                )
                rows.append(Row(f"bias of the raw curve, {of}", bias, -forgotten * EFFECT))
                law = alpha / (2 - alpha) * (1 - forgotten**2)
                rows.append(Row(f"variance of the raw curve, {of}", variance, law, "above"))
                rows.append(Row(f"bias of the curve on a moving grid, {of}", moving, 0.0))
                for delta in DELTAS:
                    exceeded = values(results, f"exceeded {count} {delta}", alpha=alpha)
                    rows.append(Row(f"error of probability {delta:g} exceeded, {of}", exceeded, delta, "above"))
        return rows


class _Point(NamedTuple):
    """Highest point of a curve: its place, its height, and the height before division by the weight."""

    grid: float
    curve: float
    raw: float


def _after(count: int, pdp: IncrementalPDP, rows: Floats) -> _Point:
    """Explain until a number of events is explained, and return the highest point of the curve of x_1."""
    pdp.explain_block(Sum(), rows[pdp.rows : WINDOW + count])
    grid, curve, weight = (
        float(one[0, POINTS - 1, 0]) for one in (pdp.curves.grid, pdp.curves.curve, pdp.curves.weight)
    )
    return _Point(grid, curve, curve * weight)


def _error(alpha: float, count: int, delta: float) -> float:
    """Return the error of the debiased curve that Chebyshev's inequality allows to exceed with this probability."""
    forgotten = (1 - alpha) ** count
    return float(np.sqrt(alpha / (2 - alpha) * (1 + forgotten) / (1 - forgotten) / delta))
