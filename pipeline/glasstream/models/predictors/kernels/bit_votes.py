"""Votes of the leaves of classification trees by the bits of `LeafSets`, equal to `walk.classify` in every bit."""

import math
from typing import NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.walk import Votes, find, leaf_weight, log_density, to_shares
from glasstream.models.predictors.predictor import Floats


class BitVotes(NamedTuple):
    """Votes of the leaf of each bit of `LeafSets`, arranged so that few arrays are in use at a time.

    Attributes
    ----------
    constant
        float64[B, c]: votes times the tree's weight; 0 for naive Bayes.
    bayes
        bool[B]: whether the leaf predicts by naive Bayes.
    weight
        float64[B]: factor of the shares of a naive Bayes leaf.
    reads
        uint64[B]: bit f % 64 for each feature f of the leaf's terms.
    head
        int32[B, 4]: for naive Bayes, first entry, number of entries, first term, end of the terms.
    term
        int32[M, 4]: feature, first, last, log of `Votes`.
    density
        float64[G, 3]: centre, curvature, peak of `Votes`.
    vote, label, category, log
        As in `Votes`.
    most
        Largest number of classes in a naive Bayes leaf.
    """

    constant: Array
    bayes: Array
    weight: Array
    reads: Array
    head: Array
    term: Array
    density: Array
    vote: Array
    label: Array
    category: Array
    log: Array
    most: int


def bit_votes(leaf_sets: LeafSets, votes: Votes, weights: Floats, classes: int) -> BitVotes:
    """Return the votes by bit of trees with these weights and this number of classes."""
    leaf = leaf_sets.leaf
    start, term_start = votes.start, votes.term_start
    tree = np.repeat(np.arange(leaf_sets.words.size), 64 * leaf_sets.words)
    constant = np.zeros((leaf.size, classes))
    weight = np.zeros(leaf.size)
    reads = np.zeros(leaf.size, np.uint64)
    _by_bit(leaf, votes, weights[tree], constant, weight, reads)
    return BitVotes(
        constant,
        votes.bayes[leaf],
        weight,
        reads,
        np.stack([start[leaf], start[1:][leaf] - start[leaf], term_start[leaf], term_start[1:][leaf]], axis=1),
        np.stack([votes.term_feature, votes.term_first, votes.term_last, votes.term_log], axis=1),
        np.stack([votes.centre, votes.curvature, votes.peak], axis=1),
        votes.vote,
        votes.label,
        votes.category,
        votes.log,
        int(np.max(np.diff(start)[votes.bayes], initial=1)),
    )


@bare_kernel
def _by_bit(leaf_of: Array, votes: Votes, weights: Floats, constant: Floats, weight: Floats, reads: Array) -> None:
    start, label, vote, bayes, error, term_start, term_feature = votes[:7]
    for bit in range(leaf_of.size):
        leaf = leaf_of[bit]
        weight[bit] = leaf_weight(error[leaf], weights[bit])
        if bayes[leaf]:
            for term in range(term_start[leaf], term_start[leaf + 1]):
                reads[bit] |= np.uint64(1) << np.uint64(term_feature[term] & 63)
        else:
            for entry in range(start[leaf], start[leaf + 1]):
                constant[bit, label[entry]] += vote[entry] * weights[bit]


@inlined
def bayes_votes(bit: int, votes: BitVotes, x: Floats, out: Floats, to: int) -> None:
    """Write to `out` from `to` on the votes of a naive Bayes leaf on the row `x`."""
    _, _, weight, _, head, term, density, vote, _, category, log, _ = votes
    first, count = head[bit, 0], head[bit, 1]
    if count == 2:  # as below, in registers
        one, two = vote[first], vote[first + 1]
        for t in range(head[bit, 2], head[bit, 3]):
            value = x[np.uint32(term[t, 0])]
            if value != value:
                continue
            low, high = term[t, 1], term[t, 2]
            if high < 0:
                row = np.uint32(low)
                one += log_density(value, density[row, 0], density[row, 1], density[row, 2])
                row += np.uint32(1)
                two += log_density(value, density[row, 0], density[row, 1], density[row, 2])
            else:
                case = find(category, low, high, value)
                if case >= 0:
                    base = term[t, 3] + (case - low) * 2
                    one += log[base]
                    two += log[base + 1]
        small = math.exp(-abs(one - two))
        scale = weight[bit] / (1.0 + small)
        out[to] = (small if two > one else 1.0) * scale
        out[to + 1] = (1.0 if two > one else small) * scale
        return
    for j in range(count):
        out[to + j] = vote[first + j]
    for t in range(head[bit, 2], head[bit, 3]):
        value = x[np.uint32(term[t, 0])]
        if value != value:
            continue
        low, high = term[t, 1], term[t, 2]
        if high < 0:
            for j in range(count):
                row = np.uint32(low + j)
                out[to + j] += log_density(value, density[row, 0], density[row, 1], density[row, 2])
        else:
            case = find(category, low, high, value)
            if case >= 0:
                base = term[t, 3] + (case - low) * count
                for j in range(count):
                    out[to + j] += log[base + j]
    to_shares(out, to, count, weight[bit])


@inlined
def add_constant(bit: int, votes: BitVotes, scores: Floats, to: int) -> None:
    """Add the votes of a leaf that does not predict by naive Bayes to `scores` from `to` on; 0 for others."""
    constant = votes.constant
    if constant.shape[1] == 2:
        scores[to] += constant[bit, 0]
        scores[to + 1] += constant[bit, 1]
    else:
        for c in range(constant.shape[1]):
            scores[to + c] += constant[bit, c]


@inlined
def add_kept(bit: int, votes: BitVotes, kept: Floats, at: int, scores: Floats, to: int) -> None:
    """Add the votes of a naive Bayes leaf, which are in `kept` from `at` on, to `scores` from `to` on."""
    first = votes.head[bit, 0]
    for j in range(votes.head[bit, 1]):
        scores[to + votes.label[first + j]] += kept[at + j]
