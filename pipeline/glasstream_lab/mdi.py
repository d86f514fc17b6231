"""Mean decrease in impurity of Hoeffding trees: the model-specific importance that paper 002 compares with (E.3.3).

Breiman, Friedman, Olshen, Stone: "Classification and Regression Trees", 1984, section 5.3.4; for trees that learn from
streams Gomes et al., "Feature scoring using tree-based ensembles for evolving data streams", 2019.

Let w be the weight that a node has seen and I its impurity. The importance of a feature in one tree is

    (1 / w_root) Σ_t (w_t I_t - Σ_c w_c I_c),    t the branches that test it, c the children of t.

For a forest, it is the mean over the trees that have learned. I is the Gini impurity 1 - Σ_k p_k², the entropy
-Σ_k p_k log2 p_k, or the variance (with divisor w) for regression.

The statistics of a node are the sums over the leaves below it. River's branches keep statistics too, but these are
unsuitable. A plain tree (alone or in a forest) freezes them when it creates the branch. An adaptive tree updates them
without the bootstrap weights of its leaves. A leaf starts from what its parent expected on that side of the split (a
normal distribution for a numeric feature of a classifier) and adds all later events. So the sums are consistent, no
decrease is negative, and a tree with a single leaf has none. Alternate trees that grow beside the branches of an
adaptive tree do not count, because they are not yet part of it.

The importance depends only on what the model has learned. It needs no events, explains no single event, and favours
features with many cut points.
"""

from collections.abc import Hashable, Iterator
from math import log2
from typing import Any, Literal

from river import base, compose
from river.ensemble.streaming_random_patches import BaseSRPEstimator
from river.stats import Var
from river.tree.hoeffding_tree import HoeffdingTree
from river.tree.nodes.branch import DTBranch

from glasstream.base.errors import ModelError

Impurity = Literal["gini", "entropy"]


def mean_decrease_impurity(
    model: Any, *, impurity: Impurity = "gini", normalised: bool = True
) -> dict[Hashable, float]:
    """Return how much each feature's splits decrease the impurity of a River tree or forest.

    Parameters
    ----------
    model
        A Hoeffding tree of any kind for one target, an ensemble of such trees (ARF, SRP, bagging), or a pipeline that
        ends in one.
    impurity
        ``gini`` or ``entropy`` (in bits). Regression trees always use the variance, in squares of the target's unit.
    normalised
        Whether to divide by the sum over all features. If all values are 0, they stay 0.

    Returns
    -------
    Values by name of each feature that a branch tests. For all other features the value is 0. The names are those that
    the tree receives from its pipeline.

    Raises
    ------
    ModelError
        The model holds no Hoeffding trees, or `impurity` is unknown.

    Examples
    --------
    >>> from river import tree
    >>> model = tree.HoeffdingTreeClassifier(grace_period=50, leaf_prediction="mc")
    >>> for t in range(1000):
    ...     model.learn_one({"used": t % 10, "noise": t % 7}, t % 10 < 5)
    >>> mean_decrease_impurity(model)
    {'used': 1.0}
    >>> round(mean_decrease_impurity(model, normalised=False)["used"], 2)  # of a Gini impurity of 0.5 at the root
    0.5
    """
    if impurity not in ("gini", "entropy"):
        raise ModelError(f"mean decrease in impurity: expected gini or entropy, got {impurity!r}")
    trees = [tree for tree in _trees(model) if tree._root is not None]
    total: dict[Hashable, float] = {}
    for tree in trees:
        target: _Classes | _Numbers = (
            _Classes(impurity == "entropy") if isinstance(tree, base.Classifier) else _Numbers()
        )
        decrease: dict[Hashable, float] = {}
        whole = target.weight(_seen(tree._root, target, decrease))
        for feature, value in decrease.items():
            share = max(0.0, value) / whole / len(trees)  # rounding can make it slightly negative
            total[feature] = total.get(feature, 0.0) + share
    whole = sum(total.values())
    if normalised and whole > 0.0:
        return {feature: value / whole for feature, value in total.items()}
    return total


def _seen(node: Any, target: Any, decrease: dict[Hashable, float]) -> Any:
    """Return the statistics of the leaves below `node`, and add the decreases of the branches there to `decrease`."""
    if not isinstance(node, DTBranch):
        return target.leaf(node.stats)
    parts = [_seen(child, target, decrease) for child in node.children]
    whole = target.together(parts)
    taken = target.impure(whole) - sum(map(target.impure, parts))
    decrease[node.feature] = decrease.get(node.feature, 0.0) + taken
    return whole


class _Classes:
    """Weight by class."""

    def __init__(self, entropy: bool) -> None:
        self._entropy = entropy

    def leaf(self, stats: Any) -> dict[Hashable, float]:
        return dict(stats)

    def together(self, parts: list[dict[Hashable, float]]) -> dict[Hashable, float]:
        whole: dict[Hashable, float] = {}
        for part in parts:
            for label, weight in part.items():
                whole[label] = whole.get(label, 0.0) + weight
        return whole

    def weight(self, seen: dict[Hashable, float]) -> float:
        return sum(seen.values())

    def impure(self, seen: dict[Hashable, float]) -> float:
        """Weight times impurity."""
        whole = self.weight(seen)
        weights = [weight for weight in seen.values() if weight > 0.0]
        if self._entropy:
            return -sum(weight * log2(weight / whole) for weight in weights)
        return sum(weight * (1.0 - weight / whole) for weight in weights)


class _Numbers:
    """Weight, mean and sum of squared deviations."""

    def leaf(self, stats: Any) -> tuple[float, float, float]:
        if not isinstance(stats, Var):
            raise ModelError("mean decrease in impurity: expected a tree for one target, got one for several")
        return stats.mean.n, stats.mean.get(), stats.get() * max(0.0, stats.mean.n - stats.ddof)

    def together(self, parts: list[tuple[float, float, float]]) -> tuple[float, float, float]:
        whole = sum(weight for weight, _, _ in parts)
        mean = sum(weight * centre for weight, centre, _ in parts) / whole if whole > 0.0 else 0.0
        return whole, mean, sum(squares + weight * (centre - mean) ** 2 for weight, centre, squares in parts)

    def weight(self, seen: tuple[float, float, float]) -> float:
        return seen[0]

    def impure(self, seen: tuple[float, float, float]) -> float:
        """Weight times variance."""
        return seen[2]


def _trees(model: Any) -> Iterator[Any]:
    last = model._last_step if isinstance(model, compose.Pipeline) else model
    if isinstance(last, HoeffdingTree):
        yield last
    elif isinstance(last, BaseSRPEstimator):
        yield from _trees(last.model)
    elif isinstance(last, base.Ensemble):
        for member in last:
            yield from _trees(member)
    else:
        raise ModelError(
            "mean decrease in impurity: expected a Hoeffding tree, an ensemble of such trees or a pipeline that ends "
            f"in one, got {type(last).__name__}; iPFI and iSAGE explain any model"
        )
