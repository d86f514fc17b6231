"""What a tree without alternates says of an event, and how its leaf learns it."""

import math
from typing import Any

from glasstream.base.jit import inlined
from glasstream.models.online import layout as L
from glasstream.models.online.descent import common_child, next_child
from glasstream.models.online.leaves import (
    UNASKED,
    bayes,
    forget_slots,
    label_of,
    learn_leaf,
    majority,
    new_leaf,
    total,
)
from glasstream.models.online.splits import append_child, attempt

Pool = Any

MAJORITY_ROW = 3
BAYES_ROW = 4
"""Rows of `room` with the shares of the leaf that predicts the event."""
OTHER_ROW = 6
"""The same of an alternate."""


@inlined
def says_bayes(p: Pool, node: int) -> bool:
    """Return whether a leaf predicts by naive Bayes now."""
    if p.I[node + L.ACTIVE] == 0:
        return False
    if p.option[L.PREDICTION] == L.BAYES_ADAPTIVE:
        return p.F[node + L.BAYES_RIGHT] >= p.F[node + L.MAJORITY_RIGHT]
    return p.option[L.PREDICTION] == L.BAYES and total(p, node) >= p.number[L.BAYES_WEIGHT]


@inlined
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
        What it predicts by majority and by naive Bayes; see `leaves.learn_leaf`.
    """
    F, I = p.F, p.I
    p.tree[t, L.LEARNED] += int(weight)
    node = p.tree[t, L.ROOT]
    if node == 0:
        node = new_leaf(p, 0, 0)
        p.tree[t, L.ROOT] = node
        p.tree[t, L.ACTIVE_LEAVES] = 1
    stuck = False
    while I[node + L.KIND] != L.LEAF:
        child = next_child(p, node, X, e)
        if child == 0:
            stuck = True
            value = X[e, I[node + L.FEATURE]]
            if I[node + L.KIND] == L.MULTIWAY and value == value:
                child = new_leaf(p, I[node + L.DEPTH] + 1, 0)
                append_child(p, node, child, value)
                p.tree[t, L.ACTIVE_LEAVES] += 1
            else:
                child = common_child(p, node)
        node = child
    if node != leaf:
        said, naive = UNASKED, UNASKED
    learn_leaf(p, node, X, e, order, label, weight, said, naive)
    if stuck or I[node + L.ACTIVE] == 0:
        return
    if I[node + L.DEPTH] >= p.option[L.MAX_DEPTH]:
        I[node + L.ACTIVE] = 0
        forget_slots(p, node)
        p.tree[t, L.ACTIVE_LEAVES] -= 1
        p.tree[t, L.INACTIVE_LEAVES] += 1
        return
    seen = total(p, node)
    if seen - F[node + L.LAST] >= p.number[L.GRACE]:
        children = attempt(p, node, seen)
        if children > 0:
            p.tree[t, L.ACTIVE_LEAVES] += children - 1
        else:
            if children < 0:  # deactivated, and at once activated again by _enforce_size_limit
                forget_slots(p, node)
            F[node + L.LAST] = seen


@inlined
def ask_leaf(p: Pool, leaf: int, X: Any, e: int, shares: int, by_bayes: int) -> tuple[int, int]:
    """Write a leaf's answer to a row of `room`: to `shares` by majority, to `by_bayes` by naive Bayes.

    Return the class that it predicts by each, or `UNASKED`: naive Bayes is asked only where River asks it, since that
    changes nominal splitters.
    """
    if says_bayes(p, leaf):
        return UNASKED, label_of(p, leaf, bayes(p, leaf, X, e, by_bayes))
    return label_of(p, leaf, majority(p, leaf, shares)), UNASKED


@inlined
def row_of_answer(p: Pool, leaf: int, by_bayes: int) -> int:
    """Return the row of `room` that a leaf answers with after `ask_leaf`, or -1 for an empty answer."""
    if says_bayes(p, leaf):
        if by_bayes < 0:
            return -1
        return BAYES_ROW
    if p.I[leaf + L.CLASSES] == 0:
        return -1
    return MAJORITY_ROW


@inlined
def refuses(e: int, votes: Any, sequence: Any, labels: Any) -> bool:
    """Return whether an event has votes that are not finite, and mark it if so."""
    for q in range(sequence.shape[1]):
        c = sequence[e, q]
        if c < 0:
            break
        if not abs(votes[e, c]) < math.inf:
            labels[e] = L.REFUSED
            return True
    return False
