"""What classification trees vote on rows in which features have been replaced, to the bits of `walk.classify`."""

import math
from typing import NamedTuple

import numpy as np

from pipeline.jit import bare_kernel, inlined, kernel
from pipeline.models.arrays import Array
from pipeline.models.leaf_sets import LeafSets, places
from pipeline.models.leaf_streams import scratch, stream_built_up, stream_replaced
from pipeline.models.predictor import Floats, Integers
from pipeline.models.variant_rows import BuiltUpRows, ReplacedRows
from pipeline.models.walk import Votes, find, leaf_weight, log_density, to_shares

_KEPT = 16
"""Naive Bayes leaves whose votes on a row are kept, by the lowest bits of their numbers."""

_CHUNK = 1 << 12
"""Variants whose scores are added up tree by tree before the next ones: they fit in a first-level cache."""


class BitVotes(NamedTuple):
    """What the leaf of each bit of `LeafSets` votes, laid out so that few arrays are in use at a time.

    Attributes
    ----------
    constant
        float64[B, c]: votes times the tree's weight; 0 for naive Bayes.
    bayes
        bool[B]
    weight
        float64[B]: what the shares of a naive Bayes leaf are multiplied by.
    reads
        uint64[B]: bit f % 64 for each feature f of its terms.
    head
        int32[B, 4]: of naive Bayes first entry, entries, first term, end of the terms.
    term
        int32[M, 4]: feature, first, last, log of `Votes`.
    density
        float64[G, 3]: centre, curvature, peak of `Votes`.
    vote, label, category, log
        As in `Votes`.
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


def bit_votes(leaf_sets: LeafSets, votes: Votes, weights: Floats, classes: int) -> BitVotes:
    """The votes by bit, of trees with these weights and this number of classes."""
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
def _bayes(
    bit: int,
    head: Array,
    term: Array,
    density: Floats,
    vote: Floats,
    category: Floats,
    log: Floats,
    weight: Floats,
    x: Floats,
    out: Floats,
    to: int,
) -> None:
    """Write to `out` from `to` on what a naive Bayes leaf votes on the row `x`."""
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
def _add_constant(bit: int, constant: Floats, scores: Floats, to: int) -> None:
    if constant.shape[1] == 2:
        scores[to] += constant[bit, 0]
        scores[to + 1] += constant[bit, 1]
    else:
        for c in range(constant.shape[1]):
            scores[to + c] += constant[bit, c]


@inlined
def _add_kept(bit: int, head: Array, label: Array, kept: Floats, at: int, scores: Floats, to: int) -> None:
    first = head[bit, 0]
    for j in range(head[bit, 1]):
        scores[to + label[first + j]] += kept[at + j]


@bare_kernel
def _votes_replaced(
    bit_votes: BitVotes,
    rows: Floats,
    values: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    tags: Array,
    kept: Floats,
    x: Floats,
    row_scores: Floats,
    scores: Floats,
) -> None:
    """Add what the leaves in `stream` vote to the scores of the rows `begin` to `end` and of their variants."""
    constant, bayes, weight, reads, head, term, density, vote, label, category, log = bit_votes
    _, times, width = values.shape
    classes = constant.shape[1]
    room = kept.size // (_KEPT + 1)
    at = np.uint64(0)
    for i in range(begin, end):
        for slot in range(_KEPT):
            tags[slot] = -1
        for f in range(features):
            x[f] = rows[i, f]
        for f in range(-1, features):
            reading = np.uint64(0) if f < 0 else np.uint64(1) << np.uint64(f & 63)
            for k in range(1 if f < 0 else times):
                if f >= 0:
                    x[f] = values[i, k, f]
                to = ((i * times + k) * width + f) * classes
                more = True
                while more:
                    entry = stream[at]
                    at += np.uint64(1)
                    more = entry & np.uint32(1)
                    bit = entry >> np.uint32(1)
                    if not bayes[bit]:
                        if f < 0:
                            _add_constant(bit, constant, row_scores, i * classes)
                        else:
                            _add_constant(bit, constant, scores, to)
                        continue
                    slot = _KEPT
                    if not reads[bit] & reading:  # its votes are those on the row itself
                        slot = bit % _KEPT
                    if slot == _KEPT or tags[slot] != bit:
                        _bayes(bit, head, term, density, vote, category, log, weight, x, kept, slot * room)
                        tags[slot] = bit
                    if f < 0:
                        _add_kept(bit, head, label, kept, slot * room, row_scores, i * classes)
                    else:
                        _add_kept(bit, head, label, kept, slot * room, scores, to)
            if f >= 0:
                x[f] = rows[i, f]


@bare_kernel
def _votes_built_up(
    bit_votes: BitVotes,
    rows: Floats,
    order: Array,
    background: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    kept: Floats,
    x: Floats,
    scores: Floats,
) -> None:
    """Add what the leaves in `stream` vote to the scores of the variants of the rows `begin` to `end`."""
    constant, bayes, weight, reads, head, term, density, vote, label, category, log = bit_votes
    _, backgrounds, inner, _ = background.shape
    steps = order.shape[1] - 1
    classes = constant.shape[1]
    at = np.uint64(0)
    for i in range(begin, end):
        for k in range(inner):
            last = np.int64(-1)
            changed = np.uint64(0)
            for step in range(steps):
                if step == 0 or backgrounds > 1:
                    last = np.int64(-1)
                    for f in range(features):
                        x[f] = background[i, step, k, f]
                    for added in range(step):
                        f = order[i, added]
                        x[f] = rows[i, f]
                f = order[i, step]
                x[f] = rows[i, f]
                changed |= np.uint64(1) << np.uint64(f & 63)
                to = ((i * steps + step) * inner + k) * classes
                more = True
                while more:
                    entry = stream[at]
                    at += np.uint64(1)
                    more = entry & np.uint32(1)
                    bit = entry >> np.uint32(1)
                    if not bayes[bit]:
                        _add_constant(bit, constant, scores, to)
                        continue
                    if bit != last or reads[bit] & changed:
                        _bayes(bit, head, term, density, vote, category, log, weight, x, kept, 0)
                        last = np.int64(bit)
                        changed = np.uint64(0)
                    _add_kept(bit, head, label, kept, 0, scores, to)


@kernel
def _room(bit_votes: BitVotes) -> int:
    """The most classes of a naive Bayes leaf."""
    head, bayes = bit_votes.head, bit_votes.bayes
    most = 1
    for bit in range(bayes.size):
        if bayes[bit]:
            most = max(most, head[bit, 1])
    return most


@kernel
def classify_replaced(
    leaf_sets: LeafSets,
    bit_votes: BitVotes,
    rows: Floats,
    values: Floats,
    row_places: Array,
    places: Array,
    row_scores: Floats,
    scores: Floats,
) -> None:
    """Add the votes on rows to `row_scores` float64[n, c], and on their variants to `scores` float64[n, r, d, c].

    Parameters
    ----------
    leaf_sets, bit_votes
        The trees.
    rows, values
        float64[n, d] and float64[n, r, d] as of `pipeline.explain.variants.replaced`.
    row_places, places
        uint32[n, known], uint32[n r, known]: their places.
    """
    n, times, width = values.shape
    features = row_places.shape[1]
    room = scratch(leaf_sets, width)
    tags = np.empty(_KEPT + 1, np.int64)
    kept = np.empty((_KEPT + 1) * _room(bit_votes))
    x = np.empty(width)
    chunk = max(1, _CHUNK // (1 + times * width))
    stream = np.empty(chunk * (1 + times * features) * leaf_sets.most, np.uint32)
    row_out, out = row_scores.reshape(-1), scores.reshape(-1)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        for tree in range(leaf_sets.words.size):
            if leaf_sets.words[tree] > 0:
                stream_replaced(leaf_sets, tree, row_places, places, begin, end, times, room, stream)
                _votes_replaced(bit_votes, rows, values, features, begin, end, stream, tags, kept, x, row_out, out)


@kernel
def classify_built_up(
    leaf_sets: LeafSets,
    bit_votes: BitVotes,
    rows: Floats,
    order: Array,
    background: Floats,
    row_places: Array,
    places: Array,
    scores: Floats,
) -> None:
    """Add the votes on background rows that are built up to `scores` float64[n (d - 1) m, c].

    Parameters
    ----------
    leaf_sets, bit_votes
        The trees.
    rows, order, background
        float64[n, d], int64[n, d] and float64[n, s, m, d] as of `pipeline.explain.variants.built_up`.
    row_places, places
        uint32[n, known], uint32[n s m, known]: the places of the rows and of the background rows.
    """
    n, backgrounds, inner, width = background.shape
    features = row_places.shape[1]
    room = scratch(leaf_sets, width)
    kept = np.empty(_room(bit_votes))
    x = np.empty(width)
    chunk = max(1, _CHUNK // max(1, inner * width))
    stream = np.empty(chunk * inner * width * leaf_sets.most, np.uint32)
    out = scores.reshape(-1)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        for tree in range(leaf_sets.words.size):
            if leaf_sets.words[tree] > 0:
                stream_built_up(
                    leaf_sets, tree, row_places, places, order, begin, end, backgrounds, inner, room, stream
                )
                _votes_built_up(bit_votes, rows, order, background, features, begin, end, stream, kept, x, out)


class VoteVariants:
    """The tables of a predictor of trees, and the scores of its variants.

    Parameters
    ----------
    leaf_sets, votes, weights, classes
        The trees.
    """

    def __init__(self, leaf_sets: LeafSets, votes: Votes, weights: Floats, classes: int) -> None:
        self._sets = leaf_sets
        self._votes = bit_votes(leaf_sets, votes, weights, classes)

    def _places(self, rows: Floats) -> Array:
        return np.asarray(places(self._sets.cut_start, self._sets.cut, rows))

    def replaced(self, rows: Floats, values: Floats) -> tuple[Floats, Floats]:
        """float64[n, c] and float64[n r d, c]: the scores of rows and of variants as of `variants.replaced`."""
        known, classes = self._sets.cut_start.size - 1, self._votes.constant.shape[1]
        given = ReplacedRows.of(rows, values, known)
        row_places, at = self._places(given.rows), self._places(given.flat)
        row_scores, scores = np.zeros((len(rows), classes)), np.zeros((*given.values.shape, classes))
        classify_replaced(self._sets, self._votes, given.rows, given.values, row_places, at, row_scores, scores)
        scores[:, :, known:] = row_scores[:, np.newaxis, np.newaxis]
        return row_scores, given.asked(scores)

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Floats:
        """float64[n (d - 1) m, c]: the scores of variants as of `variants.built_up`."""
        known, classes = self._sets.cut_start.size - 1, self._votes.constant.shape[1]
        given = BuiltUpRows.of(rows, order, background, known)
        row_places, at = self._places(given.rows), self._places(given.flat)
        scores = np.zeros((given.variants, classes))
        classify_built_up(self._sets, self._votes, given.rows, given.order, given.background, row_places, at, scores)
        return scores
