"""Find the nearest of many reference points exactly: by comparing with all of them, or with a tree.

Both ways give the same bits: distances are added up from the first coordinate to the last, and of points at equal
distance the one with the lower index counts as nearer. The result of a query does not depend on other queries.
"""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import InputError
from glasstream.base.jit import kernel
from glasstream.detect.gbmap.rows import Floats, as_matrix, is_whole

Integers = npt.NDArray[np.int64]
Metric = Literal["manhattan", "euclidean"]

LARGE: Final = 512
"""Number of reference points from which a tree is built by default. With 2,000 points in 20 dimensions, a query with
the tree takes an eighth of the time (measured).
"""
_LEAF: Final = 16
"""Largest number of points in a leaf of the tree."""
_SLACK: Final = 1.0 - 1e-12
"""Safety factor of lower bounds, which are rounded in another order than the distances."""


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
    _order: Integers
    """Points in the order of the tree's leaves."""
    _nodes: Integers
    """int64[k, 3]; for each node its first point in `_order`, the one after its last, and its left child, or -1 for a
    leaf. The right child follows the left one. Empty without a tree.
    """
    _boxes: Floats
    """float64[k, 2, m]: least and greatest coordinates of each node's points."""

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
        order = np.arange(len(reference))
        most = 0
        if len(reference) and (len(reference) >= LARGE if index is None else index):
            most = 4 * (len(reference) // _LEAF + 1)
        nodes, boxes = np.empty((most, 3), np.int64), np.empty((most, 2, reference.shape[1]))
        count = _build(reference, order, nodes, boxes) if most else 0
        return cls(reference, metric, order, nodes[:count].copy(), boxes[:count].copy())

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
        if len(self._nodes):
            _search(asked, self.points, self._order, self._nodes, self._boxes, squares, found, distances)
        else:
            _compare(asked, self.points, squares, found, distances)
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
def _compare(queries, points, squares, found, distances):  # type: ignore[no-untyped-def]
    for q in range(queries.shape[0]):
        kept = 0
        for i in range(points.shape[0]):
            far = _distance(queries[q], points[i], squares)
            kept = _keep(found[q], distances[q], kept, i, far)


@kernel
def _build(points, order, nodes, boxes):  # type: ignore[no-untyped-def]
    """Halve the points at the median of the coordinate with the widest spread, until each leaf is small enough."""
    nodes[0, 0], nodes[0, 1] = 0, points.shape[0]
    count, node = 1, 0
    while node < count:
        first, last = nodes[node, 0], nodes[node, 1]
        widest, spread = 0, -1.0
        for k in range(points.shape[1]):
            low, high = np.inf, -np.inf
            for i in range(first, last):
                low, high = min(low, points[order[i], k]), max(high, points[order[i], k])
            boxes[node, 0, k], boxes[node, 1, k] = low, high
            if high - low > spread:
                widest, spread = k, high - low
        nodes[node, 2] = -1
        if last - first > _LEAF and spread > 0.0:
            part = order[first:last].copy()
            values = np.empty(part.size)
            for i in range(part.size):
                values[i] = points[part[i], widest]
            sorted_by = np.argsort(values, kind="mergesort")
            for i in range(part.size):
                order[first + i] = part[sorted_by[i]]
            half = first + part.size // 2
            nodes[node, 2] = count
            nodes[count, 0], nodes[count, 1] = first, half
            nodes[count + 1, 0], nodes[count + 1, 1] = half, last
            count += 2
        node += 1
    return count


@kernel
def _box_distance(query, box, squares):  # type: ignore[no-untyped-def]
    """Return a lower bound of the distance between the query and any point of the box."""
    total = 0.0
    for k in range(query.size):
        gap = max(max(box[0, k] - query[k], query[k] - box[1, k]), 0.0)
        total += gap * gap if squares else gap
    return total * _SLACK


@kernel
def _search(queries, points, order, nodes, boxes, squares, found, distances):  # type: ignore[no-untyped-def]
    waiting, bounds = np.empty(128, np.int64), np.empty(128)  # twice the depth of a tree of 2**63 points
    k = found.shape[1]
    for q in range(queries.shape[0]):
        kept, count = 0, 1
        waiting[0], bounds[0] = 0, 0.0
        while count:
            count -= 1
            node = waiting[count]
            if kept == k and bounds[count] > distances[q, k - 1]:
                continue
            left = nodes[node, 2]
            if left < 0:
                for i in range(nodes[node, 0], nodes[node, 1]):
                    far = _distance(queries[q], points[order[i]], squares)
                    kept = _keep(found[q], distances[q], kept, order[i], far)
                continue
            near, far_off = left, left + 1
            low, high = (
                _box_distance(queries[q], boxes[near], squares),
                _box_distance(queries[q], boxes[far_off], squares),
            )
            if high < low:
                near, far_off, low, high = far_off, near, high, low
            waiting[count], bounds[count] = far_off, high
            waiting[count + 1], bounds[count + 1] = near, low
            count += 2
