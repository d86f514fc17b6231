"""When a leaf splits, and how: River's criteria and the suggestions of its splitters."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import free_words, take
from glasstream.models.online.leaves import add_weight, new_leaf, total
from glasstream.models.online.observers import category_place, forget_slots
from glasstream.models.online.sums import add, ended

LEFT_OF = 0
RIGHT_OF = 1
"""Rows of `room` and `marks` with the weights of the classes on either side of a split, and with their order."""
_SPREAD = 2
"""Row of `room`: standard deviations."""
_BY_LABEL = 2
"""Row of `marks`: the leaf's classes sorted by label."""


# --- Of classifiers and regressors ------------------------------------------------------------------------------------
@inlined
def _sort_key(p: L.Pool, slot: int, category: int) -> float:
    """Where the category at a place of the table stands among others: texts as texts, numbers as numbers."""
    feature = p.I[slot + L.SLOT_FEATURE]
    value = p.F[p.I[slot + L.TABLE] + category]
    if p.kind[feature] == L.IS_TEXT:
        return float(p.rank[p.rank_start[feature] + int(value)])
    return value


@bare_kernel
def sorted_categories(p: L.Pool, slot: int, words: int) -> int:
    """Sort the numbers of the slot's categories into free words, and return where they are. They must be cleared.

    In the table, a category follows `words` words after the one before.
    """
    I = p.I
    count = I[slot + L.CATEGORIES]
    to = free_words(p, count)
    for q in range(count):
        I[to + q] = q
    gap = count // 2
    while gap > 0:
        for q in range(gap, count):
            held = I[to + q]
            key = _sort_key(p, slot, words * held)
            k = q
            while k >= gap and _sort_key(p, slot, words * I[to + k - gap]) > key:
                I[to + k] = I[to + k - gap]
                k -= gap
            I[to + k] = held
        gap //= 2
    return to


@bare_kernel
def clear_words(p: L.Pool, at: int, count: int) -> None:
    for q in range(count):
        p.I[at + q] = 0


@inlined
def suggest(best: Any, merit: float, kind: int, slot: int, value: float) -> bool:
    """Enter the best split by a feature; return whether it is the best of all so far."""
    best[L.SUGGESTIONS] += 1.0
    if merit >= best[L.MERIT]:
        best[L.SECOND] = best[L.MERIT]
        best[L.MERIT], best[L.BEST_KIND], best[L.BEST_SLOT], best[L.BEST_VALUE] = merit, float(kind), float(slot), value
        return True
    if merit > best[L.SECOND]:
        best[L.SECOND] = merit
    return False


@inlined
def append_child(p: L.Pool, node: int, child: int, value: float) -> None:
    """Give a multiway branch a child for one more category."""
    p.F[child + L.CASE] = value
    if p.I[node + L.LEFT] == 0:
        p.I[node + L.LEFT] = child
    else:
        p.I[p.I[node + L.RIGHT] + L.NEXT] = child
    p.I[node + L.RIGHT] = child


@inlined
def become_branch(p: L.Pool, node: int, slot: int, kind: int, value: float) -> None:
    """Make a leaf that has got children a branch."""
    I = p.I
    I[node + L.KIND] = kind
    I[node + L.FEATURE] = I[slot + L.SLOT_FEATURE]
    p.F[node + L.VALUE] = value
    forget_slots(p, node)
    I[node + L.SUBSET] = 0
    I[node + L.SUBSET_SIZE] = 0


# --- Criteria --------------------------------------------------------------------------------------------------------
@inlined
def _sum(p: L.Pool, side: int, count: int) -> float:
    added, rest = 0.0, 0.0
    for q in range(count):
        added, rest = add(added, rest, p.room[side, p.marks[side, q]])
    return ended(added, rest)


@inlined
def _entropy(p: L.Pool, side: int, count: int) -> float:
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
def _gini(p: L.Pool, side: int, count: int, added: float) -> float:
    gini = 1.0
    if added != 0.0:
        for q in range(count):
            share = p.room[side, p.marks[side, q]] / added
            gini -= share * share
    return gini


@bare_kernel
def _weight_of_class(p: L.Pool, node: int, side: int, count: int, label: int) -> float:
    """Return the weight of a class on a side, or -1.0 if it is not there."""
    for q in range(count):
        j = p.marks[side, q]
        if p.I[p.I[node + L.WEIGHTS] + L.PAIR * j + L.CLASS] == label:
            return p.room[side, j]
    return -1.0


