"""What a leaf knows: weights of classes, splitters of features, and its predictions by majority and naive Bayes."""

import math
from typing import Any

from glasstream.jit import bare_kernel, inlined
from glasstream.learning.adwin import new_detector
from glasstream.learning.arena import take, wider
from glasstream.learning.layout import (
    ACTIVE,
    ADAPTIVE_FAMILY,
    BAYES_ADAPTIVE,
    BAYES_RIGHT,
    BLOCK,
    CATEGORIES,
    CATEGORY_ROOM,
    CLASS,
    CLASS_ROOM,
    CLASSES,
    COUNT,
    CURVE,
    DEPTH,
    DETECTOR,
    FAMILY,
    FIRST_CATEGORIES,
    FLOATS,
    FOREST_FAMILY,
    HALF_LOG_TAU,
    HEADER,
    HEIGHT,
    IS_NUMBER,
    KNOWN,
    LEAST,
    MAJORITY_RIGHT,
    MEAN,
    MOST,
    MOST_CATEGORIES,
    MOST_CLASSES,
    MOST_SLOTS,
    NODE,
    ORDER,
    PAIR,
    PEAK,
    PREDICTION,
    ROW,
    SLOT_CLASSES,
    SLOT_FEATURE,
    SLOT_ROOM,
    SLOTS,
    SQUARES,
    SUBSET,
    SUBSET_MOST,
    SUBSET_SIZE,
    TABLE,
    TWO,
    WEIGHTS,
)
from glasstream.learning.sums import SKIPS_INTEGERS, add, ended
from glasstream.learning.twister import sample

Pool = Any

UNASKED = -2
"""In the place of a class: the leaf has not been asked for it."""
LEARNER_ROW = 5
"""Row of `room` with the shares of a leaf that learns."""


@bare_kernel
def new_leaf(p: Pool, depth: int, classes: int) -> int:
    """Return the address of a new leaf with room for `classes` classes."""
    node = take(p, NODE)
    room = max(classes, 2)
    p.I[node + DEPTH] = depth
    p.I[node + ACTIVE] = 1
    p.I[node + CLASS_ROOM] = room
    p.I[node + WEIGHTS] = take(p, PAIR * room)
    if p.option[FAMILY] == ADAPTIVE_FAMILY:
        p.I[node + DETECTOR] = new_detector(p, 1)
    p.control[MOST_CLASSES] = max(p.control[MOST_CLASSES], room)
    p.control[HEIGHT] = max(p.control[HEIGHT], depth)
    return node


@inlined
def total(p: Pool, node: int) -> float:
    """Return the weight that a leaf has seen, summed in the order of its classes."""
    weights, count = p.I[node + WEIGHTS], p.I[node + CLASSES]
    compensated = p.I[node + FLOATS] if SKIPS_INTEGERS and p.option[FAMILY] == FOREST_FAMILY else count
    added, rest = 0.0, 0.0
    for j in range(compensated):
        added, rest = add(added, rest, p.F[weights + PAIR * j])
    for j in range(compensated, count):
        added += p.F[weights + PAIR * j]
    return ended(added, rest)


@inlined
def add_weight(p: Pool, node: int, label: int, weight: float) -> int:
    """Add to the weight of a class, and return the node's own number of the class."""
    F, I = p.F, p.I
    weights = I[node + WEIGHTS]
    count = I[node + CLASSES]
    for j in range(count):
        if I[weights + PAIR * j + CLASS] == label:
            F[weights + PAIR * j] += weight
            return j
    if count == I[node + CLASS_ROOM]:
        _widen(p, node)
        weights = I[node + WEIGHTS]
    F[weights + PAIR * count] = weight
    I[weights + PAIR * count + CLASS] = label
    I[node + CLASSES] = count + 1
    return count


@bare_kernel
def _widen(p: Pool, node: int) -> None:
    """Make room for more classes."""
    I = p.I
    room = wider(I[node + CLASS_ROOM])
    weights = take(p, PAIR * room)
    for word in range(PAIR * I[node + CLASSES]):
        I[weights + word] = I[I[node + WEIGHTS] + word]
    I[node + WEIGHTS] = weights
    if I[node + BLOCK] != 0:
        _move_block(p, node, I[node + SLOT_ROOM], room)
    I[node + CLASS_ROOM] = room
    p.control[MOST_CLASSES] = max(p.control[MOST_CLASSES], room)


