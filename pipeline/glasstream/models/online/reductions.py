"""Splits of a regressor's leaves by the reduction of the targets' variance."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import free_words, take
from glasstream.models.online.leaves import forget_slots
from glasstream.models.online.splits import append_child
from glasstream.models.online.targets import added, new_target_leaf, statistics, subtracted, target_statistics, variance

Pool = Any
Statistics = tuple[float, float, float]

NOTHING = (0.0, 0.0, 0.0)


@inlined
def _merit(p: Pool, whole: Statistics, left: Statistics, right: Statistics) -> float:
    """`merit_of_split` of a binary split."""
    least = p.number[L.LEAST_SAMPLES]
    if not (left[0] >= least and right[0] >= least):
        return 0.0
    merit = variance(whole)
    merit -= left[0] / whole[0] * variance(left)
    merit -= right[0] / whole[0] * variance(right)
    return merit


# --- Numeric features -----------------------------------------------------------------------------------------------
@inlined
def _leftmost(p: Pool, point: int) -> int:
    while p.I[point + L.POINT_LEFT] != 0:
        point = p.I[point + L.POINT_LEFT]
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
    point = I[slot + L.SEARCH]
    if point == 0:
        return merit_of_best, best
    point = _leftmost(p, point)
    while point != 0:
        own = statistics(F, point + L.POINT_SEEN)
        left = added(p, own, beside)
        merit = _merit(p, whole, left, subtracted(p, whole, left))
        if merit > merit_of_best:
            best, merit_of_best = point, merit
        if I[point + L.POINT_RIGHT] != 0:
            beside = added(p, beside, own)
            point = _leftmost(p, I[point + L.POINT_RIGHT])
            continue
        while True:
            above = I[point + L.POINT_ABOVE]
            if above == 0 or I[above + L.POINT_LEFT] == point:
                point = above
                break
            beside = subtracted(p, beside, statistics(F, above + L.POINT_SEEN))
            point = above
    return merit_of_best, best


@bare_kernel
def _beside(p: Pool, slot: int, wanted: int) -> Statistics:
    """Return what `_best_threshold` has in `beside` when it visits a point."""
    F, I = p.F, p.I
    beside = NOTHING
    point = _leftmost(p, I[slot + L.SEARCH])
    while point != wanted and point != 0:
        if I[point + L.POINT_RIGHT] != 0:
            beside = added(p, beside, statistics(F, point + L.POINT_SEEN))
            point = _leftmost(p, I[point + L.POINT_RIGHT])
            continue
        while True:
            above = I[point + L.POINT_ABOVE]
            if above == 0 or I[above + L.POINT_LEFT] == point:
                point = above
                break
            beside = subtracted(p, beside, statistics(F, above + L.POINT_SEEN))
            point = above
    return beside


@bare_kernel
def _remove_bad_points(p: Pool, node: int, slot: int, ratio: float, merit_of_best: float, bound: float) -> None:
    """`remove_bad_splits`: cut off points below which, and at which, every split is far worse than the best."""
    F, I = p.F, p.I
    whole = target_statistics(p, node)
    beside = NOTHING
    point = I[slot + L.SEARCH]
    arriving, from_left, bad = True, False, False
    while point != 0:
        if arriving and I[point + L.POINT_LEFT] != 0:
            point = I[point + L.POINT_LEFT]
            continue
        own = statistics(F, point + L.POINT_SEEN)
        if arriving:
            bad = True
        if arriving or from_left:
            arriving = False
            if bad and I[point + L.POINT_RIGHT] != 0:
                beside = added(p, beside, own)
                point = I[point + L.POINT_RIGHT]
                arriving = True
                continue
        else:
            beside = subtracted(p, beside, own)
        above = I[point + L.POINT_ABOVE]
        from_left = above != 0 and I[above + L.POINT_LEFT] == point
        if bad:
            left = added(p, own, beside)
            merit = _merit(p, whole, left, subtracted(p, whole, left))
            bad = merit / merit_of_best < ratio - 2.0 * bound
            if bad and above == 0:
                I[slot + L.SEARCH] = 0
            elif bad:
                I[above + (L.POINT_LEFT if from_left else L.POINT_RIGHT)] = 0
        point = above


# --- Nominal features -----------------------------------------------------------------------------------------------
@inlined
def _sort_key(p: Pool, slot: int, q: int) -> float:
    value = p.F[p.I[slot + L.TABLE] + L.CASES * q]
    feature = p.I[slot + L.SLOT_FEATURE]
    if p.kind[feature] == L.IS_TEXT:
        return float(p.rank[p.rank_start[feature] + int(value)])
    return value


@bare_kernel
def _sorted_categories(p: Pool, slot: int) -> int:
    """Sort the places of the slot's categories into free words, and return where they are. They must be cleared."""
    I = p.I
    count = I[slot + L.CATEGORIES]
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
    for q in range(I[slot + L.CATEGORIES]):
        if not F[I[slot + L.TABLE] + L.CASES * I[order + q] + 1] >= p.number[L.LEAST_SAMPLES]:
            return 0.0
    merit = variance(whole)
    for q in range(I[slot + L.CATEGORIES]):
        own = statistics(F, I[slot + L.TABLE] + L.CASES * I[order + q] + 1)
        merit -= own[0] / whole[0] * variance(own)
    return merit