@bare_kernel
def _hellinger(p: L.Pool, node: int, left: int, right: int) -> float:
    """The distance of what the first two branches got of the classes 1 and 0; other classes have none."""
    one, zero = p.option[L.LABEL_ONE], p.option[L.LABEL_ZERO]
    left_one = _weight_of_class(p, node, LEFT_OF, left, one)
    left_zero = _weight_of_class(p, node, LEFT_OF, left, zero)
    right_one = _weight_of_class(p, node, RIGHT_OF, right, one)
    right_zero = _weight_of_class(p, node, RIGHT_OF, right, zero)
    if left_one < 0.0 or left_zero < 0.0 or right_one < 0.0 or right_zero < 0.0:
        return 0.0
    zeros, ones = left_zero + right_zero, left_one + right_one
    two = p.number[L.TWO]
    a = math.pow(math.sqrt(left_zero / zeros) - math.sqrt(left_one / ones), two)
    b = math.pow(math.sqrt(right_zero / zeros) - math.sqrt(right_one / ones), two)
    return math.sqrt(a + b)


@bare_kernel
def _merit_of_two(p: L.Pool, node: int, left: int, right: int, before: float) -> float:
    """`merit_of_split` of the two sides in `room`; `before` is the entropy of the leaf."""
    on_left, on_right = _sum(p, LEFT_OF, left), _sum(p, RIGHT_OF, right)
    added = on_left + on_right
    fraction = p.number[L.BRANCH_FRACTION]
    if not (added > 0.0 and on_left / added > fraction and on_right / added > fraction):
        return -math.inf
    if p.option[L.CRITERION] == L.INFO_GAIN:
        entropy = on_left * _entropy(p, LEFT_OF, left)
        entropy += on_right * _entropy(p, RIGHT_OF, right)
        return before - entropy / added
    if p.option[L.CRITERION] == L.GINI:
        gini = (on_left / added) * _gini(p, LEFT_OF, left, on_left)
        gini += (on_right / added) * _gini(p, RIGHT_OF, right, on_right)
        return 1.0 - gini
    return _hellinger(p, node, left, right)


# --- Numeric features -------------------------------------------------------------------------------------------------
@inlined
def _below(p: L.Pool, row: int, spread: float, value: float) -> float:
    """The weight of a Gaussian below `value`, which is within its range."""
    F = p.F
    share = 0.0
    if spread != 0.0:
        share = 0.5 * (1.0 + math.erf(((value - F[row + L.MEAN]) / spread) / p.number[L.ROOT_TWO]))
    return share * F[row + L.COUNT]


@bare_kernel
def _spread(p: L.Pool, row: int) -> float:
    variance = 0.0
    if p.F[row + L.COUNT] > 1.0:
        variance = p.F[row + L.SQUARES] / (p.F[row + L.COUNT] - 1.0)
    return math.pow(variance, p.number[L.HALF])


@bare_kernel
def _part_numbers(p: L.Pool, slot: int, value: float) -> tuple[int, int]:
    """`_class_dists_from_binary_split`: write both sides to `room`; return how many classes each has."""
    F, I = p.F, p.I
    left, right = 0, 0
    for q in range(I[slot + L.SLOT_CLASSES]):
        j = I[slot + L.HEADER + L.ROW * q + L.ORDER]
        row = slot + L.HEADER + L.ROW * j
        if value < F[row + L.LEAST]:
            p.room[RIGHT_OF, j] = F[row + L.COUNT]
            p.marks[RIGHT_OF, right] = j
            right += 1
        elif value >= F[row + L.MOST]:
            p.room[LEFT_OF, j] = F[row + L.COUNT]
            p.marks[LEFT_OF, left] = j
            left += 1
        else:
            below = _below(p, row, p.room[_SPREAD, j], value)
            p.room[LEFT_OF, j] = below
            p.room[RIGHT_OF, j] = F[row + L.COUNT] - below
            p.marks[LEFT_OF, left] = j
            p.marks[RIGHT_OF, right] = j
            left += 1
            right += 1
    return left, right


@bare_kernel
def _fill_spreads(p: L.Pool, slot: int) -> None:
    for q in range(p.I[slot + L.SLOT_CLASSES]):
        j = p.I[slot + L.HEADER + L.ROW * q + L.ORDER]
        p.room[_SPREAD, j] = _spread(p, slot + L.HEADER + L.ROW * j)


