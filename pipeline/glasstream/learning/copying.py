"""Copying what is reachable of an arena into another one, which checks everything that is followed."""

from typing import Any

from glasstream.jit import bare_kernel
from glasstream.learning.adwin import copy_rows
from glasstream.learning.arena import demand, detector_words, take
from glasstream.learning.copying_targets import copy_observers, copy_target, is_category, outside
from glasstream.learning.layout import (
    ACTIVE,
    ADAPTIVE_FAMILY,
    ALTERNATE,
    BLOCK,
    BUCKETS,
    BUCKETS_A_ROW,
    BUDGET,
    CASE,
    CATEGORIES,
    CATEGORY_ROOM,
    CLASS,
    CLASS_ROOM,
    CLASSES,
    COUNT,
    DEEPEST,
    DEMAND,
    DEPTH,
    DETECTED,
    DETECTIONS,
    DETECTOR,
    DETECTOR_HEADER,
    DRIFT,
    EXISTS,
    FAMILY,
    FEATURE,
    FEW_ROWS,
    FIRST,
    FIRST_CATEGORIES,
    FLOATS,
    FOREST_FAMILY,
    HEADER,
    HEIGHT,
    IS_NUMBER,
    KIND,
    KNOWN,
    LARGEST_COUNT,
    LEAF,
    LEFT,
    MANY_ROWS,
    MODELS,
    MOST_BUCKETS,
    MOST_CATEGORIES,
    MOST_CLASSES,
    MOST_ENTRIES,
    MOST_ROWS,
    MOST_SLOTS,
    MULTIWAY,
    NEXT,
    NODE,
    NUMERIC,
    ORDER,
    PAIR,
    REGRESSION,
    RIGHT,
    ROOT,
    ROW,
    ROW_ROOM,
    ROWS,
    SLOT_CLASSES,
    SLOT_FEATURE,
    SLOT_ROOM,
    SLOTS,
    SUBSET,
    SUBSET_SIZE,
    TABLE,
    TICK,
    USED,
    VALUE,
    WARNING,
    WEIGHTS,
    WIDTH,
    Array,
)
from glasstream.learning.leaves import prepare_density

Pool = Any

_BAD = -1


@bare_kernel
def copy_trees(F: Array, I: Array, used: int, p: Pool) -> bool:
    """Copy the trees of pool `p` from the arena (F, I), to which their addresses refer, into the empty one of `p`.

    Parameters
    ----------
    used
        Words of (F, I) that count; the copy has no more.

    Returns
    -------
    Whether all that was followed is sound. If not, `p` is of no use.
    """
    p.control[USED] = FIRST
    p.control[BUDGET] = used
    p.control[MOST_CLASSES], p.control[MOST_SLOTS] = 2, 1
    p.control[MOST_CATEGORIES], p.control[HEIGHT], p.control[MOST_ENTRIES] = FIRST_CATEGORIES, 0, 0
    for t in range(p.tree.shape[0]):
        if p.tree[t, ROOT] != 0:
            if p.tree[t, EXISTS] != 1:
                return False
            root = _copy_tree(F, I, p, p.tree[t, ROOT])
            if root == _BAD:
                return False
            p.tree[t, ROOT] = root
        if t < p.option[MODELS]:
            for which in range(2):
                field = WARNING if which == 0 else DRIFT
                if p.tree[t, field] != 0:
                    detector = _copy_detector(F, I, p, p.tree[t, field], which)
                    if detector == _BAD:
                        return False
                    p.tree[t, field] = detector
        elif p.tree[t, WARNING] != 0 or p.tree[t, DRIFT] != 0:
            return False
    p.control[DEMAND] = demand(p, 0)
    return True


@bare_kernel
def _copy_tree(F: Array, I: Array, p: Pool, at: int) -> int:
    """Copy a tree level by level. Numba cannot cache recursive kernels, so branches wait in a queue.

    The queue runs through the copies of the branches: `SLOTS`, which only leaves use, holds the next one.
    """
    root = _copy_node(F, I, p, at, 0)
    if root == _BAD:
        return _BAD
    node = last = root
    if p.I[root + KIND] == LEAF:
        node = 0
    while node != 0:
        feature, kind, level = p.I[node + FEATURE], p.I[node + KIND], p.I[node + DEPTH]
        if p.I[node + ALTERNATE] != 0:
            alternate = _copy_node(F, I, p, p.I[node + ALTERNATE], level)
            if alternate == _BAD or p.I[alternate + KIND] != LEAF:
                return _BAD
            p.I[node + ALTERNATE] = alternate
        before, count = 0, 0
        child = p.I[node + LEFT]
        if child == 0:
            return _BAD
        while child != 0:
            copy = _copy_node(F, I, p, child, level + 1)
            if copy == _BAD:
                return _BAD
            if kind == MULTIWAY:
                if not is_category(p, feature, F[child + CASE]):
                    return _BAD
                p.F[copy + CASE] = F[child + CASE]
            if before == 0:
                p.I[node + LEFT] = copy
            elif kind == MULTIWAY:
                p.I[before + NEXT] = copy
            before = copy
            count += 1
            if p.I[copy + KIND] != LEAF:
                p.I[last + SLOTS] = copy
                last = copy
            if kind == MULTIWAY:  # noqa: SIM108
                child = I[child + NEXT]
            else:
                child = p.I[node + RIGHT] if count == 1 else 0
        if kind != MULTIWAY and count != 2:
            return _BAD
        p.I[node + RIGHT] = before
        following = p.I[node + SLOTS]
        p.I[node + SLOTS] = 0
        node = following
    return root


