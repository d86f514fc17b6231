"""When a leaf splits, and how: River's criteria and the suggestions of its splitters."""

import math
from typing import Any

from glasstream.jit import bare_kernel, inlined
from glasstream.learning.arena import free_words, take
from glasstream.learning.layout import (
    BEST_KIND,
    BEST_SLOT,
    BEST_VALUE,
    BINARY_ONLY,
    BLOCK,
    BRANCH_FRACTION,
    CANDIDATES,
    CASE,
    CATEGORIES,
    CATEGORY_ROOM,
    CLASS,
    CLASS_ROOM,
    CLASSES,
    COUNT,
    CRITERION,
    DEPTH,
    FAMILY,
    FEATURE,
    FLOATS,
    FOREST_FAMILY,
    GINI,
    HALF,
    HEADER,
    INFO_GAIN,
    IS_TEXT,
    KIND,
    LABEL_ONE,
    LABEL_ZERO,
    LAST,
    LEAF,
    LEAST,
    LEFT,
    LOG_DELTA,
    MEAN,
    MERIT,
    MOST,
    MULTIWAY,
    NEXT,
    NOMINAL,
    NUMERIC,
    ORDER,
    PAIR,
    PREPRUNE,
    RIGHT,
    ROOT_TWO,
    ROW,
    SECOND,
    SHARE,
    SLOT_CLASSES,
    SLOT_FEATURE,
    SLOTS,
    SQUARES,
    SUBSET,
    SUBSET_SIZE,
    SUGGESTIONS,
    TABLE,
    TAU,
    TWO,
    VALUE,
    WEIGHTS,
)
from glasstream.learning.leaves import add_weight, category_place, forget_slots, new_leaf, total
from glasstream.learning.sums import add, ended

Pool = Any

LEFT_OF = 0
RIGHT_OF = 1
"""Rows of `room` and `marks` with the weights of the classes on either side of a split, and with their order."""
_SPREAD = 2
"""Row of `room`: standard deviations."""
_BY_LABEL = 2
"""Row of `marks`: the leaf's classes sorted by label."""


@inlined
def _sum(p: Pool, side: int, count: int) -> float:
    added, rest = 0.0, 0.0
    for q in range(count):
        added, rest = add(added, rest, p.room[side, p.marks[side, q]])
    return ended(added, rest)


@inlined
def _entropy(p: Pool, side: int, count: int) -> float:
    entropy = 0.0
    added = 0.0
    for q in range(count):
        weight = p.room[side, p.marks[side, q]]
        if weight > 0.0:
            entropy -= weight * math.log2(weight)
            added += weight
    if added > 0.0:
        return (entropy + added * math.log2(added)) / added
    return 0.0


@inlined
def _gini(p: Pool, side: int, count: int, added: float) -> float:
    gini = 1.0
    if added != 0.0:
        for q in range(count):
            share = p.room[side, p.marks[side, q]] / added
            gini -= share * share
    return gini


@bare_kernel
def _weight_of_class(p: Pool, node: int, side: int, count: int, label: int) -> float:
    """Return the weight of a class on a side, or -1.0 if it is not there."""
    for q in range(count):
        j = p.marks[side, q]
        if p.I[p.I[node + WEIGHTS] + PAIR * j + CLASS] == label:
            return p.room[side, j]
    return -1.0


@bare_kernel
def _hellinger(p: Pool, node: int, left: int, right: int) -> float:
    """The distance of what the first two branches got of the classes 1 and 0; other classes have none."""
    one, zero = p.option[LABEL_ONE], p.option[LABEL_ZERO]
    left_one = _weight_of_class(p, node, LEFT_OF, left, one)
    left_zero = _weight_of_class(p, node, LEFT_OF, left, zero)
    right_one = _weight_of_class(p, node, RIGHT_OF, right, one)
    right_zero = _weight_of_class(p, node, RIGHT_OF, right, zero)
    if left_one < 0.0 or left_zero < 0.0 or right_one < 0.0 or right_zero < 0.0:
        return 0.0
    zeros, ones = left_zero + right_zero, left_one + right_one
    two = p.number[TWO]
    a = math.pow(math.sqrt(left_zero / zeros) - math.sqrt(left_one / ones), two)
    b = math.pow(math.sqrt(right_zero / zeros) - math.sqrt(right_one / ones), two)
    return math.sqrt(a + b)


