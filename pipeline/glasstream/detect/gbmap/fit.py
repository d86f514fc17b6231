"""Fit a map: greedy boosting, each learner by L-BFGS for both signs (003, 3.2).

The paper leaves open where L-BFGS starts and when it ends. Here the first start follows the loss that is left in the
rows (`glasstream.detect.gbmap.starts`). Further starts, if requested, are random combinations of rows. A run ends by
`GbmapSettings.tolerance`. A first run on a part of the rows saved no time (measured).

A learner that does not lower the objective, loss plus penalty, below the loss before it is replaced by the learner
that is 0 everywhere, whose penalty is 0. The loss therefore never rises from one learner to the next.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize  # type: ignore[import-untyped]
from scipy.special import ndtri  # type: ignore[import-untyped]

from glasstream.base.draws import below, permute, stream_key, uniform
from glasstream.base.errors import InputError
from glasstream.detect.gbmap.map import BoostedMap, Model, start_values
from glasstream.detect.gbmap.objective import Step, Tiles, mean_loss
from glasstream.detect.gbmap.rows import Floats, as_column, as_matrix
from glasstream.detect.gbmap.settings import FEW_ROWS, LOSSES, UNITS, GbmapSettings
from glasstream.detect.gbmap.starts import LENGTH, Directions
from glasstream.detect.gbmap.units import value

_ORDER: Final = 0
_ROW: Final = 1
_SHARE: Final = 2
_NORMAL: Final = 3
"""Purposes of draws, under a key of this module."""
_LENGTHS: Final = (LENGTH, 0.3)
"""Scales of w at random starts: the first value for the first, third, ... random start, the second value for the
others.