@bare_kernel
def _best_threshold(p: L.Pool, node: int, slot: int, before: float) -> tuple[float, float]:
    """Return the merit of the slot's best split and its threshold."""
    F, I = p.F, p.I
    best, threshold = -math.inf, 0.0
    least, most = math.inf, -math.inf
    for q in range(I[slot + L.SLOT_CLASSES]):
        row = slot + L.HEADER + L.ROW * I[slot + L.HEADER + L.ROW * q + L.ORDER]
        if F[row + L.LEAST] < least:
            least = F[row + L.LEAST]
        if F[row + L.MOST] > most:
            most = F[row + L.MOST]
    if not least < math.inf:
        return best, threshold
    _fill_spreads(p, slot)
    candidates = p.option[L.CANDIDATES]
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
def _part_category(p: L.Pool, slot: int, category: int) -> tuple[int, int]:
    """`_class_dist_from_binary_split`: the category on the left, the others on the right."""
    F, I = p.F, p.I
    left, right = 0, 0
    for q in range(I[slot + L.SLOT_CLASSES]):
        j = I[slot + L.HEADER + L.ROW * q + L.ORDER]
        weight = F[I[slot + L.TABLE] + (1 + j) * I[slot + L.CATEGORY_ROOM] + category]
        others = F[slot + L.HEADER + L.ROW * j + L.COUNT] - weight
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
def _part_child(p: L.Pool, node: int, slot: int, category: int, side: int) -> int:
    """What a multiway split gives to the child of a category, its classes sorted by label."""
    F, I = p.F, p.I
    count = 0
    for q in range(I[node + L.CLASSES]):
        j = p.marks[_BY_LABEL, q]
        weight = F[I[slot + L.TABLE] + (1 + j) * I[slot + L.CATEGORY_ROOM] + category]
        if weight > 0.0:
            p.room[side, j] = weight
            p.marks[side, count] = j
            count += 1
    return count


@bare_kernel
def _sort_classes(p: L.Pool, node: int) -> None:
    weights = p.I[node + L.WEIGHTS]
    for j in range(p.I[node + L.CLASSES]):
        rank = p.label_rank[p.I[weights + L.PAIR * j + L.CLASS]]
        q = j
        while q > 0 and p.label_rank[p.I[weights + L.PAIR * p.marks[_BY_LABEL, q - 1] + L.CLASS]] > rank:
            p.marks[_BY_LABEL, q] = p.marks[_BY_LABEL, q - 1]
            q -= 1
        p.marks[_BY_LABEL, q] = j


@bare_kernel
def _merit_of_all(p: L.Pool, node: int, slot: int, before: float) -> float:
    """`merit_of_split` of the split into all categories of a slot."""
    count = p.I[slot + L.CATEGORIES]
    _sort_classes(p, node)
    order = sorted_categories(p, slot, 1)
    added = 0.0
    for q in range(count):
        added += _sum(p, LEFT_OF, _part_child(p, node, slot, p.I[order + q], LEFT_OF))
    large = 0
    gathered = 0.0
    for q in range(count):
        classes = _part_child(p, node, slot, p.I[order + q], LEFT_OF)
        weight = _sum(p, LEFT_OF, classes)
        if added > 0.0 and weight / added > p.number[L.BRANCH_FRACTION]:
            large += 1
        if p.option[L.CRITERION] == L.INFO_GAIN:
            gathered += weight * _entropy(p, LEFT_OF, classes)
        elif p.option[L.CRITERION] == L.GINI:
            gathered += (weight / added) * _gini(p, LEFT_OF, classes, weight)
    merit = -math.inf
    if large >= 2:
        if p.option[L.CRITERION] == L.INFO_GAIN:
            merit = before - gathered / added
        elif p.option[L.CRITERION] == L.GINI:
            merit = 1.0 - gathered
        else:
            left = _part_child(p, node, slot, p.I[order], LEFT_OF)
            right = _part_child(p, node, slot, p.I[order + 1], RIGHT_OF)
            merit = _hellinger(p, node, left, right)
    clear_words(p, order, count)
    return merit


@bare_kernel
def _best_categories(p: L.Pool, node: int, slot: int, before: float) -> tuple[float, int, float]:
    """Return the merit, kind and category of the slot's best split."""
    best, kind, category = -math.inf, L.LEAF, 0.0
    if p.option[L.BINARY_ONLY] == 0:
        best, kind = _merit_of_all(p, node, slot, before), L.MULTIWAY
    for q in range(p.I[slot + L.CATEGORIES]):
        left, right = _part_category(p, slot, q)
        merit = _merit_of_two(p, node, left, right, before)
        if merit > best:
            best, kind, category = merit, L.NOMINAL, p.F[p.I[slot + L.TABLE] + q]
    return best, kind, category


