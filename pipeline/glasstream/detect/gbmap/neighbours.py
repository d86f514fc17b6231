"""Find the nearest of many reference points exactly: by comparing with all of them, or with a k-d tree.

Both ways give the same bits: distances are added up from the first coordinate to the last, and of points at equal
distance the one with the lower index counts as nearer. The result of a query does not depend on other queries.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree  # type: ignore[import-untyped]

from glasstream.base.errors import InputError
from glasstream.base.jit import kernel
from glasstream.detect.gbmap.rows import Floats, as_matrix, is_whole

Integers = npt.NDArray[np.int64]
Metric = Literal["manhattan", "euclidean"]

LARGE: Final = 512
"""Number of reference points from which a tree is built by default."""
_LEAF: Final = 16
"""Largest number of points in a leaf of the tree."""
_SLACK: Final = 1.0 - 1e-12
"""Factor for distances of the tree, which adds them up in another order."""


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Reference points in which to search for the nearest neighbours of a query.

    Attributes
    ----------
    points
        float64[n, m].
    metric
        ``"manhattan"``, Σ|a - b|, which is the embedding distance on embedded points; or ``"euclidean"``.
    """

    points: Floats
    metric: Metric
    _tree: cKDTree | None

    @classmethod
    def of(cls, points: npt.ArrayLike, metric: Metric, *, index: bool | None = None) -> "Neighbours":
        """Return `points`, float64[n, m], as a reference.

        Parameters
        ----------
        index
            Whether to build the tree; None builds it from `LARGE` points on.

        Raises
        ------
        InputError
            The points are not a matrix of finite numbers, or the metric is unknown.
        """
        if metric not in ("manhattan", "euclidean"):
            raise InputError(f"gbmap: expected the metric manhattan or euclidean, got {metric!r}")
        reference = as_matrix(points, "reference points")
        indexed = len(reference) > 0 and (len(reference) >= LARGE if index is None else index)
        return cls(reference, metric, cKDTree(reference, _LEAF) if indexed else None)

    def nearest(self, queries: npt.ArrayLike, k: int) -> tuple[Integers, Floats]:
        """Return indices int64[q, k] and distances float64[q, k] of the k points nearest to each query, in order.

        Raises
        ------
        InputError
            The queries are not float64[q, m] of finite numbers, or k is not from 1 to the number of points.
        """
        asked = as_matrix(queries, "queries", self.points.shape[1])
        if not is_whole(k) or not 1 <= k <= len(self.points):
            raise InputError(
                f"gbmap: expected k from 1 to the {len(self.points)} reference points, got {k!r}; "
                "take more reference points or a smaller k"
            )
        found, distances = np.empty((len(asked), k), np.int64), np.empty((len(asked), k))
        squares = self.metric == "euclidean"
        rest = np.ones(len(asked), np.bool_)
        if self._tree is not None and k < len(self.points):
            far, near = self._tree.query(asked, k + 1, p=2 if squares else 1)
            rest = ~(far[:, k] * _SLACK > far[:, k - 1])  # the tree does not know which of these are nearer
            clear = ~rest
            found[clear], distances[clear] = _nearest(asked[clear], self.points, near[clear, :k], k, squares)
        if rest.any():
            every = np.arange(len(self.points))[np.newaxis]
            found[rest], distances[rest] = _nearest(asked[rest], self.points, every, k, squares)
        return found, np.sqrt(distances) if squares else distances


@kernel
def _distance(a, b, squares):  # type: ignore[no-untyped-def]
    total = 0.0
    if squares:
        for k in range(a.size):
            total += (a[k] - b[k]) * (a[k] - b[k])
    else:
        for k in range(a.size):
            total += abs(a[k] - b[k])
    return total


@kernel
def _keep(found, distances, kept, index, distance):  # type: ignore[no-untyped-def]
    """Insert a point among the `kept` nearest if it belongs there, and return the new number of kept points."""
    k = found.size
    if kept == k:
        if distance > distances[k - 1] or (distance == distances[k - 1] and index > found[k - 1]):
            return kept
        kept -= 1
    place = kept
    while place > 0 and (
        distance < distances[place - 1] or (distance == distances[place - 1] and index < found[place - 1])
    ):
        found[place], distances[place] = found[place - 1], distances[place - 1]
        place -= 1
    found[place], distances[place] = index, distance
    return kept + 1


@kernel
def _nearest(queries, points, among, k, squares):  # type: ignore[no-untyped-def]
    """Return the k nearest of the points `among` int64[q, n], or int64[1, n] for all queries, and their distances."""
    found, distances = np.empty((queries.shape[0], k), np.int64), np.empty((queries.shape[0], k))
    for q in range(queries.shape[0]):
        kept = 0
        for index in among[q % among.shape[0]]:
            kept = _keep(found[q], distances[q], kept, index, _distance(queries[q], points[index], squares))
    return found, distances
