"""River's aggregated Mondrian forests, compiled."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np

from glasstream.jit import kernel
from glasstream.models.compiler.slots import ABSENT, Slots
from glasstream.models.contract.arrays import Array, as_rows, read_matrices, require, require_range, sealed
from glasstream.models.contract.compiled import choice, texts
from glasstream.models.contract.labels import Labels
from glasstream.models.contract.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Integers, Output, Task
from glasstream.models.kernels import normalise

_RULE: Final = normalise.RULES["as they are"]


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

    feature: Array
    threshold: Array
    left: Array
    right: Array
    common: Array
    share: Array
    answer: Array
    root: Array


_FIELDS: Final = (
    ("feature", "i4", 1),
    ("threshold", "f8", 1),
    ("left", "i4", 1),
    ("right", "i4", 1),
    ("common", "i4", 1),
    ("share", "f8", 1),
    ("answer", "f8", 2),
    ("root", "i4", 1),
)


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


class MondrianForest:
    """An aggregated Mondrian forest as arrays.

    Parameters
    ----------
    task
        Classification or regression.
    features, classes
        Features and classes; see `Predictor`.
    column
        int32[k]: the class of each answer, in the order of River's dict, or -1; empty for regression, where k is 1.
    nodes
        The trees.
    """

    form: ClassVar[str] = "mondrian forest"
    compiled = True

    def __init__(
        self, task: Task, features: tuple[str, ...], classes: tuple[str, ...], column: object, nodes: Nodes
    ) -> None:
        self.task = task
        self.features = features
        self.classes = classes
        self._column = sealed(column, np.int32)
        self._nodes = Nodes(*(sealed(array, dtype) for array, (_, dtype, _) in zip(nodes, _FIELDS, strict=True)))
        inner = np.flatnonzero(self._nodes.left >= 0)
        parent = np.full(self._nodes.left.size, -1, np.int32)
        parent[self._nodes.left[inner]] = parent[self._nodes.right[inner]] = inner
        self._parent = sealed(parent, np.int32)

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        scores = np.zeros((len(rows), self._nodes.answer.shape[1]))
        labels = np.full(len(rows), NO_LABEL, np.int64)
        aggregate(rows, self._nodes, self._parent, scores)
        if self.task == REGRESSION:
            return Output(scores if self._nodes.root.size else np.full_like(scores, np.nan), labels)
        values = np.zeros((len(rows), len(self.classes)))
        normalise.normalise(scores, _RULE, self._column, values, labels)
        return Output(values, labels)

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        meta: dict[str, object] = {"task": self.task, "features": self.features, "classes": self.classes}
        return meta, {"column": self._column} | self._nodes._asdict()

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        task: Task = REGRESSION if choice(meta, "task", (CLASSIFICATION, REGRESSION)) == REGRESSION else CLASSIFICATION
        (column,) = read_matrices(arrays, (("column", "i4", 1),))
        nodes = Nodes(*read_matrices(arrays, _FIELDS))
        require_range(column, -1, len(classes), "columns")
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
        return cls(task, features, classes, column, nodes)


def compile_mondrian_classifier(model: Any, slots: Slots, labels: Labels) -> MondrianForest:
    """Compile an AMFClassifier. Its trees and so its arrays grow with every event, unless max_nodes bounds them.

    The order of its classes, and so the label of a tie, is that of a Python set in the process that compiles.
    """
    keys = list(model._classes)
    flat = _Flattening(slots, model.use_aggregation, len(keys))
    for tree in model:
        places = [tree._class_to_idx[key] for key in keys]

        def answer(node: Any, places: list[int] = places) -> list[float]:
            seen = node.n_samples + model.dirichlet * len(places)
            counts = node.counts
            own = [(counts[place] if place < len(counts) else 0) + model.dirichlet for place in places]
            return [one / seen if seen else math.nan for one in own]

        flat.add(tree._root, answer)
    return MondrianForest(CLASSIFICATION, slots.names, labels.classes, labels.columns(keys), flat.nodes())


def compile_mondrian_regressor(model: Any, slots: Slots) -> MondrianForest:
    """Compile an AMFRegressor; before its first event, when River returns nothing, the result is NaN."""
    flat = _Flattening(slots, model.use_aggregation, 1)
    for tree in model:
        flat.add(tree._root, lambda node: [node.predict()])
    return MondrianForest(REGRESSION, slots.names, (), [], flat.nodes())


class _Flattening:
    def __init__(self, slots: Slots, aggregated: bool, width: int) -> None:
        self.slots = slots
        self.aggregated = aggregated
        self.width = width
        self.found: list[tuple[int, float, int, int, int, float]] = []
        self.answers: list[list[float]] = []
        self.roots: list[int] = []

    def add(self, root: Any, answer: Any) -> None:
        start = len(self.found)
        self.roots.append(start)
        nodes = [root]
        for node in nodes:  # grows during the loop
            self.answers.append(answer(node))
            if node.is_leaf:
                self.found.append((ABSENT, 0.0, -1, -1, -1, 1.0))
                continue
            left, right = node.children
            first = start + len(nodes)
            nodes += (left, right)
            slot = self.slots.numeric(node.feature, "a branch")
            common = first + (left.weight < right.weight)  # as in River; the weights are logarithms of likelihoods
            share = 0.5 * math.exp(node.weight - node.log_weight_tree) if self.aggregated else 0.0
            self.found.append((slot, node.threshold, first, first + 1, common, share))

    def nodes(self) -> Nodes:
        columns = np.array(self.found, np.float64).reshape(len(self.found), 6).T  # node numbers are far below 2**53
        answers = np.array(self.answers, np.float64).reshape(len(self.found), self.width)
        return Nodes(*(*columns, answers, np.array(self.roots, np.int64)))
