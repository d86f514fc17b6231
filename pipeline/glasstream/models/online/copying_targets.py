"""Copying what a node of a regressor has seen, which checks everything that is followed."""

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import take
from glasstream.models.online.layout import Array

_MOST_SEEN = 9007199254740992.0
_MOST_STEPS = 2**62


@inlined
def outside(p: L.Pool, at: int, words: int) -> bool:
    """Return whether the source has no such object, or the copy would be larger than the source."""
    used = p.control[L.BUDGET]
    return at < L.FIRST or words < 0 or words > used or at > used - words or p.control[L.USED] > used - words


@inlined
def is_category(p: L.Pool, feature: int, value: float) -> bool:
    """Return whether a value is a category of a feature."""
    if p.kind[feature] != L.IS_TEXT:
        return value == value
    count = p.rank_start[feature + 1] - p.rank_start[feature]
    return value >= 0.0 and value < count and value == np.floor(value)


@bare_kernel
def copy_target(F: Array, I: Array, p: L.Pool, at: int, node: int) -> bool:
    """Copy what a node has seen, and a leaf's linear model."""
    source = I[at + L.WEIGHTS]
    if outside(p, source, L.TARGET) or I[at + L.CLASSES] != 1 or I[at + L.CLASS_ROOM] != 0:
        return False
    target = take(p, L.TARGET)
    p.I[node + L.WEIGHTS] = target
    for word in range(L.TARGET):
        p.I[target + word] = I[source + word]
    if not (F[source + L.SEEN] >= 0.0 and F[source + L.SEEN] <= _MOST_SEEN):
        return False
    if I[at + L.KIND] != L.LEAF or p.option[L.PREDICTION] == L.MEAN_LEAF:
        for word in range(L.MEAN_LOSS, L.ERROR_DEVIATION):
            p.I[target + word] = 0
        return True
    count = I[source + L.ENTRY_COUNT]
    if count < 0 or count > p.kind.size or I[source + L.STEPS] < 0 or I[source + L.STEPS] > _MOST_STEPS:
        return False
    p.I[target + L.ENTRIES], p.I[target + L.ENTRY_ROOM] = 0, count
    if count == 0:
        return True
    if outside(p, I[source + L.ENTRIES], L.PAIR * count):
        return False
    entries = take(p, L.PAIR * count)
    p.I[target + L.ENTRIES] = entries
    for f in range(p.kind.size):
        p.marks[0, f] = 0
    for q in range(count):
        feature = I[I[source + L.ENTRIES] + L.PAIR * q + L.CLASS]
        if feature < 0 or feature >= p.kind.size or p.kind[feature] == L.IS_TEXT or p.marks[0, feature] == 1:
            return False
        p.marks[0, feature] = 1
        p.I[entries + L.PAIR * q] = I[I[source + L.ENTRIES] + L.PAIR * q]
        p.I[entries + L.PAIR * q + L.CLASS] = feature
    p.control[L.MOST_ENTRIES] = max(p.control[L.MOST_ENTRIES], count)
    return True


@bare_kernel
def copy_observer(F: Array, I: Array, p: L.Pool, source: int, slot: int) -> bool:
    """Copy what a leaf knows of a feature to a slot, which has the words of the source's."""
    if I[source + L.TABLE] != 0:
        p.I[slot + L.SEARCH] = 0
        return _copy_cases(F, I, p, source, slot)
    return I[source + L.SEARCH] == 0 or _copy_search(F, I, p, I[source + L.SEARCH], slot)


@bare_kernel
def _copy_cases(F: Array, I: Array, p: L.Pool, source: int, slot: int) -> bool:
    count = I[source + L.CATEGORIES]
    if count < 0 or count > p.control[L.BUDGET] or outside(p, I[source + L.TABLE], L.CASES * count):
        return False
    room = max(count, L.FIRST_CATEGORIES)
    if outside(p, L.FIRST, L.CASES * room):
        return False
    table = take(p, L.CASES * room)
    p.I[slot + L.TABLE], p.I[slot + L.CATEGORIES], p.I[slot + L.CATEGORY_ROOM] = table, count, room
    for word in range(L.CASES * count):
        p.I[table + word] = I[I[source + L.TABLE] + word]
    for q in range(count):
        if not is_category(p, I[source + L.SLOT_FEATURE], F[I[source + L.TABLE] + L.CASES * q]):
            return False
    p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], room)
    return True


@bare_kernel
def _copy_point(F: Array, I: Array, p: L.Pool, at: int, above: int) -> bool:
    """Copy a node of a search tree to the next words; its children are still those of the source."""
    if outside(p, at, L.POINT) or not abs(F[at + L.POINT_VALUE]) < np.inf:
        return False
    point = take(p, L.POINT)
    for word in range(L.POINT):
        p.I[point + word] = I[at + word]
    p.I[point + L.POINT_ABOVE] = above
    return True


@bare_kernel
def _copy_search(F: Array, I: Array, p: L.Pool, at: int, slot: int) -> bool:
    """Copy a search tree level by level: the copies that follow each other are the queue."""
    point = p.control[L.USED]
    p.I[slot + L.SEARCH] = point
    if not _copy_point(F, I, p, at, 0):
        return False
    while point < p.control[L.USED]:
        for side in (L.POINT_LEFT, L.POINT_RIGHT):
            child = p.I[point + side]
            if child != 0:
                p.I[point + side] = p.control[L.USED]
                if not _copy_point(F, I, p, child, point):
                    return False
        point += L.POINT
    return True