@bare_kernel
def _merit_of_two(p: Pool, node: int, left: int, right: int, before: float) -> float:
    """`merit_of_split` of the two sides in `room`; `before` is the entropy of the leaf."""
    on_left, on_right = _sum(p, LEFT_OF, left), _sum(p, RIGHT_OF, right)
    added = on_left + on_right
    fraction = p.number[BRANCH_FRACTION]
    if not (added > 0.0 and on_left / added > fraction and on_right / added > fraction):
        return -math.inf
    if p.option[CRITERION] == INFO_GAIN:
        entropy = on_left * _entropy(p, LEFT_OF, left)
        entropy += on_right * _entropy(p, RIGHT_OF, right)
        return before - entropy / added
    if p.option[CRITERION] == GINI:
        gini = (on_left / added) * _gini(p, LEFT_OF, left, on_left)
        gini += (on_right / added) * _gini(p, RIGHT_OF, right, on_right)
        return 1.0 - gini
    return _hellinger(p, node, left, right)


# --- Numeric features -------------------------------------------------------------------------------------------------
@inlined
def _below(p: Pool, row: int, spread: float, value: float) -> float:
    """The weight of a Gaussian below `value`, which is within its range."""
    F = p.F
    share = 0.0
    if spread != 0.0:
        share = 0.5 * (1.0 + math.erf(((value - F[row + MEAN]) / spread) / p.number[ROOT_TWO]))
    return share * F[row + COUNT]


@bare_kernel
def _spread(p: Pool, row: int) -> float:
    variance = 0.0
    if p.F[row + COUNT] > 1.0:
        variance = p.F[row + SQUARES] / (p.F[row + COUNT] - 1.0)
    return math.pow(variance, p.number[HALF])


@bare_kernel
def _part_numbers(p: Pool, slot: int, value: float) -> tuple[int, int]:
    """`_class_dists_from_binary_split`: write both sides to `room`; return how many classes each has."""
    F, I = p.F, p.I
    left, right = 0, 0
    for q in range(I[slot + SLOT_CLASSES]):
        j = I[slot + HEADER + ROW * q + ORDER]
        row = slot + HEADER + ROW * j
        if value < F[row + LEAST]:
            p.room[RIGHT_OF, j] = F[row + COUNT]
            p.marks[RIGHT_OF, right] = j
            right += 1
        elif value >= F[row + MOST]:
            p.room[LEFT_OF, j] = F[row + COUNT]
            p.marks[LEFT_OF, left] = j
            left += 1
        else:
            below = _below(p, row, p.room[_SPREAD, j], value)
            p.room[LEFT_OF, j] = below
            p.room[RIGHT_OF, j] = F[row + COUNT] - below
            p.marks[LEFT_OF, left] = j
            p.marks[RIGHT_OF, right] = j
            left += 1
            right += 1
    return left, right


@bare_kernel
def _fill_spreads(p: Pool, slot: int) -> None:
    for q in range(p.I[slot + SLOT_CLASSES]):
        j = p.I[slot + HEADER + ROW * q + ORDER]
        p.room[_SPREAD, j] = _spread(p, slot + HEADER + ROW * j)


@bare_kernel
def _best_threshold(p: Pool, node: int, slot: int, before: float) -> tuple[float, float]:
    """Return the merit of the slot's best split and its threshold."""
    F, I = p.F, p.I
    best, threshold = -math.inf, 0.0
    least, most = math.inf, -math.inf
    for q in range(I[slot + SLOT_CLASSES]):
        row = slot + HEADER + ROW * I[slot + HEADER + ROW * q + ORDER]
        if F[row + LEAST] < least:
            least = F[row + LEAST]
        if F[row + MOST] > most:
            most = F[row + MOST]
    if not least < math.inf:
        return best, threshold
    _fill_spreads(p, slot)
    candidates = p.option[CANDIDATES]
    size = (most - least) / (candidates + 1.0)
    for k in range(candidates):
        value = least + (size * (k + 1))
        if least < value and value < most:
            left, right = _part_numbers(p, slot, value)
            merit = _merit_of_two(p, node, left, right, before)
            if merit > best:
                best, threshold = merit, value
    return best, threshold


# --- Nominal features -------------------------------------------------------------------------------------------------
@bare_kernel
def _part_category(p: Pool, slot: int, category: int) -> tuple[int, int]:
    """`_class_dist_from_binary_split`: the category on the left, the others on the right."""
    F, I = p.F, p.I
    left, right = 0, 0
    for q in range(I[slot + SLOT_CLASSES]):
        j = I[slot + HEADER + ROW * q + ORDER]
        weight = F[I[slot + TABLE] + (1 + j) * I[slot + CATEGORY_ROOM] + category]
        others = F[slot + HEADER + ROW * j + COUNT] - weight
        if weight > 0.0:
            p.room[LEFT_OF, j] = weight
            p.marks[LEFT_OF, left] = j
            left += 1
        if others > 0.0:
            p.room[RIGHT_OF, j] = others
            p.marks[RIGHT_OF, right] = j
            right += 1
    return left, right


