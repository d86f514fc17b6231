"""Sets of the leaves that a value of a feature allows, as bits: they find the leaf of a row with one new value at once.

The leaves of a tree are numbered from left to right, one bit each. For each feature that the tree tests, the numbers
fall into bins between the tree's thresholds. The set of a bin contains the leaves whose path such a value satisfies, as
far as that feature is concerned. A row's leaf is the one bit in the conjunction of its features' sets.
(After Lucchese et al., QuickScorer, SIGIR 2015, which excludes leaves threshold by threshold.)

The leaves of alternate trees in adaptive trees are included, so a row can have several leaves. They come before those
of the branch beside which they grow, so the bits from low to high have the order in which `walk.classify` adds.
"""

from typing import NamedTuple

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.walk import (
    LEAF,
    NOMINAL_MULTIWAY,
    NUMERIC_BINARY,
    NUMERIC_MULTIWAY,
    UNTESTED,
    Branches,
    below,
    step,
)
from glasstream.models.predictors.predictor import Floats

_LIMIT = 1 << 23
"""Largest number of words of sets, and of entries of the table of bins, that are worth making (64 MiB)."""


class LeafSets(NamedTuple):
    """The sets of leaves of all trees.

    Attributes
    ----------
    cut_start, cut
        int64[d + 1], float64[K]: the cuts of each feature, sorted, those of all trees together. A value's *place* is
        the number of cuts below it; behind the last place of a feature comes the one for its absence. Places are
        numbered through all features.
    words
        int64[T]: number of uint64 words in a set of each tree.
    bit_start
        int64[T + 1]: the first bit of each tree, a multiple of 64, in `leaf`.
    leaves
        int64[T]: number of bits of each tree.
    leaf
        int64[B]: the leaf of each bit.
    asked_start, asked
        int64[T + 1], int64[A]: the features that each tree tests.
    set_start
        uint32[T, P]: start of the set of each place in `sets`; 0, where all bits are set, for a feature that the tree
        does not test.
    sets
        uint64[S]: the words of all sets.
    most
        Largest number of leaves that a row can reach in a tree.
    """

    cut_start: Array
    cut: Array
    words: Array
    bit_start: Array
    leaves: Array
    leaf: Array
    asked_start: Array
    asked: Array
    set_start: Array
    sets: Array
    most: int


def leaf_sets(branches: Branches, features: int) -> LeafSets | None:
    """Return the sets of trees over `features` slots; None if they would not pay off.

    They do not pay off for branches with intervals of one width as cases, for trees of very many leaves, and for
    forests of very many trees with very many thresholds.
    """
    if branches.root.size * 2 * features > _LIMIT:  # before `_tests` makes a table of trees and features
        return None
    numeric = branches.threshold[branches.kind == NUMERIC_BINARY]
    if np.any(branches.kind == NUMERIC_MULTIWAY) or np.any(np.isnan(numeric)):
        return None
    above, beside, tree = _ways(branches)
    low, twice, count, bit_start, leaf = _numbered(branches, above, beside, tree)
    asks, owner, slot, number, nominal = _tests(branches, tree, features)
    cut_start, cut = _cuts(slot, number, nominal, features)
    words = np.diff(bit_start) >> 6
    if words.size * (cut.size + 2 * features) > _LIMIT:
        return None
    asked_start, asked, set_start, value, set_end = _bins(asks, owner, slot, number, nominal, cut_start, cut, words)
    if set_end > _LIMIT:
        return None
    sets = np.full(set_end, np.uint64(2**64 - 1), np.uint64)
    _exclude(branches, tree, low - bit_start[tree, np.newaxis], twice, cut_start, set_start, value, sets)
    further = np.bincount(tree[(branches.alternate >= 0) & (tree >= 0)], minlength=1)
    most = 1 + 2 * int(further.max())  # one, and an alternate leaf twice for each branch that has one
    return LeafSets(cut_start, cut, words, bit_start, count, leaf, asked_start, asked, set_start, sets, most)


