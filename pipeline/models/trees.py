"""Predictors of flattened trees and forests."""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from pipeline.models import average, conclude
from pipeline.models import branches as flat_branches
from pipeline.models import means as flat_means
from pipeline.models import votes as flat_votes
from pipeline.models.arrays import Array, as_rows, read_fields, require, require_range, sealed
from pipeline.models.form import choice, texts
from pipeline.models.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Output, Task
from pipeline.models.walk import Branches, Means, Votes, classify, regress


class ClassificationTrees:
    """A classification tree or forest as arrays.

    Parameters
    ----------
    features, classes
        As `Predictor` has them.
    column
        int32[c]: the class of each key of River's dict, in the dict's order, or -1 for a key that is not reported.
    branches, votes
        The trees.
    weights
        float64[T]: the weight of each tree's votes.
    rule
        One of `conclude.RULES`.
    """

    form: ClassVar[str] = "classification trees"
    task: Task = CLASSIFICATION
    compiled = True

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
        self.features = features
        self.classes = classes
        self._column = sealed(column, np.int32)
        self._branches = branches
        self._votes = votes
        self._weights = sealed(weights, np.float64)
        self._rule = rule

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        values = np.zeros((len(rows), len(self.classes)))
        labels = np.full(len(rows), NO_LABEL, np.int64)
        scores = np.zeros((len(rows), self._column.size))
        classify(rows, self._branches, self._votes, self._weights, scores)
        conclude.conclude(scores, conclude.RULES[self._rule], self._column, values, labels)
        return Output(values, labels)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"features": self.features, "classes": self.classes, "rule": self._rule}
        arrays = {"column": self._column, "weights": self._weights}
        return meta, arrays | self._branches._asdict() | self._votes._asdict()

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        column, weights = read_fields(arrays, (("column", "i4"), ("weights", "f8")))
        require_range(column, -1, len(classes), "columns")
        votes = flat_votes.read(arrays, len(features), column.size)
        branches = flat_branches.read(arrays, len(features), votes.bayes.size)
        require(weights.size == branches.root.size, "a weight for each tree")
        return cls(features, classes, column, branches, votes, weights, choice(meta, "rule", tuple(conclude.RULES)))


class RegressionTrees:
    """A regression tree or forest as arrays.

    Parameters
    ----------
    features
        As `Predictor` has them.
    branches, means
        The trees.
    weights
        float64[T]: the weight of each tree's answer.
    rule
        One of `average.RULES`.
    """

    form: ClassVar[str] = "regression trees"
    task: Task = REGRESSION
    compiled = True
    classes: tuple[str, ...] = ()

    def __init__(self, features: tuple[str, ...], branches: Branches, means: Means, weights: object, rule: str) -> None:
        self.features = features
        self._branches = branches
        self._means = means
        self._weights = sealed(weights, np.float64)
        self._rule = rule

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        values = np.zeros((len(rows), 1))
        answers = np.zeros((len(rows), self._weights.size))
        regress(rows, self._branches, self._means, self._weights, answers)
        average.average(answers, average.RULES[self._rule], values)
        return Output(values, np.full(len(rows), NO_LABEL, np.int64))

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"features": self.features, "rule": self._rule}
        return meta, {"weights": self._weights} | self._branches._asdict() | self._means._asdict()

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features = texts(meta, "features")
        (weights,) = read_fields(arrays, (("weights", "f8"),))
        means = flat_means.read(arrays, len(features))
        branches = flat_branches.read(arrays, len(features), means.value.size)
        require(weights.size == branches.root.size, "a weight for each tree")
        return cls(features, branches, means, weights, choice(meta, "rule", tuple(average.RULES)))
