"""Splits of a regressor's leaves by the reduction of the targets' variance."""

import math
from typing import Any

from glasstream.jit import bare_kernel, inlined
from glasstream.learning.arena import free_words, take
from glasstream.learning.layout import (
    AVERAGE,
    BEST_KIND,
    BEST_LEFT,
    BEST_RIGHT,
    BEST_SLOT,
    BEST_VALUE,
    BINARY_ONLY,
    BLOCK,
    CASES,
    CATEGORIES,
    DEPTH,
    DEVIATION,
    FEATURE,
    HEADER,
    IS_TEXT,
    KIND,
    LAST,
    LEAF,
    LEAST_SAMPLES,
    LEFT,
    LOG_DELTA,
    MERIT,
    MULTIWAY,
    NOMINAL,
    NUMERIC,
    POINT_ABOVE,
    POINT_LEFT,
    POINT_RIGHT,
    POINT_SEEN,
    POINT_VALUE,
    PREPRUNE,
    RIGHT,
    SEARCH,
    SECOND,
    SEEN,
    SLOT_FEATURE,
    SLOTS,
    SUBSET,
    SUBSET_SIZE,
    SUGGESTIONS,
    TABLE,
    TAU,
    VALUE,
    WEIGHTS,
)
from glasstream.learning.leaves import forget_slots
from glasstream.learning.splits import append_child
from glasstream.learning.targets import (
    added,
    new_target_leaf,
    statistics,
    subtracted,
    target_statistics,
    variance,
)

Pool = Any
Statistics = tuple[float, float, float]

NOTHING = (0.0, 0.0, 0.0)


@inlined
def _merit(p: Pool, whole: Statistics, left: Statistics, right: Statistics) -> float:
    """`merit_of_split` of a binary split."""
    least = p.number[LEAST_SAMPLES]
    if not (left[0] >= least and right[0] >= least):
        return 0.0
    merit = variance(whole)
    merit -= left[0] / whole[0] * variance(left)
    merit -= right[0] / whole[0] * variance(right)
    return merit


# --- Numeric features -----------------------------------------------------------------------------------------------
@inlined
def _leftmost(p: Pool, point: int) -> int:
    while p.I[point + POINT_LEFT] != 0:
        point = p.I[point + POINT_LEFT]
    return point


@bare_kernel
def _best_threshold(p: Pool, node: int, slot: int) -> tuple[float, int]:
    """`_find_best_split`: visit the points in order; return the merit of the best and the point, 0 for none.

    `beside` holds the targets that went to the left of the points under which the way turned right. What is added to
    it is later subtracted again, with the rounding of both.
    """
    F, I = p.F, p.I
    whole = target_statistics(p, node)
    beside = NOTHING
    best, merit_of_best = 0, -math.inf
    point = I[slot + SEARCH]
    if point == 0:
        return merit_of_best, best
    point = _leftmost(p, point)
    while point != 0:
        own = statistics(F, point + POINT_SEEN)
        left = added(p, own, beside)
        merit = _merit(p, whole, left, subtracted(p, whole, left))
        if merit > merit_of_best:
            best, merit_of_best = point, merit
        if I[point + POINT_RIGHT] != 0:
            beside = added(p, beside, own)
            point = _leftmost(p, I[point + POINT_RIGHT])
            continue
        while True:
            above = I[point + POINT_ABOVE]
            if above == 0 or I[above + POINT_LEFT] == point:
                point = above
                break
            beside = subtracted(p, beside, statistics(F, above + POINT_SEEN))
            point = above
    return merit_of_best, best


@bare_kernel
def _beside(p: Pool, slot: int, wanted: int) -> Statistics:
    """Return what `_best_threshold` has in `beside` when it visits a point."""
    F, I = p.F, p.I
    beside = NOTHING
    point = _leftmost(p, I[slot + SEARCH])
    while point != wanted and point != 0:
        if I[point + POINT_RIGHT] != 0:
            beside = added(p, beside, statistics(F, point + POINT_SEEN))
            point = _leftmost(p, I[point + POINT_RIGHT])
            continue
        while True:
            above = I[point + POINT_ABOVE]
            if above == 0 or I[above + POINT_LEFT] == point:
                point = above
                break
            beside = subtracted(p, beside, statistics(F, above + POINT_SEEN))
            point = above
    return beside


