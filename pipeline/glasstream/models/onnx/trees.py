"""Read the trees of an ONNX file: check every id, and put nodes and leaves in the order that kernels need."""

from typing import Any, Final

import numpy as np

from glasstream.base.errors import ModelError, NotCompilable
from glasstream.models.onnx.attributes import Attributes
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.walk import LEAF, NUMERIC_BINARY

_LEAF, _LEQ, _LT, _GT, _GTE = range(5)
_MODES: Final = {b"LEAF": _LEAF, b"BRANCH_LEQ": _LEQ, b"BRANCH_LT": _LT, b"BRANCH_GT": _GT, b"BRANCH_GTE": _GTE}
_SIDES: Final = ("true", "false")
_LENGTHS: Final = "its nodes have attributes of different lengths"
_OVERFLOW: Final = 2.0**128
"""The first power of two beyond float32, where its infinity begins for rounding."""


def flattened(
    values: Attributes, prefix: str, targets: Array, weights: Array, columns: int, scores: int
) -> tuple[Array, ...]:
    """Return the arrays of branches and leaves, as `glasstream.models.predictors.kernels.scored_trees.Trees` begins.

    A node's descendants come after it, and the two children of a branch one after the other.

    Parameters
    ----------
    values
        Attributes of the operator.
    prefix
        ``target`` or ``class``: how the names of the attributes with leaves begin.
    targets, weights
        Scores that leaves add to, and what they add.
    columns, scores
        Number of columns of the input, and of scores.

    Raises
    ------
    NotCompilable
        The nodes do not form trees that kernels can walk.
    """
    trees, numbers = values.whole("nodes_treeids"), values.whole("nodes_nodeids")
    modes = np.array([_MODES.get(mode, -1) for mode in values.texts("nodes_modes")], np.int64)
    features, thresholds = values.whole("nodes_featureids"), values.single("nodes_values")
    children = [values.whole(f"nodes_{which}nodeids") for which in _SIDES]
    tracks = values.whole("nodes_missing_value_tracks_true")
    tracks = tracks if tracks.size else np.zeros_like(trees)
    _expect(np.all((tracks == 0) | (tracks == 1)), "what absent values follow is neither 0 nor 1")
    _expect(trees.size > 0, "it has no nodes")
    alike = (numbers, modes, features, thresholds, *children, tracks)
    _expect(all(array.size == trees.size for array in alike), _LENGTHS)
    if np.any(modes < 0):
        raise NotCompilable("a test of its branches has no translation")
    places = _Places(trees, numbers)
    _expect(places.apart, "the nodes of a tree do not follow each other")
    inner = np.flatnonzero(modes != _LEAF)
    _expect(np.all((features[inner] >= 0) & (features[inner] < columns)), "it tests a column that its input lacks")
    swapped = (modes == _GT) | (modes == _GTE)
    below = np.zeros((trees.size, 2), np.int64)
    for side, which in enumerate(children):
        below[inner, side] = places.of(trees[inner], which[inner])
    below[swapped] = below[swapped, ::-1]
    order = _descending(places, modes != _LEAF, below)
    row = np.full(trees.size, -1)
    row[order] = np.arange(order.size)
    leaves = np.flatnonzero(modes[order] == _LEAF)
    leaf = np.full(order.size, -1)
    leaf[leaves] = np.arange(leaves.size)
    owners = values.whole(f"{prefix}_treeids"), values.whole(f"{prefix}_nodeids")
    _expect(
        owners[0].size == owners[1].size == targets.size == weights.size,
        "its leaves have attributes of different lengths",
    )
    at = row[places.of(*owners)]
    _expect(np.all(at >= 0) and np.all(leaf[at] >= 0), "it has weights at nodes that are not leaves")
    entries = np.argsort(leaf[at], kind="stable")
    counts = np.bincount(leaf[at], minlength=leaves.size)
    _expect(scores > 1 or np.all(counts == 1), "some of its leaves have no weight, or several")
    _expect(np.unique(leaf[at] * scores + targets).size == at.size, "some of its leaves have two weights for one score")
    start = np.concatenate(([0], np.cumsum(counts)))
    branch = leaf < 0
    first = np.where(branch, row[below[order, 0]], leaf)
    missing = (tracks[order] != 0) == swapped[order]  # absent values go to the second child, unless they follow `true`
    none = np.empty(0)
    return (
        np.where(branch, NUMERIC_BINARY, LEAF),
        np.where(branch, features[order], 0),
        np.where(branch, _bounds(thresholds[order], modes[order], branch), 0.0),
        first,
        np.where(branch, first + 1, 0),
        np.where(branch, first + missing, 0),
        np.full(order.size, -1),
        none,
        none,
        row[places.roots],
        start,
        targets[entries],
        weights[entries],
    )


def expect_ends(values: Attributes) -> None:
    """Check that every walk through the trees of an operator comes to a leaf; onnxruntime does not.

    Raises
    ------
    ModelError
        A branch leads to a node that does not exist, or back to itself.
    """
    try:
        parents, below, count = _edges(values)
        _expect(np.all((below >= 0) & (below < count)), "a branch names a node that does not exist")
        _expect(_without_circle(parents, below, count), "a branch leads back to itself")
    except NotCompilable as reason:
        raise ModelError(f"model.name: expected trees, but {reason}; export the model again") from reason