@bare_kernel
def _copy_node(F: Array, I: Array, p: Pool, at: int, level: int) -> int:
    """Copy a node without its children and its alternate, whose addresses stay those of the source."""
    if outside(p, at, NODE) or level > DEEPEST:
        return _BAD
    node = take(p, NODE)
    for word in range(NODE):
        p.I[node + word] = I[at + word]
    p.I[node + NEXT] = 0
    p.I[node + CASE] = 0
    if I[at + DEPTH] != level or I[at + KIND] < LEAF or I[at + KIND] > MULTIWAY:
        return _BAD
    p.control[HEIGHT] = max(p.control[HEIGHT], level)
    regression = p.option[REGRESSION] == 1
    if not (copy_target(F, I, p, at, node) if regression else _copy_weights(I, p, at, node)):
        return _BAD
    if (I[at + DETECTOR] != 0) != (p.option[FAMILY] == ADAPTIVE_FAMILY):
        return _BAD
    if I[at + DETECTOR] != 0:
        detector = _copy_detector(F, I, p, I[at + DETECTOR], 1)
        if detector == _BAD:
            return _BAD
        p.I[node + DETECTOR] = detector
    if I[at + KIND] == LEAF:
        for word in range(FEATURE, NEXT):  # what only a branch has
            p.I[node + word] = 0
        p.I[node + ALTERNATE] = 0
        if not (copy_observers(F, I, p, at, node) if regression else _copy_slots(F, I, p, at, node)):
            return _BAD
        if not _copy_subset(I, p, at, node):
            return _BAD
        return node
    for word in range(BLOCK, SUBSET_SIZE + 1):  # what only a leaf has
        p.I[node + word] = 0
    feature = I[at + FEATURE]
    if feature < 0 or feature >= p.kind.size or (p.kind[feature] == IS_NUMBER) != (I[at + KIND] == NUMERIC):
        return _BAD
    if I[at + KIND] == MULTIWAY:
        p.I[node + VALUE] = 0
    elif I[at + KIND] != NUMERIC and not is_category(p, feature, F[at + VALUE]):
        return _BAD
    if I[at + ALTERNATE] != 0 and p.option[FAMILY] != ADAPTIVE_FAMILY:
        return _BAD
    return node


@bare_kernel
def _copy_weights(I: Array, p: Pool, at: int, node: int) -> bool:
    count, classes = I[at + CLASSES], p.by_label.size
    if count < 0 or count > classes or outside(p, I[at + WEIGHTS], PAIR * count):
        return False
    room = max(count, 2)
    weights = take(p, PAIR * room)
    p.I[node + WEIGHTS], p.I[node + CLASS_ROOM] = weights, room
    if p.option[FAMILY] == FOREST_FAMILY and (I[at + FLOATS] < 0 or I[at + FLOATS] > count):
        return False
    for c in range(classes):
        p.marks[0, c] = 0
    for j in range(count):
        label = I[I[at + WEIGHTS] + PAIR * j + CLASS]
        if label < 0 or label >= classes or p.marks[0, label] == 1:
            return False
        p.marks[0, label] = 1
        p.I[weights + PAIR * j] = I[I[at + WEIGHTS] + PAIR * j]
        p.I[weights + PAIR * j + CLASS] = label
    p.control[MOST_CLASSES] = max(p.control[MOST_CLASSES], room)
    return True