@bare_kernel
def _remove_bad_points(p: Pool, node: int, slot: int, ratio: float, merit_of_best: float, bound: float) -> None:
    """`remove_bad_splits`: cut off points below which, and at which, every split is far worse than the best."""
    F, I = p.F, p.I
    whole = target_statistics(p, node)
    beside = NOTHING
    point = I[slot + SEARCH]
    arriving, from_left, bad = True, False, False
    while point != 0:
        if arriving and I[point + POINT_LEFT] != 0:
            point = I[point + POINT_LEFT]
            continue
        own = statistics(F, point + POINT_SEEN)
        if arriving:
            bad = True
        if arriving or from_left:
            arriving = False
            if bad and I[point + POINT_RIGHT] != 0:
                beside = added(p, beside, own)
                point = I[point + POINT_RIGHT]
                arriving = True
                continue
        else:
            beside = subtracted(p, beside, own)
        above = I[point + POINT_ABOVE]
        from_left = above != 0 and I[above + POINT_LEFT] == point
        if bad:
            left = added(p, own, beside)
            merit = _merit(p, whole, left, subtracted(p, whole, left))
            bad = merit / merit_of_best < ratio - 2.0 * bound
            if bad and above == 0:
                I[slot + SEARCH] = 0
            elif bad:
                I[above + (POINT_LEFT if from_left else POINT_RIGHT)] = 0
        point = above


# --- Nominal features -----------------------------------------------------------------------------------------------
@inlined
def _sort_key(p: Pool, slot: int, q: int) -> float:
    value = p.F[p.I[slot + TABLE] + CASES * q]
    feature = p.I[slot + SLOT_FEATURE]
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
def _merit_of_all(p: Pool, node: int, slot: int, order: int) -> float:
    """`merit_of_split` of the split into all categories of a slot."""
    F, I = p.F, p.I
    whole = target_statistics(p, node)
    for q in range(I[slot + CATEGORIES]):
        if not F[I[slot + TABLE] + CASES * I[order + q] + 1] >= p.number[LEAST_SAMPLES]:
            return 0.0
    merit = variance(whole)
    for q in range(I[slot + CATEGORIES]):
        own = statistics(F, I[slot + TABLE] + CASES * I[order + q] + 1)
        merit -= own[0] / whole[0] * variance(own)
    return merit


@bare_kernel
def _best_categories(p: Pool, node: int, slot: int) -> tuple[float, int, int]:
    """Return the merit and kind of the best split of a nominal feature, and the place of its category."""
    F, I = p.F, p.I
    whole = target_statistics(p, node)
    count = I[slot + CATEGORIES]
    order = _sorted_categories(p, slot)
    best, kind, place = -math.inf, LEAF, 0
    if p.option[BINARY_ONLY] == 0 and count > 2:
        best, kind = _merit_of_all(p, node, slot, order), MULTIWAY
    for q in range(count):
        own = statistics(F, I[slot + TABLE] + CASES * I[order + q] + 1)
        merit = _merit(p, whole, own, subtracted(p, whole, own))
        if merit > best:
            best, kind, place = merit, NOMINAL, I[order + q]
    _clear(p, order, count)
    return best, kind, place


