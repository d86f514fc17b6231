"""What a leaf watches: a slot for each feature, whose observer can suggest a split of the leaf."""

import math
from typing import Any

import numpy as np

from glasstream.base.jit import Kernel, bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.arena import take, wider
from glasstream.models.online.moments import observe
from glasstream.models.online.twister import sample

_LARGEST_FRACTION = 4503599627370496.0
"""From 2 ** 52 on, every float is a whole number."""
_EXACT = 2251799813685248.0
"""Below 2 ** 51, the rounding error of a product leaves its halves exact."""


# --- Blocks of slots --------------------------------------------------------------------------------------------------
@bare_kernel
def move_block(p: L.Pool, node: int, slots: int, classes: int) -> None:
    I = p.I
    before = I[node + L.CLASS_ROOM]
    words, words_before = L.HEADER + L.ROW * classes, L.HEADER + L.ROW * before
    block = take(p, slots * words)
    for s in range(I[node + L.SLOTS]):
        slot, source = block + s * words, I[node + L.BLOCK] + s * words_before
        for word in range(words_before):
            I[slot + word] = I[source + word]
        if I[slot + L.TABLE] != 0 and classes != before:
            _move_table(p, slot, I[slot + L.CATEGORY_ROOM], before, classes)
    I[node + L.BLOCK] = block
    I[node + L.SLOT_ROOM] = slots
    p.control[L.MOST_SLOTS] = max(p.control[L.MOST_SLOTS], slots)


@bare_kernel
def _move_table(p: L.Pool, slot: int, room: int, before: int, classes: int) -> None:
    """Write a table again, with room for `room` categories and `classes` instead of `before` classes."""
    F, I = p.F, p.I
    source, room_before = I[slot + L.TABLE], I[slot + L.CATEGORY_ROOM]
    table = take(p, room * (1 + classes))
    for part in range(1 + before):
        for q in range(I[slot + L.CATEGORIES]):
            F[table + part * room + q] = F[source + part * room_before + q]
    I[slot + L.TABLE] = table
    I[slot + L.CATEGORY_ROOM] = room
    p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], room)


@inlined
def forget_slots(p: L.Pool, node: int) -> None:
    """Watch nothing any longer: River's ``splitters = {}``, or None of an inactive leaf."""
    p.I[node + L.BLOCK] = 0
    p.I[node + L.SLOTS] = 0
    p.I[node + L.SLOT_ROOM] = 0


@bare_kernel
def _draw_subset(p: L.Pool, node: int, X: Any, e: int) -> None:
    """Choose the features that a leaf of a forest may watch, of those that the event has, sorted by name."""
    present = 0
    for q in range(p.by_name.size):
        feature = p.by_name[q]
        if X[e, feature] == X[e, feature]:
            p.marks[0, present] = feature
            present += 1
    if present == 0:
        return
    most = p.option[L.SUBSET_MOST]
    to = take(p, min(most, present))
    p.I[node + L.SUBSET] = to
    if present >= most:
        p.I[node + L.SUBSET_SIZE] = most
        sample(p, present, most, to)
    else:
        p.I[node + L.SUBSET_SIZE] = present
        for q in range(present):
            p.I[to + q] = p.marks[0, q]


# --- Of classifiers ---------------------------------------------------------------------------------------------------
@inlined
def _watch_number(p: L.Pool, slot: int, j: int, value: float, weight: float) -> None:
    """`GaussianSplitter.update`: Welford's mean and variance; the logarithm of the density is prepared here."""
    F, I = p.F, p.I
    row = slot + L.HEADER + L.ROW * j
    if F[row + L.COUNT] == 0.0:
        I[slot + L.HEADER + L.ROW * I[slot + L.SLOT_CLASSES] + L.ORDER] = j
        I[slot + L.SLOT_CLASSES] += 1
        F[row + L.LEAST] = value
        F[row + L.MOST] = value
    else:
        if value < F[row + L.LEAST]:
            F[row + L.LEAST] = value
        if value > F[row + L.MOST]:
            F[row + L.MOST] = value
    before = F[row + L.MEAN]
    count = F[row + L.COUNT] + weight
    mean = before + (weight / count) * (value - before)
    squares = F[row + L.SQUARES] + weight * (value - before) * (value - mean)
    F[row + L.COUNT], F[row + L.MEAN], F[row + L.SQUARES] = count, mean, squares
    prepare_density(p, row)


