"""River's adaptive trees as they are used for storage: one predicts a feature from the others."""

from itertools import pairwise
from typing import Any

from river import tree
from river.tree.nodes.branch import DTBranch, NominalBinaryBranch
from river.tree.nodes.hatc_nodes import AdaLeafClassifier
from river.tree.nodes.htc_nodes import LeafNaiveBayesAdaptive
from river.tree.nodes.leaf import HTLeaf

from glasstream.background.storage_splitters import CategoriesInOrder, SlotSplitter
from glasstream.models.catalogue import ClassesInOrder

_NEVER = 1 << 62
"""River's own memory management looks at the process; depth and bounded splitters are what bounds these trees."""


class _Majority(LeafNaiveBayesAdaptive):
    """Learns no naive Bayes: nobody asks for it, and it costs more than all the rest."""

    def learn_one(self, x: Any, y: Any, *, w: float = 1.0, tree: Any = None) -> None:
        HTLeaf.learn_one(self, x, y, w=w, tree=tree)


class _Leaf(AdaLeafClassifier, _Majority):
    """An adaptive leaf that predicts its majority class, and tries categories in order of first appearance."""

    @staticmethod
    def new_nominal_splitter() -> CategoriesInOrder:
        return CategoriesInOrder()

    def prediction(self, x: Any, *, tree: Any = None) -> Any:
        return self.stats


class _AlternatesWait:
    """Lets an alternate tree grow beside its branch until it is found to be the better one.

    In River 0.26 an alternate that is still a single leaf splits into the place of its branch: whatever raised the
    alarm, 200 rows later the branch is gone. With features that correlate by 0.99, trees that lost their root so drew
    values that correlated by as little as 0.87 with the truth; when alternates wait it is 0.94 to 0.97.
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
            return  # the leaf stood in the tree itself
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
    """River's adaptive tree with leaves of the kind above."""

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
    """An incremental Hoeffding adaptive tree, and its main nodes in one list.

    Alternate trees grow beside branches as River has them, and come into the list when they take a branch's place.

    Parameters
    ----------
    seed
        Of the tree's bootstrap weights.
    classes
        The feature is a category: a classifier over codes; else a regressor with the mean in its leaves.
    nominal
        Features that are categories. The tree looks at the set as it is when it learns.
    depth
        Branches on the longest way to a leaf.
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
        """From the root on, the two children of a branch side by side and after it."""
        self.height = 1
        """Nodes on the longest way."""

    def learn(self, x: dict[int, float], y: float) -> bool:
        """Learn one row; False when River could not calculate with it (values beyond what squares can hold)."""
        try:
            self.river.learn_one(x, y)
        except (ArithmeticError, ValueError):
            return False
        return True

    def stands(self, way: list[int]) -> bool:
        """Whether what a row learned has left the main tree as it was.

        What one row changes lies on its own way: a leaf that splits, a branch that gives place to its alternate.

        Parameters
        ----------
        way
            The places in `nodes` by which the row went, from before it was learned.
        """
        nodes = self.nodes
        if not nodes or self.river._root is not nodes[0]:
            return False
        # the first of two children has an odd place
        return all(nodes[at].children[1 - child % 2] is nodes[child] for at, child in pairwise(way))

    def list_nodes(self) -> list[tuple[int, bool, float, int, float]]:
        """List the nodes anew; of each: feature, whether it is tested for equality, threshold, first child, weight.

        A leaf has feature and child -1.
        """
        self.nodes = nodes = [self.river._root]
        tests: list[tuple[int, bool, float, int]] = []
        for node in nodes:  # grows on the way
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
