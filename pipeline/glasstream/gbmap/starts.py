"""Where L-BFGS starts for a learner: along the slope and the curvature that the loss has left in the rows.

With r the derivative of the loss by -f, a small learner b g(w·x) lowers the loss by b E[r g(w·x)]. To the second order
in w that is b g'(0) w·E[r x] + b g''(0)/2 w·E[r x xᵀ] w. The two directions that make most of it, and the one between
them, are tried for their correlation with r, and the best is the start. It is a function of the rows alone.
"""

from typing import Final

import numpy as np

from glasstream.gbmap.objective import TILE, Step, Tiles, evaluate_losses, evaluate_units, project
from glasstream.gbmap.rows import Floats
from glasstream.jit import kernel

LENGTH: Final = 2.0
"""Of w, about the deviation of w·x on rows that are standardised: the learner bends within the rows from the start."""
_TILES: Final = 80
"""Tiles that are looked at, evenly spaced: 10,240 rows. A start need not be exact."""
_STEPS: Final = 24
"""Of the Lanczos method at most; each costs about as much as evaluating the objective on the rows looked at."""
_NOTHING: Final = 1e-10
"""Of an image's size: less is rounding, the directions have been used up."""


class Directions:
    """What the loss has left in the rows, before a learner is fitted.

    Parameters
    ----------
    tiles
        The rows, with what is fitted so far.
    loss
        Its number.
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
        """Parameters (a, w_0, w) for a learner of this sign; None: nothing is left that a direction could tell."""
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
        """E[r x], or E[r (x·v) x]: float64[p]."""
        parameters = np.zeros(self._rows.shape[1] + 2)
        if direction is None:
            parameters[1] = 1.0
        else:
            parameters[2:] = direction
        sums = np.zeros((self._rows.shape[1], TILE))
        _sums(self._rows, self._left, parameters, sums)
        return np.asarray(sums.sum(axis=1) / max(self._count, 1))

    def _extremes(self) -> list[tuple[float, Floats]]:
        """The least and the largest curvature, each with its direction: by Lanczos, orthogonalised in full."""
        p = self._rows.shape[1]
        direction = _unit(self._moment(1.0 + np.arange(p) / max(p, 1)))  # in the span of the rows, nothing special
        basis: list[Floats] = []
        images: list[Floats] = []
        while direction is not None and len(basis) < min(p, _STEPS):
            basis.append(direction)
            images.append(self._moment(direction))
            rest = images[-1].copy()
            for _ in range(2):  # once leaves rounding
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
    """The derivative of each row's loss by -f; 0 for the filling."""
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
    """Σ r (w_0 + w·x) x in parts."""
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
    """The correlation of b g(w·x) with r, times what does not depend on w."""
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