@inlined
def prepare_density(p: L.Pool, row: int) -> None:
    """Calculate the parts of a Gaussian's log density that do not depend on the value."""
    F = p.F
    F[row + L.CURVE], F[row + L.PEAK] = 0.0, 0.0
    if F[row + L.COUNT] > 1.0:
        variance = F[row + L.SQUARES] / (F[row + L.COUNT] - 1.0)
        if variance > 0.0:
            F[row + L.CURVE] = -2.0 * variance
            F[row + L.PEAK] = 0.5 * math.log(variance)


@inlined
def category_place(p: L.Pool, slot: int, value: float) -> int:
    """Return the place of a category in the slot's table, or -1."""
    table = p.I[slot + L.TABLE]
    for q in range(p.I[slot + L.CATEGORIES]):
        if p.F[table + q] == value:
            return q
    return -1


@inlined
def know(p: L.Pool, slot: int, j: int) -> None:
    """Let a nominal slot know a class: indexing River's defaultdict adds it, even for a prediction."""
    row = slot + L.HEADER + L.ROW * j
    if p.F[row + L.KNOWN] == 0.0:
        p.F[row + L.KNOWN] = 1.0
        p.I[slot + L.HEADER + L.ROW * p.I[slot + L.SLOT_CLASSES] + L.ORDER] = j
        p.I[slot + L.SLOT_CLASSES] += 1


@bare_kernel
def _watch_category(p: L.Pool, node: int, slot: int, j: int, value: float, weight: float) -> None:
    """`NominalSplitterClassif.update`."""
    F, I = p.F, p.I
    know(p, slot, j)
    q = category_place(p, slot, value)
    if q < 0:
        q = I[slot + L.CATEGORIES]
        if q == I[slot + L.CATEGORY_ROOM]:
            _move_table(p, slot, wider(q), I[node + L.CLASS_ROOM], I[node + L.CLASS_ROOM])
        F[I[slot + L.TABLE] + q] = value
        I[slot + L.CATEGORIES] = q + 1
    F[I[slot + L.TABLE] + (1 + j) * I[slot + L.CATEGORY_ROOM] + q] += weight
    F[slot + L.HEADER + L.ROW * j + L.COUNT] += weight


# --- Of regressors ----------------------------------------------------------------------------------------------------
@inlined
def rounded(value: float, digits: int, power: float) -> float:
    """Return ``round(value, digits)`` as Python calculates it: the decimal that is nearest to the exact value.

    `power` is ``10.0 ** digits``. The halves of an exact product tell on which side of a tie it is (Dekker, 1971); its
    quotient is the nearest float. Larger values are rounded in two parts, of which one is whole.
    """
    if digits < 0:
        return value
    size = abs(value)
    if size * power < _EXACT:
        return math.copysign(_nearest(size, power) / power, value)
    if size < _LARGEST_FRACTION:
        whole = np.rint(size) if digits == 0 else np.floor(size)
        return math.copysign(whole + _nearest(size - whole, power) / power, value)
    return value


@inlined
def _nearest(size: float, power: float) -> float:
    """Return the whole number nearest to ``size * power``, of two the even one."""
    product = size * power
    c = 134217729.0 * size
    high = c - (c - size)
    low = size - high
    c = 134217729.0 * power
    high_power = c - (c - power)
    low_power = power - high_power
    error = ((high * high_power - product) + high * low_power + low * high_power) + low * low_power
    whole = np.floor(product)
    side = (product - whole) - 0.5
    if side == 0.0:
        side = error
        if side == 0.0:
            side = (whole % 2.0) - 0.5
    if side > 0.0:
        whole += 1.0
    return whole


@inlined
def _new_point(p: L.Pool, above: int, value: float, y: float, weight: float) -> int:
    point = take(p, L.POINT)
    p.F[point + L.POINT_VALUE] = value
    p.I[point + L.POINT_ABOVE] = above
    observe(p.F, point + L.POINT_SEEN, y, weight)
    return point


@inlined
def _watch_target(p: L.Pool, slot: int, value: float, y: float, weight: float) -> None:
    """`EBSTSplitter.update`: on the way to its value, an event counts wherever it goes to the left."""
    F, I = p.F, p.I
    value = rounded(value, p.option[L.DIGITS], p.number[L.POWER_OF_TEN])
    point, above, side = I[slot + L.SEARCH], 0, 0
    while point != 0:
        above = point
        here = F[point + L.POINT_VALUE]
        if value == here:
            observe(F, point + L.POINT_SEEN, y, weight)
            return
        if value < here:
            observe(F, point + L.POINT_SEEN, y, weight)
            side = L.POINT_LEFT
        else:
            side = L.POINT_RIGHT
        point = I[point + side]
    point = _new_point(p, above, value, y, weight)
    if above == 0:
        I[slot + L.SEARCH] = point
    else:
        I[above + side] = point


