"""Copying what a node of a regressor has seen, which checks everything that is followed."""

from typing import Any

import numpy as np

from glasstream.jit import bare_kernel, inlined
from glasstream.learning.arena import take
from glasstream.learning.layout import (
    ACTIVE,
    BLOCK,
    BUDGET,
    CASES,
    CATEGORIES,
    CATEGORY_ROOM,
    CLASS,
    CLASS_ROOM,
    CLASSES,
    ENTRIES,
    ENTRY_COUNT,
    ENTRY_ROOM,
    ERROR_DEVIATION,
    FIRST,
    FIRST_CATEGORIES,
    HEADER,
    IS_NUMBER,
    IS_TEXT,
    KIND,
    LEAF,
    MEAN_LEAF,
    MEAN_LOSS,
    MOST_CATEGORIES,
    MOST_ENTRIES,
    MOST_SLOTS,
    PAIR,
    POINT,
    POINT_ABOVE,
    POINT_LEFT,
    POINT_RIGHT,
    POINT_VALUE,
    PREDICTION,
    SEARCH,
    SEEN,
    SLOT_FEATURE,
    SLOT_ROOM,
    SLOTS,
    STEPS,
    TABLE,
    TARGET,
    USED,
    WEIGHTS,
    Array,
)

Pool = Any

_MOST_SEEN = 9007199254740992.0
_MOST_STEPS = 2**62


@inlined
def outside(p: Pool, at: int, words: int) -> bool:
    """Return whether the source has no such object, or the copy would be larger than the source."""
    used = p.control[BUDGET]
    return at < FIRST or words < 0 or words > used or at > used - words or p.control[USED] > used - words


@inlined
def is_category(p: Pool, feature: int, value: float) -> bool:
    """Return whether a value is a category of a feature."""
    if p.kind[feature] != IS_TEXT:
        return value == value
    count = p.rank_start[feature + 1] - p.rank_start[feature]
    return value >= 0.0 and value < count and value == np.floor(value)


@bare_kernel
def copy_target(F: Array, I: Array, p: Pool, at: int, node: int) -> bool:
    """Copy what a node has seen, and a leaf's linear model."""
    source = I[at + WEIGHTS]
    if outside(p, source, TARGET) or I[at + CLASSES] != 1 or I[at + CLASS_ROOM] != 1:
        return False
    target = take(p, TARGET)
    p.I[node + WEIGHTS] = target
    for word in range(TARGET):
        p.I[target + word] = I[source + word]
    p.I[target + 1] = 0
    if not (F[source + SEEN] >= 0.0 and F[source + SEEN] <= _MOST_SEEN):
        return False
    if I[at + KIND] != LEAF or p.option[PREDICTION] == MEAN_LEAF:
        for word in range(MEAN_LOSS, ERROR_DEVIATION):
            p.I[target + word] = 0
        return True
    count = I[source + ENTRY_COUNT]
    if count < 0 or count > p.kind.size or I[source + STEPS] < 0 or I[source + STEPS] > _MOST_STEPS:
        return False
    p.I[target + ENTRIES], p.I[target + ENTRY_ROOM] = 0, count
    if count == 0:
        return True
    if outside(p, I[source + ENTRIES], PAIR * count):
        return False
    entries = take(p, PAIR * count)
    p.I[target + ENTRIES] = entries
    for f in range(p.kind.size):
        p.marks[0, f] = 0
    for q in range(count):
        feature = I[I[source + ENTRIES] + PAIR * q + CLASS]
        if feature < 0 or feature >= p.kind.size or p.kind[feature] == IS_TEXT or p.marks[0, feature] == 1:
            return False
        p.marks[0, feature] = 1
        p.I[entries + PAIR * q] = I[I[source + ENTRIES] + PAIR * q]
        p.I[entries + PAIR * q + CLASS] = feature
    p.control[MOST_ENTRIES] = max(p.control[MOST_ENTRIES], count)
    return True


@bare_kernel
def copy_observers(F: Array, I: Array, p: Pool, at: int, node: int) -> bool:
    """Copy what a leaf watches."""
    count = I[at + SLOTS]
    if I[at + ACTIVE] < 0 or I[at + ACTIVE] > 1 or count < 0 or count > p.kind.size:
        return False
    p.I[node + BLOCK], p.I[node + SLOT_ROOM] = 0, 0
    if count == 0:
        return True
    if I[at + ACTIVE] == 0 or outside(p, I[at + BLOCK], HEADER * count):
        return False
    block = take(p, HEADER * count)
    p.I[node + BLOCK], p.I[node + SLOT_ROOM] = block, count
    for f in range(p.kind.size):
        p.marks[0, f] = 0
    for s in range(count):
        source, slot = I[at + BLOCK] + HEADER * s, block + HEADER * s
        feature = I[source + SLOT_FEATURE]
        if feature < 0 or feature >= p.kind.size or p.marks[0, feature] == 1:
            return False
        p.marks[0, feature] = 1
        p.I[slot + SLOT_FEATURE] = feature
        if (I[source + TABLE] != 0) != (p.kind[feature] != IS_NUMBER):
            return False
        if I[source + TABLE] != 0:
            if not _copy_cases(F, I, p, source, slot):
                return False
        elif I[source + SEARCH] != 0 and not _copy_search(F, I, p, I[source + SEARCH], slot):
            return False
    p.control[MOST_SLOTS] = max(p.control[MOST_SLOTS], count)
    return True


@bare_kernel
def _copy_cases(F: Array, I: Array, p: Pool, source: int, slot: int) -> bool:
    count = I[source + CATEGORIES]
    if count < 0 or count > p.control[BUDGET] or outside(p, I[source + TABLE], CASES * count):
        return False
    room = max(count, FIRST_CATEGORIES)
    if outside(p, FIRST, CASES * room):
        return False
    table = take(p, CASES * room)
    p.I[slot + TABLE], p.I[slot + CATEGORIES], p.I[slot + CATEGORY_ROOM] = table, count, room
    for word in range(CASES * count):
        p.I[table + word] = I[I[source + TABLE] + word]
    for q in range(count):
        if not is_category(p, I[source + SLOT_FEATURE], F[I[source + TABLE] + CASES * q]):
            return False
    p.control[MOST_CATEGORIES] = max(p.control[MOST_CATEGORIES], room)
    return True


@bare_kernel
def _copy_point(F: Array, I: Array, p: Pool, at: int, above: int) -> bool:
    """Copy a node of a search tree to the next words; its children are still those of the source."""
    if outside(p, at, POINT) or not abs(F[at + POINT_VALUE]) < np.inf:
        return False
    point = take(p, POINT)
    for word in range(POINT):
        p.I[point + word] = I[at + word]
    p.I[point + POINT_ABOVE] = above
    return True


@bare_kernel
def _copy_search(F: Array, I: Array, p: Pool, at: int, slot: int) -> bool:
    """Copy a search tree level by level: the copies that follow each other are the queue."""
    point = p.control[USED]
    p.I[slot + SEARCH] = point
    if not _copy_point(F, I, p, at, 0):
        return False
    while point < p.control[USED]:
        for side in (POINT_LEFT, POINT_RIGHT):
            child = p.I[point + side]
            if child != 0:
                p.I[point + side] = p.control[USED]
                if not _copy_point(F, I, p, child, point):
                    return False
        point += POINT
    return True
