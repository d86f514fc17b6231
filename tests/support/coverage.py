"""Measure how often intervals of importance and of effect curves contain the exact value.

The models are fixed, and their features are independent and take few values. So the exact value is a sum over all
events, and each run is a stream of its own. `python tests/support/coverage.py --runs 1000` prints one line per
method, model, loss and sampling, with the lowest coverage among the features; for iPDP, one line per model and grid,
with the lowest coverage among the points of all curves.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations, product
from math import factorial, sqrt
from typing import Any, NamedTuple

import numpy as np

from glasstream.base.draws import stream_key
from glasstream.events.features import Kind
from glasstream.explain.estimators.incremental import IncrementalImportance
from glasstream.explain.estimators.ipdp import IncrementalPDP
from glasstream.explain.estimators.ipfi import IncrementalPFI
from glasstream.explain.estimators.isage import IncrementalSAGE
from glasstream.explain.losses import LOSSES, losses
from glasstream.explain.sage.contributions import first_largest
from glasstream.explain.sampling.grids import Grids, points
from glasstream.explain.sampling.reservoir import SAMPLINGS
from glasstream.explain.sampling.settings import GRIDS, GridName, GridSettings
from glasstream.models.predictors.predictor import Predictor
from tests.support.function_predictor import FunctionPredictor

ALPHA, RESERVOIR = 0.002, 100
ROWS = 1_600
"""Number of explained rows of a run, after which the weight of the smoothing is 0.96."""
LEVEL, LEAST = 0.95, 0.93

METHODS: dict[str, type[IncrementalImportance]] = {"iPFI": IncrementalPFI, "iSAGE": IncrementalSAGE}


@dataclass(frozen=True)
class Known:
    """A model of independent features, each uniform on `support`, and the law of the target given an event."""

    name: str
    predictor: Predictor
    support: tuple[float, ...]
    targets: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
    """Function from rows (n, d) to the (n, k) targets that they can have, and the probability of each."""

    @property
    def width(self) -> int:
        return len(self.predictor.features)

    @property
    def losses(self) -> list[str]:
        return [name for name, task in LOSSES.items() if task.value == self.predictor.task]

    def draw(self, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.Generator(np.random.PCG64(seed))
        rows = rng.choice(self.support, size=(count, self.width))
        targets, odds = self.targets(rows)
        place = (rng.random((count, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
        return rows, targets[np.arange(count), place]

    def risk(self, loss: str, rows: np.ndarray, values: np.ndarray) -> float:
        """Return the expected loss of one prediction (n, k) for each of all events."""
        targets, odds = self.targets(rows)
        labels = first_largest(values)
        costs = [losses(loss, values, labels, np.ascontiguousarray(target)) for target in targets.T]
        return float((np.column_stack(costs) * odds).sum(axis=1).mean())

    def exact(self, method: str, loss: str) -> np.ndarray:
        """Return the expectation of the importance of each feature."""
        rows = np.array(list(product(self.support, repeat=self.width)))
        said = self.predictor.evaluate(rows).values
        return (self._pfi if method == "iPFI" else self._sage)(loss, rows, said)

    def dependence(self, feature: int, values: np.ndarray) -> np.ndarray:
        """Return the partial dependence on a feature at values (...), for each output: (..., k)."""
        at, place = np.unique(values, return_inverse=True)
        others = np.array(list(product(self.support, repeat=self.width - 1)))
        rows = np.insert(np.tile(others, (len(at), 1)), feature, np.repeat(at, len(others)), axis=1)
        said = self.predictor.evaluate(rows).values
        return said.reshape(len(at), len(others), -1).mean(axis=1)[place.reshape(values.shape)]

    def _pfi(self, loss: str, rows: np.ndarray, said: np.ndarray) -> np.ndarray:
        found = np.zeros(self.width)
        for j in range(self.width):
            for value in self.support:
                switched = rows.copy()
                switched[:, j] = value
                found[j] += self.risk(loss, rows, self.predictor.evaluate(switched).values) / len(self.support)
        return found - self.risk(loss, rows, said)

    def _sage(self, loss: str, rows: np.ndarray, said: np.ndarray) -> np.ndarray:
        d = self.width
        grid = said.reshape(*[len(self.support)] * d, -1)
        risks = {}
        for size in range(d + 1):
            for present in combinations(range(d), size):
                absent = tuple(set(range(d)) - set(present))
                means = np.broadcast_to(grid.mean(axis=absent, keepdims=True), grid.shape)
                risks[present] = self.risk(loss, rows, np.ascontiguousarray(means.reshape(said.shape)))
        found = np.zeros(d)
        for present in risks:
            weight = factorial(len(present)) * factorial(d - len(present) - 1) / factorial(d) if len(present) < d else 0
            for j in set(range(d)) - set(present):
                found[j] += weight * (risks[present] - risks[tuple(sorted((*present, j)))])
        return found


def _number(score: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]:
    def targets(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return score(rows)[:, None] + np.array([-1.0, 1.0]), np.full((len(rows), 2), 0.5)

    return targets


def _linear(rows: np.ndarray) -> np.ndarray:
    return 2 * rows[:, 0] + rows[:, 1]


def _interaction(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0] * rows[:, 1] + 0.5 * rows[:, 2]


def _probabilities(rows: np.ndarray) -> np.ndarray:
    scores = np.column_stack([rows[:, 0], rows[:, 1] - 0.5 * rows[:, 0], np.zeros(len(rows))])
    odds = np.exp(scores)
    return odds / odds.sum(axis=1, keepdims=True)


def _classes(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The classes follow probabilities that the model does not know exactly."""
    odds = 0.8 * _probabilities(1.2 * rows) + 0.2 / 3
    return np.tile(np.arange(3.0), (len(rows), 1)), odds


