"""Read trees from the arrays of a snapshot, with checks that keep every kernel inside the arrays."""

from collections.abc import Mapping

import numpy as np

from glasstream.models.predictors.arrays import Array, read_tuple, require, require_range, require_starts
from glasstream.models.predictors.kernels import walk
from glasstream.models.predictors.kernels.walk import Branches, Means, Votes


def read_branches(arrays: Mapping[str, Array], features: int, leaves: int) -> Branches:
    """Return the branches of a snapshot after checks that no row can lead a kernel out of bounds or in circles.

    Raises
    ------
    FrameError
        The arrays do not describe trees over `features` slots with `leaves` leaves.
    """
    branches = read_tuple(Branches, arrays)
    kind, first, last, common = branches.kind, branches.first, branches.last, branches.common
    count = kind.size
    require(all(array.size == count for array in branches[:7]), "node arrays of one length")
    require(branches.case_value.size == branches.case_child.size, "a child for each case")
    require_range(kind, walk.LEAF, walk.UNTESTED + 1, "kinds of node")
    require_range(branches.root, -1, count, "roots")
    require_range(first[kind == walk.LEAF], 0, leaves, "leaves of nodes")
    at = np.arange(count, dtype=np.int64)
    inner = at[kind != walk.LEAF]
    tested = (kind != walk.LEAF) & (kind != walk.UNTESTED)
    require_range(branches.feature[tested], 0, features, "features of branches")
    binary = at[(kind == walk.NUMERIC_BINARY) | (kind == walk.NOMINAL_BINARY)]
    multiway = at[(kind == walk.NOMINAL_MULTIWAY) | (kind == walk.NUMERIC_MULTIWAY)]
    lengths = last[multiway].astype(np.int64) - first[multiway]
    require_range(first[multiway], 0, branches.case_child.size + 1, "ranges of cases")
    require_range(last[multiway], 0, branches.case_child.size + 1, "ranges of cases")
    require(np.all(lengths >= 0) and lengths.sum() == branches.case_child.size, "each case in one branch")
    offsets = np.repeat(first[multiway] - np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    owned = branches.case_child[(offsets + np.arange(lengths.sum())).astype(np.int64)]
    parents = np.concatenate((binary, binary, np.repeat(multiway, lengths), inner))
    below = np.concatenate((first[binary], last[binary], owned, common[inner])).astype(np.int64)
    has_alternate = inner[branches.alternate[inner] >= 0]
    alternates = branches.alternate[has_alternate]
    require_range(below, 0, count, "children")
    require(np.all(last[binary] == first[binary] + 1), "the children of a binary branch one after the other")
    require_range(alternates, 0, count, "alternate trees")
    require(np.all(below > parents) and np.all(alternates > has_alternate), "descendants after their ancestors")
    # If nodes could be reached in two ways, a few nodes could stand for exponentially many.
    edges = np.unique(parents * count + below) % max(count, 1)
    reached = np.concatenate((edges, alternates, branches.root[branches.root >= 0]))
    require(np.unique(reached).size == reached.size, "one way to each node")
    return branches


def read_votes(arrays: Mapping[str, Array], features: int, classes: int) -> Votes:
    """Return the votes of a snapshot after checks that keep a kernel inside them.

    Raises
    ------
    FrameError
        The arrays do not describe leaves over `features` slots and `classes` classes.
    """
    votes = read_tuple(Votes, arrays)
    leaves, terms, densities = votes.bayes.size, votes.term_feature.size, votes.centre.size
    require_starts(votes.start, leaves, votes.label.size, "starts of votes")
    require_starts(votes.term_start, leaves, terms, "starts of terms")
    require(votes.vote.size == votes.label.size and votes.error.size == leaves, "a vote an entry and an error a leaf")
    require(np.all(np.diff(votes.start)[votes.bayes] >= 2), "two classes or more in naive Bayes leaves")
    require(votes.term_first.size == votes.term_last.size == votes.term_log.size == terms, "term arrays of one length")
    require(votes.curvature.size == votes.peak.size == densities, "density arrays of one length")
    require_range(votes.label, 0, classes, "classes of votes")
    require_range(votes.term_feature, 0, features, "features of terms")
    entries = np.repeat(np.diff(votes.start.astype(np.int64)), np.diff(votes.term_start))
    first, last, log = (array.astype(np.int64) for array in (votes.term_first, votes.term_last, votes.term_log))
    normal = last < 0
    require(np.all((first >= 0) & (log >= 0)), "terms from 0 on")
    require(np.all(first[normal] + entries[normal] <= densities), "a density for each entry of a term")
    nominal = ~normal
    require(np.all(first[nominal] <= last[nominal]) and np.all(last[nominal] <= votes.category.size), "categories")
    ends = log + (last - first) * entries
    require(np.all(ends[nominal] <= votes.log.size), "a log for each category and entry of a term")
    return votes


def read_means(arrays: Mapping[str, Array], features: int) -> Means:
    """Return the means of a snapshot after checks that keep a kernel inside them.

    Raises
    ------
    FrameError
        The arrays do not describe leaves over `features` slots.
    """
    means = read_tuple(Means, arrays)
    require_starts(means.start, means.value.size, means.slot.size, "starts of weights")
    require(means.weight.size == means.slot.size, "a weight for each slot")
    require_range(means.slot, 0, features, "slots of weights")
    return means
