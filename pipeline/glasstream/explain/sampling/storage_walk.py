"""Storage trees as arrays, and the kernels that draw from their leaves and add values to them.

`d` is the number of features. Each feature has a tree of at most `w` nodes. Node 0 is the root. The two children of a
branch are adjacent and come after it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, below, uniform
from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import Array

_ENTER = int(Purpose.STORAGE_LEAF)
_DESCENT = int(Purpose.STORAGE_DESCENT)
_FALLBACK = int(Purpose.STORAGE_FALLBACK)
_RESERVOIR = int(Purpose.RESERVOIR)
_BELOW_ONE = 1.0 - 2.0**-53

DRAWN, FELL_BACK, TURNED_AWAY = 0, 1, 2
"""Indices of the counters."""


class Trees(NamedTuple):
    """Main nodes of all trees.

    Attributes
    ----------
    feature
        int32[d, w]: feature that a branch tests, -1 for a leaf.
    nominal
        bool[d, w]: how a row goes to the first child. If true, its value must equal the threshold; else its value must
        not exceed the threshold.
    threshold
        float64[d, w]: threshold of a branch.
    child
        int32[d, w]: first child, -1 for a leaf.
    weight
        float64[d, w]: weight that the node has seen, as River counts it. The weight of a branch is the sum of its
        children.
    place
        int32[d, w]: row of `Leaves.values` for a leaf, -1 while it has none.
    """

    feature: Array
    nominal: Array
    threshold: Array
    child: Array
    weight: Array
    place: Array


NODE = ("i4", "?", "f8", "i4", "f8", "i4")
"""Types of the arrays in `Trees`."""


class Leaves(NamedTuple):
    """Reservoirs of the leaves of all trees.

    Attributes
    ----------
    values
        float64[p, size]: values, one row per leaf.
    held
        int64[p]: number of values in each row.
    free
        int64[p]: stack of the rows that no leaf uses; only `free[:spare[0]]` is valid.
    spare
        int64[1]: number of free rows.
    """

    values: NDArray[np.float64]
    held: NDArray[np.int64]
    free: NDArray[np.int64]
    spare: NDArray[np.int64]


@kernel
def _passes(nominal, threshold, value):  # type: ignore[no-untyped-def]
    if nominal:
        return value == threshold
    return value <= threshold


@kernel
def descend(trees, seen, path, length):  # type: ignore[no-untyped-def]
    """Find the path of a row through each tree, as River does when it learns the row.

    At a branch whose feature is absent, the path goes to the heavier child.

    Parameters
    ----------
    seen
        float64[d]: the row as the trees see it.
    path, length
        int64[d, depth + 1], int64[d]: outputs for the nodes on the path and their number.
    """
    for j in range(seen.size):
        at = np.int64(0)
        path[j, 0] = 0
        count = 1
        while trees.child[j, at] >= 0:
            first = np.int64(trees.child[j, at])
            value = seen[trees.feature[j, at]]
            if np.isnan(value):
                stays = trees.weight[j, first] >= trees.weight[j, first + 1]
            else:
                stays = _passes(trees.nominal[j, at], trees.threshold[j, at], value)
            at = first if stays else first + 1
            path[j, count] = at
            count += 1
        length[j] = count


@kernel
def draw(trees, leaves, rows, key, row, values, seen, order, out, counts):  # type: ignore[no-untyped-def]
    """Draw values for the removed features of one row (002, Algorithm 4).

    One uniform number decides a whole descent, because the remainder after each choice is uniform again.

    Parameters
    ----------
    rows
        float64[held, d]: the marginal reservoir.
    values, seen
        float64[d]: the row, and the row as the trees see it.
    order
        int64[d]: at step s the features order[:s + 1] are present.
    out
        float64[d - 1, m, d]: output.
    """
    steps, draws, width = out.shape
    position = np.empty(width, np.int64)
    for p in range(width):
        position[order[p]] = p
    for s in range(steps):
        for k in range(draws):
            fallback = np.int64(-1)
            for p in range(s + 1):
                out[s, k, order[p]] = values[order[p]]
            for p in range(s + 1, width):
                j = order[p]
                u = uniform(key, row, _DESCENT, (s * draws + k) * width + j)
                at = np.int64(0)
                while trees.child[j, at] >= 0:
                    first = np.int64(trees.child[j, at])
                    feature = trees.feature[j, at]
                    if position[feature] <= s and not np.isnan(seen[feature]):
                        stays = _passes(trees.nominal[j, at], trees.threshold[j, at], seen[feature])
                    else:
                        total = trees.weight[j, first] + trees.weight[j, first + 1]
                        share = trees.weight[j, first] / total if total > 0.0 else 0.5
                        stays = u < share
                        u = min(u / share if stays else (u - share) / (1.0 - share), _BELOW_ONE)
                    at = first if stays else first + 1
                counts[DRAWN] += 1
                place = trees.place[j, at]
                if place >= 0:
                    out[s, k, j] = leaves.values[place, np.int64(u * leaves.held[place])]
                    continue
                counts[FELL_BACK] += 1
                if fallback < 0 and len(rows) > 0:
                    fallback = below(len(rows), key, row, _FALLBACK, s * draws + k)
                out[s, k, j] = rows[fallback, j] if fallback >= 0 else np.nan


@kernel
def enter(trees, leaves, rows, key, row, values, grown, path, length, learned, counts):  # type: ignore[no-untyped-def]
    """Add one row to the leaves that it reaches and to the marginal reservoir, after the trees have learned it.

    Parameters
    ----------
    rows
        float64[L, d]: the marginal reservoir with room for all its rows.
    values
        float64[d]: the row.
    grown
        bool[d]: whether the feature has a tree.
    path, length
        Results of `descend`.
    learned
        float64[d]: new weight of the leaf that the row reached; NaN if it is unchanged.
    """
    for j in range(values.size):
        if not grown[j]:
            continue
        leaf = path[j, length[j] - 1]
        if not np.isnan(learned[j]):
            trees.weight[j, leaf] = learned[j]
            for back in range(length[j] - 2, -1, -1):
                at = path[j, back]
                first = trees.child[j, at]
                trees.weight[j, at] = trees.weight[j, first] + trees.weight[j, first + 1]
        place = trees.place[j, leaf]
        if place < 0:
            if leaves.spare[0] == 0:
                counts[TURNED_AWAY] += 1
                continue
            leaves.spare[0] -= 1
            place = leaves.free[leaves.spare[0]]
            leaves.held[place] = 0
            trees.place[j, leaf] = place
        size = leaves.values.shape[1]
        if leaves.held[place] < size:
            at = leaves.held[place]
            leaves.held[place] += 1
        else:
            at = below(size, key, row, _ENTER, j)
        leaves.values[place, at] = values[j]
    at = row if row < len(rows) else below(len(rows), key, row, _RESERVOIR, 0)
    for j in range(values.size):
        rows[at, j] = values[j]
