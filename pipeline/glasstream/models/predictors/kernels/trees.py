"""Predictors of flattened trees and forests."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from glasstream.models.predictors.arrays import Array, as_rows, read_fields, require, require_range, sealed
from glasstream.models.predictors.compiled import choice, texts
from glasstream.models.predictors.kernels import average, normalise
from glasstream.models.predictors.kernels.bit_votes import bit_votes
from glasstream.models.predictors.kernels.games import CACHE_BYTES, IDENTITY, Answers, TreeGame
from glasstream.models.predictors.kernels.leaf_sets import LeafSets, leaf_sets
from glasstream.models.predictors.kernels.mean_variants import regress_built_up, regress_replaced
from glasstream.models.predictors.kernels.tree_arrays import read_branches, read_means, read_votes
from glasstream.models.predictors.kernels.variant_rows import TreeVariants
from glasstream.models.predictors.kernels.vote_variants import classify_built_up, classify_replaced
from glasstream.models.predictors.kernels.walk import Branches, Means, Votes, classify, regress
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Integers, Output, Task

_ROUNDING = 1e-12
"""Largest difference of the totals of two leaves, as a share, that comes from rounding."""


class _Trees:
    """What predictors of trees share."""

    compiled = True

    def __init__(self, features: tuple[str, ...], branches: Branches, weights: object, rule: str) -> None:
        self.features = features
        self._branches = branches
        self._weights = sealed(weights, np.float64)
        self._rule = rule

    def _answered(self, scores: Floats) -> Output:
        raise NotImplementedError

    def _with_sets(self, sets: LeafSets) -> TreeVariants:
        raise NotImplementedError

    @cached_property
    def _sets(self) -> LeafSets | None:
        return leaf_sets(self._branches, len(self.features))

    @cached_property
    def _variants(self) -> TreeVariants | None:
        return None if self._sets is None else self._with_sets(self._sets)

    def replaced(self, rows: Floats, values: Floats) -> tuple[Output, Output] | None:
        """Evaluate `glasstream.explain.variants.replaced`; return None if sets of leaves would not pay off."""
        if self._variants is None:
            return None
        row_scores, scores = self._variants.replaced(rows, values)
        return self._answered(row_scores), self._answered(scores)

    def built_up(self, rows: Floats, order: Integers, background: Floats) -> Output | None:
        """Evaluate `glasstream.explain.variants.built_up`; return None if sets of leaves would not pay off."""
        return None if self._variants is None else self._answered(self._variants.built_up(rows, order, background))


class ClassificationTrees(_Trees):
    """A classification tree or forest as arrays.

    Parameters
    ----------
    features, classes
        Features and classes; see `Predictor`.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1 for a key that is not reported.
    branches, votes
        The trees.
    weights
        float64[T]: the weight of each tree's votes.
    rule
        One of `normalise.RULES`.
    """

    form: ClassVar[str] = "classification trees"
    task: Task = CLASSIFICATION

    def __init__(
        self,
        features: tuple[str, ...],
        classes: tuple[str, ...],
        column: object,
        branches: Branches,
        votes: Votes,
        weights: object,
        rule: str,
    ) -> None:
        super().__init__(features, branches, weights, rule)
        self.classes = classes
        self._column = sealed(column, np.int32)
        self._votes = votes

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.zeros((len(rows), self._column.size))
        classify(rows, self._branches, self._votes, self._weights, scores)
        return self._answered(scores)

    def _answered(self, scores: Floats) -> Output:
        return normalise.classified(scores, self._rule, self._column, len(self.classes))

    def _with_sets(self, sets: LeafSets) -> TreeVariants:
        classes = self._column.size
        votes = bit_votes(sets, self._votes, self._weights, classes)
        return TreeVariants(sets, (votes,), classify_replaced, classify_built_up, classes)

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> TreeGame | None:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`."""
        column = np.full(len(self.classes), -1, np.int64)
        column[self._column[self._column >= 0]] = np.flatnonzero(self._column >= 0)
        columns = column, np.ones(column.size)
        return TreeGame.of(self._sets, self._leaf_answers, columns, IDENTITY, self._values, background, cache_bytes)

    def _values(self, rows: Floats) -> Floats:
        return self.evaluate(rows).values

    def _leaf_answers(self, sets: LeafSets) -> Answers | None:
        """Return what the leaves answer; None if a row's votes are not divided by the same total for all rows."""
        votes = bit_votes(sets, self._votes, self._weights, self._column.size)
        total = np.where(votes.bayes, votes.weight, votes.constant.sum(axis=1))
        if self._rule == "as they are":
            factor = np.ones(total.size)
        elif sets.most > 1:
            return None
        elif self._weights.size == 1:
            factor = np.divide(1.0, total, out=np.ones(total.size), where=total > 0.0)
        else:
            whole = 0.0
            for begin, leaves in zip(sets.bit_start.tolist(), sets.leaves.tolist(), strict=False):
                own = total[begin : begin + leaves]
                if leaves and np.ptp(own) > _ROUNDING * own[0]:
                    return None
                whole += own[0] if leaves else 0.0
            factor = np.full(total.size, 1.0 / whole if whole > 0.0 else 1.0)
        tables = votes if votes.bayes.any() else None
        return Answers(votes.constant * factor[:, np.newaxis], votes.bayes, factor * votes.weight, tables)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"features": self.features, "classes": self.classes, "rule": self._rule}
        arrays = {"column": self._column, "weights": self._weights}
        return meta, arrays | self._branches._asdict() | self._votes._asdict()

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        column, weights = read_fields(arrays, (("column", "i4"), ("weights", "f8")))
        require_range(column, -1, len(classes), "columns")
        votes = read_votes(arrays, len(features), column.size)
        branches = read_branches(arrays, len(features), votes.bayes.size)
        require(weights.size == branches.root.size, "a weight for each tree")
        return cls(features, classes, column, branches, votes, weights, choice(meta, "rule", tuple(normalise.RULES)))


