"""Smoothed effect surfaces of feature pairs, as `glasstream.explain.pdp.curves`, with one cell per pair of points."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import kernel

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Surface:
    """Smoothed predictions on the grid of two features, a and b.

    Parameters
    ----------
    alpha
        Smoothing factor α.
    """

    alpha: float
    outputs: tuple[str | None, ...]
    grid: Floats
    """(2, m, m, k) values of a and of b in each cell."""
    value: Floats
    """(m, m, k) smoothed predictions."""
    weight: Floats
    """(m, m, k) weights; 0 where there is no cell."""

    @classmethod
    def empty(cls, alpha: float) -> "Surface":
        """Return a surface without rows."""
        return cls(alpha, (), np.zeros((2, 0, 0, 0)), np.zeros((0, 0, 0)), np.zeros((0, 0, 0)))

    def update(
        self, points: Floats, answers: Floats, categorical: NDArray[np.bool_], outputs: Sequence[str | None]
    ) -> None:
        """Add rows in order. The surface starts over if the outputs or the shape of the grid change.

        Parameters
        ----------
        points
            (count, m, 2) points of a and of b, NaN where there is none.
        answers
            (count, m, m, k) predictions, as returned by `glasstream.explain.pdp.contributions.surfaces`.
        categorical
            (2,) mask: whether a and b are categorical.
        outputs
            Names of the k outputs.
        """
        shape = answers.shape[1:]
        if tuple(outputs) != self.outputs or self.value.shape != shape:
            self.outputs = tuple(outputs)
            self.grid, self.value, self.weight = np.zeros((2, *shape)), np.zeros(shape), np.zeros(shape)
        _smooth(self.alpha, points, answers, categorical, self.grid, self.value, self.weight)

    def shown(self, output: str | None) -> tuple[Floats, Floats, Floats]:
        """Return three (m, m) arrays: the values of a, the values of b and the smoothed predictions; NaN where there is
        no cell.
        """
        c = self.outputs.index(output)
        there = self.weight[:, :, c] > 0.0
        a, b, value = (np.where(there, one[:, :, c], np.nan) for one in (*self.grid, self.value))
        return a, b, value


@kernel
def _smooth(alpha, points, answers, categorical, grid, value, weight):  # type: ignore[no-untyped-def]
    m, outputs = answers.shape[1], answers.shape[3]
    for i in range(points.shape[0]):
        for k in range(m):
            for n in range(m):
                a, b = points[i, k, 0], points[i, n, 1]
                for c in range(outputs):
                    cell = k, n, c
                    before = weight[cell]
                    if np.isnan(a) or np.isnan(b):
                        weight[cell] = 0.0
                        continue
                    if (categorical[0] and grid[0][cell] != a) or (categorical[1] and grid[1][cell] != b):
                        before = 0.0
                    if before == 0.0:
                        weight[cell] = alpha
                        grid[0][cell], grid[1][cell], value[cell] = a, b, answers[i, k, n, c]
                        continue
                    weight[cell] = (1.0 - alpha) * before + alpha
                    step = alpha / weight[cell]
                    grid[0][cell] += step * (a - grid[0][cell])
                    grid[1][cell] += step * (b - grid[1][cell])
                    value[cell] += step * (answers[i, k, n, c] - value[cell])