@kernel
def _ways(branches: Branches) -> tuple[Array, Array, Array]:
    """Return for each node the branch above it, whether it is an alternate, and its tree.

    The branch of a root is -1, and so is the tree of an unreachable node.
    """
    kind, _, _, first, last, common, alternate, _, case_child, root = branches
    owner = np.full(kind.size, -1, np.int64)
    beside = np.zeros(kind.size, np.bool_)
    tree = np.full(kind.size, -1, np.int64)
    for t in range(root.size):
        if root[t] >= 0:
            tree[root[t]] = t
    for node in range(kind.size):  # descendants come after their ancestors
        if kind[node] == LEAF or tree[node] < 0:
            continue
        other = alternate[node]
        if other >= 0:
            owner[other], beside[other], tree[other] = node, True, tree[node]
        multiway = kind[node] == NOMINAL_MULTIWAY
        cases = last[node] - first[node] if multiway else 0 if kind[node] == UNTESTED else 2
        for case in range(-1, cases):
            child = common[node] if case < 0 else case_child[first[node] + case] if multiway else first[node] + case
            owner[child], tree[child] = node, tree[node]
    return owner, beside, tree


@kernel
def _numbered(branches: Branches, owner: Array, beside: Array, tree: Array) -> tuple[Array, Array, Array, Array, Array]:
    """Return the lowest and highest bit of each node, whether a leaf has a second bit, and the bits of the trees.

    The second bit represents the second time that River lists an alternate leaf whose branch was reached by default.
    """
    kind, _, _, first, _, common, alternate, _, _, root = branches
    nodes = kind.size
    size = np.zeros(nodes, np.int64)
    twice = np.zeros(nodes, np.bool_)
    for node in range(nodes - 1, -1, -1):
        if tree[node] < 0:
            continue
        above = owner[node]
        if kind[node] == LEAF:
            size[node] = 1
        elif alternate[node] >= 0 and kind[alternate[node]] == LEAF:
            twice[node] = above >= 0 and not beside[node] and common[above] == node
            size[node] += twice[node]
        if above >= 0:
            size[above] += size[node]
    count = np.zeros(root.size, np.int64)
    bit_start = np.zeros(root.size + 1, np.int64)
    for t in range(root.size):
        if root[t] >= 0:
            count[t] = size[root[t]]
        bit_start[t + 1] = bit_start[t] + ((count[t] + 63) >> 6 << 6)
    low = np.zeros((nodes, 2), np.int64)
    free = np.zeros(nodes, np.int64)
    leaf = np.zeros(bit_start[-1], np.int64)
    for node in range(nodes):
        if tree[node] < 0:
            continue
        above = owner[node]
        if above < 0:
            low[node, 0] = bit_start[tree[node]]
        elif beside[node]:
            low[node, 0] = low[above, 0]
        else:
            low[node, 0] = free[above]
            free[above] += size[node]
        low[node, 1] = low[node, 0] + size[node]
        if kind[node] == LEAF:
            leaf[low[node, 0]] = first[node]
            continue
        free[node] = low[node, 0] + twice[node]
        if alternate[node] >= 0:
            free[node] += size[alternate[node]]
        if twice[node]:
            leaf[free[node] - 1] = first[alternate[node]]
    return low, twice, count, bit_start, leaf


@kernel
def _tests(branches: Branches, tree: Array, features: int) -> tuple[Array, Array, Array, Floats, Array]:
    """Return whether a tree asks for a feature, bool[T, d], and all tests of numbers.

    A test consists of a tree, a feature, a number, and whether the number is a category.
    """
    kind, feature, threshold, first, last, _, _, case_value, _, root = branches
    asks = np.zeros((root.size, features), np.bool_)
    owner = np.empty(kind.size + case_value.size, np.int64)
    slot = np.empty(owner.size, np.int64)
    value = np.empty(owner.size)
    nominal = np.empty(owner.size, np.bool_)
    end = 0
    for node in range(kind.size):
        if tree[node] < 0 or kind[node] == LEAF or kind[node] == UNTESTED:
            continue
        asks[tree[node], feature[node]] = True
        multiway = kind[node] == NOMINAL_MULTIWAY
        for case in range(last[node] - first[node] if multiway else 1):
            x = case_value[first[node] + case] if multiway else threshold[node]
            if x == x:  # a category that no row can hold is NaN
                owner[end], slot[end], value[end] = tree[node], feature[node], x
                nominal[end] = kind[node] != NUMERIC_BINARY
                end += 1
    return asks, owner[:end], slot[:end], value[:end], nominal[:end]


def _cuts(slot: Array, value: Floats, nominal: Array, features: int) -> tuple[Array, Floats]:
    """Return the cuts of each feature: every test of a branch is equivalent to tests x <= cut.

    A threshold is a cut. A category lies between two cuts: the next smaller number and itself.
    """
    slot = np.concatenate((slot, slot[nominal]))
    value = np.concatenate((value, np.nextafter(value[nominal], -np.inf)))
    order = np.lexsort((value, slot))
    slot, value = slot[order], value[order]
    new = np.ones(slot.size, np.bool_)
    new[1:] = (slot[1:] != slot[:-1]) | (value[1:] != value[:-1])
    return np.searchsorted(slot[new], np.arange(features + 1)), value[new]


