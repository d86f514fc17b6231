"""The objective of one boosting step, with its gradient (003, equations 3 and 4).

Rows are held in tiles, in which the values of each feature are adjacent in memory. Products and sums then run over many
rows at a time, in an order that does not depend on a matrix library or its number of threads.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.base.jit import kernel
from glasstream.detect.gbmap.rows import Floats
from glasstream.detect.gbmap.units import RELU, SOFTPLUS, decay, log1p_unit

QUADRATIC: Final = 0
LOGISTIC: Final = 1

TILE: Final = 128
"""Number of rows in a tile: with 25 features, its numbers and the sums over them fit into 64 kB of cache."""


@dataclass(frozen=True, slots=True, eq=False)
class Tiles:
    """Rows, targets and the sum of the fitted learners, in tiles; zeros fill the last tile."""

    rows: npt.NDArray[np.floating]
    """float64 or float32 [t, p, TILE]"""
    targets: Floats
    """float64[t, TILE]"""
    fitted: Floats
    """float64[t, TILE]: f_0 + ... + f_{j-1}, updated by each step."""
    count: int
    """Number of rows n, without the filling."""

    @classmethod
    def of(cls, rows: Floats, targets: Floats, base: Floats, order: npt.NDArray[np.int64], single: bool) -> "Tiles":
        """Return tiles of the rows named in `order`, in that order."""
        tiles = -(-len(order) // TILE)
        made = cls(
            np.zeros((tiles, rows.shape[1], TILE), np.float32 if single else np.float64),
            np.zeros((tiles, TILE)),
            np.zeros((tiles, TILE)),
            len(order),
        )
        _fill(made.rows, rows, order)
        made.targets.reshape(-1)[: len(order)] = targets[order]
        made.fitted.reshape(-1)[: len(order)] = base[order]
        return made


@dataclass(frozen=True, slots=True)
class Step:
    """The parameters of one boosting step's objective other than a and w."""

    sign: float
    """Sign b of the learner."""
    unit: int
    beta: float
    loss: int
    ridge: float
    """Penalty factor λ / p."""
    intercept: bool

    def objective(self, tiles: Tiles, parameters: Floats) -> tuple[float, Floats]:
        """Return L_j + R_j and its gradient by (a, w_0, w_1..w_p) (003, equation 3).

        w_0 is the weight of the constant.
        """
        gradient = np.empty(len(parameters))
        reached = _objective(
            tiles.rows, tiles.targets, tiles.fitted, tiles.count, parameters, self.sign, self.unit, self.beta,
            self.loss, self.ridge, self.intercept, gradient,
        )  # fmt: skip
        return reached, gradient

    def add(self, tiles: Tiles, parameters: Floats) -> None:
        """Add f_j to the sum of the fitted learners."""
        _add(tiles.rows, tiles.fitted, parameters, self.sign, self.unit, self.beta)


def mean_loss(tiles: Tiles, loss: int) -> float:
    """Return the loss L of the learners fitted so far (003, equation 4)."""
    return float(_loss(tiles.targets, tiles.fitted, tiles.count, loss)) / tiles.count


@kernel
def _fill(tiles, rows, order):  # type: ignore[no-untyped-def]
    for i in range(order.size):
        for k in range(rows.shape[1]):
            tiles[i // TILE, k, i % TILE] = rows[order[i], k]


@kernel
def project(rows, parameters, z):  # type: ignore[no-untyped-def]
    """Compute w·x of the rows of a tile."""
    for i in range(TILE):
        z[i] = parameters[1]
    for k in range(rows.shape[0]):
        weight = parameters[2 + k]
        for i in range(TILE):
            z[i] += weight * rows[k, i]


@kernel
def evaluate_units(z, unit, beta, g, s):  # type: ignore[no-untyped-def]
    """Compute g(z) and g'(z)."""
    if unit == SOFTPLUS:
        for i in range(TILE):
            e = decay(-abs(beta * z[i]))
            g[i] = max(z[i], 0.0) + log1p_unit(e) / beta
            s[i] = (1.0 if z[i] >= 0.0 else e) / (1.0 + e)
    elif unit == RELU:
        for i in range(TILE):
            g[i] = max(z[i], 0.0)
            s[i] = 1.0 if z[i] > 0.0 else 0.0
    else:
        for i in range(TILE):
            g[i] = z[i]
            s[i] = 1.0


@kernel
def evaluate_losses(y, f, loss, value, by_f):  # type: ignore[no-untyped-def]
    """Compute the loss of each row of a tile and its derivative by f."""
    if loss == QUADRATIC:
        for i in range(TILE):
            r = f[i] - y[i]
            value[i] = r * r
            by_f[i] = 2.0 * r
    else:
        for i in range(TILE):
            margin = y[i] * f[i]
            e = decay(-abs(margin))
            value[i] = max(-margin, 0.0) + log1p_unit(e)
            by_f[i] = -y[i] * (e if margin >= 0.0 else 1.0) / (1.0 + e)


@kernel
def _objective(  # type: ignore[no-untyped-def]
    rows, targets, fitted, count, parameters, sign, unit, beta, loss, ridge, intercept, gradient
):
    z, g, s, f = np.empty(TILE), np.empty(TILE), np.empty(TILE), np.empty(TILE)
    value, by_f = np.empty(TILE), np.empty(TILE)
    values, by_a, by_constant = np.zeros(TILE), np.zeros(TILE), np.zeros(TILE)
    sums = np.zeros((rows.shape[1], TILE))
    for t in range(len(rows)):
        project(rows[t], parameters, z)
        evaluate_units(z, unit, beta, g, s)
        for i in range(TILE):
            f[i] = fitted[t, i] + (parameters[0] + sign * g[i])
        evaluate_losses(targets[t], f, loss, value, by_f)
        for i in range(count - t * TILE, TILE):  # the filling of the last tile
            value[i] = 0.0
            by_f[i] = 0.0
        for i in range(TILE):
            values[i] += value[i]
            by_a[i] += by_f[i]
            by_f[i] *= sign * s[i]
            by_constant[i] += by_f[i]
        tile = rows[t]
        for k in range(tile.shape[0]):
            for i in range(TILE):
                sums[k, i] += by_f[i] * tile[k, i]
    gradient[0] = by_a.sum() / count
    gradient[1] = by_constant.sum() / count + 2.0 * ridge * parameters[1] if intercept else 0.0
    penalty = parameters[1] * parameters[1]
    for k in range(len(sums)):
        weight = parameters[2 + k]
        gradient[2 + k] = sums[k].sum() / count + 2.0 * ridge * weight
        penalty += weight * weight
    return values.sum() / count + ridge * penalty


@kernel
def _add(rows, fitted, parameters, sign, unit, beta):  # type: ignore[no-untyped-def]
    z, g, s = np.empty(TILE), np.empty(TILE), np.empty(TILE)
    for t in range(len(rows)):
        project(rows[t], parameters, z)
        evaluate_units(z, unit, beta, g, s)
        for i in range(TILE):
            fitted[t, i] += parameters[0] + sign * g[i]


@kernel
def _loss(targets, fitted, count, loss):  # type: ignore[no-untyped-def]
    value, by_f, values = np.empty(TILE), np.empty(TILE), np.zeros(TILE)
    for t in range(len(fitted)):
        evaluate_losses(targets[t], fitted[t], loss, value, by_f)
        for i in range(min(TILE, count - t * TILE)):
            values[i] += value[i]
    return values.sum()