@bare_kernel
def _watch_target_of_category(p: L.Pool, slot: int, value: float, y: float, weight: float) -> None:
    """`NominalSplitterReg.update`."""
    F, I = p.F, p.I
    table, count = I[slot + L.TABLE], I[slot + L.CATEGORIES]
    for q in range(count):
        if F[table + L.CASES * q] == value:
            observe(F, table + L.CASES * q + 1, y, weight)
            return
    if count == I[slot + L.CATEGORY_ROOM]:
        room = wider(count)
        table = take(p, L.CASES * room)
        for word in range(L.CASES * count):
            I[table + word] = I[I[slot + L.TABLE] + word]
        I[slot + L.TABLE], I[slot + L.CATEGORY_ROOM] = table, room
        p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], room)
    F[table + L.CASES * count] = value
    observe(F, table + L.CASES * count + 1, y, weight)
    I[slot + L.CATEGORIES] = count + 1


# --- Of both ----------------------------------------------------------------------------------------------------------
def _observers(regression: bool) -> Kernel:
    """Return the kernel with which a leaf's observers learn an event, for regressors or for classifiers."""

    @bare_kernel
    def add_slot(p: L.Pool, node: int, feature: int, expected: int) -> int:
        """Begin to watch a feature; `expected` is how many the event may add: as many as it has, at most."""
        I = p.I
        count, classes = I[node + L.SLOTS], I[node + L.CLASS_ROOM]
        words = L.HEADER + L.ROW * classes
        if I[node + L.BLOCK] == 0:
            I[node + L.BLOCK] = take(p, expected * words)
            I[node + L.SLOT_ROOM] = expected
            p.control[L.MOST_SLOTS] = max(p.control[L.MOST_SLOTS], expected)
        elif count == I[node + L.SLOT_ROOM]:
            move_block(p, node, max(wider(count), count + expected), classes)  # at most once an event: see `demand`
        slot = I[node + L.BLOCK] + count * words
        I[slot + L.SLOT_FEATURE] = feature
        if p.kind[feature] != L.IS_NUMBER:
            I[slot + L.TABLE] = take(p, L.FIRST_CATEGORIES * (L.CASES if regression else 1 + classes))
            I[slot + L.CATEGORY_ROOM] = L.FIRST_CATEGORIES
            p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], L.FIRST_CATEGORIES)
        I[node + L.SLOTS] = count + 1
        return slot

    @inlined
    def watch(
        p: L.Pool, node: int, guess: int, feature: int, value: float, j: int, y: float, weight: float, expected: int
    ) -> int:
        """Update the observer of a feature; return the number of its slot. `guess` is where it probably is."""
        I = p.I
        count = I[node + L.SLOTS]
        words = L.HEADER if regression else L.HEADER + L.ROW * I[node + L.CLASS_ROOM]
        slot = 0
        place = guess
        if guess < count and I[I[node + L.BLOCK] + guess * words + L.SLOT_FEATURE] == feature:
            slot = I[node + L.BLOCK] + guess * words
        else:
            for s in range(count):
                if I[I[node + L.BLOCK] + s * words + L.SLOT_FEATURE] == feature:
                    slot = I[node + L.BLOCK] + s * words
                    place = s
                    break
            if slot == 0:
                place = count
                slot = add_slot(p, node, feature, expected)
        if regression:
            if I[slot + L.TABLE] == 0:
                _watch_target(p, slot, value, y, weight)
            else:
                _watch_target_of_category(p, slot, value, y, weight)
        elif I[slot + L.TABLE] == 0:
            _watch_number(p, slot, j, value, weight)
        else:
            _watch_category(p, node, slot, j, value, weight)
        return place

    @inlined
    def watch_features(p: L.Pool, node: int, X: Any, e: int, order: Any, j: int, y: float, weight: float) -> None:
        """Let the observers of a leaf learn an event, of its class `j`, or with the target `y`."""
        I = p.I
        place = -1
        if p.option[L.FAMILY] == L.FOREST_FAMILY:
            if I[node + L.SUBSET_SIZE] == 0:
                _draw_subset(p, node, X, e)
            count = I[node + L.SUBSET_SIZE]
            expected = min(count, order.size)
            for q in range(count):
                feature = I[I[node + L.SUBSET] + q]
                value = X[e, feature]
                if value == value:
                    place = watch(p, node, place + 1, feature, value, j, y, weight, expected)
        else:
            for q in range(order.size):
                feature = order[q]
                value = X[e, feature]
                if value == value:
                    place = watch(p, node, place + 1, feature, value, j, y, weight, order.size)

    return watch_features


watch_with_class = _observers(regression=False)
watch_with_target = _observers(regression=True)