@bare_kernel
def _move_block(p: Pool, node: int, slots: int, classes: int) -> None:
    I = p.I
    before = I[node + CLASS_ROOM]
    words, words_before = HEADER + ROW * classes, HEADER + ROW * before
    block = take(p, slots * words)
    for s in range(I[node + SLOTS]):
        slot, source = block + s * words, I[node + BLOCK] + s * words_before
        for word in range(words_before):
            I[slot + word] = I[source + word]
        if I[slot + TABLE] != 0 and classes != before:
            _move_table(p, slot, I[slot + CATEGORY_ROOM], before, classes)
    I[node + BLOCK] = block
    I[node + SLOT_ROOM] = slots
    p.control[MOST_SLOTS] = max(p.control[MOST_SLOTS], slots)


@bare_kernel
def _move_table(p: Pool, slot: int, room: int, before: int, classes: int) -> None:
    """Write a table again, with room for `room` categories and `classes` instead of `before` classes."""
    F, I = p.F, p.I
    source, room_before = I[slot + TABLE], I[slot + CATEGORY_ROOM]
    table = take(p, room * (1 + classes))
    for part in range(1 + before):
        for q in range(I[slot + CATEGORIES]):
            F[table + part * room + q] = F[source + part * room_before + q]
    I[slot + TABLE] = table
    I[slot + CATEGORY_ROOM] = room
    p.control[MOST_CATEGORIES] = max(p.control[MOST_CATEGORIES], room)


@bare_kernel
def _add_slot(p: Pool, node: int, feature: int, expected: int) -> int:
    """Begin to watch a feature; `expected` is how many the event may add: as many as it has, at most."""
    I = p.I
    count, classes = I[node + SLOTS], I[node + CLASS_ROOM]
    words = HEADER + ROW * classes
    if I[node + BLOCK] == 0:
        I[node + BLOCK] = take(p, expected * words)
        I[node + SLOT_ROOM] = expected
        p.control[MOST_SLOTS] = max(p.control[MOST_SLOTS], expected)
    elif count == I[node + SLOT_ROOM]:
        _move_block(p, node, max(wider(count), count + expected), classes)  # at most once an event: see `demand`
    slot = I[node + BLOCK] + count * words
    I[slot + SLOT_FEATURE] = feature
    if p.kind[feature] != IS_NUMBER:
        I[slot + TABLE] = take(p, FIRST_CATEGORIES * (1 + classes))
        I[slot + CATEGORY_ROOM] = FIRST_CATEGORIES
        p.control[MOST_CATEGORIES] = max(p.control[MOST_CATEGORIES], FIRST_CATEGORIES)
    I[node + SLOTS] = count + 1
    return slot


@inlined
def forget_slots(p: Pool, node: int) -> None:
    """Watch nothing any longer: River's ``splitters = {}``, or None of an inactive leaf."""
    p.I[node + BLOCK] = 0
    p.I[node + SLOTS] = 0
    p.I[node + SLOT_ROOM] = 0


# --- Splitters ------------------------------------------------------------------------------------------------------
@inlined
def _watch_number(p: Pool, slot: int, j: int, value: float, weight: float) -> None:
    """`GaussianSplitter.update`: Welford's mean and variance; the logarithm of the density is prepared here."""
    F, I = p.F, p.I
    row = slot + HEADER + ROW * j
    if F[row + COUNT] == 0.0:
        I[slot + HEADER + ROW * I[slot + SLOT_CLASSES] + ORDER] = j
        I[slot + SLOT_CLASSES] += 1
        F[row + LEAST] = value
        F[row + MOST] = value
    else:
        if value < F[row + LEAST]:
            F[row + LEAST] = value
        if value > F[row + MOST]:
            F[row + MOST] = value
    before = F[row + MEAN]
    count = F[row + COUNT] + weight
    mean = before + (weight / count) * (value - before)
    squares = F[row + SQUARES] + weight * (value - before) * (value - mean)
    F[row + COUNT], F[row + MEAN], F[row + SQUARES] = count, mean, squares
    prepare_density(p, row)


@inlined
def prepare_density(p: Pool, row: int) -> None:
    """Calculate the parts of a Gaussian's log density that do not depend on the value."""
    F = p.F
    F[row + CURVE], F[row + PEAK] = 0.0, 0.0
    if F[row + COUNT] > 1.0:
        variance = F[row + SQUARES] / (F[row + COUNT] - 1.0)
        if variance > 0.0:
            F[row + CURVE] = -2.0 * variance
            F[row + PEAK] = 0.5 * math.log(variance)


