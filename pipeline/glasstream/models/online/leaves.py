"""What a leaf knows: weights of classes, splitters of features, and its predictions by majority and naive Bayes."""

import math
from typing import Any

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.online import layout as L
from glasstream.models.online.adwin import new_detector
from glasstream.models.online.arena import take, wider
from glasstream.models.online.sums import SKIPS_INTEGERS, add, ended
from glasstream.models.online.twister import sample

Pool = Any

UNASKED = -2
"""In the place of a class: the leaf has not been asked for it."""
LEARNER_ROW = 5
"""Row of `room` with the shares of a leaf that learns."""


@bare_kernel
def new_leaf(p: Pool, depth: int, classes: int) -> int:
    """Return the address of a new leaf with room for `classes` classes."""
    node = take(p, L.NODE)
    room = max(classes, 2)
    p.I[node + L.DEPTH] = depth
    p.I[node + L.ACTIVE] = 1
    p.I[node + L.CLASS_ROOM] = room
    p.I[node + L.WEIGHTS] = take(p, L.PAIR * room)
    if p.option[L.FAMILY] == L.ADAPTIVE_FAMILY:
        p.I[node + L.DETECTOR] = new_detector(p, 1)
    p.control[L.MOST_CLASSES] = max(p.control[L.MOST_CLASSES], room)
    p.control[L.HEIGHT] = max(p.control[L.HEIGHT], depth)
    return node


@inlined
def total(p: Pool, node: int) -> float:
    """Return the weight that a leaf has seen, summed in the order of its classes."""
    weights, count = p.I[node + L.WEIGHTS], p.I[node + L.CLASSES]
    compensated = p.I[node + L.FLOATS] if SKIPS_INTEGERS and p.option[L.FAMILY] == L.FOREST_FAMILY else count
    added, rest = 0.0, 0.0
    for j in range(compensated):
        added, rest = add(added, rest, p.F[weights + L.PAIR * j])
    for j in range(compensated, count):
        added += p.F[weights + L.PAIR * j]
    return ended(added, rest)


@inlined
def add_weight(p: Pool, node: int, label: int, weight: float) -> int:
    """Add to the weight of a class, and return the node's own number of the class."""
    F, I = p.F, p.I
    weights = I[node + L.WEIGHTS]
    count = I[node + L.CLASSES]
    for j in range(count):
        if I[weights + L.PAIR * j + L.CLASS] == label:
            F[weights + L.PAIR * j] += weight
            return j
    if count == I[node + L.CLASS_ROOM]:
        _widen(p, node)
        weights = I[node + L.WEIGHTS]
    F[weights + L.PAIR * count] = weight
    I[weights + L.PAIR * count + L.CLASS] = label
    I[node + L.CLASSES] = count + 1
    return count


@bare_kernel
def _widen(p: Pool, node: int) -> None:
    """Make room for more classes."""
    I = p.I
    room = wider(I[node + L.CLASS_ROOM])
    weights = take(p, L.PAIR * room)
    for word in range(L.PAIR * I[node + L.CLASSES]):
        I[weights + word] = I[I[node + L.WEIGHTS] + word]
    I[node + L.WEIGHTS] = weights
    if I[node + L.BLOCK] != 0:
        _move_block(p, node, I[node + L.SLOT_ROOM], room)
    I[node + L.CLASS_ROOM] = room
    p.control[L.MOST_CLASSES] = max(p.control[L.MOST_CLASSES], room)


@bare_kernel
def _move_block(p: Pool, node: int, slots: int, classes: int) -> None:
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
def _move_table(p: Pool, slot: int, room: int, before: int, classes: int) -> None:
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


@bare_kernel
def _add_slot(p: Pool, node: int, feature: int, expected: int) -> int:
    """Begin to watch a feature; `expected` is how many the event may add: as many as it has, at most."""
    I = p.I
    count, classes = I[node + L.SLOTS], I[node + L.CLASS_ROOM]
    words = L.HEADER + L.ROW * classes
    if I[node + L.BLOCK] == 0:
        I[node + L.BLOCK] = take(p, expected * words)
        I[node + L.SLOT_ROOM] = expected
        p.control[L.MOST_SLOTS] = max(p.control[L.MOST_SLOTS], expected)
    elif count == I[node + L.SLOT_ROOM]:
        _move_block(p, node, max(wider(count), count + expected), classes)  # at most once an event: see `demand`
    slot = I[node + L.BLOCK] + count * words
    I[slot + L.SLOT_FEATURE] = feature
    if p.kind[feature] != L.IS_NUMBER:
        I[slot + L.TABLE] = take(p, L.FIRST_CATEGORIES * (1 + classes))
        I[slot + L.CATEGORY_ROOM] = L.FIRST_CATEGORIES
        p.control[L.MOST_CATEGORIES] = max(p.control[L.MOST_CATEGORIES], L.FIRST_CATEGORIES)
    I[node + L.SLOTS] = count + 1
    return slot


@inlined
def forget_slots(p: Pool, node: int) -> None:
    """Watch nothing any longer: River's ``splitters = {}``, or None of an inactive leaf."""
    p.I[node + L.BLOCK] = 0
    p.I[node + L.SLOTS] = 0
    p.I[node + L.SLOT_ROOM] = 0


# --- Splitters ------------------------------------------------------------------------------------------------------
@inlined
def _watch_number(p: Pool, slot: int, j: int, value: float, weight: float) -> None:
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
def prepare_density(p: Pool, row: int) -> None:
    """Calculate the parts of a Gaussian's log density that do not depend on the value."""
    F = p.F
    F[row + L.CURVE], F[row + L.PEAK] = 0.0, 0.0
    if F[row + L.COUNT] > 1.0:
        variance = F[row + L.SQUARES] / (F[row + L.COUNT] - 1.0)
        if variance > 0.0:
            F[row + L.CURVE] = -2.0 * variance
            F[row + L.PEAK] = 0.5 * math.log(variance)