def _steps(rows: np.ndarray) -> np.ndarray:
    second = np.where(rows[:, 0] > 0, np.where(rows[:, 1] > 0, 0.95, 0.6), np.where(rows[:, 2] > 0, 0.3, 0.05))
    return np.column_stack([1 - second, second])


def _labels(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.tile([0.0, 1.0], (len(rows), 1)), _steps(rows)


def _wavy(rows: np.ndarray) -> np.ndarray:
    return np.sin(3 * rows[:, 0]) + rows[:, 0] * rows[:, 1]


FOUR = (-1.5, -0.5, 0.5, 1.5)
MODELS = (
    Known("linear", FunctionPredictor(_linear, 3), FOUR, _number(_linear)),
    Known("interaction", FunctionPredictor(_interaction, 3), FOUR, _number(_interaction)),
    Known("three classes", FunctionPredictor(_probabilities, 3, ("a", "b", "c")), FOUR, _classes),
    Known("tree", FunctionPredictor(_steps, 3, ("no", "yes")), (-1.0, 1.0), _labels),
)
WAVY = Known("wavy", FunctionPredictor(_wavy, 2), tuple(np.linspace(-2, 2, 41)), _number(_wavy))
"""Its grids move from row to row."""


class Cell(NamedTuple):
    """A case of the law for importance."""

    method: str
    model: Known
    loss: str
    sampling: str

    def __str__(self) -> str:
        return f"{self.method}, {self.model.name}, {self.loss}, {self.sampling}"


def cells() -> Iterator[Cell]:
    for method, model, sampling in product(METHODS, MODELS, SAMPLINGS):
        yield from (Cell(method, model, loss, sampling) for loss in model.losses)


def estimator(cell: Cell, seed: int, **settings: Any) -> IncrementalImportance:
    settings = {"alpha": ALPHA, "reservoir": RESERVOIR, "seed": seed} | settings
    return METHODS[cell.method](None, cell.loss, sampling=cell.sampling, **settings)


def coverage(cell: Cell, runs: int, **settings: Any) -> np.ndarray | None:
    """Return (d,) the share of runs whose interval contains the exact value; None if there are no intervals."""
    exact = cell.model.exact(cell.method, cell.loss)
    inside = np.zeros(len(exact))
    for seed in range(runs):
        importance = estimator(cell, seed, **settings)
        rows, targets = cell.model.draw(RESERVOIR + ROWS, seed)
        importance.explain_block(cell.model.predictor, rows, targets)
        ends = importance.interval(LEVEL)
        if not ends:
            return None
        low, high = np.array(list(ends.values())).T
        # A feature that the model ignores has contributions of 0, up to rounding.
        inside += (low <= exact + 1e-12) & (exact - 1e-12 <= high)
    return inside / runs


class CurveCell(NamedTuple):
    """A case of the law for effect curves."""

    model: Known
    grid: GridName

    def __str__(self) -> str:
        return f"iPDP, {self.model.name}, {self.grid}"


def curve_cells() -> Iterator[CurveCell]:
    yield from (CurveCell(model, "quantile_range") for model in MODELS)
    yield from (CurveCell(WAVY, grid) for grid in GRIDS)


def curve_coverage(cell: CurveCell, runs: int) -> np.ndarray:
    """Return (curves, points), the share of runs whose interval at a point contains the exact expectation.

    That is the mean of the partial dependence at the point of each row's grid, by the rows' weight in the curve.
    """
    settings, kinds = GridSettings(grid=cell.grid, points=5), [Kind.NUMBER] * cell.model.width
    inside: Any = 0
    for seed in range(runs):
        rows, _ = cell.model.draw(RESERVOIR + ROWS, seed)
        pdp = IncrementalPDP(None, alpha=ALPHA, grid=settings, start=RESERVOIR, keep=0, seed=seed)
        pdp.explain_block(cell.model.predictor, rows)
        grids = Grids.empty(settings, stream_key(seed, ""))
        at = points(grids.pass_through(rows, kinds, 0, RESERVOIR), kinds, settings)
        weights = (1 - ALPHA) ** np.arange(len(at))[::-1]
        weights /= weights.sum()
        inside = inside + np.array([_holds(effect, cell.model, at, weights) for effect in pdp.effects()])
    return np.asarray(inside / runs)


def _holds(effect: dict[str, Any], model: Known, at: np.ndarray, weights: np.ndarray) -> np.ndarray:
    feature = model.predictor.features.index(effect["feature"])
    output = model.predictor.classes.index(effect["output"]) if effect["output"] else 0
    there = ~np.isnan(at[0, :, feature])
    exact = weights @ model.dependence(feature, at[:, there, feature])[..., output]
    return np.abs(np.array(effect["curve"]) - exact) <= np.array(effect["margin"], float) + 1e-12


def least(runs: int) -> float:
    """Return the smallest share that agrees with `LEAST` up to two standard errors."""
    return LEAST - 2 * sqrt(LEAST * (1 - LEAST) / runs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1_000, help="Number of streams per line.")
    parser.add_argument("--method", choices=[*METHODS, "iPDP"], help="Measure this method only.")
    runs, method = vars(parser.parse_args()).values()
    low: list[Cell | CurveCell] = []
    measured: Iterator[tuple[Cell | CurveCell, np.ndarray | None]] = chain(
        ((cell, coverage(cell, runs)) for cell in cells() if method in (None, cell.method)),
        ((cell, curve_coverage(cell, runs)) for cell in curve_cells() if method in (None, "iPDP")),
    )
    for cell, shares in measured:
        print(f"{cell!s:48} {'biased: no interval' if shares is None else f'{100 * shares.min():5.1f} %'}", flush=True)
        low += [] if shares is None or shares.min() >= least(runs) else [cell]
    if low:
        sys.exit(f"below {100 * LEAST:g} %: {', '.join(map(str, low))}")


if __name__ == "__main__":
    main()