@inlined
def category_place(p: Pool, slot: int, value: float) -> int:
    """Return the place of a category in the slot's table, or -1."""
    table = p.I[slot + TABLE]
    for q in range(p.I[slot + CATEGORIES]):
        if p.F[table + q] == value:
            return q
    return -1


@inlined
def _know(p: Pool, slot: int, j: int) -> None:
    """Let a nominal slot know a class: indexing River's defaultdict adds it, even for a prediction."""
    row = slot + HEADER + ROW * j
    if p.F[row + KNOWN] == 0.0:
        p.F[row + KNOWN] = 1.0
        p.I[slot + HEADER + ROW * p.I[slot + SLOT_CLASSES] + ORDER] = j
        p.I[slot + SLOT_CLASSES] += 1


@bare_kernel
def _watch_category(p: Pool, node: int, slot: int, j: int, value: float, weight: float) -> None:
    """`NominalSplitterClassif.update`."""
    F, I = p.F, p.I
    _know(p, slot, j)
    q = category_place(p, slot, value)
    if q < 0:
        q = I[slot + CATEGORIES]
        if q == I[slot + CATEGORY_ROOM]:
            _move_table(p, slot, wider(q), I[node + CLASS_ROOM], I[node + CLASS_ROOM])
        F[I[slot + TABLE] + q] = value
        I[slot + CATEGORIES] = q + 1
    F[I[slot + TABLE] + (1 + j) * I[slot + CATEGORY_ROOM] + q] += weight
    F[slot + HEADER + ROW * j + COUNT] += weight


@inlined
def _watch(p: Pool, node: int, guess: int, feature: int, j: int, value: float, weight: float, expected: int) -> int:
    """Update the splitter of a feature; return the number of its slot. `guess` is where it probably is."""
    I = p.I
    count = I[node + SLOTS]
    words = HEADER + ROW * I[node + CLASS_ROOM]
    slot = 0
    place = guess
    if guess < count and I[I[node + BLOCK] + guess * words + SLOT_FEATURE] == feature:
        slot = I[node + BLOCK] + guess * words
    else:
        for s in range(count):
            if I[I[node + BLOCK] + s * words + SLOT_FEATURE] == feature:
                slot = I[node + BLOCK] + s * words
                place = s
                break
        if slot == 0:
            place = count
            slot = _add_slot(p, node, feature, expected)
    if I[slot + TABLE] == 0:
        _watch_number(p, slot, j, value, weight)
    else:
        _watch_category(p, node, slot, j, value, weight)
    return place


@bare_kernel
def draw_subset(p: Pool, node: int, X: Any, e: int) -> None:
    """Choose the features that a leaf of a forest may watch, of those that the event has, sorted by name."""
    present = 0
    for q in range(p.by_name.size):
        feature = p.by_name[q]
        if X[e, feature] == X[e, feature]:
            p.marks[0, present] = feature
            present += 1
    if present == 0:
        return
    most = p.option[SUBSET_MOST]
    to = take(p, min(most, present))
    p.I[node + SUBSET] = to
    if present >= most:
        p.I[node + SUBSET_SIZE] = most
        sample(p, present, most, to)
    else:
        p.I[node + SUBSET_SIZE] = present
        for q in range(present):
            p.I[to + q] = p.marks[0, q]


# --- Predictions ------------------------------------------------------------------------------------------------------
@inlined
def label_of(p: Pool, node: int, j: int) -> int:
    """Return the class with a leaf's own number `j`; -1 for none."""
    if j < 0:
        return -1
    return p.I[p.I[node + WEIGHTS] + PAIR * j + CLASS]


@inlined
def majority(p: Pool, node: int, out: int) -> int:
    """Write a leaf's shares of its classes to row `out` of `room`; return the number of the first greatest, or -1."""
    F, I = p.F, p.I
    weights = I[node + WEIGHTS]
    added = total(p, node)
    scale = 1.0
    if added != 0.0 and added == added:
        scale = 1.0 / added
    best = -1
    for j in range(I[node + CLASSES]):
        p.room[out, j] = F[weights + PAIR * j] * scale
        if best < 0 or p.room[out, j] > p.room[out, best]:
            best = j
    return best


@inlined
def square(x: float, two: float) -> float:
    """``x ** 2`` as CPython calculates it, that is by libm's pow.

    pow errs by less than 0.55 units in the last place. Where the exact square is within 0.45 units of the product, pow
    can therefore give nothing but the product; elsewhere it is called. The remainder is exact (Dekker, 1971).
    """
    product = x * x
    if 1e-280 < product < 1e280:
        ulp = (product + product * 1.1102232e-16) - product
        c = 134217729.0 * x
        high = c - (c - x)
        low = x - high
        remainder = ((high * high - product) + 2.0 * high * low) + low * low
        if abs(remainder) < 0.45 * ulp and product != ulp * 4503599627370496.0:
            return product
    elif x == 0.0:
        return 0.0
    return math.pow(x, two)


