"""Answers of regression trees on rows with replaced features, equal to `walk.regress` in every bit."""

import numpy as np

from glasstream.jit import bare_kernel, inlined, kernel
from glasstream.models.contract.arrays import Array
from glasstream.models.contract.predictor import Floats, Integers
from glasstream.models.kernels.average import average
from glasstream.models.kernels.leaf_sets import LeafSets, places
from glasstream.models.kernels.leaf_streams import scratch, stream_built_up, stream_replaced
from glasstream.models.kernels.variant_rows import BuiltUpRows, ReplacedRows
from glasstream.models.kernels.walk import Means

_CHUNK = 1 << 12
"""Number of variants whose answers are collected tree by tree before they are averaged: they stay in the cache."""


@inlined
def _answer(stream: Array, at: np.uint64, leaf_of: Array, means: Means, x: Floats) -> tuple[np.uint64, float]:
    """Return the mean answer of the leaves of the row `x`, whose entries begin at `at`, and the next row's start."""
    value, start, slot, weight = means
    total = 0.0
    reached = 0
    more = True
    while more:
        entry = stream[at]
        at += np.uint64(1)
        more = entry & np.uint32(1)
        leaf = leaf_of[entry >> np.uint32(1)]
        dot = 0.0
        for term in range(start[leaf], start[leaf + 1]):
            given = x[slot[term]]
            if given == given:
                dot += given * weight[term]
        total += dot + value[leaf]
        reached += 1
    return at, total / reached


@bare_kernel
def _answers_replaced(
    leaf_of: Array,
    means: Means,
    weight: float,
    rows: Floats,
    values: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    x: Floats,
    tree: int,
    row_answers: Floats,
    answers: Floats,
) -> None:
    _, times, width = values.shape
    at = np.uint64(0)
    for i in range(begin, end):
        for f in range(features):
            x[f] = rows[i, f]
        at, answer = _answer(stream, at, leaf_of, means, x)
        row_answers[i - begin, tree] = answer * weight
        for f in range(features):
            for k in range(times):
                x[f] = values[i, k, f]
                at, answer = _answer(stream, at, leaf_of, means, x)
                answers[((i - begin) * times + k) * width + f, tree] = answer * weight
            x[f] = rows[i, f]


@bare_kernel
def _answers_built_up(
    leaf_of: Array,
    means: Means,
    weight: float,
    rows: Floats,
    order: Integers,
    background: Floats,
    features: int,
    begin: int,
    end: int,
    stream: Array,
    x: Floats,
    tree: int,
    answers: Floats,
) -> None:
    _, backgrounds, inner, _ = background.shape
    steps = order.shape[1] - 1
    at = np.uint64(0)
    for i in range(begin, end):
        for k in range(inner):
            for step in range(steps):
                if step == 0 or backgrounds > 1:
                    for f in range(features):
                        x[f] = background[i, step, k, f]
                    for added in range(step):
                        x[order[i, added]] = rows[i, order[i, added]]
                x[order[i, step]] = rows[i, order[i, step]]
                at, answer = _answer(stream, at, leaf_of, means, x)
                answers[((i - begin) * steps + step) * inner + k, tree] = answer * weight


