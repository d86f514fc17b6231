"""Splits of a regressor's leaves by the reduction of the targets' variance."""

import math

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import take
from glasstream.models.online.moments import Statistics, added, statistics, subtracted, variance
from glasstream.models.online.splits import append_child, become_branch, clear_words, sorted_categories, suggest
from glasstream.models.online.targets import new_target_leaf

NOTHING = (0.0, 0.0, 0.0)


@inlined
def _merit(p: L.Pool, whole: Statistics, left: Statistics, right: Statistics) -> float:
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
def _leftmost(p: L.Pool, point: int) -> int:
    while p.I[point + L.POINT_LEFT] != 0:
        point = p.I[point + L.POINT_LEFT]
    return point


@bare_kernel
def _best_threshold(p: L.Pool, node: int, slot: int) -> tuple[float, int, Statistics]:
    """`_find_best_split`: visit the points in order; return the merit of the best, the point, and what is on the left.

    Without points, the merit is minus infinity, and the point 0.

    `beside` holds the targets that went to the left of the points under which the way turned right. What is added to
    it is later subtracted again, with the rounding of both.
    """
    F, I = p.F, p.I
    whole = statistics(F, I[node + L.WEIGHTS])
    beside = NOTHING
    best, merit_of_best, left_of_best = 0, -math.inf, NOTHING
    point = I[slot + L.SEARCH]
    if point != 0:
        point = _leftmost(p, point)
    while point != 0:
        own = statistics(F, point + L.POINT_SEEN)
        left = added(p, own, beside)
        merit = _merit(p, whole, left, subtracted(p, whole, left))
        if merit > merit_of_best:
            best, merit_of_best, left_of_best = point, merit, left
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
    return merit_of_best, best, left_of_best


@bare_kernel
def _remove_bad_points(p: L.Pool, node: int, slot: int, ratio: float, merit_of_best: float, bound: float) -> None:
    """`remove_bad_splits`: cut off points below which, and at which, every split is far worse than the best."""
    F, I = p.F, p.I
    whole = statistics(F, I[node + L.WEIGHTS])
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
@bare_kernel
def _merit_of_all(p: L.Pool, node: int, slot: int, order: int) -> float:
    """`merit_of_split` of the split into all categories of a slot."""
    F, I = p.F, p.I
    whole = statistics(F, I[node + L.WEIGHTS])
    for q in range(I[slot + L.CATEGORIES]):
        if not F[I[slot + L.TABLE] + L.CASES * I[order + q] + 1] >= p.number[L.LEAST_SAMPLES]:
            return 0.0
    merit = variance(whole)
    for q in range(I[slot + L.CATEGORIES]):
        own = statistics(F, I[slot + L.TABLE] + L.CASES * I[order + q] + 1)
        merit -= own[0] / whole[0] * variance(own)
    return merit


@bare_kernel
def _best_categories(p: L.Pool, node: int, slot: int) -> tuple[float, int, int]:
    """Return the merit and kind of the best split of a nominal feature, and the place of its category."""
    F, I = p.F, p.I
    whole = statistics(F, I[node + L.WEIGHTS])
    count = I[slot + L.CATEGORIES]
    order = sorted_categories(p, slot, L.CASES)
    best, kind, place = -math.inf, L.LEAF, 0
    if p.option[L.BINARY_ONLY] == 0 and count > 2:
        best, kind = _merit_of_all(p, node, slot, order), L.MULTIWAY
    for q in range(count):
        own = statistics(F, I[slot + L.TABLE] + L.CASES * I[order + q] + 1)
        merit = _merit(p, whole, own, subtracted(p, whole, own))
        if merit > best:
            best, kind, place = merit, L.NOMINAL, I[order + q]
    clear_words(p, order, count)
    return best, kind, place


# --- The split ------------------------------------------------------------------------------------------------------
@bare_kernel
def _suggest(p: L.Pool, node: int) -> None:
    """`best_split_suggestions`, sorted: write the last to `best`, and the merit of the last but one.

    `BEST_VALUE` becomes the address of the point, or the place of the category; `BEST_LEFT` of a point what is on the
    left.
    """
    I, best = p.I, p.best
    best[L.MERIT], best[L.SECOND] = -math.inf, -math.inf
    best[L.SUGGESTIONS], best[L.BEST_KIND] = float(p.option[L.PREPRUNE]), float(L.LEAF)
    for s in range(I[node + L.SLOTS]):
        slot = I[node + L.BLOCK] + L.HEADER * s
        kind, left = L.LEAF, NOTHING
        if I[slot + L.TABLE] == 0:
            merit, place, left = _best_threshold(p, node, slot)
            if place != 0:
                kind = L.NUMERIC
        else:
            merit, kind, place = _best_categories(p, node, slot)
        if suggest(best, merit, kind, s, float(place)):
            best[L.BEST_LEFT], best[L.BEST_LEFT + 1], best[L.BEST_LEFT + 2] = left


@bare_kernel
def _new_child(p: L.Pool, node: int, seen: Statistics) -> int:
    """Return a new leaf below `node`, which has seen targets with these statistics."""
    child = new_target_leaf(p, p.I[node + L.DEPTH] + 1, node)
    target = p.I[child + L.WEIGHTS]
    p.F[target + L.SEEN], p.F[target + L.AVERAGE], p.F[target + L.DEVIATION] = seen
    p.F[child + L.LAST] = seen[0]
    return child


@bare_kernel
def _split(p: L.Pool, node: int) -> int:
    """Make a leaf the branch that `best` names; return the number of its children."""
    F, I, best = p.F, p.I, p.best
    kind, place = int(best[L.BEST_KIND]), int(best[L.BEST_VALUE])
    slot = I[node + L.BLOCK] + L.HEADER * int(best[L.BEST_SLOT])
    whole = statistics(F, I[node + L.WEIGHTS])
    table = I[slot + L.TABLE]
    I[node + L.LEFT], I[node + L.RIGHT] = 0, 0
    children, value = 2, 0.0
    if kind == L.MULTIWAY:
        children = I[slot + L.CATEGORIES]
        order = sorted_categories(p, slot, L.CASES)
        take(p, children)  # the words of `order`
        for q in range(children):
            category = table + L.CASES * I[order + q]
            append_child(p, node, _new_child(p, node, statistics(F, category + 1)), F[category])
    else:
        if kind == L.NUMERIC:
            value, left = F[place + L.POINT_VALUE], statistics(best, L.BEST_LEFT)
        else:
            value, left = F[table + L.CASES * place], statistics(F, table + L.CASES * place + 1)
        I[node + L.LEFT] = _new_child(p, node, left)
        I[node + L.RIGHT] = _new_child(p, node, subtracted(p, whole, left))
    become_branch(p, node, slot, kind, value)
    return children


@bare_kernel
def attempt_reduction(p: L.Pool, node: int, seen: float) -> int:
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
