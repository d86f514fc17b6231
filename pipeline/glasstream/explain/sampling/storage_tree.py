"""River's adaptive trees for conditional storage: each tree predicts a feature from the others.

`ops/docs/deviations.md` lists where this differs from the papers.
"""

from itertools import pairwise
from typing import Any

from river import tree
from river.tree.nodes.branch import DTBranch, NominalBinaryBranch
from river.tree.nodes.hatc_nodes import AdaLeafClassifier
from river.tree.nodes.htc_nodes import LeafNaiveBayesAdaptive
from river.tree.nodes.leaf import HTLeaf

from glasstream.explain.sampling.storage_splitters import CategoriesInOrder, SlotSplitter
from glasstream.models.river.catalogue import ClassesInOrder

_NEVER = 1 << 62
"""Interval that disables River's memory management, which looks at the whole process. The depth and bounded splitters
limit these trees."""


class _Majority(LeafNaiveBayesAdaptive):
    """Mixin that skips learning naive Bayes, which is expensive and not used here."""

    def learn_one(self, x: Any, y: Any, *, w: float = 1.0, tree: Any = None) -> None:
        HTLeaf.learn_one(self, x, y, w=w, tree=tree)


class _Leaf(AdaLeafClassifier, _Majority):
    """Adaptive leaf that predicts its majority class and tries categories in order of first appearance."""

    @staticmethod
    def new_nominal_splitter() -> CategoriesInOrder:
        return CategoriesInOrder()

    def prediction(self, x: Any, *, tree: Any = None) -> Any:
        return self.stats


class _AlternatesWait:
    """Mixin that lets an alternate tree grow next to its branch until it proves to be better.

    In River 0.26, an alternate that is still a single leaf takes the place of its branch when it splits. So the branch
    is gone 200 rows after any alarm. With features that correlate by 0.99, trees that lost their root in this way drew
    values whose correlation with the truth was as low as 0.87. When alternates wait, it is 0.94 to 0.97.
    """

    _root: Any

    def _attempt_to_split(self, leaf: Any, parent: Any, parent_branch: Any, **parameters: Any) -> None:
        place = self._root if parent is None else parent.children[parent_branch]
        super()._attempt_to_split(leaf, parent, parent_branch, **parameters)  # type: ignore[misc]  # River's own
        grown = self._root if parent is None else parent.children[parent_branch]
        beside = None if grown is place else place
        while beside is not None and getattr(beside, "_alternate_tree", None) is not leaf:
            beside = getattr(beside, "_alternate_tree", None)
        if beside is None:
            return  # the leaf belongs to the main tree
        beside._alternate_tree = grown
        if parent is None:
            self._root = place
        else:
            parent.children[parent_branch] = place


class _Regressor(_AlternatesWait, tree.HoeffdingAdaptiveTreeRegressor):
    """River's adaptive tree with the mean in its leaves."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(leaf_prediction="mean", splitter=SlotSplitter(), **parameters)


class _Classifier(_AlternatesWait, tree.HoeffdingAdaptiveTreeClassifier):
    """River's adaptive tree with `_Leaf` leaves."""

    def __init__(self, **parameters: Any) -> None:
        super().__init__(leaf_prediction="mc", **parameters)
        self.classes = ClassesInOrder()

    def _new_leaf(self, initial_stats: Any = None, parent: Any = None) -> _Leaf:
        return _Leaf(
            stats={} if initial_stats is None else initial_stats,
            depth=0 if parent is None else parent.depth + 1,
            splitter=self.splitter,
            drift_detector=self.drift_detector.clone(),
            rng=self._rng,
        )


class StorageTree:
    """Incremental Hoeffding adaptive tree with a list of its main nodes.

    Alternate trees grow beside branches as in River, and enter the list when they replace a branch.

    Parameters
    ----------
    seed
        Random seed of the tree's bootstrap weights.
    classes
        Whether the feature is a category. If so, the tree is a classifier over codes; else it is a regressor with the
        mean in its leaves.
    nominal
        Features that are categories. The tree reads the set when it learns.
    depth
        Largest number of branches from the root to a leaf.
    """

    def __init__(self, seed: int, classes: bool, nominal: set[int], depth: int) -> None:
        shared: dict[str, Any] = {
            "max_depth": depth,
            "nominal_attributes": nominal,
            "binary_split": True,
            "memory_estimate_period": _NEVER,
            "seed": seed,
        }
        self.river: Any = _Classifier(**shared) if classes else _Regressor(**shared)
        self.nodes: list[Any] = []
        """Main nodes, starting with the root. The two children of a branch are adjacent and come after it."""
        self.height = 1
        """Number of nodes on the longest path."""

    def learn(self, x: dict[int, float], y: float) -> bool:
        """Learn one row. Return False if River could not calculate with it (values whose squares overflow)."""
        try:
            self.river.learn_one(x, y)
        except (ArithmeticError, ValueError):
            return False
        return True

    def stands(self, way: list[int]) -> bool:
        """Return whether learning a row left the main tree unchanged.

        One row can only change nodes on its own path: a leaf splits, or an alternate replaces a branch.

        Parameters
        ----------
        way
            Path of the row before it was learned, as places in `nodes`.
        """
        nodes = self.nodes
        if not nodes or self.river._root is not nodes[0]:
            return False
        # the first of two children has an odd index
        return all(nodes[at].children[1 - child % 2] is nodes[child] for at, child in pairwise(way))

    def list_nodes(self) -> list[tuple[int, bool, float, int, float]]:
        """Update the list of nodes, and return a tuple for each node.

        A tuple has the feature, whether it is tested for equality, the threshold, the first child, and the weight. A
        leaf has feature and child -1.
        """
        self.nodes = nodes = [self.river._root]
        tests: list[tuple[int, bool, float, int]] = []
        for node in nodes:  # the loop appends to `nodes`
            if isinstance(node, DTBranch):
                nominal = isinstance(node, NominalBinaryBranch)
                tests.append((node.feature, nominal, node.value if nominal else node.threshold, len(nodes)))
                nodes.extend(node.children)
            else:
                tests.append((-1, False, 0.0, -1))
        weights = [0.0] * len(nodes)
        heights = [1] * len(nodes)
        for at in reversed(range(len(nodes))):
            first = tests[at][3]
            if first < 0:
                weights[at] = nodes[at].total_weight
            else:
                weights[at] = weights[first] + weights[first + 1]
                heights[at] = 1 + max(heights[first], heights[first + 1])
        self.height = heights[0]
        return [(*test, weight) for test, weight in zip(tests, weights, strict=True)]
