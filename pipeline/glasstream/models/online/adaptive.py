"""HoeffdingAdaptiveTreeClassifier: a block of events in one call."""

import math
from typing import Any

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import alternates
from glasstream.models.online import layout as L
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import common_child, find_leaf, next_child
from glasstream.models.online.growing import child_with_classes, root_of_classes
from glasstream.models.online.leaves import UNASKED, add_weight, label_of, learn_leaf, new_leaf
from glasstream.models.online.sums import add, ended
from glasstream.models.online.votes import BAYES_ROW, MAJORITY_ROW, OTHER_ROW, ask_leaf, refuses, says_bayes

_ANSWER_ROW = 7
"""Row of `room` with a leaf's answer, weighted by its error."""


@bare_kernel
def adaptive_block(
    p: L.Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, votes: Any, sequence: Any, labels: Any
) -> int:
    """Predict, then learn, the events from `first` on; parameters and result as of `tree.tree_block`."""
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        label = y[e]
        root = p.tree[0, L.ROOT]
        leaf, said, naive, answer = 0, UNASKED, UNASKED, -1
        if root != 0:
            leaf = find_leaf(p, root, X, e)
            said, naive, answer = _ask(p, leaf, X, e, MAJORITY_ROW, BAYES_ROW)
        if says[e]:
            _say(p, leaf, answer, X, e, votes, sequence, labels)
            if says[e] == L.FINITE and refuses(e, votes, sequence, labels):
                continue
        if label >= 0:
            p.seen[0, label] = 1
            _learn(p, leaf, said, naive, answer, X, e, order, label, weight[e])
    return X.shape[0]


@bare_kernel
def _ask(p: L.Pool, leaf: int, X: Any, e: int, shares: int, by_bayes: int) -> tuple[int, int, int]:
    """Return what a leaf predicts by majority and by naive Bayes, as of `votes.ask_leaf`, and the class it answers."""
    if p.I[leaf + L.CLASSES] == 0:
        return UNASKED, UNASKED, -1
    said, naive = ask_leaf(p, leaf, X, e, shares, by_bayes)
    if said != UNASKED:
        return said, naive, _weigh(p, leaf, shares)
    return said, naive, _weigh(p, leaf, by_bayes) if naive >= 0 else -1


@inlined
def _weigh(p: L.Pool, leaf: int, row: int) -> int:
    """Write a leaf's answer to `_ANSWER_ROW`: its probabilities, less the larger its error; return its class."""
    count = p.I[leaf + L.CLASSES]
    added, rest = 0.0, 0.0
    for j in range(count):
        added, rest = add(added, rest, p.room[row, j])
    error = p.F[leaf + L.ERROR_MEAN]
    factor = ended(added, rest) * error * error
    scale = 1.0
    if factor != 0.0 and factor == factor:
        scale = 1.0 / factor
    best = -1
    for j in range(count):
        p.room[_ANSWER_ROW, j] = p.room[row, j] * scale
        if best < 0 or p.room[_ANSWER_ROW, j] > p.room[_ANSWER_ROW, best]:
            best = j
    return label_of(p, leaf, best)


@inlined
def _say(p: L.Pool, leaf: int, answer: int, X: Any, e: int, votes: Any, sequence: Any, labels: Any) -> None:
    classes = p.by_label.size
    count = 0
    for c in range(classes):
        votes[e, c] = np.nan
        sequence[e, c] = -1
        if p.seen[0, c] == 1:
            votes[e, c] = 0.0
            sequence[e, count] = c
            count += 1
    labels[e] = sequence[e, 0] if count > 0 else -1
    if leaf == 0:
        return
    _add_alternates(p, X, e, votes)
    if answer >= 0:
        # The alternates have written to the row of the answer.
        _weigh(p, leaf, BAYES_ROW if says_bayes(p, leaf) else MAJORITY_ROW)
        _add_answer(p, leaf, e, votes)
    added, rest = 0.0, 0.0
    for q in range(count):
        added, rest = add(added, rest, votes[e, sequence[e, q]])
    added = ended(added, rest)
    scale = 1.0
    if added != 0.0 and added == added:
        scale = 1.0 / added
    best = -1
    for q in range(count):
        c = sequence[e, q]
        votes[e, c] *= scale
        if best < 0 or votes[e, c] > votes[e, best]:
            best = c
    labels[e] = best


