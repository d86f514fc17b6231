"""Answers of regression trees on rows with replaced features, equal to `walk.regress` in every bit."""

from typing import NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined, kernel
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.average import average
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.leaf_streams import scratch, stream_built_up, stream_replaced
from glasstream.models.predictors.kernels.variant_rows import (
    CHUNK,
    BuiltUpRows,
    ReplacedRows,
    built_up_part,
    replaced_part,
)
from glasstream.models.predictors.kernels.walk import Means
from glasstream.models.predictors.predictor import Floats


class Room(NamedTuple):
    """Scratch space: one variant, and the answers of each tree for the rows and for their variants."""

    x: Floats
    row_answers: Floats
    answers: Floats


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
    leaf: Array, means: Means, weight: float, given: ReplacedRows, stream: Array, tree: int, room: Room
) -> None:
    rows, values, row_places, _ = given
    x, row_answers, answers = room
    n, times, width = values.shape
    features = row_places.shape[1]
    at = np.uint64(0)
    for i in range(n):
        for f in range(features):
            x[f] = rows[i, f]
        at, answer = _answer(stream, at, leaf, means, x)
        row_answers[i, tree] = answer * weight
        for f in range(features):
            for k in range(times):
                x[f] = values[i, k, f]
                at, answer = _answer(stream, at, leaf, means, x)
                answers[(i * times + k) * width + f, tree] = answer * weight
            x[f] = rows[i, f]


@bare_kernel
def _answers_built_up(
    leaf: Array, means: Means, weight: float, given: BuiltUpRows, stream: Array, tree: int, room: Room
) -> None:
    rows, order, background, row_places, _ = given
    x, _, answers = room
    n, backgrounds, inner, _ = background.shape
    features, steps = row_places.shape[1], order.shape[1] - 1
    at = np.uint64(0)
    for i in range(n):
        for k in range(inner):
            for step in range(steps):
                if step == 0 or backgrounds > 1:
                    for f in range(features):
                        x[f] = background[i, step, k, f]
                    for added in range(step):
                        x[order[i, added]] = rows[i, order[i, added]]
                x[order[i, step]] = rows[i, order[i, step]]
                at, answer = _answer(stream, at, leaf, means, x)
                answers[(i * steps + step) * inner + k, tree] = answer * weight


@kernel
def regress_replaced(
    leaf_sets: LeafSets, means: Means, weights: Floats, rule: int, given: ReplacedRows, row_said: Floats, said: Floats
) -> None:
    """Fill `row_said` float64[n, 1] and `said` float64[n r w, 1], zero before, with the averages of the trees' answers.

    `rule` is one of the numbers in `average.RULES`.
    """
    n, times, width = given.values.shape
    trees, room = weights.size, scratch(leaf_sets, width)
    chunk = max(1, CHUNK // (1 + times * width))
    stream = np.empty(chunk * (1 + times * width) * leaf_sets.most, np.uint32)
    row_answers, answers = np.zeros((chunk, trees)), np.zeros((chunk * times * width, trees))
    own = Room(np.empty(width), row_answers, answers)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        part = replaced_part(given, begin, end)
        row_answers[:], answers[:] = 0.0, 0.0
        for tree in range(trees):
            if leaf_sets.words[tree] > 0:
                stream_replaced(leaf_sets, tree, part, room, stream)
                _answers_replaced(leaf_sets.leaf, means, weights[tree], part, stream, tree, own)
        average(row_answers[: end - begin], rule, row_said[begin:end])
        first, last = begin * times * width, end * times * width
        average(answers[: last - first], rule, said[first:last])


@kernel
def regress_built_up(
    leaf_sets: LeafSets, means: Means, weights: Floats, rule: int, given: BuiltUpRows, said: Floats
) -> None:
    """Fill `said` float64[n (d - 1) m, 1], zero before, with the averages of the trees' answers."""
    n, _, inner, width = given.background.shape
    trees, room = weights.size, scratch(leaf_sets, width)
    each = max(given.order.shape[1] - 1, 0) * inner
    chunk = max(1, CHUNK // max(1, each))
    stream = np.empty(chunk * each * leaf_sets.most, np.uint32)
    answers = np.zeros((chunk * each, trees))
    own = Room(np.empty(width), answers, answers)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        part = built_up_part(given, begin, end)
        answers[:] = 0.0
        for tree in range(trees):
            if leaf_sets.words[tree] > 0:
                stream_built_up(leaf_sets, tree, part, room, stream)
                _answers_built_up(leaf_sets.leaf, means, weights[tree], part, stream, tree, own)
        average(answers[: (end - begin) * each], rule, said[begin * each : end * each])