@bare_kernel
def _part_child(p: Pool, node: int, slot: int, category: int, side: int) -> int:
    """What a multiway split gives to the child of a category, its classes sorted by label."""
    F, I = p.F, p.I
    count = 0
    for q in range(I[node + CLASSES]):
        j = p.marks[_BY_LABEL, q]
        weight = F[I[slot + TABLE] + (1 + j) * I[slot + CATEGORY_ROOM] + category]
        if weight > 0.0:
            p.room[side, j] = weight
            p.marks[side, count] = j
            count += 1
    return count


@bare_kernel
def _sort_classes(p: Pool, node: int) -> None:
    weights = p.I[node + WEIGHTS]
    for j in range(p.I[node + CLASSES]):
        rank = p.label_rank[p.I[weights + PAIR * j + CLASS]]
        q = j
        while q > 0 and p.label_rank[p.I[weights + PAIR * p.marks[_BY_LABEL, q - 1] + CLASS]] > rank:
            p.marks[_BY_LABEL, q] = p.marks[_BY_LABEL, q - 1]
            q -= 1
        p.marks[_BY_LABEL, q] = j


@inlined
def _sort_key(p: Pool, slot: int, category: int) -> float:
    """Where a category stands among those of its feature: texts as texts, numbers as numbers."""
    feature = p.I[slot + SLOT_FEATURE]
    value = p.F[p.I[slot + TABLE] + category]
    if p.kind[feature] == IS_TEXT:
        return float(p.rank[p.rank_start[feature] + int(value)])
    return value


@bare_kernel
def _sorted_categories(p: Pool, slot: int) -> int:
    """Sort the places of the slot's categories into free words, and return where they are. They must be cleared."""
    I = p.I
    count = I[slot + CATEGORIES]
    to = free_words(p, count)
    for q in range(count):
        I[to + q] = q
    gap = count // 2
    while gap > 0:
        for q in range(gap, count):
            held = I[to + q]
            key = _sort_key(p, slot, held)
            k = q
            while k >= gap and _sort_key(p, slot, I[to + k - gap]) > key:
                I[to + k] = I[to + k - gap]
                k -= gap
            I[to + k] = held
        gap //= 2
    return to


@bare_kernel
def _clear(p: Pool, at: int, count: int) -> None:
    for q in range(count):
        p.I[at + q] = 0


@bare_kernel
def _merit_of_all(p: Pool, node: int, slot: int, before: float) -> float:
    """`merit_of_split` of the split into all categories of a slot."""
    count = p.I[slot + CATEGORIES]
    _sort_classes(p, node)
    order = _sorted_categories(p, slot)
    added = 0.0
    for q in range(count):
        added += _sum(p, LEFT_OF, _part_child(p, node, slot, p.I[order + q], LEFT_OF))
    large = 0
    gathered = 0.0
    for q in range(count):
        classes = _part_child(p, node, slot, p.I[order + q], LEFT_OF)
        weight = _sum(p, LEFT_OF, classes)
        if added > 0.0 and weight / added > p.number[BRANCH_FRACTION]:
            large += 1
        if p.option[CRITERION] == INFO_GAIN:
            gathered += weight * _entropy(p, LEFT_OF, classes)
        elif p.option[CRITERION] == GINI:
            gathered += (weight / added) * _gini(p, LEFT_OF, classes, weight)
    merit = -math.inf
    if large >= 2:
        if p.option[CRITERION] == INFO_GAIN:
            merit = before - gathered / added
        elif p.option[CRITERION] == GINI:
            merit = 1.0 - gathered
        else:
            left = _part_child(p, node, slot, p.I[order], LEFT_OF)
            right = _part_child(p, node, slot, p.I[order + 1], RIGHT_OF)
            merit = _hellinger(p, node, left, right)
    _clear(p, order, count)
    return merit


@bare_kernel
def _best_categories(p: Pool, node: int, slot: int, before: float) -> tuple[float, int, float]:
    """Return the merit, kind and category of the slot's best split."""
    best, kind, category = -math.inf, LEAF, 0.0
    if p.option[BINARY_ONLY] == 0:
        best, kind = _merit_of_all(p, node, slot, before), MULTIWAY
    for q in range(p.I[slot + CATEGORIES]):
        left, right = _part_category(p, slot, q)
        merit = _merit_of_two(p, node, left, right, before)
        if merit > best:
            best, kind, category = merit, NOMINAL, p.F[p.I[slot + TABLE] + q]
    return best, kind, category