@inlined
def category_place(p: Pool, slot: int, value: float) -> int:
    """Return the place of a category in the slot's table, or -1."""
    table = p.I[slot + L.TABLE]
    for q in range(p.I[slot + L.CATEGORIES]):
        if p.F[table + q] == value:
            return q
    return -1


@inlined
def _know(p: Pool, slot: int, j: int) -> None:
    """Let a nominal slot know a class: indexing River's defaultdict adds it, even for a prediction."""
    row = slot + L.HEADER + L.ROW * j
    if p.F[row + L.KNOWN] == 0.0:
        p.F[row + L.KNOWN] = 1.0
        p.I[slot + L.HEADER + L.ROW * p.I[slot + L.SLOT_CLASSES] + L.ORDER] = j
        p.I[slot + L.SLOT_CLASSES] += 1


@bare_kernel
def _watch_category(p: Pool, node: int, slot: int, j: int, value: float, weight: float) -> None:
    """`NominalSplitterClassif.update`."""
    F, I = p.F, p.I
    _know(p, slot, j)
    q = category_place(p, slot, value)
    if q < 0:
        q = I[slot + L.CATEGORIES]
        if q == I[slot + L.CATEGORY_ROOM]:
            _move_table(p, slot, wider(q), I[node + L.CLASS_ROOM], I[node + L.CLASS_ROOM])
        F[I[slot + L.TABLE] + q] = value
        I[slot + L.CATEGORIES] = q + 1
    F[I[slot + L.TABLE] + (1 + j) * I[slot + L.CATEGORY_ROOM] + q] += weight
    F[slot + L.HEADER + L.ROW * j + L.COUNT] += weight


@inlined
def _watch(p: Pool, node: int, guess: int, feature: int, j: int, value: float, weight: float, expected: int) -> int:
    """Update the splitter of a feature; return the number of its slot. `guess` is where it probably is."""
    I = p.I
    count = I[node + L.SLOTS]
    words = L.HEADER + L.ROW * I[node + L.CLASS_ROOM]
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
            slot = _add_slot(p, node, feature, expected)
    if I[slot + L.TABLE] == 0:
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


# --- Predictions ------------------------------------------------------------------------------------------------------
@inlined
def label_of(p: Pool, node: int, j: int) -> int:
    """Return the class with a leaf's own number `j`; -1 for none."""
    if j < 0:
        return -1
    return p.I[p.I[node + L.WEIGHTS] + L.PAIR * j + L.CLASS]


@inlined
def majority(p: Pool, node: int, out: int) -> int:
    """Write a leaf's shares of its classes to row `out` of `room`; return the number of the first greatest, or -1."""
    F, I = p.F, p.I
    weights = I[node + L.WEIGHTS]
    added = total(p, node)
    scale = 1.0
    if added != 0.0 and added == added:
        scale = 1.0 / added
    best = -1
    for j in range(I[node + L.CLASSES]):
        p.room[out, j] = F[weights + L.PAIR * j] * scale
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
    count = I[node + L.CLASSES]
    added = total(p, node)
    if count == 0 or added == 0.0:
        return -1
    weights = I[node + L.WEIGHTS]
    two, half_log_tau = p.number[L.TWO], p.number[L.HALF_LOG_TAU]
    for j in range(count):
        weight = F[weights + L.PAIR * j]
        p.room[out, j] = math.log(weight / added) if weight > 0.0 else 0.0
    words = L.HEADER + L.ROW * I[node + L.CLASS_ROOM]
    for s in range(I[node + L.SLOTS]):
        slot = I[node + L.BLOCK] + s * words
        value = X[e, I[slot + L.SLOT_FEATURE]]
        if value != value:
            continue
        if I[slot + L.TABLE] == 0:
            for j in range(count):
                row = slot + L.HEADER + L.ROW * j
                if F[row + L.CURVE] < 0.0 and F[weights + L.PAIR * j] > 0.0:
                    term = square(value - F[row + L.MEAN], two) / F[row + L.CURVE] - half_log_tau - F[row + L.PEAK]
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
    for j in range(I[node + L.CLASSES]):
        if F[I[node + L.WEIGHTS] + L.PAIR * j] > 0.0:
            _know(p, slot, j)
            if q >= 0:
                weight = F[I[slot + L.TABLE] + (1 + j) * I[slot + L.CATEGORY_ROOM] + q]
                if weight > 0.0:
                    p.room[out, j] += math.log(weight / F[slot + L.HEADER + L.ROW * j + L.COUNT])


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
    active = I[node + L.ACTIVE] == 1
    if active and (p.option[L.PREDICTION] == L.BAYES_ADAPTIVE or p.option[L.FAMILY] == L.ADAPTIVE_FAMILY):
        if said == UNASKED:
            said = label_of(p, node, majority(p, node, LEARNER_ROW))
        if naive == UNASKED:
            naive = label_of(p, node, bayes(p, node, X, e, LEARNER_ROW))
        if I[node + L.CLASSES] == 0 or said == label:
            F[node + L.MAJORITY_RIGHT] += weight
        if naive == label:
            F[node + L.BAYES_RIGHT] += weight
    j = add_weight(p, node, label, weight)
    if not active:
        return
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
                place = _watch(p, node, place + 1, feature, j, value, weight, expected)
    else:
        for q in range(order.size):
            feature = order[q]
            value = X[e, feature]
            if value == value:
                place = _watch(p, node, place + 1, feature, j, value, weight, order.size)
