"""HoeffdingTreeClassifier: a block of events in one call."""

from typing import Any

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import has_room
from glasstream.models.online.descent import find_leaf
from glasstream.models.online.growing import learn_class_below
from glasstream.models.online.leaves import UNASKED, label_of
from glasstream.models.online.votes import BAYES_ROW, MAJORITY_ROW, ask_leaf, refuses, row_of_answer


@bare_kernel
def tree_block(
    p: L.Pool, X: Any, y: Any, weight: Any, order: Any, first: int, says: Any, votes: Any, sequence: Any, labels: Any
) -> int:
    """Predict, then learn, the events from `first` on; return how many are done.

    Parameters
    ----------
    X
        float64[n, features], NaN where a feature is absent.
    y
        int64[n]: classes, or -1 of events that are only predicted.
    weight
        float64[n]
    order
        The features in the order in which the events name them.
    says
        int64[n]: how to answer each event, `layout.SILENT`, `ANSWERS` or `FINITE`. Learning alone is not the same:
        predicting changes nominal splitters.
    votes, sequence, labels
        What is predicted: float64[n, classes] with NaN for classes that River's dict does not have, the classes in
        the order of that dict, and the first of the greatest, or -1; or `REFUSED`.
    """
    for e in range(first, X.shape[0]):
        if not has_room(p, order.size):
            return e
        label = y[e]
        leaf, said, naive = 0, UNASKED, UNASKED
        root = p.tree[0, L.ROOT]
        if root != 0:
            leaf = find_leaf(p, root, X, e)
            if says[e]:
                said, naive = ask_leaf(p, leaf, X, e, MAJORITY_ROW, BAYES_ROW)
        if says[e]:
            _say(p, leaf, naive, e, votes, sequence, labels)
            if says[e] == L.FINITE and refuses(e, votes, sequence, labels):
                continue
        if label >= 0:
            p.seen[0, label] = 1
            learn_class_below(p, 0, leaf, X, e, order, label, 0.0, weight[e], said, naive)
    return X.shape[0]


@inlined
def _say(p: L.Pool, leaf: int, naive: int, e: int, votes: Any, sequence: Any, labels: Any) -> None:
    count = 0
    for q in range(p.by_label.size):
        c = p.by_label[q]
        votes[e, c] = np.nan
        if p.seen[0, c] == 1:
            votes[e, c] = 0.0
            sequence[e, count] = c
            count += 1
    for q in range(count, p.by_label.size):
        sequence[e, q] = -1
    if leaf != 0:
        row = row_of_answer(p, leaf, naive)
        if row >= 0:
            for j in range(p.I[leaf + L.CLASSES]):
                votes[e, label_of(p, leaf, j)] = p.room[row, j]
    best = -1
    for q in range(count):
        c = sequence[e, q]
        if best < 0 or votes[e, c] > votes[e, best]:
            best = c
    labels[e] = best