def _edges(values: Attributes) -> tuple[Array, Array, int]:
    """Return the branches and their children, each as a place among all nodes, and the number of nodes."""
    children = [values.whole(f"nodes_{side}nodeids") for side in _SIDES]
    modes = values.texts("nodes_modes")
    if modes:
        trees, numbers = values.whole("nodes_treeids"), values.whole("nodes_nodeids")
        _expect(all(array.size == len(modes) for array in (trees, numbers, *children)), _LENGTHS)
        places, inner = _Places(trees, numbers), np.flatnonzero([mode != b"LEAF" for mode in modes])
        return (
            np.tile(inner, 2),
            np.concatenate([places.of(trees[inner], side[inner]) for side in children]),
            len(modes),
        )
    leafs = [values.whole(f"nodes_{side}leafs") for side in _SIDES]  # TreeEnsemble, in which leaves are no nodes
    _expect(len({array.size for array in (*children, *leafs)}) == 1, _LENGTHS)
    parents = [np.flatnonzero(leaf == 0) for leaf in leafs]
    below = [side[branches] for side, branches in zip(children, parents, strict=True)]
    return np.concatenate(parents), np.concatenate(below), children[0].size


def _without_circle(parents: Array, below: Array, count: int) -> bool:
    """Return whether no walk along the edges is a circle: nodes that no edge reaches go first."""
    order = np.argsort(parents, kind="stable")
    below, starts = below[order], np.searchsorted(parents[order], np.arange(count + 1))
    leading = np.bincount(below, minlength=count)
    front, taken = np.flatnonzero(leading == 0), 0
    while front.size:
        taken += front.size
        lengths = starts[front + 1] - starts[front]
        first = np.repeat(starts[front] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
        reached = below[first + np.arange(lengths.sum())]
        np.subtract.at(leading, reached, 1)
        front = np.unique(reached[leading[reached] == 0])
    return taken == count


class _Places:
    """Where the nodes are in the attributes, by their trees and numbers."""

    def __init__(self, trees: Array, numbers: Array) -> None:
        self._trees = np.unique(trees)
        self._numbers = np.unique(numbers)
        keys = np.searchsorted(self._trees, trees) * self._numbers.size + np.searchsorted(self._numbers, numbers)
        self._order = np.argsort(keys, kind="stable")
        self._keys = keys[self._order]
        _expect(np.all(np.diff(self._keys) > 0), "two of its nodes have one number")
        self.roots = np.concatenate(([0], np.flatnonzero(np.diff(trees)) + 1))
        """The first node of each tree, in the order of the trees."""
        self.apart = self.roots.size == self._trees.size
        """Whether the nodes of each tree follow each other."""
        self.tree = np.repeat(np.arange(self.roots.size), np.diff(np.append(self.roots, trees.size)))
        """The number of each node's tree in that order."""

    def of(self, trees: Array, numbers: Array) -> Array:
        """Return the places of the nodes with these trees and numbers."""
        tree, number = _found(self._trees, trees), _found(self._numbers, numbers)
        return self._order[_found(self._keys, tree * self._numbers.size + number)]


def _found(among: Array, values: Array) -> Array:
    """Return the places of values in a sorted array that must contain them."""
    at = np.minimum(np.searchsorted(among, values), among.size - 1)
    _expect(np.all(among[at] == values), "it names a node that it does not have")
    return at


def _descending(places: _Places, branches: Array, below: Array) -> Array:
    """Return the nodes tree by tree, in each tree level by level."""
    level, levels = places.roots, [places.roots]
    total = level.size
    while level.size:
        level = below[level[branches[level]]].ravel()
        total += level.size
        _expect(total <= branches.size, "its nodes do not form trees")
        levels.append(level)
    order = np.concatenate(levels)
    _expect(np.unique(order).size == order.size, "its nodes do not form trees")
    return order[np.argsort(places.tree[order], kind="stable")]


def _bounds(values: Array, modes: Array, branch: Array) -> Array:
    """Return t for each branch such that float32(x) passes its test, or fails the opposite one, if x <= t."""
    below = (modes == _LT) | (modes == _GTE)
    singles = np.where(below, np.nextafter(values, np.float32(-np.inf)), values)
    _expect(not np.any(np.isnan(singles[branch])), "a threshold is not a number")
    _expect(not np.any((branch & below) & (values == -np.inf)), "a threshold is below every number")
    return largest_double(np.where(branch, singles, np.float32(0.0)))


def largest_double(singles: Any) -> Array:
    """Return the largest float64 that rounds to a float32 of at most each of `singles`.

    >>> largest_double(np.array([1.0, np.inf], np.float32)).tolist()
    [1.0000000596046448, inf]
    """
    singles = np.asarray(singles, np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        above = np.nextafter(singles, np.float32(np.inf))
        low, high = (np.clip(one.astype(np.float64), -_OVERFLOW, _OVERFLOW) for one in (singles, above))
        middle = (low + high) / 2.0
        lower = np.where(middle.astype(np.float32) <= singles, middle, np.nextafter(middle, -np.inf))
    return np.where(singles == np.inf, np.inf, lower)


def all_scored(arrays: tuple[Array, ...], scores: int) -> bool:
    """Return whether every row gets each score, because all leaves of some tree have it.

    onnxruntime does not choose a class without a score, even if the scores of the others are negative.
    """
    kinds, firsts, roots, starts, targets = arrays[0], arrays[3], arrays[9], arrays[10], arrays[11]
    owner = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    has = np.zeros((starts.size - 1, scores), np.bool_)
    has[owner, targets] = True
    ends = np.append(roots[1:], kinds.size)
    scored = np.zeros(scores, np.bool_)
    for begin, end in zip(roots.tolist(), ends.tolist(), strict=True):
        part = slice(begin, end)
        scored |= has[firsts[part][kinds[part] == LEAF]].all(axis=0)
    return bool(scored.all())


def _expect(fits: Any, reason: str) -> None:
    if not fits:
        raise NotCompilable(reason)
