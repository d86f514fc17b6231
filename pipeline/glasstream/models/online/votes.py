"""What a leaf of a classifier predicts."""

import math
from typing import Any

from glasstream.base.jit import inlined
from glasstream.models.online import layout as L
from glasstream.models.online.leaves import UNASKED, bayes, label_of, majority, total

MAJORITY_ROW = 3
BAYES_ROW = 4
"""Rows of `room` with the shares of the leaf that predicts the event."""
OTHER_ROW = 6
"""The same of an alternate."""


@inlined
def says_bayes(p: L.Pool, node: int) -> bool:
    """Return whether a leaf predicts by naive Bayes now."""
    if p.I[node + L.ACTIVE] == 0:
        return False
    if p.option[L.PREDICTION] == L.BAYES_ADAPTIVE:
        return p.F[node + L.BAYES_RIGHT] >= p.F[node + L.MAJORITY_RIGHT]
    return p.option[L.PREDICTION] == L.BAYES and total(p, node) >= p.number[L.BAYES_WEIGHT]


@inlined
def ask_leaf(p: L.Pool, leaf: int, X: Any, e: int, shares: int, by_bayes: int) -> tuple[int, int]:
    """Write a leaf's answer to a row of `room`: to `shares` by majority, to `by_bayes` by naive Bayes.

    Return the class that it predicts by each, or `UNASKED`: naive Bayes is asked only where River asks it, since that
    changes nominal splitters.
    """
    if says_bayes(p, leaf):
        return UNASKED, label_of(p, leaf, bayes(p, leaf, X, e, by_bayes))
    return label_of(p, leaf, majority(p, leaf, shares)), UNASKED


@inlined
def row_of_answer(p: L.Pool, leaf: int, by_bayes: int) -> int:
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