# --- The attempt ------------------------------------------------------------------------------------------------------
@bare_kernel
def _suggest(p: L.Pool, node: int) -> None:
    """`best_split_suggestions`, sorted: write the last to `best`, and the merit of the last but one."""
    F, I, best = p.F, p.I, p.best
    weights, count = I[node + L.WEIGHTS], I[node + L.CLASSES]
    best[L.MERIT], best[L.SECOND] = -math.inf, -math.inf
    best[L.SUGGESTIONS], best[L.BEST_KIND] = 1.0, float(L.LEAF)
    top = F[weights]
    for j in range(count):
        top = max(top, F[weights + L.PAIR * j])
    if top != 0.0 and top / total(p, node) > p.number[L.SHARE]:
        return
    if p.option[L.PREPRUNE] == 0:
        best[L.SUGGESTIONS] = 0.0
    before = 0.0
    if p.option[L.CRITERION] == L.INFO_GAIN:
        for j in range(count):
            p.room[LEFT_OF, j] = F[weights + L.PAIR * j]
            p.marks[LEFT_OF, j] = j
        before = _entropy(p, LEFT_OF, count)
    words = L.HEADER + L.ROW * I[node + L.CLASS_ROOM]
    for s in range(I[node + L.SLOTS]):
        slot = I[node + L.BLOCK] + s * words
        kind = L.LEAF
        if I[slot + L.TABLE] == 0:
            merit, value = _best_threshold(p, node, slot, before)
            if merit > -math.inf:
                kind = L.NUMERIC
        else:
            merit, kind, value = _best_categories(p, node, slot, before)
        suggest(best, merit, kind, s, value)


@bare_kernel
def _new_child(p: L.Pool, node: int, side: int, count: int) -> int:
    child = new_leaf(p, p.I[node + L.DEPTH] + 1, count)
    for q in range(count):
        j = p.marks[side, q]
        label = p.I[p.I[node + L.WEIGHTS] + L.PAIR * j + L.CLASS]
        add_weight(p, child, label, p.room[side, j])
    if p.option[L.FAMILY] == L.FOREST_FAMILY:
        p.I[child + L.FLOATS] = count
    p.F[child + L.LAST] = total(p, child)
    return child


@bare_kernel
def _split(p: L.Pool, node: int) -> int:
    """Make a leaf the branch that `best` names; return the number of its children."""
    F, I = p.F, p.I
    kind, value = int(p.best[L.BEST_KIND]), p.best[L.BEST_VALUE]
    words = L.HEADER + L.ROW * I[node + L.CLASS_ROOM]
    slot = I[node + L.BLOCK] + int(p.best[L.BEST_SLOT]) * words
    I[node + L.LEFT], I[node + L.RIGHT] = 0, 0
    children = 2
    if kind == L.MULTIWAY:
        children = I[slot + L.CATEGORIES]
        _sort_classes(p, node)
        order = sorted_categories(p, slot, 1)
        take(p, children)  # the words of `order`
        for q in range(children):
            category = I[order + q]
            child = _new_child(p, node, LEFT_OF, _part_child(p, node, slot, category, LEFT_OF))
            append_child(p, node, child, F[I[slot + L.TABLE] + category])
    else:
        if kind == L.NUMERIC:
            _fill_spreads(p, slot)
            left, right = _part_numbers(p, slot, value)
        else:
            left, right = _part_category(p, slot, category_place(p, slot, value))
        I[node + L.LEFT] = _new_child(p, node, LEFT_OF, left)
        I[node + L.RIGHT] = _new_child(p, node, RIGHT_OF, right)
    become_branch(p, node, slot, kind, value)
    return children


@bare_kernel
def attempt(p: L.Pool, node: int, seen: float) -> int:
    """`_attempt_to_split`: return how many children the leaf got, 0 if it stays, -1 if the null split won."""
    weights, count = p.I[node + L.WEIGHTS], p.I[node + L.CLASSES]
    present = 0
    for j in range(count):
        if p.F[weights + L.PAIR * j] != 0.0:
            present += 1
    if present < 2:
        return 0
    _suggest(p, node)
    best = p.best
    if best[L.SUGGESTIONS] < 1.0:
        return 0
    if best[L.SUGGESTIONS] >= 2.0:
        reach = 1.0
        if p.option[L.CRITERION] != L.GINI:
            reach = math.log2(float(max(count, 2)))
        bound = math.sqrt((reach * reach * p.number[L.LOG_DELTA]) / (2.0 * seen))
        if not (best[L.MERIT] - best[L.SECOND] > bound or bound < p.number[L.TAU]):
            return 0
    if int(best[L.BEST_KIND]) == L.LEAF:
        return -1
    return _split(p, node)