@kernel
def _bins(
    asks: Array, owner: Array, slot: Array, value: Floats, nominal: Array, cut_start: Array, cut: Floats, words: Array
) -> tuple[Array, Array, Array, Floats, int]:
    """Return the features that each tree tests, and the sets of their places, with a value for each place.

    All places between two cuts of a tree share one set.
    """
    trees, features = asks.shape
    own = np.zeros((trees, cut.size), np.bool_)
    for test in range(owner.size):
        f = slot[test]
        at = below(cut, cut_start[f], cut_start[f + 1], value[test])
        own[owner[test], at] = True
        if nominal[test]:
            own[owner[test], at - 1] = True  # the next smaller number is a cut, and nothing lies between
    value_of = np.full(cut.size + 2 * features, np.nan)
    set_start = np.zeros((trees, cut.size + 2 * features), np.uint32)
    asked_start = np.zeros(trees + 1, np.int64)
    asked = np.empty(trees * features, np.int64)
    many = 0
    end = np.max(words) if trees else 0
    for t in range(trees):
        for f in range(features):
            place = cut_start[f] + 2 * f
            if not asks[t, f]:
                continue
            asked[many] = f
            many += 1
            for at in range(cut_start[f], cut_start[f + 1]):
                value_of[place] = cut[at]
                set_start[t, place] = end
                place += 1
                if own[t, at]:
                    end += words[t]
            value_of[place] = np.inf
            set_start[t, place] = end
            set_start[t, place + 1] = end + words[t]
            end += 2 * words[t]
        asked_start[t + 1] = many
    return asked_start, asked[:many].copy(), set_start, value_of, end


@kernel
def _clear(sets: Array, base: int, first: int, last: int) -> None:
    """Clear the bits `first` to `last` of the set at `base`."""
    if first >= last:
        return
    low, high = first >> 6, (last - 1) >> 6
    for word in range(low, high + 1):
        keep = np.uint64(0)
        if word == low:
            keep |= (np.uint64(1) << np.uint64(first & 63)) - np.uint64(1)
        if word == high and last & 63:
            keep |= ~((np.uint64(1) << np.uint64(last & 63)) - np.uint64(1))
        sets[base + word] &= keep


@kernel
def _exclude(
    branches: Branches, tree: Array, low: Array, twice: Array, cuts: Array, set_start: Array, value: Array, sets: Array
) -> None:
    """Remove from each set the leaves to which no branch on its feature lets such a value go.

    `low` counts the bits of each tree from 0. `cuts` is `LeafSets.cut_start`.
    """
    kind, feature, common, alternate = branches.kind, branches.feature, branches.common, branches.alternate
    for node in range(kind.size):
        t = tree[node]
        if t < 0 or kind[node] == LEAF or kind[node] == UNTESTED:
            continue
        f = feature[node]
        begin = low[node, 0] + twice[node]
        if alternate[node] >= 0:
            begin += low[alternate[node], 1] - low[alternate[node], 0]
        end = low[node, 1]
        default = common[node]
        first_place = cuts[f] + 2 * f
        last_place = cuts[f + 1] + 2 * f + 1
        for place in range(first_place, last_place + 1):
            base = set_start[t, place]
            if place + 1 <= last_place and set_start[t, place + 1] == base:
                continue  # the set of several places belongs to the last of them, whose value is a cut of this tree
            child, by_default = step(branches, node, value[place])
            _clear(sets, base, begin, low[child, 0])
            _clear(sets, base, low[child, 1], end)
            if twice[default] and not by_default:
                second = low[default, 0] + 1  # behind that of the leaf itself
                _clear(sets, base, second, second + 1)


@kernel
def places(cut_start: Array, cut: Floats, rows: Floats) -> Array:
    """Return the place of every value in `rows` float64[n, >= d], as uint32[n, d]."""
    features = cut_start.size - 1
    found = np.empty((rows.shape[0], features), np.uint32)
    for i in range(rows.shape[0]):
        for f in range(features):
            x = rows[i, f]
            first, last = cut_start[f], cut_start[f + 1]
            found[i, f] = 2 * f + (last + 1 if x != x else below(cut, first, last, x))
    return found
