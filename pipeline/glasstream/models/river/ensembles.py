"""River's bagging, random patches and one-vs-rest, over members of any compiled family.

A bag of plain Hoeffding trees is compiled to a forest. Other ensembles evaluate their members one by one.
"""

from typing import Any, Final, Protocol

from river import tree

from glasstream.models.predictors.compiled import Compiled
from glasstream.models.predictors.kernels.committee import AveragingCommittee, VotingCommittee
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.predictor import NO_LABEL
from glasstream.models.predictors.slots import Slots
from glasstream.models.river.hoeffding import classification_trees, regression_trees

_CLASSIFICATION_TREES: Final = (tree.HoeffdingTreeClassifier, tree.ExtremelyFastDecisionTreeClassifier)
_REGRESSION_TREES: Final = (tree.HoeffdingTreeRegressor, tree.HoeffdingAdaptiveTreeRegressor)

Keys = list[Any]


class PartCompiler(Protocol):
    """Compiles the models inside a model."""

    def compile(self, model: Any, slots: Slots, labels: Labels | None) -> Compiled:
        """Return the arrays of an inner model of any family; errors are those of `compile_model`."""

    def keys(self, model: Any) -> Keys:
        """Return the keys of a classifier's `predict_proba_one`, in the order of River's dict.

        The keys are the same for every row. Errors are those of `compile_model`.
        """


def merged(keys: list[Keys]) -> Keys:
    """Return the keys of several dicts in order of first appearance."""
    return list(dict.fromkeys(key for own in keys for key in own))


def bag_keys(model: Any, parts: PartCompiler) -> Keys:
    """Return the keys of a bag of classifiers: those of its members, in the order in which River calls them."""
    return merged([parts.keys(member) for member in model])


def compile_bag(model: Any, slots: Slots, labels: Labels, parts: PartCompiler) -> Compiled:
    """Compile a BaggingClassifier, ADWINBaggingClassifier or LeveragingBaggingClassifier.

    Its score is the sum of its members' votes.
    """
    members = list(model)
    return _vote(members, slots, [slots] * len(members), [1.0] * len(members), labels, parts)


def compile_regressor_bag(model: Any, slots: Slots, labels: None, parts: PartCompiler) -> Compiled:
    """Compile a BaggingRegressor: the mean of its members."""
    members = list(model)
    return _mean(members, slots, [slots] * len(members), [1.0] * len(members), "mean", parts)


def patches_keys(model: Any, parts: PartCompiler) -> Keys:
    """Return the keys of an SRPClassifier, in the order of `bag_keys`."""
    return merged([parts.keys(patch.model) for patch in model])


def compile_patches(model: Any, slots: Slots, labels: Labels, parts: PartCompiler) -> Compiled:
    """Compile an SRPClassifier: each member's votes are weighted by its metric, if that counts and is positive.

    A member sees its own features only. Members that learn in the background do not vote.
    """
    patches = list(model)
    metrics = [patch.metric.get() for patch in patches]
    weights = [value if not model.disable_weighted_vote and value > 0.0 else 1.0 for value in metrics]
    return _vote([patch.model for patch in patches], slots, _patches(patches, slots), weights, labels, parts)


def compile_regressor_patches(model: Any, slots: Slots, labels: None, parts: PartCompiler) -> Compiled:
    """Compile an SRPRegressor: the mean of its members, weighted by their metric if that counts, or the median."""
    patches = list(model)
    rule, weights = "median", [1.0] * len(patches)
    if model.aggregation_method == model._MEAN:
        rule = "mean"
        if patches and not model.disable_weighted_vote:
            weights = [max(patch.metric.get(), 0.0) for patch in patches]
            if not model.metric.bigger_is_better:
                largest = max(weights)
                weights = [largest - weight for weight in weights]
            total = sum(weights)  # 0: the average is undefined, and River returns 0.0
            weights = [weight / total * len(patches) if total else 0.0 for weight in weights]
    return _mean([patch.model for patch in patches], slots, _patches(patches, slots), weights, rule, parts)


def one_vs_rest_keys(model: Any, parts: PartCompiler) -> Keys:
    """Return the classes that a OneVsRestClassifier has seen."""
    return list(model.classifiers)


def compile_one_vs_rest(model: Any, slots: Slots, labels: Labels, parts: PartCompiler) -> Compiled:
    """Compile a OneVsRestClassifier: the score of a class is its own classifier's vote for True.

    River raises for a classifier that does not know True; here its class gets 0.
    """
    places = []
    for place, classifier in enumerate(model.classifiers.values()):
        places.append([place if key is True else NO_LABEL for key in parts.keys(classifier)])
    members = [_own(classifier, slots, parts) for classifier in model.classifiers.values()]
    weights = [1.0] * len(members)
    columns = labels.columns(model.classifiers)
    return VotingCommittee(slots.names, labels.classes, columns, tuple(members), places, weights, "shares or equal")


def _patches(patches: list[Any], slots: Slots) -> list[Slots]:
    return [slots if patch.features is None else slots.only(set(patch.features)) for patch in patches]


def _vote(
    members: list[Any], slots: Slots, own_slots: list[Slots], weights: list[float], labels: Labels, parts: PartCompiler
) -> Compiled:
    if _are(members, _CLASSIFICATION_TREES):  # a tree only knows the features of its input
        return classification_trees(members, weights, "shares", slots, labels)
    keys = [parts.keys(member) for member in members]
    places = {key: place for place, key in enumerate(merged(keys))}
    compiled = [_own(member, own, parts) for member, own in zip(members, own_slots, strict=True)]
    return VotingCommittee(
        slots.names,
        labels.classes,
        labels.columns(places),
        tuple(compiled),
        [[places[key] for key in own] for own in keys],
        weights,
        "shares",
    )


def _mean(
    members: list[Any], slots: Slots, own_slots: list[Slots], weights: list[float], rule: str, parts: PartCompiler
) -> Compiled:
    if _are(members, _REGRESSION_TREES):
        return regression_trees(members, weights, rule, slots)
    compiled = [parts.compile(member, own, None) for member, own in zip(members, own_slots, strict=True)]
    return AveragingCommittee(slots.names, tuple(compiled), weights, rule)


def _are(members: list[Any], trees: tuple[type, ...]) -> bool:
    return bool(members) and all(type(member) in trees for member in members)


def _own(member: Any, slots: Slots, parts: PartCompiler) -> Compiled:
    """Compile a classifier that reports each of its keys, in their order, under an internal text."""
    return parts.compile(member, slots, Labels({key: str(place) for place, key in enumerate(parts.keys(member))}))