@inlined
def bayes(p: Pool, node: int, X: Any, e: int, out: int) -> int:
    """`do_naive_bayes_prediction`: write probabilities to row `out` of `room`; return the number of the first greatest.

    -1 stands for an empty dict. A prediction lets nominal splitters know the classes, as in River.
    """
    F, I = p.F, p.I
    count = I[node + CLASSES]
    added = total(p, node)
    if count == 0 or added == 0.0:
        return -1
    weights = I[node + WEIGHTS]
    two, half_log_tau = p.number[TWO], p.number[HALF_LOG_TAU]
    for j in range(count):
        weight = F[weights + PAIR * j]
        p.room[out, j] = math.log(weight / added) if weight > 0.0 else 0.0
    words = HEADER + ROW * I[node + CLASS_ROOM]
    for s in range(I[node + SLOTS]):
        slot = I[node + BLOCK] + s * words
        value = X[e, I[slot + SLOT_FEATURE]]
        if value != value:
            continue
        if I[slot + TABLE] == 0:
            for j in range(count):
                row = slot + HEADER + ROW * j
                if F[row + CURVE] < 0.0 and F[weights + PAIR * j] > 0.0:
                    term = square(value - F[row + MEAN], two) / F[row + CURVE] - half_log_tau - F[row + PEAK]
                    if term > -math.inf:
                        p.room[out, j] += term
        else:
            _add_nominal(p, node, slot, value, out)
    top = p.room[out, 0]
    for j in range(1, count):
        if p.room[out, j] > top:
            top = p.room[out, j]
    added, rest = 0.0, 0.0
    for j in range(count):
        added, rest = add(added, rest, math.exp(p.room[out, j] - top))
    log = top + math.log(ended(added, rest))
    best = -1
    for j in range(count):
        p.room[out, j] = math.exp(p.room[out, j] - log)
        if best < 0 or p.room[out, j] > p.room[out, best]:
            best = j
    return best


@bare_kernel
def _add_nominal(p: Pool, node: int, slot: int, value: float, out: int) -> None:
    F, I = p.F, p.I
    q = category_place(p, slot, value)
    for j in range(I[node + CLASSES]):
        if F[I[node + WEIGHTS] + PAIR * j] > 0.0:
            _know(p, slot, j)
            if q >= 0:
                weight = F[I[slot + TABLE] + (1 + j) * I[slot + CATEGORY_ROOM] + q]
                if weight > 0.0:
                    p.room[out, j] += math.log(weight / F[slot + HEADER + ROW * j + COUNT])


# --- Learning ---------------------------------------------------------------------------------------------------------
@inlined
def learn_leaf(
    p: Pool, node: int, X: Any, e: int, order: Any, label: int, weight: float, said: int, naive: int
) -> None:
    """`learn_one` of a leaf.

    Parameters
    ----------
    said, naive
        The class that it predicts by majority and by naive Bayes, -1 for none, `UNASKED` if that is not known.
    """
    F, I = p.F, p.I
    active = I[node + ACTIVE] == 1
    if active and (p.option[PREDICTION] == BAYES_ADAPTIVE or p.option[FAMILY] == ADAPTIVE_FAMILY):
        if said == UNASKED:
            said = label_of(p, node, majority(p, node, LEARNER_ROW))
        if naive == UNASKED:
            naive = label_of(p, node, bayes(p, node, X, e, LEARNER_ROW))
        if I[node + CLASSES] == 0 or said == label:
            F[node + MAJORITY_RIGHT] += weight
        if naive == label:
            F[node + BAYES_RIGHT] += weight
    j = add_weight(p, node, label, weight)
    if not active:
        return
    place = -1
    if p.option[FAMILY] == FOREST_FAMILY:
        if I[node + SUBSET_SIZE] == 0:
            draw_subset(p, node, X, e)
        count = I[node + SUBSET_SIZE]
        expected = min(count, order.size)
        for q in range(count):
            feature = I[I[node + SUBSET] + q]
            value = X[e, feature]
            if value == value:
                place = _watch(p, node, place + 1, feature, j, value, weight, expected)
    else:
        for q in range(order.size):
            feature = order[q]
            value = X[e, feature]
            if value == value:
                place = _watch(p, node, place + 1, feature, j, value, weight, order.size)