A scale is about the deviation of w·x on standardised rows. With the first scale a learner bends within the rows from
the start. With the second it is nearly linear there, which suits the first learners. Later learners, whose targets have
nothing linear left, hardly leave such a start: on all of eight data sets with β of 1 and 5, 20 learners ended at more
loss, up to 11 % of it (measured).
"""
_RELATIVE: Final = 1e-3
"""Relative decrease of the loss, as a share of the tolerance, below which L-BFGS ends."""
_EVALUATIONS: Final = 50
"""Largest number of evaluations of the objective for each iteration. L-BFGS needs fewer: it tries 20 steps along a line
and restarts at most once. Therefore the number of iterations ends a run, not the number of evaluations.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A fitted map, with the course of its fit.

    Attributes
    ----------
    map
        The map.
    losses
        float64[m + 1], mean loss on the training rows with 0, 1, ..., m learners. It never rises with starts in the
        rows.
    held_out
        float64[...], mean loss on the held-out rows for each number of learners that was tried; empty without held-out
        rows.
    evaluations
        Number of evaluations of the objective.
    iterations
        Largest number of L-BFGS iterations for one learner.
    """

    map: BoostedMap
    losses: Floats
    held_out: Floats
    evaluations: int
    iterations: int


def fit_map(
    rows: npt.ArrayLike, targets: npt.ArrayLike, settings: GbmapSettings, *, initial: float | Model | Floats = 0.0
) -> Fit:
    """Fit a map (003, equation 3).

    Parameters
    ----------
    rows
        float64[n, p], finite, n >= 1. p > n, equal rows and constant columns are allowed.
    targets
        float64[n]; with the logistic loss -1 or +1, both of them present.
    settings
        Settings of the fit.
    initial
        f_0: a number, a model of the rows, or its values float64[n] for these rows. With values, the f_0 of the fitted
        map is 0: add the map's predictions to those of the model.

    Raises
    ------
    InputError
        Rows or targets do not have that form.
    ModelError
        `initial` does not give one finite number for each row.
    """
    matrix = as_matrix(rows, "rows")
    n = len(matrix)
    y = as_column(targets, "targets", n)
    given = 0.0 if isinstance(initial, np.ndarray) else initial
    base = as_column(initial, "initial values", n) if isinstance(initial, np.ndarray) else start_values(initial, matrix)
    if settings.loss == "logistic":
        if not (np.abs(y) == 1.0).all():
            raise InputError(f"gbmap: expected targets of -1 and +1 for the logistic loss, got {np.unique(y)!r:.200}")
        if n and (y == y[0]).all():
            raise InputError(
                f"gbmap: expected rows of two classes, got one class only, {y[0]:+.0f}; its score has no finite "
                "optimum: wait for rows of the other class, or take the class itself as the prediction"
            )
    held = int(settings.held_out * n)
    if n - held < 1:
        raise InputError(f"gbmap: expected rows to fit, got none: {held} of {n} rows are held out")
    return _Boosting.of(matrix, y, base, held, settings).run(given)


@dataclass(slots=True)
class _Boosting:
    settings: GbmapSettings
    key: npt.NDArray[np.uint64]
    rows: Floats
    order: npt.NDArray[np.int64]
    """Rows that the map is fitted to."""
    fitted: Tiles
    held: Tiles
    evaluations: int = 0
    iterations: int = 0

    @classmethod
    def of(cls, rows: Floats, targets: Floats, base: Floats, held: int, settings: GbmapSettings) -> "_Boosting":
        key = stream_key(settings.seed, f"gbmap\0{settings.stream}")
        order = np.arange(len(rows))
        if held:
            permute(key, 0, _ORDER, order)
        fitted, kept = (Tiles.of(rows, targets, base, part, settings.single) for part in (order[held:], order[:held]))
        return cls(settings, key, rows, order[held:], fitted, kept)

    def run(self, initial: float | Model) -> Fit:
        loss = LOSSES.index(self.settings.loss)
        losses = [mean_loss(self.fitted, loss)]
        held = [mean_loss(self.held, loss)] if self.held.count else []
        learners: list[tuple[Step, Floats]] = []
        ended = False
        for j in range(self.settings.learners):
            if not ended:
                step, parameters, ended = self._learner(j, losses[-1])
            learners.append((step, parameters))
            step.add(self.fitted, parameters)
            losses.append(mean_loss(self.fitted, loss))
            if held:
                step.add(self.held, parameters)
                held.append(mean_loss(self.held, loss))
                if len(held) - 1 - int(np.argmin(held)) >= self.settings.patience:
                    break
        if held:
            learners = learners[: max(int(np.argmin(held)), 1)]  # a map has at least one learner
        found = np.array([parameters for _, parameters in learners])
        made = BoostedMap(
            weights=found[:, 2:],
            constants=found[:, 1],
            offsets=found[:, 0],
            signs=np.array([step.sign for step, _ in learners]),
            unit=self.settings.unit,
            beta=self.settings.beta,
            loss=self.settings.loss,
            initial=initial,
        )
        return Fit(made, np.array(losses[: len(learners) + 1]), np.array(held), self.evaluations, self.iterations)

    def _learner(self, j: int, before: float) -> tuple[Step, Floats, bool]:
        """Return learner j with the better sign, and whether the fit ends.

        The learner is 0 everywhere if it does not lower the objective. The fit then ends unless starts are random:
        without random draws, all later learners would be 0 as well.
        """
        normal = self.settings.start == "normal"
        best, lowest, step, drawn = None, np.inf if normal else before, self._step(1.0), False
        starts = self.settings.starts or (2 if self.fitted.count <= FEW_ROWS else 1)
        directions = None if normal else Directions(self.fitted, step.loss)
        for sign in (1.0, -1.0):
            tried = self._step(sign)
            for number in range(starts):
                start = directions.start(tried) if directions is not None and number == 0 else None
                if start is None:
                    start, drawn = self._random_start(j, number), True
                parameters, reached = self._minimised(tried, start)
                if reached < lowest:
                    best, lowest, step = parameters, reached, tried
            if self.settings.unit == "linear":
                break  # the other sign gives the same learner with -w
        return (step, self._zero(step), not drawn) if best is None else (step, best, False)

    def _step(self, sign: float) -> Step:
        chosen = self.settings
        constants = 1 if chosen.intercept else 0
        width = self.fitted.rows.shape[1] + constants
        return Step(
            sign=sign,
            unit=UNITS.index(chosen.unit),
            beta=chosen.beta,
            loss=LOSSES.index(chosen.loss),
            ridge=chosen.ridge / max(width, 1),
            intercept=chosen.intercept,
        )

    def _zero(self, step: Step) -> Floats:
        """Return the learner that is 0 everywhere: a = -b g(0), w = 0."""
        parameters = np.zeros(self.fitted.rows.shape[1] + 2)
        parameters[0] = -step.sign * value(step.unit, step.beta, 0.0)
        return parameters

    def _random_start(self, j: int, number: int) -> Floats:
        """Return a = 0 and a random combination of rows as w, or draws from N(0, 1); the same for both signs.

        L-BFGS never leaves the span of its start and of the rows, and the penalty alone is too weak to reduce a weight.
        A start outside of that span would keep its weights in columns and directions in which no row varies.
        """
        count, draw = self.rows.shape[1] + 1, number << 32 | j
        if self.settings.start == "normal":
            shares = [uniform(self.key, draw, _NORMAL, k) + 2.0**-54 for k in range(count + 1)]
            parameters: Floats = ndtri(np.array(shares))
            if not self.settings.intercept:
                parameters[1] = 0.0
            return parameters
        weights = np.zeros(count)
        for k in range(count):
            row = self.rows[self.order[below(len(self.order), self.key, draw, _ROW, k)]]
            weights += (2 * uniform(self.key, draw, _SHARE, k) - 1) * np.concatenate(([1.0], row))
        if not self.settings.intercept:
            weights[0] = 0.0
        length = float(np.sqrt(np.square(weights).sum()))
        return np.concatenate(([0.0], weights * (_LENGTHS[max(number - 1, 0) % 2] / length) if length > 0 else weights))

    def _minimised(self, step: Step, parameters: Floats) -> tuple[Floats, float]:
        """Return the end point of L-BFGS and the objective there, which is infinite if a number is not finite."""
        chosen = self.settings
        result = minimize(
            lambda x: self._objective(step, x),
            parameters,
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": chosen.iterations,
                "maxfun": _EVALUATIONS * chosen.iterations,
                "gtol": chosen.tolerance,
                "ftol": chosen.tolerance * _RELATIVE,
            },
        )
        self.iterations = max(self.iterations, int(result.nit))
        finite = np.isfinite(result.fun) and np.isfinite(result.x).all()
        return result.x, float(result.fun) if finite else np.inf

    def _objective(self, step: Step, parameters: Floats) -> tuple[float, Floats]:
        self.evaluations += 1
        return step.objective(self.fitted, parameters)
