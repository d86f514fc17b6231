"""What a leaf of a regressor knows: statistics of its targets, a linear model, and an observer of each feature."""

import math
from typing import Any

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import new_detector
from glasstream.models.online.arena import take, wider
from glasstream.models.online.leaves import draw_subset, square

Pool = Any

_LARGEST_FRACTION = 4503599627370496.0
"""From 2 ** 52 on, every float is a whole number."""
_EXACT = 2251799813685248.0
"""Below 2 ** 51, the rounding error of a product leaves its halves exact."""


# --- Statistics -----------------------------------------------------------------------------------------------------
@inlined
def observe(F: Any, at: int, value: float, weight: float) -> None:
    """`Var.update`, of three words: count, mean and sum of squared deviations."""
    before = F[at + 1]
    F[at] += weight
    F[at + 1] += (weight / F[at]) * (value - before)
    F[at + 2] += weight * (value - before) * (value - F[at + 1])


@inlined
def added(p: Pool, a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float, float]:
    """`Var.__iadd__`."""
    count = a[0] + b[0]
    deviation = a[2] + b[2] + square(a[1] - b[1], p.number[L.TWO]) * a[0] * b[0] / count
    return count, (a[0] * a[1] + b[0] * b[1]) / count, deviation


@inlined
def subtracted(p: Pool, a: tuple[float, float, float], b: tuple[float, float, float]) -> tuple[float, float, float]:
    """`Var.__isub__`."""
    count = a[0] - b[0]
    mean = 0.0
    if count > 0.0:
        mean = (a[0] * a[1] - b[0] * b[1]) / count
    else:
        count = 0.0
    deviation = a[2] - b[2] - square(mean - b[1], p.number[L.TWO]) * count * b[0] / (count + b[0])
    return count, mean, deviation


@inlined
def variance(a: tuple[float, float, float]) -> float:
    """`Var.get`."""
    if a[0] > 1.0:
        return a[2] / (a[0] - 1.0)
    return 0.0


@inlined
def statistics(F: Any, at: int) -> tuple[float, float, float]:
    """Return the three words at `at`."""
    return F[at], F[at + 1], F[at + 2]


@inlined
def target_statistics(p: Pool, node: int) -> tuple[float, float, float]:
    """Return count, mean and deviation of the targets of a node."""
    target = p.I[node + L.WEIGHTS]
    return p.F[target + L.SEEN], p.F[target + L.AVERAGE], p.F[target + L.DEVIATION]


@inlined
def observe_target(p: Pool, node: int, value: float, weight: float) -> None:
    """Add a target to the statistics of a node: `Var.update`."""
    F = p.F
    target = p.I[node + L.WEIGHTS]
    before = F[target + L.AVERAGE]
    F[target + L.SEEN] += weight
    F[target + L.AVERAGE] += (weight / F[target + L.SEEN]) * (value - before)
    F[target + L.DEVIATION] += weight * (value - before) * (value - F[target + L.AVERAGE])


# --- Leaves ---------------------------------------------------------------------------------------------------------
@bare_kernel
def new_target_leaf(p: Pool, depth: int, parent: int) -> int:
    """Return the address of a new leaf, with the linear model and the losses of the leaf `parent` if that is not 0."""
    F, I = p.F, p.I
    node = take(p, L.NODE)
    target = take(p, L.TARGET)
    I[node + L.DEPTH] = depth
    I[node + L.ACTIVE] = 1
    I[node + L.CLASSES] = 1
    I[node + L.CLASS_ROOM] = 1
    I[node + L.WEIGHTS] = target
    if p.option[L.FAMILY] == L.ADAPTIVE_FAMILY:
        I[node + L.DETECTOR] = new_detector(p, 1)
    p.control[L.HEIGHT] = max(p.control[L.HEIGHT], depth)
    if p.option[L.PREDICTION] == L.MEAN_LEAF:
        return node
    F[target + L.INTERCEPT] = p.number[L.INTERCEPT_START]
    if parent != 0:
        source = I[parent + L.WEIGHTS]
        F[target + L.INTERCEPT] = F[source + L.INTERCEPT]
        I[target + L.STEPS] = I[source + L.STEPS]
        F[target + L.MEAN_LOSS] = F[source + L.MEAN_LOSS]
        F[target + L.MODEL_LOSS] = F[source + L.MODEL_LOSS]
        count = I[source + L.ENTRY_COUNT]
        if count > 0:
            entries = take(p, L.PAIR * count)
            for word in range(L.PAIR * count):
                I[entries + word] = I[I[source + L.ENTRIES] + word]
            I[target + L.ENTRIES], I[target + L.ENTRY_COUNT], I[target + L.ENTRY_ROOM] = entries, count, count
    return node


