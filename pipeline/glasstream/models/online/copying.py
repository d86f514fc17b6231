"""Copying what is reachable of an arena into another one, which checks everything that is followed."""

from glasstream.base.jit import bare_kernel
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import copy_rows
from glasstream.models.online.arena import demand, detector_words, take
from glasstream.models.online.copying_targets import copy_observer, copy_target, is_category, outside
from glasstream.models.online.layout import Array
from glasstream.models.online.observers import prepare_density

_BAD = -1


@bare_kernel
def copy_trees(F: Array, I: Array, used: int, p: L.Pool) -> bool:
    """Copy the trees of pool `p` from the arena (F, I), to which their addresses refer, into the empty one of `p`.

    Parameters
    ----------
    used
        Words of (F, I) that count; the copy has no more.

    Returns
    -------
    Whether all that was followed is sound. If not, `p` is of no use.
    """
    p.control[L.USED] = L.FIRST
    p.control[L.BUDGET] = used
    p.control[L.MOST_CLASSES], p.control[L.MOST_SLOTS] = 2, 1
    p.control[L.MOST_CATEGORIES], p.control[L.HEIGHT], p.control[L.MOST_ENTRIES] = L.FIRST_CATEGORIES, 0, 0
    for t in range(p.tree.shape[0]):
        if p.tree[t, L.ROOT] != 0:
            if p.tree[t, L.EXISTS] != 1:
                return False
            root = _copy_tree(F, I, p, p.tree[t, L.ROOT])
            if root == _BAD:
                return False
            p.tree[t, L.ROOT] = root
        if t < p.option[L.MODELS]:
            for which in range(2):
                field = L.WARNING if which == 0 else L.DRIFT
                if p.tree[t, field] != 0:
                    detector = _copy_detector(F, I, p, p.tree[t, field], which)
                    if detector == _BAD:
                        return False
                    p.tree[t, field] = detector
        elif p.tree[t, L.WARNING] != 0 or p.tree[t, L.DRIFT] != 0:
            return False
    p.control[L.DEMAND] = demand(p, 0)
    return True


@bare_kernel
def _copy_tree(F: Array, I: Array, p: L.Pool, at: int) -> int:
    """Copy a tree level by level. Numba cannot cache recursive kernels, so branches wait in a queue.

    The queue runs through the copies of the branches: `SLOTS`, which only leaves use, holds the next one.
    """
    root = _copy_node(F, I, p, at, 0)
    if root == _BAD:
        return _BAD
    node = last = root
    if p.I[root + L.KIND] == L.LEAF:
        node = 0
    while node != 0:
        feature, kind, level = p.I[node + L.FEATURE], p.I[node + L.KIND], p.I[node + L.DEPTH]
        if p.I[node + L.ALTERNATE] != 0:
            alternate = _copy_node(F, I, p, p.I[node + L.ALTERNATE], level)
            if alternate == _BAD or p.I[alternate + L.KIND] != L.LEAF:
                return _BAD
            p.I[node + L.ALTERNATE] = alternate
        before, count = 0, 0
        child = p.I[node + L.LEFT]
        if child == 0:
            return _BAD
        while child != 0:
            copy = _copy_node(F, I, p, child, level + 1)
            if copy == _BAD:
                return _BAD
            if kind == L.MULTIWAY:
                if not is_category(p, feature, F[child + L.CASE]):
                    return _BAD
                p.F[copy + L.CASE] = F[child + L.CASE]
            if before == 0:
                p.I[node + L.LEFT] = copy
            elif kind == L.MULTIWAY:
                p.I[before + L.NEXT] = copy
            before = copy
            count += 1
            if p.I[copy + L.KIND] != L.LEAF:
                p.I[last + L.SLOTS] = copy
                last = copy
            if kind == L.MULTIWAY:  # noqa: SIM108
                child = I[child + L.NEXT]
            else:
                child = p.I[node + L.RIGHT] if count == 1 else 0
        if kind != L.MULTIWAY and count != 2:
            return _BAD
        p.I[node + L.RIGHT] = before
        following = p.I[node + L.SLOTS]
        p.I[node + L.SLOTS] = 0
        node = following
    return root


