"""Aggregated Mondrian forests as arrays, equal to River's."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from glasstream.base.jit import kernel
from glasstream.models.predictors.arrays import (  # fmt: skip
    Array,
    Indices,
    NumberMatrix,
    Numbers,
    as_rows,
    require,
    require_range,
    sealed,
)
from glasstream.models.predictors.compiled import choice
from glasstream.models.predictors.kernels.tables import TablePredictor
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Integers, Output, Task


class Nodes(NamedTuple):
    """The N nodes of all T trees; a node's children come after it.

    Attributes
    ----------
    feature
        int32[N]: slot; -1 where no row has the feature, and in leaves.
    threshold
        float64[N]
    left, right, common
        int32[N]: where x <= threshold, where not, and where x is absent; -1 in leaves.
    share
        float64[N]: the node's own share of the answer, of which the child has the rest; 1 in leaves.
    answer
        float64[N, k]: the node's own answer, one number for each class.
    root
        int32[T]
    """

    feature: Indices
    threshold: Numbers
    left: Indices
    right: Indices
    common: Indices
    share: Numbers
    answer: NumberMatrix
    root: Indices


@kernel
def aggregate(rows: Floats, nodes: Nodes, parent: Integers, scores: Floats) -> None:
    """Fill `scores` float64[n, k], zero before, with the mean over the trees of the answers along a row's path.

    Answers are combined from the leaf up, as in River, so that ties of classes agree. `parent` int32[N] is -1 for
    roots.
    """
    # Unpack the arrays: passing the tuple would count references on every array in each call.
    feature, threshold, left, right, common, share, answer, root = nodes
    width = answer.shape[1]
    said = np.empty(width)
    for i in range(rows.shape[0]):
        for tree in range(root.size):
            node = root[tree]
            while left[node] >= 0:
                x = rows[i, feature[node]] if feature[node] >= 0 else np.nan
                node = common[node] if x != x else left[node] if x <= threshold[node] else right[node]
            for k in range(width):
                said[k] = answer[node, k]
            node = parent[node]
            while node >= 0:
                own = share[node]
                for k in range(width):
                    said[k] = own * answer[node, k] + (1.0 - own) * said[k]
                node = parent[node]
            for k in range(width):
                scores[i, k] += said[k] / root.size


class MondrianForest(TablePredictor):
    """An aggregated Mondrian forest as arrays.

    Parameters
    ----------
    features, classes, column, tables
        Trees as `Nodes`; see `TablePredictor`.
    task
        Classification or regression.
    """

    form: ClassVar[str] = "mondrian forest"
    Tables = Nodes

    def __init__(
        self, features: tuple[str, ...], classes: tuple[str, ...], column: object, tables: Iterable[object], task: Task
    ) -> None:
        super().__init__(features, classes, column, tables)
        self.task = task
        inner = np.flatnonzero(self._tables.left >= 0)
        parent = np.full(self._tables.left.size, -1, np.int32)
        parent[self._tables.left[inner]] = parent[self._tables.right[inner]] = inner
        self._parent = sealed(parent, np.int32)

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.zeros((len(rows), self._tables.answer.shape[1]))
        aggregate(rows, self._tables, self._parent, scores)
        if self.task == REGRESSION:
            return Output.of_numbers(scores if self._tables.root.size else np.full_like(scores, np.nan))
        return self._classified(scores)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta, arrays = super().pack()
        return meta | {"task": self.task}, arrays

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes, column, nodes = cls._read(meta, arrays)
        task: Task = REGRESSION if choice(meta, "task", (CLASSIFICATION, REGRESSION)) == REGRESSION else CLASSIFICATION
        regression = task == REGRESSION
        require(not regression or (not classes and not column.size), "no classes for regression")
        count = nodes.feature.size
        require(all(array.shape == (count,) for array in nodes[:6]), "arrays of nodes of one length")
        require(nodes.answer.shape == (count, 1 if regression else column.size), "answers of nodes")
        require_range(nodes.feature, -1, len(features), "features of nodes")
        require_range(nodes.root, 0, count, "roots")
        at = np.arange(count)
        inner = nodes.left >= 0
        require(np.all(nodes.left[inner] > at[inner]), "children after their parents")
        require(np.all(nodes.right[inner] > at[inner]), "children after their parents")
        require_range(nodes.left[inner], 0, count, "children")
        require_range(nodes.right[inner], 0, count, "children")
        one = (nodes.common == nodes.left) | (nodes.common == nodes.right)
        require(np.all(one[inner]), "one of the children for rows without the feature")
        # Otherwise many trees could share one long path, and few nodes could cause endless steps.
        reached = np.concatenate((nodes.left[inner], nodes.right[inner], nodes.root))
        require(np.unique(reached).size == reached.size == count, "one way to each node")
        return cls(features, classes, column, nodes, task)
