"""Trees of an ONNX file (TreeEnsembleClassifier, TreeEnsembleRegressor), with the sums of onnxruntime.

onnxruntime compares float32 features with float32 thresholds, and adds in float32, tree by tree. The thresholds here
are float64 numbers that give the same answer for the float64 feature as the comparison of its float32 value does, and
the sums are rounded to float32 after each addition. Results are therefore equal to the last bit.
"""

from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined, kernel
from glasstream.models.predictors.arrays import (
    Array,
    Bytes,
    Indices,
    Numbers,
    as_rows,
    require,
    require_range,
    require_starts,
)
from glasstream.models.predictors.kernels.games import CACHE_BYTES, IDENTITY, Answers, TreeGame
from glasstream.models.predictors.kernels.leaf_games import sum_of_leaves
from glasstream.models.predictors.kernels.leaf_sets import LeafSets, leaf_sets, places
from glasstream.models.predictors.kernels.leaf_streams import scratch, stream_built_up, stream_replaced
from glasstream.models.predictors.kernels.scored import Scored
from glasstream.models.predictors.kernels.tree_arrays import read_branches
from glasstream.models.predictors.kernels.variant_rows import (
    CHUNK,
    BuiltUpRows,
    ReplacedRows,
    TreeVariants,
    built_up_part,
    replaced_part,
)
from glasstream.models.predictors.kernels.walk import LEAF, NUMERIC_BINARY, Branches
from glasstream.models.predictors.predictor import Floats, Integers, Output


class Leaves(NamedTuple):
    """What the L leaves add to the scores; the numbers are float32.

    Attributes
    ----------
    start
        int32[L + 1]: cuts the entries.
    target, weight
        int32[E], float64[E]: score, and what is added to it.
    base
        float64[c]: what is added to each score at the end.
    divisor
        float64[1]: what each sum is divided by before that: 1, or the number of trees.
    """

    start: Indices
    target: Indices
    weight: Numbers
    base: Numbers
    divisor: Numbers


class Trees(NamedTuple):
    """The fields of `walk.Branches` and of `Leaves`."""

    kind: Bytes
    feature: Indices
    threshold: Numbers
    first: Indices
    last: Indices
    common: Indices
    alternate: Indices
    case_value: Numbers
    case_child: Indices
    root: Indices
    start: Indices
    target: Indices
    weight: Numbers
    base: Numbers
    divisor: Numbers


_BRANCHES = len(Branches._fields)


@inlined
def _add(leaf: int, start: Array, target: Array, weight: Floats, scores: Floats, i: int) -> None:
    """Add the entries of a leaf to row `i` of `scores`."""
    for entry in range(start[leaf], start[leaf + 1]):
        sum_of = np.float32(scores[i, target[entry]]) + np.float32(weight[entry])
        scores[i, target[entry]] = sum_of


@bare_kernel
def add_leaves(rows: Floats, branches: Branches, leaves: Leaves, scores: Floats) -> None:
    """Add to `scores` float64[n, c], zero before, what the leaf of each tree adds for `rows` float64[n, >= d]."""
    kind, feature, threshold, first, _, common, _, _, _, root = branches
    start, target, weight, _, _ = leaves
    for i in range(rows.shape[0]):
        for tree in range(root.size):
            node = root[tree]
            while kind[node] != LEAF:
                x = rows[i, feature[node]]
                node = common[node] if x != x else first[node] + (0 if x <= threshold[node] else 1)
            _add(first[node], start, target, weight, scores, i)


@bare_kernel
def complete(leaves: Leaves, scores: Floats) -> None:
    """Divide the sums, and add the base values."""
    _, _, _, base, divisor = leaves
    for i in range(scores.shape[0]):
        for c in range(scores.shape[1]):
            scores[i, c] = np.float32(scores[i, c]) / np.float32(divisor[0]) + np.float32(base[c])


@bare_kernel
def _add_replaced(
    leaf: Array, leaves: Leaves, given: ReplacedRows, stream: Array, row_scores: Floats, scores: Floats
) -> None:
    start, target, weight, _, _ = leaves
    n, times, width = given.values.shape
    features = given.row_places.shape[1]
    at = np.uint64(0)
    for i in range(n):
        _add(leaf[stream[at] >> np.uint32(1)], start, target, weight, row_scores, i)
        at += np.uint64(1)
        for f in range(features):
            for k in range(times):
                variant = (i * times + k) * width + f
                _add(leaf[stream[at] >> np.uint32(1)], start, target, weight, scores, variant)
                at += np.uint64(1)