@bare_kernel
def _copy_node(F: Array, I: Array, p: L.Pool, at: int, level: int) -> int:
    """Copy a node without its children and its alternate, whose addresses stay those of the source."""
    if outside(p, at, L.NODE) or level > L.DEEPEST:
        return _BAD
    node = take(p, L.NODE)
    for word in range(L.NODE):
        p.I[node + word] = I[at + word]
    p.I[node + L.NEXT] = 0
    p.I[node + L.CASE] = 0
    if I[at + L.DEPTH] != level or I[at + L.KIND] < L.LEAF or I[at + L.KIND] > L.MULTIWAY:
        return _BAD
    p.control[L.HEIGHT] = max(p.control[L.HEIGHT], level)
    if not (copy_target(F, I, p, at, node) if p.option[L.REGRESSION] == 1 else _copy_weights(I, p, at, node)):
        return _BAD
    if (I[at + L.DETECTOR] != 0) != (p.option[L.FAMILY] == L.ADAPTIVE_FAMILY):
        return _BAD
    if I[at + L.DETECTOR] != 0:
        detector = _copy_detector(F, I, p, I[at + L.DETECTOR], 1)
        if detector == _BAD:
            return _BAD
        p.I[node + L.DETECTOR] = detector
    if I[at + L.KIND] == L.LEAF:
        for word in range(L.FEATURE, L.NEXT):  # what only a branch has
            p.I[node + word] = 0
        p.I[node + L.ALTERNATE] = 0
        if not (_copy_slots(F, I, p, at, node) and _copy_subset(I, p, at, node)):
            return _BAD
        return node
    for word in range(L.BLOCK, L.SUBSET_SIZE + 1):  # what only a leaf has
        p.I[node + word] = 0
    feature = I[at + L.FEATURE]
    if feature < 0 or feature >= p.kind.size or (p.kind[feature] == L.IS_NUMBER) != (I[at + L.KIND] == L.NUMERIC):
        return _BAD
    if I[at + L.KIND] == L.MULTIWAY:
        p.I[node + L.VALUE] = 0
    elif I[at + L.KIND] != L.NUMERIC and not is_category(p, feature, F[at + L.VALUE]):
        return _BAD
    if I[at + L.ALTERNATE] != 0 and p.option[L.FAMILY] != L.ADAPTIVE_FAMILY:
        return _BAD
    return node


@bare_kernel
def _copy_weights(I: Array, p: L.Pool, at: int, node: int) -> bool:
    count, classes = I[at + L.CLASSES], p.by_label.size
    if count < 0 or count > classes or outside(p, I[at + L.WEIGHTS], L.PAIR * count):
        return False
    room = max(count, 2)
    weights = take(p, L.PAIR * room)
    p.I[node + L.WEIGHTS], p.I[node + L.CLASS_ROOM] = weights, room
    if p.option[L.FAMILY] == L.FOREST_FAMILY and (I[at + L.FLOATS] < 0 or I[at + L.FLOATS] > count):
        return False
    for c in range(classes):
        p.marks[0, c] = 0
    for j in range(count):
        label = I[I[at + L.WEIGHTS] + L.PAIR * j + L.CLASS]
        if label < 0 or label >= classes or p.marks[0, label] == 1:
            return False
        p.marks[0, label] = 1
        p.I[weights + L.PAIR * j] = I[I[at + L.WEIGHTS] + L.PAIR * j]
        p.I[weights + L.PAIR * j + L.CLASS] = label
    p.control[L.MOST_CLASSES] = max(p.control[L.MOST_CLASSES], room)
    return True


@bare_kernel
def _copy_slots(F: Array, I: Array, p: L.Pool, at: int, node: int) -> bool:
    count, room, target_room = I[at + L.SLOTS], I[at + L.CLASS_ROOM], p.I[node + L.CLASS_ROOM]
    if I[at + L.ACTIVE] < 0 or I[at + L.ACTIVE] > 1 or count < 0 or count > p.kind.size:
        return False
    p.I[node + L.BLOCK], p.I[node + L.SLOT_ROOM] = 0, 0
    if count == 0:
        return True
    regression = p.option[L.REGRESSION] == 1
    classes = 0 if regression else I[at + L.CLASSES]
    if I[at + L.ACTIVE] == 0 or room < classes or room > p.control[L.BUDGET]:
        return False
    words, target_words = L.HEADER + L.ROW * room, L.HEADER + L.ROW * target_room
    if outside(p, I[at + L.BLOCK], count * words) or outside(p, L.FIRST, count * target_words):
        return False
    block = take(p, count * target_words)
    p.I[node + L.BLOCK], p.I[node + L.SLOT_ROOM] = block, count
    for f in range(p.kind.size):
        p.marks[0, f] = 0
    for s in range(count):
        source, slot = I[at + L.BLOCK] + s * words, block + s * target_words
        for word in range(L.HEADER + L.ROW * classes):
            p.I[slot + word] = I[source + word]
        feature = I[source + L.SLOT_FEATURE]
        if feature < 0 or feature >= p.kind.size or p.marks[0, feature] == 1:
            return False
        p.marks[0, feature] = 1
        if (I[source + L.TABLE] != 0) != (p.kind[feature] != L.IS_NUMBER):
            return False
        if regression:
            if not copy_observer(F, I, p, source, slot):
                return False
        elif not _sound_order(I, F, p, source, classes):
            return False
        elif I[source + L.TABLE] == 0:
            for j in range(classes):
                prepare_density(p, slot + L.HEADER + L.ROW * j)
        elif not _copy_table(F, I, p, source, slot, classes, room, target_room):
            return False
    p.control[L.MOST_SLOTS] = max(p.control[L.MOST_SLOTS], count)
    return True