@bare_kernel
def _best_categories(p: Pool, node: int, slot: int) -> tuple[float, int, int]:
    """Return the merit and kind of the best split of a nominal feature, and the place of its category."""
    F, I = p.F, p.I
    whole = target_statistics(p, node)
    count = I[slot + L.CATEGORIES]
    order = _sorted_categories(p, slot)
    best, kind, place = -math.inf, L.LEAF, 0
    if p.option[L.BINARY_ONLY] == 0 and count > 2:
        best, kind = _merit_of_all(p, node, slot, order), L.MULTIWAY
    for q in range(count):
        own = statistics(F, I[slot + L.TABLE] + L.CASES * I[order + q] + 1)
        merit = _merit(p, whole, own, subtracted(p, whole, own))
        if merit > best:
            best, kind, place = merit, L.NOMINAL, I[order + q]
    _clear(p, order, count)
    return best, kind, place


# --- The split ------------------------------------------------------------------------------------------------------
@bare_kernel
def _suggest(p: Pool, node: int) -> None:
    """`best_split_suggestions`, sorted: write the last to `best`, and the merit of the last but one.

    `BEST_VALUE` becomes the address of the point, or the place of the category.
    """
    I, best = p.I, p.best
    best[L.MERIT], best[L.SECOND] = -math.inf, -math.inf
    best[L.SUGGESTIONS], best[L.BEST_KIND] = float(p.option[L.PREPRUNE]), float(L.LEAF)
    for s in range(I[node + L.SLOTS]):
        slot = I[node + L.BLOCK] + L.HEADER * s
        kind = L.LEAF
        if I[slot + L.TABLE] == 0:
            merit, place = _best_threshold(p, node, slot)
            if place != 0:
                kind = L.NUMERIC
        else:
            merit, kind, place = _best_categories(p, node, slot)
        best[L.SUGGESTIONS] += 1.0
        if merit >= best[L.MERIT]:
            best[L.SECOND] = best[L.MERIT]
            best[L.MERIT], best[L.BEST_KIND], best[L.BEST_SLOT], best[L.BEST_VALUE] = (
                merit,
                float(kind),
                float(s),
                float(place),
            )
        elif merit > best[L.SECOND]:
            best[L.SECOND] = merit


@inlined
def _keep(best: Any, at: int, of: Statistics) -> None:
    best[at], best[at + 1], best[at + 2] = of


@bare_kernel
def _new_child(p: Pool, node: int, F: Any, at: int) -> int:
    """Return a new leaf below `node`, which has seen the targets whose statistics are at `at` of `F`."""
    child = new_target_leaf(p, p.I[node + L.DEPTH] + 1, node)
    target = p.I[child + L.WEIGHTS]
    p.F[target + L.SEEN], p.F[target + L.AVERAGE], p.F[target + L.DEVIATION] = statistics(F, at)
    p.F[child + L.LAST] = p.F[target + L.SEEN]
    return child


@bare_kernel
def _split(p: Pool, node: int) -> int:
    """Make a leaf the branch that `best` names; return the number of its children."""
    F, I, best = p.F, p.I, p.best
    kind, place = int(best[L.BEST_KIND]), int(best[L.BEST_VALUE])
    slot = I[node + L.BLOCK] + L.HEADER * int(best[L.BEST_SLOT])
    whole = target_statistics(p, node)
    table = I[slot + L.TABLE]
    I[node + L.LEFT], I[node + L.RIGHT] = 0, 0
    children, value = 2, 0.0
    if kind == L.MULTIWAY:
        children = I[slot + L.CATEGORIES]
        order = _sorted_categories(p, slot)
        take(p, children)  # the words of `order`
        for q in range(children):
            category = table + L.CASES * I[order + q]
            append_child(p, node, _new_child(p, node, F, category + 1), F[category])
    else:
        if kind == L.NUMERIC:
            value = F[place + L.POINT_VALUE]
            left = added(p, statistics(F, place + L.POINT_SEEN), _beside(p, slot, place))
        else:
            value = F[table + L.CASES * place]
            left = statistics(F, table + L.CASES * place + 1)
        _keep(best, L.BEST_LEFT, left)
        _keep(best, L.BEST_RIGHT, subtracted(p, whole, left))
        I[node + L.LEFT] = _new_child(p, node, best, L.BEST_LEFT)
        I[node + L.RIGHT] = _new_child(p, node, best, L.BEST_RIGHT)
    I[node + L.KIND] = kind
    I[node + L.FEATURE] = I[slot + L.SLOT_FEATURE]
    F[node + L.VALUE] = value
    forget_slots(p, node)
    I[node + L.SUBSET] = 0
    I[node + L.SUBSET_SIZE] = 0
    return children


@bare_kernel
def attempt_reduction(p: Pool, node: int, seen: float) -> int:
    """`_attempt_to_split`: return how many children the leaf got, 0 if it stays, -1 if the null split won."""
    best = p.best
    _suggest(p, node)
    if best[L.SUGGESTIONS] < 1.0:
        return 0
    if best[L.SUGGESTIONS] >= 2.0:
        merit, second = best[L.MERIT], best[L.SECOND]
        bound = math.sqrt(p.number[L.LOG_DELTA] / (2.0 * seen))
        if not (merit > 0.0 and (second / merit < 1.0 - bound or bound < p.number[L.TAU])):
            if merit > 0.0 and second > 0.0:
                for s in range(p.I[node + L.SLOTS]):
                    slot = p.I[node + L.BLOCK] + L.HEADER * s
                    if p.I[slot + L.TABLE] == 0:
                        _remove_bad_points(p, node, slot, second / merit, merit, bound)
            return 0
    if int(best[L.BEST_KIND]) == L.LEAF:
        return -1
    return _split(p, node)