@bare_kernel
def _copy_slots(F: Array, I: Array, p: Pool, at: int, node: int) -> bool:
    count, room, target_room = I[at + SLOTS], I[at + CLASS_ROOM], p.I[node + CLASS_ROOM]
    if I[at + ACTIVE] < 0 or I[at + ACTIVE] > 1 or count < 0 or count > p.kind.size:
        return False
    p.I[node + BLOCK], p.I[node + SLOT_ROOM] = 0, 0
    if count == 0:
        return True
    if I[at + ACTIVE] == 0 or room < I[at + CLASSES] or room > p.control[BUDGET]:
        return False
    words, target_words = HEADER + ROW * room, HEADER + ROW * target_room
    if outside(p, I[at + BLOCK], count * words) or outside(p, FIRST, count * target_words):
        return False
    block = take(p, count * target_words)
    p.I[node + BLOCK], p.I[node + SLOT_ROOM] = block, count
    for f in range(p.kind.size):
        p.marks[0, f] = 0
    for s in range(count):
        source, slot = I[at + BLOCK] + s * words, block + s * target_words
        for word in range(HEADER + ROW * I[at + CLASSES]):
            p.I[slot + word] = I[source + word]
        feature = I[source + SLOT_FEATURE]
        if feature < 0 or feature >= p.kind.size or p.marks[0, feature] == 1:
            return False
        p.marks[0, feature] = 1
        if (I[source + TABLE] != 0) != (p.kind[feature] != IS_NUMBER):
            return False
        if not _sound_order(I, F, p, source, I[at + CLASSES]):
            return False
        if I[source + TABLE] == 0:
            for j in range(I[at + CLASSES]):
                prepare_density(p, slot + HEADER + ROW * j)
        elif not _copy_table(F, I, p, source, slot, I[at + CLASSES], room, target_room):
            return False
    p.control[MOST_SLOTS] = max(p.control[MOST_SLOTS], count)
    return True


@bare_kernel
def _sound_order(I: Array, F: Array, p: Pool, slot: int, classes: int) -> bool:
    """Return whether the classes that a slot knows are in its order, once each.

    The count of a class that it knows is positive, so it is never 0 again: then the class would enter the order twice.
    """
    known = I[slot + SLOT_CLASSES]
    if known < 0 or known > classes:
        return False
    flag = COUNT if I[slot + TABLE] == 0 else KNOWN
    members = 0
    for j in range(classes):
        value = F[slot + HEADER + ROW * j + flag]
        if not value >= 0.0:
            return False
        p.marks[1, j] = 1 if value > 0.0 else 0
        members += p.marks[1, j]
    if members != known:
        return False
    for q in range(known):
        j = I[slot + HEADER + ROW * q + ORDER]
        if j < 0 or j >= classes or p.marks[1, j] == 0:
            return False
        p.marks[1, j] = 0
    return True


@bare_kernel
def _copy_table(
    F: Array,
    I: Array,
    p: Pool,
    source: int,
    slot: int,
    classes: int,
    room: int,
    target_room: int,
) -> bool:
    count, place = I[source + CATEGORIES], I[source + CATEGORY_ROOM]
    budget = p.control[BUDGET]
    if count < 0 or count > place or place > budget or outside(p, I[source + TABLE], place * (1 + room)):
        return False
    target_place = max(count, FIRST_CATEGORIES)
    if outside(p, FIRST, target_place * (1 + target_room)):
        return False
    table = take(p, target_place * (1 + target_room))
    p.I[slot + TABLE], p.I[slot + CATEGORY_ROOM] = table, target_place
    for part in range(1 + classes):
        for q in range(count):
            p.F[table + part * target_place + q] = F[I[source + TABLE] + part * place + q]
    for q in range(count):
        if not is_category(p, I[source + SLOT_FEATURE], F[I[source + TABLE] + q]):
            return False
    p.control[MOST_CATEGORIES] = max(p.control[MOST_CATEGORIES], target_place)
    return True


@bare_kernel
def _copy_subset(I: Array, p: Pool, at: int, node: int) -> bool:
    count = I[at + SUBSET_SIZE]
    p.I[node + SUBSET] = 0
    if count == 0:
        return True
    if count < 0 or count > p.kind.size or outside(p, I[at + SUBSET], count):
        return False
    subset = take(p, count)
    p.I[node + SUBSET] = subset
    for q in range(count):
        feature = I[I[at + SUBSET] + q]
        if feature < 0 or feature >= p.kind.size:
            return False
        p.I[subset + q] = feature
    return True


@bare_kernel
def _copy_detector(F: Array, I: Array, p: Pool, at: int, which: int) -> int:
    if outside(p, at, DETECTOR_HEADER):
        return _BAD
    most, rows, room = int(p.detector[which, BUCKETS_A_ROW]), I[at + ROWS], I[at + ROW_ROOM]
    if rows < 1 or rows > room or rows > MOST_ROWS or (room != FEW_ROWS and room != MANY_ROWS):
        return _BAD
    if I[at + DETECTED] < 0 or I[at + DETECTED] > 1:
        return _BAD
    for field in (TICK, DETECTIONS, BUCKETS, MOST_BUCKETS):
        if abs(I[at + field]) > LARGEST_COUNT:
            return _BAD
    target_room = FEW_ROWS if rows <= FEW_ROWS else MANY_ROWS
    if outside(p, at, detector_words(most, room)) or outside(p, FIRST, detector_words(most, target_room)):
        return _BAD
    width = 0.0
    for row in range(rows):
        used = I[at + DETECTOR_HEADER + row]
        if used < 0 or used > most or (used == 0 and rows > 1):
            return _BAD
        width += float(used) * float(1 << row)
    if width != F[at + WIDTH]:
        return _BAD
    detector = take(p, detector_words(most, target_room))
    copy_rows(I, at, room, p.I, detector, target_room, most)
    return detector