@bare_kernel
def _sound_order(I: Array, F: Array, p: L.Pool, slot: int, classes: int) -> bool:
    """Return whether the classes that a slot knows are in its order, once each.

    The count of a class that it knows is positive, so it is never 0 again: then the class would enter the order twice.
    """
    known = I[slot + L.SLOT_CLASSES]
    if known < 0 or known > classes:
        return False
    flag = L.COUNT if I[slot + L.TABLE] == 0 else L.KNOWN
    members = 0
    for j in range(classes):
        value = F[slot + L.HEADER + L.ROW * j + flag]
        if not value >= 0.0:
            return False
        p.marks[1, j] = 1 if value > 0.0 else 0
        members += p.marks[1, j]
    if members != known:
        return False
    for q in range(known):
        j = I[slot + L.HEADER + L.ROW * q + L.ORDER]
        if j < 0 or j >= classes or p.marks[1, j] == 0:
            return False
        p.marks[1, j] = 0
    return True


@bare_kernel
def _copy_table(
    F: Array,
    I: Array,
    p: L.Pool,
    source: int,
    slot: int,
    classes: int,
    room: int,
    target_room: int,
) -> bool:
    count, place = I[source + L.CATEGORIES], I[source + L.CATEGORY_ROOM]
    budget = p.control[L.BUDGET]
    if count < 0 or count > place or place > budget or outside(p, I[source + L.TABLE], place * (1 + room)):
        return False
    target_place = max(count, L.FIRST_CATEGORIES)
    if outside(p, L.FIRST, target_place * (1 + target_room)):
        return False
    table = take(p, target_place * (1 + target_room))
    p.I[slot + L.TABLE], p.I[slot + L.CATEGORY_ROOM] = table, target_place
    for part in range(1 + classes):
        for q in range(count):
            p.F[table + part * target_place + q] = F[I[source + L.TABLE] + part * place + q]
    for q in range(count):
        if not is_category(p, I[source + L.SLOT_FEATURE], F[I[source + L.TABLE] + q]):
            return False
    p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], target_place)
    return True


@bare_kernel
def _copy_subset(I: Array, p: L.Pool, at: int, node: int) -> bool:
    count = I[at + L.SUBSET_SIZE]
    p.I[node + L.SUBSET] = 0
    if count == 0:
        return True
    if count < 0 or count > p.kind.size or outside(p, I[at + L.SUBSET], count):
        return False
    subset = take(p, count)
    p.I[node + L.SUBSET] = subset
    for q in range(count):
        feature = I[I[at + L.SUBSET] + q]
        if feature < 0 or feature >= p.kind.size:
            return False
        p.I[subset + q] = feature
    return True


@bare_kernel
def _copy_detector(F: Array, I: Array, p: L.Pool, at: int, which: int) -> int:
    if outside(p, at, L.DETECTOR_HEADER):
        return _BAD
    most, rows, room = int(p.detector[which, L.BUCKETS_A_ROW]), I[at + L.ROWS], I[at + L.ROW_ROOM]
    if rows < 1 or rows > room or rows > L.MOST_ROWS or (room != L.FEW_ROWS and room != L.MANY_ROWS):
        return _BAD
    if I[at + L.DETECTED] < 0 or I[at + L.DETECTED] > 1:
        return _BAD
    for field in (L.TICK, L.DETECTIONS, L.BUCKETS, L.MOST_BUCKETS):
        if abs(I[at + field]) > L.LARGEST_COUNT:
            return _BAD
    target_room = L.FEW_ROWS if rows <= L.FEW_ROWS else L.MANY_ROWS
    if outside(p, at, detector_words(most, room)) or outside(p, L.FIRST, detector_words(most, target_room)):
        return _BAD
    width = 0.0
    for row in range(rows):
        used = I[at + L.DETECTOR_HEADER + row]
        if used < 0 or used > most or (used == 0 and rows > 1):
            return _BAD
        width += float(used) * float(1 << row)
    if width != F[at + L.WIDTH]:
        return _BAD
    detector = take(p, detector_words(most, target_room))
    copy_rows(I, at, room, p.I, detector, target_room, most)
    return detector
