"""Votes of classification trees on rows with replaced features, equal to `walk.classify` in every bit."""

import numpy as np

from glasstream.jit import kernel
from glasstream.models.contract.arrays import Array
from glasstream.models.contract.predictor import Floats, Integers
from glasstream.models.kernels.bit_votes import BitVotes, bit_votes
from glasstream.models.kernels.leaf_sets import LeafSets, places
from glasstream.models.kernels.leaf_streams import scratch, stream_built_up, stream_replaced
from glasstream.models.kernels.variant_rows import BuiltUpRows, ReplacedRows
from glasstream.models.kernels.vote_streams import (
    kept_votes,
    single_votes_built_up,
    single_votes_replaced,
    votes_built_up,
    votes_replaced,
)
from glasstream.models.kernels.walk import Votes

_CHUNK = 1 << 12
"""Number of variants whose scores are added up tree by tree before the next ones: they fit into a first-level cache."""


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
        float64[n, d] and float64[n, r, d]; see `glasstream.explain.variants.replaced`.
    row_places, places
        uint32[n, known], uint32[n r, known]: places of the rows and of the values.
    """
    n, times, width = values.shape
    features = row_places.shape[1]
    room = scratch(leaf_sets, width)
    kept = kept_votes(bit_votes, width, features * times)
    chunk = max(1, _CHUNK // (1 + times * width))
    stream = np.empty(chunk * (1 + times * features) * leaf_sets.most, np.uint32)
    row_out, out = row_scores.reshape(-1), scores.reshape(-1)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        for tree in range(leaf_sets.words.size):
            if leaf_sets.words[tree] > 0:
                stream_replaced(leaf_sets, tree, row_places, places, begin, end, times, room, stream)
                if leaf_sets.most == 1:
                    single_votes_replaced(bit_votes, rows, values, features, begin, end, stream, kept, row_out, out)
                else:
                    votes_replaced(bit_votes, rows, values, features, begin, end, stream, kept, row_out, out)


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
        float64[n, d], int64[n, d] and float64[n, s, m, d]; see `glasstream.explain.variants.built_up`.
    row_places, places
        uint32[n, known], uint32[n s m, known]: the places of the rows and of the background rows.
    """
    n, backgrounds, inner, width = background.shape
    features = row_places.shape[1]
    room = scratch(leaf_sets, width)
    kept = kept_votes(bit_votes, width, width)
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
                if leaf_sets.most == 1:
                    single_votes_built_up(bit_votes, rows, order, background, features, begin, end, stream, kept, out)
                else:
                    votes_built_up(bit_votes, rows, order, background, features, begin, end, stream, kept, out)


class VoteVariants:
    """The tables of a predictor of trees, which give the scores of its variants.

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
        """Return the scores of rows and variants, float64[n, c] and float64[n r d, c]; see `variants.replaced`."""
        known, classes = self._sets.cut_start.size - 1, self._votes.constant.shape[1]
        given = ReplacedRows.of(rows, values, known)
        row_places, at = self._places(given.rows), self._places(given.flat)
        row_scores, scores = np.zeros((len(rows), classes)), np.zeros((*given.values.shape, classes))
        classify_replaced(self._sets, self._votes, given.rows, given.values, row_places, at, row_scores, scores)
        scores[:, :, known:] = row_scores[:, np.newaxis, np.newaxis]
        return row_scores, given.asked(scores)

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Floats:
        """Return the scores of variants, float64[n (d - 1) m, c]; see `variants.built_up`."""
        known, classes = self._sets.cut_start.size - 1, self._votes.constant.shape[1]
        given = BuiltUpRows.of(rows, order, background, known)
        row_places, at = self._places(given.rows), self._places(given.flat)
        scores = np.zeros((given.variants, classes))
        classify_built_up(self._sets, self._votes, given.rows, given.order, given.background, row_places, at, scores)
        return scores