# --- The attempt ------------------------------------------------------------------------------------------------------
@bare_kernel
def _suggest(p: Pool, node: int) -> None:
    """`best_split_suggestions`, sorted: write the last to `best`, and the merit of the last but one."""
    F, I, best = p.F, p.I, p.best
    weights, count = I[node + WEIGHTS], I[node + CLASSES]
    best[MERIT], best[SECOND] = -math.inf, -math.inf
    best[SUGGESTIONS], best[BEST_KIND] = 1.0, float(LEAF)
    top = F[weights]
    for j in range(count):
        top = max(top, F[weights + PAIR * j])
    if top != 0.0 and top / total(p, node) > p.number[SHARE]:
        return
    if p.option[PREPRUNE] == 0:
        best[SUGGESTIONS] = 0.0
    before = 0.0
    if p.option[CRITERION] == INFO_GAIN:
        for j in range(count):
            p.room[LEFT_OF, j] = F[weights + PAIR * j]
            p.marks[LEFT_OF, j] = j
        before = _entropy(p, LEFT_OF, count)
    words = HEADER + ROW * I[node + CLASS_ROOM]
    for s in range(I[node + SLOTS]):
        slot = I[node + BLOCK] + s * words
        kind = LEAF
        if I[slot + TABLE] == 0:
            merit, value = _best_threshold(p, node, slot, before)
            if merit > -math.inf:
                kind = NUMERIC
        else:
            merit, kind, value = _best_categories(p, node, slot, before)
        best[SUGGESTIONS] += 1.0
        if merit >= best[MERIT]:
            best[SECOND] = best[MERIT]
            best[MERIT], best[BEST_KIND], best[BEST_SLOT], best[BEST_VALUE] = merit, float(kind), float(s), value
        elif merit > best[SECOND]:
            best[SECOND] = merit


@bare_kernel
def _new_child(p: Pool, node: int, side: int, count: int) -> int:
    child = new_leaf(p, p.I[node + DEPTH] + 1, count)
    for q in range(count):
        j = p.marks[side, q]
        label = p.I[p.I[node + WEIGHTS] + PAIR * j + CLASS]
        add_weight(p, child, label, p.room[side, j])
    if p.option[FAMILY] == FOREST_FAMILY:
        p.I[child + FLOATS] = count
    p.F[child + LAST] = total(p, child)
    return child


@inlined
def append_child(p: Pool, node: int, child: int, value: float) -> None:
    """Give a multiway branch a child for one more category."""
    p.F[child + CASE] = value
    if p.I[node + LEFT] == 0:
        p.I[node + LEFT] = child
    else:
        p.I[p.I[node + RIGHT] + NEXT] = child
    p.I[node + RIGHT] = child


@bare_kernel
def _split(p: Pool, node: int) -> int:
    """Make a leaf the branch that `best` names; return the number of its children."""
    F, I = p.F, p.I
    kind, value = int(p.best[BEST_KIND]), p.best[BEST_VALUE]
    words = HEADER + ROW * I[node + CLASS_ROOM]
    slot = I[node + BLOCK] + int(p.best[BEST_SLOT]) * words
    I[node + LEFT], I[node + RIGHT] = 0, 0
    children = 2
    if kind == MULTIWAY:
        children = I[slot + CATEGORIES]
        _sort_classes(p, node)
        order = _sorted_categories(p, slot)
        take(p, children)  # the words of `order`
        for q in range(children):
            category = I[order + q]
            child = _new_child(p, node, LEFT_OF, _part_child(p, node, slot, category, LEFT_OF))
            append_child(p, node, child, F[I[slot + TABLE] + category])
    else:
        if kind == NUMERIC:
            _fill_spreads(p, slot)
            left, right = _part_numbers(p, slot, value)
        else:
            left, right = _part_category(p, slot, category_place(p, slot, value))
        I[node + LEFT] = _new_child(p, node, LEFT_OF, left)
        I[node + RIGHT] = _new_child(p, node, RIGHT_OF, right)
    I[node + KIND] = kind
    I[node + FEATURE] = I[slot + SLOT_FEATURE]
    F[node + VALUE] = value
    forget_slots(p, node)
    I[node + SUBSET] = 0
    I[node + SUBSET_SIZE] = 0
    return children


@bare_kernel
def attempt(p: Pool, node: int, seen: float) -> int:
    """`_attempt_to_split`: return how many children the leaf got, 0 if it stays, -1 if the null split won."""
    weights, count = p.I[node + WEIGHTS], p.I[node + CLASSES]
    present = 0
    for j in range(count):
        if p.F[weights + PAIR * j] != 0.0:
            present += 1
    if present < 2:
        return 0
    _suggest(p, node)
    best = p.best
    if best[SUGGESTIONS] < 1.0:
        return 0
    if best[SUGGESTIONS] >= 2.0:
        reach = 1.0
        if p.option[CRITERION] != GINI:
            reach = math.log2(float(max(count, 2)))
        bound = math.sqrt((reach * reach * p.number[LOG_DELTA]) / (2.0 * seen))
        if not (best[MERIT] - best[SECOND] > bound or bound < p.number[TAU]):
            return 0
    if int(best[BEST_KIND]) == LEAF:
        return -1
    return _split(p, node)