# --- Linear model ---------------------------------------------------------------------------------------------------
@inlined
def _entry(p: Pool, target: int, feature: int, guess: int) -> int:
    """Return the place of a feature among the weights of a leaf's model, or -1. `guess` is where it probably is."""
    I = p.I
    entries, count = I[target + L.ENTRIES], I[target + L.ENTRY_COUNT]
    if guess < count and I[entries + L.PAIR * guess + L.CLASS] == feature:
        return guess
    for q in range(count):
        if I[entries + L.PAIR * q + L.CLASS] == feature:
            return q
    return -1


@inlined
def linear(p: Pool, node: int, X: Any, e: int, order: Any) -> float:
    """Return what a leaf's linear model predicts; the sum is in the order in which the event names its features."""
    target = p.I[node + L.WEIGHTS]
    entries = p.I[target + L.ENTRIES]
    dot = 0.0
    guess = 0
    for q in range(order.size):
        feature = order[q]
        value = X[e, feature]
        if value == value:
            place = _entry(p, target, feature, guess)
            if place >= 0:
                dot += p.F[entries + L.PAIR * place] * value
                guess = place + 1
    return dot + p.F[target + L.INTERCEPT]


@bare_kernel
def _more_entries(p: Pool, target: int, expected: int) -> None:
    """Make room for more weights."""
    I = p.I
    count = I[target + L.ENTRY_COUNT]
    room = max(wider(count), count + expected) if count > 0 else expected
    entries = take(p, L.PAIR * room)
    for word in range(L.PAIR * count):
        I[entries + word] = I[I[target + L.ENTRIES] + word]
    I[target + L.ENTRIES], I[target + L.ENTRY_ROOM] = entries, room
    p.control[L.MOST_ENTRIES] = max(p.control[L.MOST_ENTRIES], room)


@inlined
def _learn_linear(p: Pool, node: int, X: Any, e: int, order: Any, y: float, weight: float, predicted: float) -> None:
    """One step of stochastic gradient descent on the squared loss: `GLM.learn_one`."""
    F, I = p.F, p.I
    target = I[node + L.WEIGHTS]
    gradient = 2.0 * (predicted - y)
    gradient *= weight
    if p.number[L.CLIP] < gradient:
        gradient = p.number[L.CLIP]
    if -p.number[L.CLIP] > gradient:
        gradient = -p.number[L.CLIP]
    F[target + L.INTERCEPT] -= p.number[L.INTERCEPT_RATE] * gradient
    guess = 0
    for q in range(order.size):
        feature = order[q]
        value = X[e, feature]
        if value == value:
            place = _entry(p, target, feature, guess)
            if place < 0:
                place = I[target + L.ENTRY_COUNT]
                if place == I[target + L.ENTRY_ROOM]:
                    _more_entries(p, target, order.size)
                F[I[target + L.ENTRIES] + L.PAIR * place] = 0.0
                I[I[target + L.ENTRIES] + L.PAIR * place + L.CLASS] = feature
                I[target + L.ENTRY_COUNT] = place + 1
            F[I[target + L.ENTRIES] + L.PAIR * place] -= p.number[L.RATE] * (value * gradient)
            guess = place + 1
    I[target + L.STEPS] += 1


# --- Observers of features --------------------------------------------------------------------------------------------
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
def _new_point(p: Pool, above: int, value: float, y: float, weight: float) -> int:
    point = take(p, L.POINT)
    p.F[point + L.POINT_VALUE] = value
    p.I[point + L.POINT_ABOVE] = above
    observe(p.F, point + L.POINT_SEEN, y, weight)
    return point


@inlined
def _watch_number(p: Pool, slot: int, value: float, y: float, weight: float) -> None:
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
def _watch_category(p: Pool, slot: int, value: float, y: float, weight: float) -> None:
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


