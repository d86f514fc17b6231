"""ARFClassifier: a block of events in one call."""

from typing import Any

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import reset, update
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import find_leaf
from glasstream.models.online.growing import learn_class_below
from glasstream.models.online.leaves import UNASKED, label_of
from glasstream.models.online.sums import add, ended
from glasstream.models.online.twister import poisson
from glasstream.models.online.votes import BAYES_ROW, MAJORITY_ROW, ask_leaf, refuses, row_of_answer

_BY_CLASS_ROW = 7
"""Row of `room` with the answer of a tree, by class."""
_VOTED = 7
"""Row of `marks`: the classes that have votes, which may be NaN, as River's."""


@bare_kernel
def forest_block(
    p: L.Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, votes: Any, sequence: Any, labels: Any
) -> int:
    """Predict, then learn, the events from `first` on; parameters and result as of `tree.tree_block`."""
    classes = p.by_label.size
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        label = y[e]
        known = 0
        if says[e]:
            for c in range(classes):
                votes[e, c] = np.nan
                sequence[e, c] = -1
                p.marks[_VOTED, c] = 0
        for t in range(p.option[L.MODELS]):
            leaf, said, naive = 0, UNASKED, UNASKED
            if p.tree[t, L.ROOT] != 0:
                leaf = find_leaf(p, p.tree[t, L.ROOT], X, e)
                said, naive = ask_leaf(p, leaf, X, e, MAJORITY_ROW, BAYES_ROW)
            p.asked[t, 0], p.asked[t, 1], p.asked[t, 2] = leaf, said, naive
            p.asked[t, 3] = _answer(p, t, leaf, naive)
            if says[e]:
                known = _add_votes(p, t, e, known, votes, sequence)
        if says[e]:
            _conclude(e, known, votes, sequence, labels)
            if says[e] == L.FINITE and refuses(e, votes, sequence, labels):
                continue
        if label >= 0:
            for t in range(p.option[L.MODELS]):
                _learn(p, t, p.asked[t, 0], p.asked[t, 1], p.asked[t, 2], p.asked[t, 3], X, e, order, label)
    return X.shape[0]


@inlined
def _answer(p: L.Pool, t: int, leaf: int, naive: int) -> int:
    """Write a tree's probabilities to `_BY_CLASS_ROW`; return the first class by label with the greatest, or -1."""
    for c in range(p.by_label.size):
        p.room[_BY_CLASS_ROW, c] = 0.0
    if leaf != 0:
        row = row_of_answer(p, leaf, naive)
        if row >= 0:
            for j in range(p.I[leaf + L.CLASSES]):
                p.room[_BY_CLASS_ROW, label_of(p, leaf, j)] = p.room[row, j]
    best = -1
    for q in range(p.by_label.size):
        c = p.by_label[q]
        if p.seen[t, c] == 1 and (best < 0 or p.room[_BY_CLASS_ROW, c] > p.room[_BY_CLASS_ROW, best]):
            best = c
    return best


@inlined
def _add_votes(p: L.Pool, t: int, e: int, known: int, votes: Any, sequence: Any) -> int:
    """Add a tree's probabilities times its accuracy; return how many classes have votes now."""
    accuracy = 0.0
    if p.scores[t, L.EVENTS] > 0.0:
        accuracy = p.scores[t, L.RIGHT_EVENTS] / p.scores[t, L.EVENTS]
    weighted = p.option[L.WEIGHTED] == 1 and accuracy > 0.0
    for q in range(p.by_label.size):
        c = p.by_label[q]
        if p.seen[t, c] == 1:
            vote = p.room[_BY_CLASS_ROW, c]
            if weighted:
                vote = vote * accuracy
            if p.marks[_VOTED, c] == 1:
                votes[e, c] = vote + votes[e, c]
            else:
                p.marks[_VOTED, c] = 1
                votes[e, c] = vote
                sequence[e, known] = c
                known += 1
    return known


@inlined
def _conclude(e: int, known: int, votes: Any, sequence: Any, labels: Any) -> None:
    added, rest = 0.0, 0.0
    for q in range(known):
        added, rest = add(added, rest, votes[e, sequence[e, q]])
    added = ended(added, rest)
    best = -1
    for q in range(known):
        c = sequence[e, q]
        if added > 0.0:
            votes[e, c] /= added
        if best < 0 or votes[e, c] > votes[e, best]:
            best = c
    labels[e] = best


@inlined
def _learn(
    p: L.Pool, t: int, leaf: int, said: int, naive: int, answer: int, X: Any, e: int, order: Any, label: int
) -> None:
    """One round of `learn_one`: tree `t`, its background tree and its detectors."""
    models = p.option[L.MODELS]
    hit = answer == label
    p.confusion[t, label, answer if answer >= 0 else p.by_label.size] += 1.0
    p.scores[t, L.EVENTS] += 1.0
    if hit:
        p.scores[t, L.RIGHT_EVENTS] += 1.0
    draw = poisson(p.twister, p.position, p.number[L.POISSON_LIMIT])
    if draw <= 0:
        return
    background = models + t
    for learner in (background, t):
        if learner == t or p.tree[background, L.EXISTS] == 1:
            p.seen[learner, label] = 1
            asked = leaf if learner == t else 0
            learn_class_below(p, learner, asked, X, e, order, label, 0.0, float(draw), said, naive)
    watch_error(p, t, 0.0 if hit else 1.0)


@inlined
def watch_error(p: L.Pool, t: int, error: float) -> None:
    """Update the detectors of tree `t`; a warning plants a background tree, and a drift replaces the tree."""
    background = p.option[L.MODELS] + t
    if p.tree[t, L.WARNING] != 0:
        p.tree[t, L.WARNING] = update(p.F, p.I, p.control, p.detector, p.tree[t, L.WARNING], 0, error)
        if p.I[p.tree[t, L.WARNING] + L.DETECTED] == 1:
            _clear(p, background)
            p.tree[background, L.EXISTS] = 1
            reset(p.I, p.detector, p.tree[t, L.WARNING], 0)
            p.tree[t, L.WARNED] += 1
    if p.tree[t, L.DRIFT] != 0:
        p.tree[t, L.DRIFT] = update(p.F, p.I, p.control, p.detector, p.tree[t, L.DRIFT], 1, error)
        if p.I[p.tree[t, L.DRIFT] + L.DETECTED] == 1:
            _clear(p, t)
            if p.tree[background, L.EXISTS] == 1:
                for field in (L.ROOT, L.ACTIVE_LEAVES, L.INACTIVE_LEAVES, L.LEARNED):
                    p.tree[t, field] = p.tree[background, field]
                for c in range(p.by_label.size):
                    p.seen[t, c] = p.seen[background, c]
                _clear(p, background)
                reset(p.I, p.detector, p.tree[t, L.WARNING], 0)
            p.tree[t, L.EXISTS] = 1
            reset(p.I, p.detector, p.tree[t, L.DRIFT], 1)
            for truth in range(p.confusion.shape[1]):
                for other_class in range(p.confusion.shape[2]):
                    p.confusion[t, truth, other_class] = 0.0
            p.scores[t, 0], p.scores[t, 1] = 0.0, 0.0  # a regressor keeps the norm of its errors
            p.tree[t, L.DRIFTED] += 1


@bare_kernel
def _clear(p: L.Pool, t: int) -> None:
    """Make a tree one that does not exist."""
    for field in (L.ROOT, L.EXISTS, L.ACTIVE_LEAVES, L.INACTIVE_LEAVES, L.LEARNED):
        p.tree[t, field] = 0
    for c in range(p.by_label.size):
        p.seen[t, c] = 0