@kernel
def add_replaced(sets: LeafSets, leaves: Leaves, given: ReplacedRows, row_scores: Floats, scores: Floats) -> None:
    """Add the leaves of rows to `row_scores` float64[n, c], and those of their variants to `scores` float64[n r w, c].

    See `glasstream.explain.variants.replaced`.
    """
    n, times, width = given.values.shape
    room = scratch(sets, width)
    chunk = max(1, CHUNK // (1 + times * width))
    stream = np.empty(chunk * (1 + times * width), np.uint32)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        part = replaced_part(given, begin, end)
        out = scores[begin * times * width : end * times * width]
        for tree in range(sets.words.size):
            stream_replaced(sets, tree, part, room, stream)
            _add_replaced(sets.leaf, leaves, part, stream, row_scores[begin:end], out)
    complete(leaves, row_scores)
    complete(leaves, scores)


@bare_kernel
def _add_built_up(leaf: Array, leaves: Leaves, given: BuiltUpRows, stream: Array, scores: Floats) -> None:
    start, target, weight, _, _ = leaves
    n, _, inner, _ = given.background.shape
    steps = given.order.shape[1] - 1
    at = np.uint64(0)
    for i in range(n):
        for k in range(inner):
            for step in range(steps):
                variant = (i * steps + step) * inner + k
                _add(leaf[stream[at] >> np.uint32(1)], start, target, weight, scores, variant)
                at += np.uint64(1)


@kernel
def add_built_up(sets: LeafSets, leaves: Leaves, given: BuiltUpRows, scores: Floats) -> None:
    """Add the leaves of background rows that are built up to `scores` float64[n (d - 1) m, c].

    See `glasstream.explain.variants.built_up`.
    """
    n, _, inner, width = given.background.shape
    each = max(given.order.shape[1] - 1, 0) * inner
    room = scratch(sets, width)
    chunk = max(1, CHUNK // max(1, each))
    stream = np.empty(chunk * max(1, each), np.uint32)
    for begin in range(0, n, chunk):
        end = min(begin + chunk, n)
        part = built_up_part(given, begin, end)
        for tree in range(sets.words.size):
            stream_built_up(sets, tree, part, room, stream)
            _add_built_up(sets.leaf, leaves, part, stream, scores[begin * each : end * each])
    complete(leaves, scores)


class ScoredTrees(Scored):
    """Trees whose leaves add to scores; parameters are those of `Scored`."""

    form: ClassVar[str] = "scored trees"
    Tables = Trees

    @cached_property
    def _parts(self) -> tuple[Branches, Leaves]:
        return Branches(*self._tables[:_BRANCHES]), Leaves(*self._tables[_BRANCHES:])

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        branches, leaves = self._parts
        scores = np.zeros((len(rows), self._scores))
        add_leaves(rows, branches, leaves, scores)
        complete(leaves, scores)
        return self._answered(scores)

    @cached_property
    def _sets(self) -> LeafSets | None:
        return leaf_sets(self._parts[0], len(self.features))

    @cached_property
    def _variants(self) -> TreeVariants | None:
        if self._sets is None:
            return None
        return TreeVariants(self._sets, (self._parts[1],), add_replaced, add_built_up, self._scores)

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> TreeGame | None:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`.

        Its answers are not rounded to float32.
        """
        scale = self._scale()
        if scale is None or self._sets is None:
            return None
        link, score, sign = scale
        sets, leaves = self._sets, self._parts[1]
        constant = np.zeros((sets.leaf.size, self._scores))
        entries = leaves.start[sets.leaf + 1] - leaves.start[sets.leaf]
        owner = np.repeat(np.arange(sets.leaf.size), entries)
        at = np.arange(owner.size) - np.repeat(np.cumsum(entries) - entries, entries) + leaves.start[sets.leaf][owner]
        np.add.at(constant, (owner, leaves.target[at]), leaves.weight[at])
        constant /= leaves.divisor[0]
        offset = np.where(sign > 0, 0.0, 1.0 if link == IDENTITY else 0.0)

        def answer(rows: Floats) -> Floats:
            rows = as_rows(rows, len(self.features))
            sums = np.zeros((len(rows), self._scores))
            sum_of_leaves(sets, constant, np.asarray(places(sets.cut_start, sets.cut, rows)), sums)
            return np.asarray(offset + sign * (sums + leaves.base)[:, score])

        varies = np.zeros(sets.leaf.size, np.bool_)
        answers = Answers(constant, varies, np.ones(sets.leaf.size), None)
        return TreeGame.of(sets, lambda _: answers, (score, sign), link, answer, background, cache_bytes)

    def replaced(self, rows: Floats, values: Floats) -> tuple[Output, Output] | None:
        """Evaluate `glasstream.explain.variants.replaced`; return None if sets of leaves would not pay off."""
        if self._variants is None:
            return None
        row_scores, scores = self._variants.replaced(rows, values)
        return self._answered(row_scores), self._answered(scores)

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Output | None:
        """Evaluate `glasstream.explain.variants.built_up`; return None if sets of leaves would not pay off."""
        return None if self._variants is None else self._answered(self._variants.built_up(rows, order, background))

    @classmethod
    def _check(cls, tables: Any, features: int, scores: int) -> None:
        leaves = tables.start.size - 1
        require(leaves >= 0, "starts of leaves")
        branches = read_branches(tables._asdict(), features, leaves)
        known = (branches.kind == LEAF) | (branches.kind == NUMERIC_BINARY)
        require(bool(np.all(known)) and bool(np.all(branches.alternate == -1)), "branches of numbers only")
        require_range(branches.root, 0, branches.kind.size, "roots")
        require(not np.any(np.isnan(branches.threshold)), "thresholds that are numbers")
        require_starts(tables.start, leaves, tables.target.size, "starts of leaves")
        require(tables.weight.size == tables.target.size, "a weight for each entry")
        require_range(tables.target, 0, scores, "scores of leaves")
        require(tables.base.size == scores and tables.divisor.size == 1, "a base value for each score, and one divisor")