# --- The split ------------------------------------------------------------------------------------------------------
@bare_kernel
def _suggest(p: Pool, node: int) -> None:
    """`best_split_suggestions`, sorted: write the last to `best`, and the merit of the last but one.

    `BEST_VALUE` becomes the address of the point, or the place of the category.
    """
    I, best = p.I, p.best
    best[MERIT], best[SECOND] = -math.inf, -math.inf
    best[SUGGESTIONS], best[BEST_KIND] = float(p.option[PREPRUNE]), float(LEAF)
    for s in range(I[node + SLOTS]):
        slot = I[node + BLOCK] + HEADER * s
        kind = LEAF
        if I[slot + TABLE] == 0:
            merit, place = _best_threshold(p, node, slot)
            if place != 0:
                kind = NUMERIC
        else:
            merit, kind, place = _best_categories(p, node, slot)
        best[SUGGESTIONS] += 1.0
        if merit >= best[MERIT]:
            best[SECOND] = best[MERIT]
            best[MERIT], best[BEST_KIND], best[BEST_SLOT], best[BEST_VALUE] = merit, float(kind), float(s), float(place)
        elif merit > best[SECOND]:
            best[SECOND] = merit


@inlined
def _keep(best: Any, at: int, of: Statistics) -> None:
    best[at], best[at + 1], best[at + 2] = of


@bare_kernel
def _new_child(p: Pool, node: int, F: Any, at: int) -> int:
    """Return a new leaf below `node`, which has seen the targets whose statistics are at `at` of `F`."""
    child = new_target_leaf(p, p.I[node + DEPTH] + 1, node)
    target = p.I[child + WEIGHTS]
    p.F[target + SEEN], p.F[target + AVERAGE], p.F[target + DEVIATION] = statistics(F, at)
    p.F[child + LAST] = p.F[target + SEEN]
    return child


@bare_kernel
def _split(p: Pool, node: int) -> int:
    """Make a leaf the branch that `best` names; return the number of its children."""
    F, I, best = p.F, p.I, p.best
    kind, place = int(best[BEST_KIND]), int(best[BEST_VALUE])
    slot = I[node + BLOCK] + HEADER * int(best[BEST_SLOT])
    whole = target_statistics(p, node)
    table = I[slot + TABLE]
    I[node + LEFT], I[node + RIGHT] = 0, 0
    children, value = 2, 0.0
    if kind == MULTIWAY:
        children = I[slot + CATEGORIES]
        order = _sorted_categories(p, slot)
        take(p, children)  # the words of `order`
        for q in range(children):
            category = table + CASES * I[order + q]
            append_child(p, node, _new_child(p, node, F, category + 1), F[category])
    else:
        if kind == NUMERIC:
            value = F[place + POINT_VALUE]
            left = added(p, statistics(F, place + POINT_SEEN), _beside(p, slot, place))
        else:
            value = F[table + CASES * place]
            left = statistics(F, table + CASES * place + 1)
        _keep(best, BEST_LEFT, left)
        _keep(best, BEST_RIGHT, subtracted(p, whole, left))
        I[node + LEFT] = _new_child(p, node, best, BEST_LEFT)
        I[node + RIGHT] = _new_child(p, node, best, BEST_RIGHT)
    I[node + KIND] = kind
    I[node + FEATURE] = I[slot + SLOT_FEATURE]
    F[node + VALUE] = value
    forget_slots(p, node)
    I[node + SUBSET] = 0
    I[node + SUBSET_SIZE] = 0
    return children


@bare_kernel
def attempt_reduction(p: Pool, node: int, seen: float) -> int:
    """`_attempt_to_split`: return how many children the leaf got, 0 if it stays, -1 if the null split won."""
    best = p.best
    _suggest(p, node)
    if best[SUGGESTIONS] < 1.0:
        return 0
    if best[SUGGESTIONS] >= 2.0:
        merit, second = best[MERIT], best[SECOND]
        bound = math.sqrt(p.number[LOG_DELTA] / (2.0 * seen))
        if not (merit > 0.0 and (second / merit < 1.0 - bound or bound < p.number[TAU])):
            if merit > 0.0 and second > 0.0:
                for s in range(p.I[node + SLOTS]):
                    slot = p.I[node + BLOCK] + HEADER * s
                    if p.I[slot + TABLE] == 0:
                        _remove_bad_points(p, node, slot, second / merit, merit, bound)
            return 0
    if int(best[BEST_KIND]) == LEAF:
        return -1
    return _split(p, node)
