"""Start points of L-BFGS for a learner: along the slope and the curvature of the remaining loss in the rows.

With r the derivative of the loss by -f, a small learner b g(w·x) lowers the loss by b E[r g(w·x)]. To the second order
in w that is b g'(0) w·E[r x] + b g''(0)/2 w·E[r x xᵀ] w. The candidates are the two directions with the largest such
decrease, and the direction between them. The start is the candidate that correlates best with r. It is a function of
the rows alone.
"""

from typing import Final

import numpy as np

from glasstream.base.jit import kernel
from glasstream.detect.gbmap.objective import TILE, Step, Tiles, evaluate_losses, evaluate_units, project
from glasstream.detect.gbmap.rows import Floats

LENGTH: Final = 2.0
"""Scale of w, about the deviation of w·x on standardised rows: the learner bends within the rows from the start."""
_TILES: Final = 80
"""Largest number of tiles to use, evenly spaced: 10,240 rows. A start need not be exact."""
_STEPS: Final = 24
"""Largest number of Lanczos steps. Each costs about as much as evaluating the objective on these rows."""
_NOTHING: Final = 1e-10
"""Relative size of an image below which it is rounding: the directions are exhausted."""


class Directions:
    """The remaining loss in the rows before a learner is fitted.

    Parameters
    ----------
    tiles
        Rows, with the sum of the learners fitted so far.
    loss
        Index of the loss.
    """

    def __init__(self, tiles: Tiles, loss: int) -> None:
        count = len(tiles.rows)
        looked = np.arange(0, count, max(1, -(-count // _TILES)))
        self._rows = tiles.rows if len(looked) == count else np.ascontiguousarray(tiles.rows[looked])
        self._left = np.zeros((len(looked), TILE))
        kept = np.minimum(TILE, np.maximum(tiles.count - looked * TILE, 0))
        self._count = int(kept.sum())
        _residuals(tiles.targets[looked], tiles.fitted[looked], kept, loss, self._left)
        _centre(self._left, kept, self._count)
        self._kept = kept
        self._slope = self._moment(None)
        self._curvatures = self._extremes()

    def start(self, step: Step) -> Floats | None:
        """Return parameters (a, w_0, w) for a learner of this sign, or None if no direction is better than another."""
        found = []
        slope = _unit(step.sign * self._slope)
        if slope is not None:
            found.append(slope)
        for curvature, direction in self._curvatures:
            if step.sign * curvature <= 0.0:
                continue
            turned = direction if slope is None or float((direction * slope).sum()) >= 0.0 else -direction
            found.append(turned)
            if slope is not None and (between := _unit(turned + slope)) is not None:
                found.append(between)
        if not found:
            return None
        starts = [np.concatenate(([0.0, 0.0], LENGTH * direction)) for direction in found]
        gains = [_gain(self._rows, self._left, self._kept, one, step.sign, step.unit, step.beta) for one in starts]
        return starts[int(np.argmax(gains))]

    def _moment(self, direction: Floats | None) -> Floats:
        """Return E[r x], or E[r (x·v) x]: float64[p]."""
        parameters = np.zeros(self._rows.shape[1] + 2)
        if direction is None:
            parameters[1] = 1.0
        else:
            parameters[2:] = direction
        sums = np.zeros((self._rows.shape[1], TILE))
        _sums(self._rows, self._left, parameters, sums)
        return np.asarray(sums.sum(axis=1) / max(self._count, 1))

    def _extremes(self) -> list[tuple[float, Floats]]:
        """Return the least and the largest curvature with their directions, by Lanczos with full orthogonalisation."""
        p = self._rows.shape[1]
        direction = _unit(self._moment(1.0 + np.arange(p) / max(p, 1)))  # any direction in the span of the rows
        basis: list[Floats] = []
        images: list[Floats] = []
        while direction is not None and len(basis) < min(p, _STEPS):
            basis.append(direction)
            images.append(self._moment(direction))
            rest = images[-1].copy()
            for _ in range(2):  # a single pass leaves rounding errors
                for one in basis:
                    rest -= float((rest * one).sum()) * one
            longest = float(np.abs(images[-1]).max())
            direction = _unit(rest) if float(np.abs(rest).max()) > _NOTHING * longest else None
        if not basis:
            return []
        within = np.array([[float((one * image).sum()) for image in images] for one in basis])
        curvatures, parts = np.linalg.eigh((within + within.T) / 2)
        found = []
        for place in (0, len(basis) - 1):
            image = np.zeros(p)
            for part, one in zip(parts[:, place], images, strict=True):
                image += part * one  # the curvature times the direction, and 0 exactly where all rows are
            towards = _unit(image)
            if towards is not None:
                found.append((float(curvatures[place]), towards))
        return found


def _unit(direction: Floats) -> Floats | None:
    length = float(np.sqrt(np.square(direction).sum()))
    return direction / length if 0.0 < length < np.inf else None


@kernel
def _residuals(targets, fitted, kept, loss, left):  # type: ignore[no-untyped-def]
    """Fill `left` with the derivative of each row's loss by -f; 0 for the filling."""
    value, by_f = np.empty(TILE), np.empty(TILE)
    for t in range(len(targets)):
        evaluate_losses(targets[t], fitted[t], loss, value, by_f)
        for i in range(kept[t]):
            left[t, i] = -by_f[i]


@kernel
def _centre(left, kept, count):  # type: ignore[no-untyped-def]
    total = 0.0
    for t in range(len(left)):
        for i in range(kept[t]):
            total += left[t, i]
    for t in range(len(left)):
        for i in range(kept[t]):
            left[t, i] -= total / count


@kernel
def _sums(rows, left, parameters, sums):  # type: ignore[no-untyped-def]
    """Compute Σ r (w_0 + w·x) x in parts."""
    z = np.empty(TILE)
    for t in range(len(rows)):
        project(rows[t], parameters, z)
        for i in range(TILE):
            z[i] *= left[t, i]
        tile = rows[t]
        for k in range(tile.shape[0]):
            for i in range(TILE):
                sums[k, i] += z[i] * tile[k, i]


@kernel
def _gain(rows, left, kept, parameters, sign, unit, beta):  # type: ignore[no-untyped-def]
    """Return the correlation of b g(w·x) with r, up to a factor that does not depend on w."""
    z, g, s = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    count, total, squares, product = 0, 0.0, 0.0, 0.0
    for t in range(len(rows)):
        project(rows[t], parameters, z)
        evaluate_units(z, unit, beta, g, s)
        count += kept[t]
        for i in range(kept[t]):
            total += g[i]
            squares += g[i] * g[i]
            product += left[t, i] * g[i]
    spread = squares / count - (total / count) ** 2
    return sign * product / count / spread**0.5 if spread > 0.0 else -np.inf
