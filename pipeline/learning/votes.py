"""What a tree without alternates says of an event, and how its leaf learns it."""

from typing import Any

from pipeline.jit import bare_kernel, inlined
from pipeline.learning.descent import common_child, next_child
from pipeline.learning.layout import (
    ACTIVE,
    ACTIVE_LEAVES,
    BAYES,
    BAYES_ADAPTIVE,
    BAYES_RIGHT,
    BAYES_WEIGHT,
    CLASS,
    CLASSES,
    DEPTH,
    FEATURE,
    GRACE,
    INACTIVE_LEAVES,
    KIND,
    LAST,
    LEAF,
    LEARNED,
    MAJORITY_RIGHT,
    MAX_DEPTH,
    MULTIWAY,
    PAIR,
    PREDICTION,
    ROOT,
    WEIGHTS,
)
from pipeline.learning.leaves import bayes, forget_slots, learn_leaf, majority, new_leaf, total
from pipeline.learning.splits import append_child, attempt

Pool = Any

MAJORITY_ROW = 3
BAYES_ROW = 4
"""Rows of `room` with the shares of the leaf that predicts the event."""
OTHER_MAJORITY_ROW = 5
OTHER_BAYES_ROW = 6
"""The same of another leaf, which learns the event beside it."""


@inlined
def says_bayes(p: Pool, node: int) -> bool:
    """Return whether a leaf predicts by naive Bayes now."""
    if p.I[node + ACTIVE] == 0:
        return False
    if p.option[PREDICTION] == BAYES_ADAPTIVE:
        return p.F[node + BAYES_RIGHT] >= p.F[node + MAJORITY_RIGHT]  # type: ignore[no-any-return]
    return p.option[PREDICTION] == BAYES and total(p, node) >= p.number[BAYES_WEIGHT]  # type: ignore[no-any-return]


@inlined
def label_of(p: Pool, node: int, j: int) -> int:
    """Return the class with a leaf's own number `j`; -1 for none."""
    if j < 0:
        return -1
    return p.I[p.I[node + WEIGHTS] + PAIR * j + CLASS]  # type: ignore[no-any-return]


@bare_kernel
def learn_below(
    p: Pool, t: int, leaf: int, X: Any, e: int, order: Any, label: int, weight: float, said: int, naive: int
) -> None:
    """`learn_one` of a tree.

    Parameters
    ----------
    t
        The tree's row.
    leaf
        The leaf that predicts the event, 0 in a tree without root.
    said, naive
        What it predicts by majority and by naive Bayes, or -1.
    """
    F, I = p.F, p.I
    p.tree[t, LEARNED] += int(weight)
    node = p.tree[t, ROOT]
    if node == 0:
        node = new_leaf(p, 0, 0)
        p.tree[t, ROOT] = node
        p.tree[t, ACTIVE_LEAVES] = 1
    stuck = False
    while I[node + KIND] != LEAF:
        child = next_child(p, node, X, e)
        if child == 0:
            stuck = True
            value = X[e, I[node + FEATURE]]
            if I[node + KIND] == MULTIWAY and value == value:
                child = new_leaf(p, I[node + DEPTH] + 1, 0)
                append_child(p, node, child, value)
                p.tree[t, ACTIVE_LEAVES] += 1
            else:
                child = common_child(p, node)
        node = child
    if node != leaf:
        said, naive = -1, -1
    learn_leaf(p, node, X, e, order, label, weight, said, naive)
    if stuck or I[node + ACTIVE] == 0:
        return
    if I[node + DEPTH] >= p.option[MAX_DEPTH]:
        I[node + ACTIVE] = 0
        forget_slots(p, node)
        p.tree[t, ACTIVE_LEAVES] -= 1
        p.tree[t, INACTIVE_LEAVES] += 1
        return
    seen = total(p, node)
    if seen - F[node + LAST] >= p.number[GRACE]:
        children = attempt(p, node, seen)
        if children > 0:
            p.tree[t, ACTIVE_LEAVES] += children - 1
        else:
            if children < 0:  # deactivated, and at once activated again by _enforce_size_limit
                forget_slots(p, node)
            F[node + LAST] = seen


@bare_kernel
def ask_leaf(p: Pool, leaf: int, X: Any, e: int, shares: int, naive: int, learns: bool) -> tuple[int, int]:
    """Write a leaf's shares by majority and by naive Bayes to two rows of `room`; return the class of each, or -1.

    Naive Bayes is asked only where River asks it, since its answer changes nominal splitters.
    """
    said, by_bayes = -1, -1
    adaptive = learns and p.option[PREDICTION] == BAYES_ADAPTIVE and p.I[leaf + ACTIVE] == 1
    says = says_bayes(p, leaf)
    if not says or adaptive:
        said = label_of(p, leaf, majority(p, leaf, shares))
    if says or adaptive:
        by_bayes = label_of(p, leaf, bayes(p, leaf, X, e, naive))
    return said, by_bayes


@bare_kernel
def ask_learner(p: Pool, leaf: int, X: Any, e: int, shares: int, naive: int) -> tuple[int, int]:
    """Return what a leaf says by majority and by naive Bayes, where it is not asked for its answer."""
    if p.option[PREDICTION] != BAYES_ADAPTIVE or p.I[leaf + ACTIVE] == 0:
        return -1, -1
    said = label_of(p, leaf, majority(p, leaf, shares))
    return said, label_of(p, leaf, bayes(p, leaf, X, e, naive))


@inlined
def row_of_answer(p: Pool, leaf: int, by_bayes: int) -> int:
    """Return the row of `room` that a leaf answers with after `ask_leaf`, or -1 for an empty answer."""
    if says_bayes(p, leaf):
        if by_bayes < 0:
            return -1
        return BAYES_ROW
    if p.I[leaf + CLASSES] == 0:
        return -1
    return MAJORITY_ROW
