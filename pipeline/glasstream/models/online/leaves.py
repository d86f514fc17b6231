"""What a leaf knows: weights of classes, splitters of features, and its predictions by majority and naive Bayes."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import new_detector
from glasstream.models.online.arena import take, wider
from glasstream.models.online.moments import square
from glasstream.models.online.observers import category_place, know, move_block, watch_with_class
from glasstream.models.online.sums import SKIPS_INTEGERS, add, ended

UNASKED = -2
"""In the place of a class: the leaf has not been asked for it."""
LEARNER_ROW = 5
"""Row of `room` with the shares of a leaf that learns."""


@inlined
def new_node(p: L.Pool, depth: int, words: int) -> int:
    """Return the address of a new leaf that has seen nothing, with `words` words for what it will see."""
    node = take(p, L.NODE)
    p.I[node + L.DEPTH] = depth
    p.I[node + L.ACTIVE] = 1
    p.I[node + L.WEIGHTS] = take(p, words)
    if p.option[L.FAMILY] == L.ADAPTIVE_FAMILY:
        p.I[node + L.DETECTOR] = new_detector(p, 1)
    p.control[L.HEIGHT] = max(p.control[L.HEIGHT], depth)
    return node


@bare_kernel
def new_leaf(p: L.Pool, depth: int, classes: int) -> int:
    """Return the address of a new leaf with room for `classes` classes."""
    room = max(classes, 2)
    node = new_node(p, depth, L.PAIR * room)
    p.I[node + L.CLASS_ROOM] = room
    p.control[L.MOST_CLASSES] = max(p.control[L.MOST_CLASSES], room)
    return node


@inlined
def total(p: L.Pool, node: int) -> float:
    """Return the weight that a leaf has seen, summed in the order of its classes."""
    weights, count = p.I[node + L.WEIGHTS], p.I[node + L.CLASSES]
    compensated = p.I[node + L.FLOATS] if SKIPS_INTEGERS and p.option[L.FAMILY] == L.FOREST_FAMILY else count
    added, rest = 0.0, 0.0
    for j in range(compensated):
        added, rest = add(added, rest, p.F[weights + L.PAIR * j])
    for j in range(compensated, count):
        added += p.F[weights + L.PAIR * j]
    return ended(added, rest)


@inlined
def add_weight(p: L.Pool, node: int, label: int, weight: float) -> int:
    """Add to the weight of a class, and return the node's own number of the class."""
    F, I = p.F, p.I
    weights = I[node + L.WEIGHTS]
    count = I[node + L.CLASSES]
    for j in range(count):
        if I[weights + L.PAIR * j + L.CLASS] == label:
            F[weights + L.PAIR * j] += weight
            return j
    if count == I[node + L.CLASS_ROOM]:
        _widen(p, node)
        weights = I[node + L.WEIGHTS]
    F[weights + L.PAIR * count] = weight
    I[weights + L.PAIR * count + L.CLASS] = label
    I[node + L.CLASSES] = count + 1
    return count


@bare_kernel
def _widen(p: L.Pool, node: int) -> None:
    """Make room for more classes."""
    I = p.I
    room = wider(I[node + L.CLASS_ROOM])
    weights = take(p, L.PAIR * room)
    for word in range(L.PAIR * I[node + L.CLASSES]):
        I[weights + word] = I[I[node + L.WEIGHTS] + word]
    I[node + L.WEIGHTS] = weights
    if I[node + L.BLOCK] != 0:
        move_block(p, node, I[node + L.SLOT_ROOM], room)
    I[node + L.CLASS_ROOM] = room
    p.control[L.MOST_CLASSES] = max(p.control[L.MOST_CLASSES], room)


# --- Predictions ------------------------------------------------------------------------------------------------------
@inlined
def label_of(p: L.Pool, node: int, j: int) -> int:
    """Return the class with a leaf's own number `j`; -1 for none."""
    if j < 0:
        return -1
    return p.I[p.I[node + L.WEIGHTS] + L.PAIR * j + L.CLASS]