@bare_kernel
def _add_slot(p: Pool, node: int, feature: int, expected: int) -> int:
    """Begin to watch a feature; `expected` is how many the event may add: as many as it has, at most."""
    I = p.I
    count = I[node + L.SLOTS]
    if count == I[node + L.SLOT_ROOM]:
        room = max(wider(count), count + expected) if count > 0 else expected
        block = take(p, L.HEADER * room)
        for word in range(L.HEADER * count):
            I[block + word] = I[I[node + L.BLOCK] + word]
        I[node + L.BLOCK], I[node + L.SLOT_ROOM] = block, room
        p.control[L.MOST_SLOTS] = max(p.control[L.MOST_SLOTS], room)
    slot = I[node + L.BLOCK] + L.HEADER * count
    I[slot + L.SLOT_FEATURE] = feature
    if p.kind[feature] != L.IS_NUMBER:
        I[slot + L.TABLE] = take(p, L.CASES * L.FIRST_CATEGORIES)
        I[slot + L.CATEGORY_ROOM] = L.FIRST_CATEGORIES
        p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], L.FIRST_CATEGORIES)
    I[node + L.SLOTS] = count + 1
    return slot


@inlined
def _watch(p: Pool, node: int, guess: int, feature: int, value: float, y: float, weight: float, expected: int) -> int:
    """Update the observer of a feature; return the number of its slot. `guess` is where it probably is."""
    I = p.I
    block, count = I[node + L.BLOCK], I[node + L.SLOTS]
    place = guess
    if not (guess < count and I[block + L.HEADER * guess + L.SLOT_FEATURE] == feature):
        place = count
        for s in range(count):
            if I[block + L.HEADER * s + L.SLOT_FEATURE] == feature:
                place = s
                break
        if place == count:
            _add_slot(p, node, feature, expected)
    slot = I[node + L.BLOCK] + L.HEADER * place
    if I[slot + L.TABLE] == 0:
        _watch_number(p, slot, value, y, weight)
    else:
        _watch_category(p, slot, value, y, weight)
    return place


# --- Predicting and learning ----------------------------------------------------------------------------------------
@inlined
def answers_mean(p: Pool, node: int) -> bool:
    """Return whether a leaf predicts the mean of its targets, not its linear model."""
    if p.option[L.PREDICTION] == L.ADAPTIVE_LEAF:
        target = p.I[node + L.WEIGHTS]
        return p.F[target + L.MEAN_LOSS] < p.F[target + L.MODEL_LOSS]
    return p.option[L.PREDICTION] == L.MEAN_LEAF


@inlined
def answer_of(p: Pool, node: int, X: Any, e: int, order: Any) -> float:
    """Return the prediction of a leaf."""
    if answers_mean(p, node):
        return p.F[p.I[node + L.WEIGHTS] + L.AVERAGE]
    return linear(p, node, X, e, order)


@inlined
def learn_target(p: Pool, node: int, X: Any, e: int, order: Any, y: float, weight: float) -> bool:
    """`learn_one` of a leaf; return False where River's squared error raises an OverflowError."""
    F, I = p.F, p.I
    target = I[node + L.WEIGHTS]
    predicted = 0.0
    if p.option[L.PREDICTION] != L.MEAN_LEAF:
        predicted = linear(p, node, X, e, order)
    if p.option[L.PREDICTION] == L.ADAPTIVE_LEAF:
        two, decay = p.number[L.TWO], p.number[L.DECAY]
        F[target + L.MEAN_LOSS] = decay * F[target + L.MEAN_LOSS] + square(y - F[target + L.AVERAGE], two)
        error = y - predicted
        squared = square(error, two)
        if squared == math.inf and abs(error) < math.inf:
            return False
        F[target + L.MODEL_LOSS] = decay * F[target + L.MODEL_LOSS] + squared
    observe_target(p, node, y, weight)
    if I[node + L.ACTIVE] == 1:
        _watch_features(p, node, X, e, order, y, weight)
    if p.option[L.PREDICTION] != L.MEAN_LEAF:
        _learn_linear(p, node, X, e, order, y, weight, predicted)
    return True


@inlined
def _watch_features(p: Pool, node: int, X: Any, e: int, order: Any, y: float, weight: float) -> None:
    I = p.I
    place = -1
    if p.option[L.FAMILY] == L.FOREST_FAMILY:
        if I[node + L.SUBSET_SIZE] == 0:
            draw_subset(p, node, X, e)
        count = I[node + L.SUBSET_SIZE]
        expected = min(count, order.size)
        for q in range(count):
            feature = I[I[node + L.SUBSET] + q]
            value = X[e, feature]
            if value == value:
                place = _watch(p, node, place + 1, feature, value, y, weight, expected)
    else:
        for q in range(order.size):
            feature = order[q]
            value = X[e, feature]
            if value == value:
                place = _watch(p, node, place + 1, feature, value, y, weight, order.size)
