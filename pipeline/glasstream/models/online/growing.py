"""How a tree learns an event: the way to a leaf, and the leaf's split; for classifiers and for regressors."""

from typing import Any

from glasstream.base.jit import Kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.descent import common_child, next_child
from glasstream.models.online.leaves import UNASKED, learn_leaf, new_leaf, total
from glasstream.models.online.observers import forget_slots
from glasstream.models.online.reductions import attempt_reduction
from glasstream.models.online.splits import append_child, attempt
from glasstream.models.online.targets import learn_target, new_target_leaf


def _growing(regression: bool) -> tuple[Kernel, Kernel, Kernel]:
    @inlined
    def root_of(p: L.Pool, t: int) -> int:
        """Return the root of the tree in row `t`, a new leaf if it has none."""
        if p.tree[t, L.ROOT] == 0:
            p.tree[t, L.ROOT] = new_target_leaf(p, 0, 0) if regression else new_leaf(p, 0, 0)
            p.tree[t, L.ACTIVE_LEAVES] = 1
        return p.tree[t, L.ROOT]

    @inlined
    def child_of(p: L.Pool, t: int, node: int, X: Any, e: int) -> tuple[int, bool]:
        """Return the child of a branch that learns an event, and whether the branch has no child for the event.

        A multiway branch then gets one, if it is for a new category.
        """
        child = next_child(p, node, X, e)
        if child != 0:
            return child, False
        value = X[e, p.I[node + L.FEATURE]]
        if p.I[node + L.KIND] != L.MULTIWAY or value != value:
            return common_child(p, node), True
        depth = p.I[node + L.DEPTH] + 1
        child = new_target_leaf(p, depth, 0) if regression else new_leaf(p, depth, 0)
        append_child(p, node, child, value)
        p.tree[t, L.ACTIVE_LEAVES] += 1
        return child, True

    @inlined
    def learn_below(
        p: L.Pool, t: int, leaf: int, X: Any, e: int, order: Any, label: int, y: float, weight: float, said: int,
        naive: int,
    ) -> bool:  # fmt: skip
        """`learn_one` of a tree without alternates; return False where River raises an OverflowError.

        Parameters
        ----------
        t
            The tree's row.
        leaf, said, naive
            Of a classifier: the leaf that predicts the event, 0 in a tree without root, and what it predicts by
            majority and by naive Bayes; see `leaves.learn_leaf`.
        label, y
            The class of a classifier, the target of a regressor.
        """
        F, I = p.F, p.I
        p.tree[t, L.LEARNED] += int(weight)
        node, stuck = root_of(p, t), False
        while I[node + L.KIND] != L.LEAF:
            node, other = child_of(p, t, node, X, e)
            stuck = stuck or other
        if regression:
            if not learn_target(p, node, X, e, order, y, weight):
                return False
        else:
            if node != leaf:
                said, naive = UNASKED, UNASKED
            learn_leaf(p, node, X, e, order, label, weight, said, naive)
        if stuck or I[node + L.ACTIVE] == 0:
            return True
        if I[node + L.DEPTH] >= p.option[L.MAX_DEPTH]:
            I[node + L.ACTIVE] = 0
            forget_slots(p, node)
            p.tree[t, L.ACTIVE_LEAVES] -= 1
            p.tree[t, L.INACTIVE_LEAVES] += 1
            return True
        seen = total(p, node)
        if seen - F[node + L.LAST] >= p.number[L.GRACE]:
            children = attempt_reduction(p, node, seen) if regression else attempt(p, node, seen)
            if children > 0:
                p.tree[t, L.ACTIVE_LEAVES] += children - 1
            else:
                if children < 0:  # deactivated, and at once activated again by _enforce_size_limit
                    forget_slots(p, node)
                F[node + L.LAST] = seen
        return True

    return root_of, child_of, learn_below


root_of_classes, child_with_classes, learn_class_below = _growing(regression=False)
root_of_targets, child_with_targets, learn_target_below = _growing(regression=True)