@inlined
def majority(p: L.Pool, node: int, out: int) -> int:
    """Write a leaf's shares of its classes to row `out` of `room`; return the number of the first greatest, or -1."""
    F, I = p.F, p.I
    weights = I[node + L.WEIGHTS]
    added = total(p, node)
    scale = 1.0
    if added != 0.0 and added == added:
        scale = 1.0 / added
    best = -1
    for j in range(I[node + L.CLASSES]):
        p.room[out, j] = F[weights + L.PAIR * j] * scale
        if best < 0 or p.room[out, j] > p.room[out, best]:
            best = j
    return best


@inlined
def bayes(p: L.Pool, node: int, X: Any, e: int, out: int) -> int:
    """`do_naive_bayes_prediction`: write probabilities to row `out` of `room`; return the number of the first greatest.

    -1 stands for an empty dict. A prediction lets nominal splitters know the classes, as in River.
    """
    F, I = p.F, p.I
    count = I[node + L.CLASSES]
    added = total(p, node)
    if count == 0 or added == 0.0:
        return -1
    weights = I[node + L.WEIGHTS]
    two, half_log_tau = p.number[L.TWO], p.number[L.HALF_LOG_TAU]
    for j in range(count):
        weight = F[weights + L.PAIR * j]
        p.room[out, j] = math.log(weight / added) if weight > 0.0 else 0.0
    words = L.HEADER + L.ROW * I[node + L.CLASS_ROOM]
    for s in range(I[node + L.SLOTS]):
        slot = I[node + L.BLOCK] + s * words
        value = X[e, I[slot + L.SLOT_FEATURE]]
        if value != value:
            continue
        if I[slot + L.TABLE] == 0:
            for j in range(count):
                row = slot + L.HEADER + L.ROW * j
                if F[row + L.CURVE] < 0.0 and F[weights + L.PAIR * j] > 0.0:
                    term = square(value - F[row + L.MEAN], two) / F[row + L.CURVE] - half_log_tau - F[row + L.PEAK]
                    if term > -math.inf:
                        p.room[out, j] += term
        else:
            _add_nominal(p, node, slot, value, out)
    top = p.room[out, 0]
    for j in range(1, count):
        if p.room[out, j] > top:
            top = p.room[out, j]
    added, rest = 0.0, 0.0
    for j in range(count):
        added, rest = add(added, rest, math.exp(p.room[out, j] - top))
    log = top + math.log(ended(added, rest))
    best = -1
    for j in range(count):
        p.room[out, j] = math.exp(p.room[out, j] - log)
        if best < 0 or p.room[out, j] > p.room[out, best]:
            best = j
    return best


@bare_kernel
def _add_nominal(p: L.Pool, node: int, slot: int, value: float, out: int) -> None:
    F, I = p.F, p.I
    q = category_place(p, slot, value)
    for j in range(I[node + L.CLASSES]):
        if F[I[node + L.WEIGHTS] + L.PAIR * j] > 0.0:
            know(p, slot, j)
            if q >= 0:
                weight = F[I[slot + L.TABLE] + (1 + j) * I[slot + L.CATEGORY_ROOM] + q]
                if weight > 0.0:
                    p.room[out, j] += math.log(weight / F[slot + L.HEADER + L.ROW * j + L.COUNT])


# --- Learning ---------------------------------------------------------------------------------------------------------
@inlined
def learn_leaf(
    p: L.Pool, node: int, X: Any, e: int, order: Any, label: int, weight: float, said: int, naive: int
) -> None:
    """`learn_one` of a leaf.

    Parameters
    ----------
    said, naive
        The class that it predicts by majority and by naive Bayes, -1 for none, `UNASKED` if that is not known.
    """
    F, I = p.F, p.I
    active = I[node + L.ACTIVE] == 1
    if active and (p.option[L.PREDICTION] == L.BAYES_ADAPTIVE or p.option[L.FAMILY] == L.ADAPTIVE_FAMILY):
        if said == UNASKED:
            said = label_of(p, node, majority(p, node, LEARNER_ROW))
        if naive == UNASKED:
            naive = label_of(p, node, bayes(p, node, X, e, LEARNER_ROW))
        if I[node + L.CLASSES] == 0 or said == label:
            F[node + L.MAJORITY_RIGHT] += weight
        if naive == label:
            F[node + L.BAYES_RIGHT] += weight
    j = add_weight(p, node, label, weight)
    if active:
        watch_with_class(p, node, X, e, order, j, 0.0, weight)