class RegressionTrees(_Trees):
    """A regression tree or forest as arrays.

    Parameters
    ----------
    features
        Features; see `Predictor`.
    branches, means
        The trees.
    weights
        float64[T]: the weight of each tree's answer.
    rule
        One of `average.RULES`.
    """

    form: ClassVar[str] = "regression trees"
    task: Task = REGRESSION
    classes: tuple[str, ...] = ()

    def __init__(self, features: tuple[str, ...], branches: Branches, means: Means, weights: object, rule: str) -> None:
        super().__init__(features, branches, weights, rule)
        self._means = means

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        values = np.zeros((len(rows), 1))
        answers = np.zeros((len(rows), self._weights.size))
        regress(rows, self._branches, self._means, self._weights, answers)
        average.average(answers, average.RULES[self._rule], values)
        return self._answered(values)

    def _answered(self, scores: Floats) -> Output:
        return Output.of_numbers(scores)

    def _with_sets(self, sets: LeafSets) -> TreeVariants:
        tables = (self._means, self._weights, average.RULES[self._rule])
        return TreeVariants(sets, tables, regress_replaced, regress_built_up, 1)

    def game(self, background: Floats, cache_bytes: int = CACHE_BYTES) -> TreeGame | None:
        """Return the game with background rows; see `glasstream.models.predictors.kernels.games`."""
        columns = np.zeros(1, np.int64), np.ones(1)
        return TreeGame.of(self._sets, self._leaf_answers, columns, IDENTITY, self._values, background, cache_bytes)

    def _values(self, rows: Floats) -> Floats:
        return self.evaluate(rows).values

    def _leaf_answers(self, sets: LeafSets) -> Answers | None:
        """Return what the leaves answer; None if the answers of the trees are not averaged."""
        trees = self._weights.size
        if sets.most > 1 or trees == 0 or (self._rule == "median" and trees > 2):
            return None
        factor = np.repeat(self._weights / trees, 64 * sets.words)
        varies = np.diff(self._means.start)[sets.leaf] > 0
        constant = np.where(varies, 0.0, self._means.value[sets.leaf] * factor)
        return Answers(constant[:, np.newaxis], varies, factor, self._means if varies.any() else None)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"features": self.features, "rule": self._rule}
        return meta, {"weights": self._weights} | self._branches._asdict() | self._means._asdict()

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features = texts(meta, "features")
        (weights,) = read_fields(arrays, (("weights", "f8"),))
        means = read_means(arrays, len(features))
        branches = read_branches(arrays, len(features), means.value.size)
        require(weights.size == branches.root.size, "a weight for each tree")
        return cls(features, branches, means, weights, choice(meta, "rule", tuple(average.RULES)))
