"""River's Hoeffding trees and adaptive random forests, compiled."""

from itertools import chain
from typing import Any

from river.forest.adaptive_random_forest import BaseTreeClassifier, BaseTreeRegressor

from glasstream.base.errors import NotCompilable
from glasstream.models.predictors.kernels.average import weights_of_losses
from glasstream.models.predictors.kernels.trees import ClassificationTrees, RegressionTrees
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import Slots
from glasstream.models.river import branches as flat_branches
from glasstream.models.river import means as flat_means
from glasstream.models.river import votes as flat_votes


def compile_tree_classifier(model: Any, slots: Slots, labels: Labels) -> ClassificationTrees:
    """Compile a HoeffdingTreeClassifier or ExtremelyFastDecisionTreeClassifier: a leaf's votes over sorted classes."""
    return classification_trees([model], [1.0], "as they are", slots, labels)


def compile_adaptive_tree_classifier(model: Any, slots: Slots, labels: Labels) -> ClassificationTrees:
    """Compile a HoeffdingAdaptiveTreeClassifier: the votes of main and alternate leaves are added, then normalised.

    The order of its classes, and so the label of a tie, is that of a Python set in the process that compiles.
    """
    return classification_trees([model], [1.0], "scaled", slots, labels, [list(model.classes)])


def compile_forest_classifier(model: Any, slots: Slots, labels: Labels) -> ClassificationTrees:
    """Compile an ARFClassifier: each tree's votes are weighted by its metric, if that counts and is positive.

    Trees that grow in the background do not vote. The classes have the order in which the trees name them.
    """
    trees = list(model)
    _same_type(trees, BaseTreeClassifier)
    metrics = [metric.get() for metric, _ in zip(model._metrics, trees, strict=False)]
    weights = [value if not model.disable_weighted_vote and value > 0.0 else 1.0 for value in metrics]
    return classification_trees(trees, weights, "shares", slots, labels)


def compile_tree_regressor(model: Any, slots: Slots) -> RegressionTrees:
    """Compile a HoeffdingTreeRegressor or HoeffdingAdaptiveTreeRegressor: the mean of the leaves that a row reaches."""
    return regression_trees([model], [1.0], "mean", slots)


def compile_forest_regressor(model: Any, slots: Slots) -> RegressionTrees:
    """Compile an ARFRegressor: the median or mean of its trees.

    With weighted votes, River takes the mean, not the sum, of answers times weights that sum to 1. This function does
    the same.
    """
    trees = list(model)
    _same_type(trees, BaseTreeRegressor)
    rule = "mean" if model.aggregation_method == model._MEAN else "median"
    weights = [1.0] * len(trees)
    if not model.disable_weighted_vote and rule == "mean":
        weights = weights_of_losses([metric.get() for metric, _ in zip(model._metrics, trees, strict=False)])
    return regression_trees(trees, weights, rule, slots)


def classification_trees(
    trees: list[Any],
    weights: list[float],
    rule: str,
    slots: Slots,
    labels: Labels,
    classes: list[list[Any]] | None = None,
) -> ClassificationTrees:
    """Return a forest of Hoeffding trees of any kind, which adds their weighted probabilities.

    `classes` are each tree's, in the order of its dict; None sorts them.
    """
    classes = [sorted(one.classes) for one in trees] if classes is None else classes
    places = {key: place for place, key in enumerate(dict.fromkeys(chain.from_iterable(classes)))}
    for one in trees:
        flat_votes.check_splitter(one)
    roots = [one._root for one in trees]
    branches, leaves = flat_branches.flatten(roots, slots, flat_votes.LEAF_TYPES, flat_votes.weight)
    votes = flat_votes.flatten(zip(trees, leaves, strict=True), places, slots)
    return ClassificationTrees(slots.names, labels.classes, labels.columns(places), branches, votes, weights, rule)


def regression_trees(trees: list[Any], weights: list[float], rule: str, slots: Slots) -> RegressionTrees:
    """Return a forest of Hoeffding trees for regression of any kind, which averages their weighted answers."""
    for one in trees:
        flat_means.check_leaf_model(one)
    roots = [one._root for one in trees]
    branches, leaves = flat_branches.flatten(roots, slots, flat_means.LEAF_TYPES, flat_means.weight)
    means = flat_means.flatten((leaf for own in leaves for leaf in own), slots)
    return RegressionTrees(slots.names, branches, means, weights, rule)


def _same_type(trees: list[Any], wanted: type) -> None:
    for one in trees:
        if type(one) is not wanted:
            raise NotCompilable(f"a forest holds a {type(one).__name__}; only its own {wanted.__name__} is known")