@kernel
def regress_replaced(
    leaf_sets: LeafSets,
    means: Means,
    weights: Floats,
    rule: int,
    rows: Floats,
    values: Floats,
    row_places: Array,
    places: Array,
    row_said: Floats,
    said: Floats,
) -> None:
    """Fill `row_said` float64[n, 1] and `said` float64[n r d, 1], zero before, with the trees' averages.

    Parameters
    ----------
    leaf_sets, means, weights, rule
        Trees, and an index of `average.RULES`.
    rows, values
        float64[n, d] and float64[n, r, d]; see `glasstream.explain.variants.replaced`.
    row_places, places
        uint32[n, known], uint32[n r, known]: places of the rows and of the values.
    """
    n, times, width = values.shape
    features, trees = row_places.shape[1], weights.size
    room = scratch(leaf_sets, width)
    x = np.empty(width)
    chunk = max(1, _CHUNK // (1 + times * width))
    stream = np.empty(chunk * (1 + times * features) * leaf_sets.most, np.uint32)
    row_answers, answers = np.zeros((chunk, trees)), np.zeros((chunk * times * width, trees))
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        row_answers[:], answers[:] = 0.0, 0.0
        for tree in range(trees):
            if leaf_sets.words[tree] > 0:
                stream_replaced(leaf_sets, tree, row_places, places, begin, end, times, room, stream)
                _answers_replaced(
                    leaf_sets.leaf,
                    means,
                    weights[tree],
                    rows,
                    values,
                    features,
                    begin,
                    end,
                    stream,
                    x,
                    tree,
                    row_answers,
                    answers,
                )
        average(row_answers[: end - begin], rule, row_said[begin:end])
        first, last = begin * times * width, end * times * width
        average(answers[: last - first], rule, said[first:last])


@kernel
def regress_built_up(
    leaf_sets: LeafSets,
    means: Means,
    weights: Floats,
    rule: int,
    rows: Floats,
    order: Integers,
    background: Floats,
    row_places: Array,
    places: Array,
    said: Floats,
) -> None:
    """Fill `said` float64[n (d - 1) m, 1], zero before, with the trees' averages on background rows that are built up.

    Parameters
    ----------
    leaf_sets, means, weights, rule
        Trees, and an index of `average.RULES`.
    rows, order, background
        float64[n, d], int64[n, d] and float64[n, s, m, d]; see `glasstream.explain.variants.built_up`.
    row_places, places
        uint32[n, known], uint32[n s m, known]: the places of the rows and of the background rows.
    """
    n, backgrounds, inner, width = background.shape
    features, trees = row_places.shape[1], weights.size
    room = scratch(leaf_sets, width)
    x = np.empty(width)
    each = max(order.shape[1] - 1, 0) * inner
    chunk = max(1, _CHUNK // max(1, each))
    stream = np.empty(chunk * each * leaf_sets.most, np.uint32)
    answers = np.zeros((chunk * each, trees))
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        answers[:] = 0.0
        for tree in range(trees):
            if leaf_sets.words[tree] > 0:
                stream_built_up(
                    leaf_sets, tree, row_places, places, order, begin, end, backgrounds, inner, room, stream
                )
                _answers_built_up(
                    leaf_sets.leaf,
                    means,
                    weights[tree],
                    rows,
                    order,
                    background,
                    features,
                    begin,
                    end,
                    stream,
                    x,
                    tree,
                    answers,
                )
        average(answers[: (end - begin) * each], rule, said[begin * each : end * each])


class MeanVariants:
    """The tables of a predictor of regression trees, which give the answers for its variants.

    Parameters
    ----------
    leaf_sets, means, weights, rule
        Trees, and an index of `average.RULES`.
    """

    def __init__(self, leaf_sets: LeafSets, means: Means, weights: Floats, rule: int) -> None:
        self._sets = leaf_sets
        self._trees = (leaf_sets, means, weights, rule)

    def _places(self, rows: Floats) -> Array:
        return np.asarray(places(self._sets.cut_start, self._sets.cut, rows))

    def replaced(self, rows: Floats, values: Floats) -> tuple[Floats, Floats]:
        """Return float64[n, 1] and float64[n r d, 1]; see `glasstream.explain.variants.replaced`."""
        known = self._sets.cut_start.size - 1
        given = ReplacedRows.of(rows, values, known)
        row_places, at = self._places(given.rows), self._places(given.flat)
        row_said, said = np.zeros((len(rows), 1)), np.zeros((*given.values.shape, 1))
        flat = said.reshape(-1, 1)
        regress_replaced(*self._trees, given.rows, given.values, row_places, at, row_said, flat)
        said[:, :, known:] = row_said[:, np.newaxis, np.newaxis]
        return row_said, given.asked(said)

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Floats:
        """Return float64[n (d - 1) m, 1]; see `glasstream.explain.variants.built_up`."""
        given = BuiltUpRows.of(rows, order, background, self._sets.cut_start.size - 1)
        row_places, at = self._places(given.rows), self._places(given.flat)
        said = np.zeros((given.variants, 1))
        regress_built_up(*self._trees, given.rows, given.order, given.background, row_places, at, said)
        return said
