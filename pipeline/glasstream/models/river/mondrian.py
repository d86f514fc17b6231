"""River's aggregated Mondrian forests, compiled."""

import math
from typing import Any

import numpy as np

from glasstream.models.predictors.kernels.mondrian import MondrianForest
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION
from glasstream.models.predictors.slots import ABSENT, Slots


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
    return MondrianForest(slots.names, labels.classes, labels.columns(keys), flat.nodes(), CLASSIFICATION)


def compile_mondrian_regressor(model: Any, slots: Slots) -> MondrianForest:
    """Compile an AMFRegressor; before its first event, when River returns nothing, the result is NaN."""
    flat = _Flattening(slots, model.use_aggregation, 1)
    for tree in model:
        flat.add(tree._root, lambda node: [node.predict()])
    return MondrianForest(slots.names, (), [], flat.nodes(), REGRESSION)


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

    def nodes(self) -> tuple[object, ...]:
        """Return the content of `Nodes`."""
        columns = np.array(self.found, np.float64).reshape(len(self.found), 6).T  # node numbers are far below 2**53
        answers = np.array(self.answers, np.float64).reshape(len(self.found), self.width)
        return (*columns, answers, self.roots)
