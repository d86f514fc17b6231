"""The leaves of River's trees by the way in which they predict, as `leaf_prediction` names it."""

from collections.abc import Mapping
from typing import Any, Final

from river.tree.nodes import arf_htc_nodes, arf_htr_nodes, efdtc_nodes, hatr_nodes, htc_nodes, htr_nodes

OF_CLASSIFIERS: Final[Mapping[str, tuple[Any, ...]]] = {
    "mc": (htc_nodes.LeafMajorityClass, arf_htc_nodes.RandomLeafMajorityClass, efdtc_nodes.EFDTLeafMajorityClass),
    "nb": (htc_nodes.LeafNaiveBayes, arf_htc_nodes.RandomLeafNaiveBayes, efdtc_nodes.EFDTLeafNaiveBayes),
    "nba": (
        htc_nodes.LeafNaiveBayesAdaptive,
        arf_htc_nodes.RandomLeafNaiveBayesAdaptive,
        efdtc_nodes.EFDTLeafNaiveBayesAdaptive,
    ),
}
"""The leaves of a tree, of a forest, and of an ExtremelyFastDecisionTreeClassifier."""
OF_REGRESSORS: Final[Mapping[str, tuple[Any, ...]]] = {
    "mean": (htr_nodes.LeafMean, hatr_nodes.AdaLeafRegMean, arf_htr_nodes.RandomLeafMean),
    "model": (htr_nodes.LeafModel, hatr_nodes.AdaLeafRegModel, arf_htr_nodes.RandomLeafModel),
    "adaptive": (htr_nodes.LeafAdaptive, hatr_nodes.AdaLeafRegAdaptive, arf_htr_nodes.RandomLeafAdaptive),
}
"""The leaves of a tree, of an adaptive tree, and of a forest."""


def by_type(leaves: Mapping[str, tuple[Any, ...]]) -> dict[type, str]:
    """Return the way in which each leaf predicts."""
    return {leaf: prediction for prediction, kinds in leaves.items() for leaf in kinds}