@inlined
def _add_answer(p: L.Pool, leaf: int, e: int, votes: Any) -> None:
    for j in range(p.I[leaf + L.CLASSES]):
        votes[e, label_of(p, leaf, j)] += p.room[_ANSWER_ROW, j]


@bare_kernel
def _add_alternates(p: L.Pool, X: Any, e: int, votes: Any) -> None:
    """Add the answers of the alternates of the branches on the way.

    Where an event lacks the feature of a branch, River visits the child that it then takes twice.
    """
    node, visits = p.tree[0, L.ROOT], 1
    while p.I[node + L.KIND] != L.LEAF:
        alternate = p.I[node + L.ALTERNATE]
        if alternate != 0:
            _, _, answer = _ask(p, alternate, X, e, OTHER_ROW, OTHER_ROW)
            if answer >= 0:
                for _ in range(visits):
                    _add_answer(p, alternate, e, votes)
        child, visits = next_child(p, node, X, e), 1
        if child == 0:
            child, visits = common_child(p, node), 2
        node = child


# --- Learning ---------------------------------------------------------------------------------------------------------
@inlined
def _learn(
    p: L.Pool, leaf: int, said: int, naive: int, answer: int, X: Any, e: int, order: Any, label: int, weight: float
) -> None:
    I = p.I
    p.tree[0, L.LEARNED] += int(weight)
    node, parent = root_of_classes(p, 0), 0
    if leaf == 0:
        leaf = node
    active = I[leaf + L.ACTIVE]
    while I[node + L.KIND] != L.LEAF:
        if I[leaf + L.ACTIVE] != active:  # an alternate that learned above has woken the leaf
            active = I[leaf + L.ACTIVE]
            said, naive, answer = _ask(p, leaf, X, e, MAJORITY_ROW, BAYES_ROW)
        add_weight(p, node, label, weight)
        alternate = I[node + L.ALTERNATE]
        if alternates.observe_class_error(p, node, 0.0 if answer == label else 1.0):
            alternates.forget_class_error(p, node)
            alternate = new_leaf(p, I[node + L.DEPTH], 0)
            alternates.begin_alternate(p, node, alternate)
        elif alternate != 0:
            alternate = _compare(p, node, parent, alternate)
        if alternate != 0:
            others = _ask(p, alternate, X, e, OTHER_ROW, OTHER_ROW)
            _learn_leaf(p, alternate, others[0], others[1], others[2], X, e, order, label, weight, True, node, parent)
        parent, node = node, child_with_classes(p, 0, node, X, e)[0]
    if node != leaf or I[node + L.ACTIVE] != active:
        said, naive, answer = _ask(p, node, X, e, MAJORITY_ROW, BAYES_ROW)
    _learn_leaf(p, node, said, naive, answer, X, e, order, label, weight, False, 0, parent)


@bare_kernel
def _compare(p: L.Pool, node: int, parent: int, alternate: int) -> int:
    """Let an alternate take its branch's place, or drop it; return the alternate that still learns, or 0."""
    F = p.F
    window = p.number[L.SWITCH_WINDOW]
    if not (F[alternate + L.ERROR_COUNT] > window and F[node + L.ERROR_COUNT] > window):
        return alternate
    error, other = F[node + L.ERROR_MEAN], F[alternate + L.ERROR_MEAN]
    reciprocal = 1.0 / F[alternate + L.ERROR_COUNT] + 1.0 / F[node + L.ERROR_COUNT]
    bound = math.sqrt(2.0 * error * (1.0 - error) * p.number[L.SWITCH_LOG] * reciprocal)
    if bound < error - other:
        return alternates.switch(p, node, parent, alternate)
    if bound < other - error:
        alternates.drop_alternate(p, node)
        return 0
    return alternate


@bare_kernel
def _learn_leaf(
    p: L.Pool, leaf: int, said: int, naive: int, answer: int, X: Any, e: int, order: Any, label: int, weight: float,
    is_alternate: bool, owner: int, parent: int,
) -> None:  # fmt: skip
    """`learn_one` of a leaf. Where an alternate splits, it takes the place of `owner` below `parent`."""
    weight = alternates.drawn_weight(p, weight)
    alternates.observe_class_error(p, leaf, 0.0 if answer == label else 1.0)
    learn_leaf(p, leaf, X, e, order, label, weight, said, naive)
    alternates.grow_class_leaf(p, leaf, is_alternate, owner, parent)
