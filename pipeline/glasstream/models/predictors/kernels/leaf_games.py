"""Exact interventional Shapley values of trees by the sets of leaves of `LeafSets`.

For a background row b, the value of a coalition is the answer for the row x on the coalition's features, and for b on
the others. A leaf is reached by some mixture of x and b unless a feature of its path has neither value in its set. Let
A be the features of the path whose set has the value of x only, and N those whose set has that of b only. A leaf that
answers v then adds v α(p, n) to each feature of A and v β(p, n) to each of N, where p = |A|, n = |N|, and

    α(p, n) = (p - 1)! n! / (p + n)!        β(p, n) = -p! (n - 1)! / (p + n)!

(the Shapley values of a game that is won with all of A and none of N; for trees: Lundberg et al., "From local
explanations to global understanding with explainable AI for trees", Nature Machine Intelligence 2, 2020, interventional
TreeSHAP). A leaf whose answer depends on further features F of the row, such as a naive Bayes leaf
(`bayes_games`), is a game over A, N and F.

Weights are integers: α and β times the least common multiple of 1, …, D, where D is the largest number of features on a
path. So the sum over background rows does not depend on their order, and can be kept for a leaf and the pattern of x on
its path: it does not depend on what the leaf answers.
"""

import math
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined, kernel
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.leaf_streams import lowest_bit
from glasstream.models.predictors.kernels.walk import Means
from glasstream.models.predictors.predictor import Floats, Integers

MOST_ON_PATH: Final = 40
"""Largest number of features on a path: for up to 1,000 background rows, sums of integer weights fit into 63 bits."""
MOST_FREE: Final = 10
"""Largest number of further features on which the answer of one leaf depends: all their subsets are evaluated."""
_TABLED: Final = 10
"""Largest number of features on a path for which the weights of a pattern are found by its number."""
_PATTERNS: Final = 1 << 22
"""Largest number of patterns of all leaves for which there is a place in the table (16 MiB)."""
MOST_CELLS: Final = 1 << 23
"""Largest number of leaves times background rows, and of logs of background rows in naive Bayes leaves (64 MiB)."""
_UNKNOWN: Final = -1
_NOTHING: Final = -2
_ONE = np.uint64(1)


class Paths(NamedTuple):
    """The paths of the leaves, and what the background rows allow on them.

    Attributes
    ----------
    start, feature
        int64[B + 1], int64[.]: the features on the path of each bit of `LeafSets`. A *pattern* has one bit for each:
        whether the set of a row's value has the leaf.
    asked
        uint32[.]: the place of each of these features among those that the tree asks for.
    rows
        Number of background rows.
    order
        int64[B, R]: for each bit the background rows, ordered by their patterns.
    distinct_start, distinct, distinct_end
        int64[B + 1], uint64[.], int64[.]: for each bit the distinct patterns of background rows, and where the rows of
        each end in `order`.
    possible_start, possible
        int64[T], uint64[.]: for each tree, feature that it asks for, and word of a set: the leaves that the value of
        at least one background row allows.
    """

    start: Array
    feature: Array
    asked: Array
    rows: int
    order: Array
    distinct_start: Array
    distinct: Array
    distinct_end: Array
    possible_start: Array
    possible: Array


class Weights(NamedTuple):
    """Sums over the background rows of the integer weights, for the patterns that have occurred.

    Attributes
    ----------
    win, lose
        int64[D + 1, D + 1]: α and β times `scale`, at [p, n].
    scale
        lcm(1, …, D).
    table_start, table
        int64[B], int32[.]: for each bit the place of its patterns in the table, or -1 if they are computed each time.
        The table holds the start in `pool` of one number a feature of the path, or that they are unknown or all 0.
    pool, used
        int64[.], int64[1]: the sums, and how many are in use. If no place is left, all are forgotten.
    """

    win: Array
    lose: Array
    scale: float
    table_start: Array
    table: Array
    pool: Array
    used: Array


def paths(sets: LeafSets, background: Array) -> Paths | None:
    """Return the paths of trees for background rows.

    Parameters
    ----------
    sets
        The trees.
    background
        uint32[R, d]: the places of the background rows.

    Returns
    -------
    None if a path has more than `MOST_ON_PATH` features, or there are too many leaves for so many rows.
    """
    if sets.leaf.size * len(background) > MOST_CELLS:
        return None
    start, feature, asked = _features(sets)
    if np.diff(start).max(initial=0) > MOST_ON_PATH:
        return None
    words = np.diff(sets.asked_start) * sets.words
    possible_start = np.concatenate(([0], np.cumsum(words)))
    row = np.zeros((sets.leaf.size, len(background)), np.uint64)
    possible = np.zeros(int(possible_start[-1]), np.uint64)
    held = np.empty(background.shape[1], np.uint64)
    _of_background(sets, start, asked, background, held, row, possible_start, possible)
    order = np.argsort(row, axis=1, kind="stable")
    row = np.take_along_axis(row, order, axis=1)
    last = np.ones(row.shape, np.bool_)
    last[:, :-1] = row[:, 1:] != row[:, :-1]
    distinct_start = np.concatenate(([0], np.cumsum(last.sum(axis=1))))
    distinct_end = np.nonzero(last)[1] + 1
    possible_start = possible_start[:-1]
    return Paths(
        start,
        feature,
        asked,
        len(background),
        order,
        distinct_start,
        row[last],
        distinct_end,
        possible_start,
        possible,
    )


def weights(paths: Paths, kept: int) -> Weights:
    """Return weights without sums, which keep at most `kept` bytes of them. A quarter of these is for the table."""
    lengths = np.diff(paths.start)
    most = int(lengths.max(initial=0))
    scale = math.lcm(*range(1, most + 1))
    win, lose = (np.zeros((most + 1, most + 1), np.int64) for _ in range(2))
    for p in range(most + 1):
        for n in range(most + 1 - p):
            if p:
                win[p, n] = scale // (p * math.comb(p + n, p))
            if n:
                lose[p, n] = -(scale // (n * math.comb(p + n, n)))
    sizes = np.where(lengths <= _TABLED, 1 << np.minimum(lengths, _TABLED), 0)
    ends = np.cumsum(sizes)
    fits = (sizes > 0) & (ends <= min(_PATTERNS, kept // 16))
    table_start = np.where(fits, ends - sizes, -1)
    table = np.full(int(ends[fits].max(initial=0)), _UNKNOWN, np.int32)
    pool = np.empty(max(most, min((kept - table.nbytes) // 8, 2**31 - 1)), np.int64)
    return Weights(win, lose, float(scale), table_start, table, pool, np.zeros(1, np.int64))


@kernel
def _features(sets: LeafSets) -> tuple[Array, Array, Array]:
    """Return for each bit the features on its path: those with a place whose set lacks it."""
    trees = sets.words.size
    start = np.zeros(sets.leaf.size + 1, np.int64)
    for write in range(2):
        feature = np.empty(start[-1] if write else 0, np.int64)
        asked = np.empty(feature.size, np.uint32)
        for t in range(trees):
            for word in range(sets.words[t]):
                first = sets.bit_start[t] + 64 * word
                for a in range(sets.asked_start[t], sets.asked_start[t + 1]):
                    f = sets.asked[a]
                    always = np.uint64(2**64 - 1)
                    for place in range(sets.cut_start[f] + 2 * f, sets.cut_start[f + 1] + 2 * f + 2):
                        always &= sets.sets[sets.set_start[t, place] + word]
                    for j in range(min(64, sets.leaves[t] - 64 * word)):
                        if not always >> np.uint64(j) & _ONE:
                            if write:
                                feature[start[first + j]] = f
                                asked[start[first + j]] = a - sets.asked_start[t]
                            start[first + j + (0 if write else 1)] += 1
        if write:  # the starts have moved to the ends
            for bit in range(sets.leaf.size, 0, -1):
                start[bit] = start[bit - 1]
            start[0] = 0
        else:
            for bit in range(sets.leaf.size):
                start[bit + 1] += start[bit]
    return start, feature, asked


@bare_kernel
def _of_background(
    sets: LeafSets,
    start: Array,
    asked: Array,
    background: Array,
    held: Array,
    row: Array,
    possible_start: Array,
    possible: Array,
) -> None:
    for t in range(sets.words.size):
        for b in range(background.shape[0]):
            for word in range(sets.words[t]):
                at = possible_start[t] + word
                for a in range(sets.asked_start[t], sets.asked_start[t + 1]):
                    own = sets.sets[np.int64(sets.set_start[t, background[b, sets.asked[a]]]) + word]
                    held[a - sets.asked_start[t]] = own
                    possible[at] |= own
                    at += sets.words[t]
                begin = sets.bit_start[t] + 64 * word
                for bit in range(begin, min(begin + 64, sets.bit_start[t] + sets.leaves[t])):
                    row[bit, b] = _pattern(asked, held, bit, start[bit], start[bit + 1])


@inlined
def _pattern(asked: Array, held: Array, bit: Any, first: Any, last: Any) -> Any:
    """Return the pattern of a row on the path of a leaf, whose features are at `asked[first:last]` in `held`.

    `held` uint64[.] has the word of the set of each feature that the tree asks for.
    """
    pattern = np.uint64(0)
    shift, to = np.uint64(bit & 63), np.uint64(0)
    for at in range(np.uint64(first), np.uint64(last)):
        pattern |= (held[np.uint64(asked[at])] >> shift & _ONE) << to
        to += _ONE
    return pattern


@inlined
def count_bits(bits: Any) -> Any:
    """Return the number of bits that are set in a uint64."""
    bits -= bits >> np.uint64(1) & np.uint64(0x5555555555555555)
    bits = (bits & np.uint64(0x3333333333333333)) + (bits >> np.uint64(2) & np.uint64(0x3333333333333333))
    bits = (bits + (bits >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64(bits * np.uint64(0x0101010101010101) >> np.uint64(56))


@inlined
def _sum_up(paths: Paths, weights: Weights, bit: Any, pattern: Any, out: Array, to: Any) -> bool:
    """Write to `out` from `to` on the sums over all background rows for a pattern; return whether one is not 0."""
    first, last = paths.start[bit], paths.start[bit + 1]
    for j in range(last - first):
        out[to + j] = 0
    full = (_ONE << np.uint64(last - first)) - _ONE
    end = 0
    for nth in range(paths.distinct_start[bit], paths.distinct_start[bit + 1]):
        begin, end = end, paths.distinct_end[nth]
        other = paths.distinct[nth]
        if pattern | other != full:
            continue
        times = end - begin
        own, others = pattern & ~other, other & ~pattern
        p, n = count_bits(own), count_bits(others)
        if p:
            win = times * weights.win[p, n]
            while own:
                out[to + np.int64(lowest_bit(own))] += win
                own &= own - _ONE
        if n:
            lose = times * weights.lose[p, n]
            while others:
                out[to + np.int64(lowest_bit(others))] += lose
                others &= others - _ONE
    found = False
    for j in range(last - first):
        found |= out[to + j] != 0
    return found


class Reached(NamedTuple):
    """Scratch space for the leaves that mixtures of a row reach.

    Attributes
    ----------
    held
        uint64[d]: the word of the set of each feature that a tree asks for.
    bit, pattern
        int64[B], uint64[B]: the leaves, and the patterns of the row on their paths.
    """

    held: Array
    bit: Array
    pattern: Array


def reached(sets: LeafSets) -> Reached:
    """Return scratch space for these trees."""
    leaves = sets.leaf.size
    return Reached(
        np.empty(sets.cut_start.size - 1, np.uint64), np.empty(leaves, np.int64), np.empty(leaves, np.uint64)
    )


@inlined
def reach(sets: LeafSets, paths: Paths, of: Array, column: Any, row_places: Array, i: Any, found: Reached) -> Any:
    """Find the leaves, among those `of` a column, that some mixture of row `i` and a background row reaches.

    Return how many they are; `found` has them in their order.
    """
    held, count = found.held, 0
    for t in range(sets.words.size):
        for word in range(sets.words[t]):
            begin = sets.bit_start[t] + 64 * word
            live = of[column, begin >> 6]
            at = np.uint64(paths.possible_start[t] + word)
            to = np.uint64(0)
            for a in range(sets.asked_start[t], sets.asked_start[t + 1]):
                own = sets.sets[np.uint64(sets.set_start[t, row_places[i, sets.asked[a]]]) + np.uint64(word)]
                held[to] = own
                live &= own | paths.possible[at]
                at += np.uint64(sets.words[t])
                to += _ONE
            while live:
                bit = begin + np.int64(lowest_bit(live))
                live &= live - _ONE
                found.bit[count] = bit
                found.pattern[count] = _pattern(paths.asked, held, bit, paths.start[bit], paths.start[bit + 1])
                count += 1
    return count


@bare_kernel
def add_constant(
    sets: LeafSets,
    paths: Paths,
    weights: Weights,
    of: Array,
    value: Floats,
    output: Integers,
    row_places: Array,
    found: Reached,
    values: Floats,
) -> None:
    """Add the Shapley values of leaves that do not depend on the row beyond their path.

    Parameters
    ----------
    of
        uint64[c, B / 64]: the leaves whose answer is not 0, as bits.
    value
        float64[B, c]: their answers.
    output
        int64[n]: the answer that is explained for each row; -1 for 0.
    row_places
        uint32[n, d]: the rows.
    found
        Scratch space.
    values
        float64[n, >= d]: the Shapley values.
    """
    table_start, table, pool, used = weights[3:]
    feature = paths.feature
    share = 1.0 / (weights.scale * paths.rows)
    room = pool.size
    for i in range(row_places.shape[0]):
        column = output[i]
        if column < 0:
            continue
        for nth in range(reach(sets, paths, of, column, row_places, i, found)):
            bit, pattern = found.bit[nth], found.pattern[nth]
            first, last = paths.start[bit], paths.start[bit + 1]
            entry = table_start[bit]
            at = np.int64(table[np.uint64(entry) + pattern]) if entry >= 0 else np.int64(_UNKNOWN)
            if at == _UNKNOWN:
                if used[0] + last - first > room:
                    used[0] = 0
                    for other in range(table.size):
                        table[other] = _UNKNOWN
                at = used[0]
                if not _sum_up(paths, weights, bit, pattern, pool, at):
                    at = np.int64(_NOTHING)
                elif entry >= 0:
                    used[0] += last - first
                if entry >= 0:
                    table[np.uint64(entry) + pattern] = at
            if at == _NOTHING:
                continue
            answer = value[bit, column] * share
            at -= first
            for j in range(first, last):
                values[i, feature[j]] += answer * np.float64(pool[at + j])


@cache
def coalitions() -> Floats:
    """Return the weight of s among m players, s! (m - s - 1)! / m!, at [m, s + 1]; 0 at [m, 0]."""
    most = MOST_ON_PATH + MOST_FREE
    weight = np.zeros((most + 1, most + 2))
    for m in range(1, most + 1):
        for s in range(m):
            weight[m, s + 1] = 1.0 / (m * math.comb(m - 1, s))
    return weight


@bare_kernel
def add_linear(
    sets: LeafSets,
    paths: Paths,
    of: Array,
    means: Means,
    factor: Floats,
    given: tuple[Floats, Floats],
    row_places: Array,
    coalition: Floats,
    side: Array,
    found: Reached,
    values: Floats,
) -> None:
    """Add the Shapley values of leaves that answer a linear form of the row.

    Parameters are those of `add_constant` and of `bayes_games.add_bayes`; `side` is int8[d], zero.
    """
    rows, background = given
    start, slot, weight = means.start, means.slot, means.weight
    feature = paths.feature
    backgrounds = paths.rows
    for i in range(rows.shape[0]):
        for nth in range(reach(sets, paths, of, 0, row_places, i, found)):
            bit, pattern = found.bit[nth], found.pattern[nth]
            number = sets.leaf[bit]
            first, last = paths.start[bit], paths.start[bit + 1]
            full = (_ONE << np.uint64(last - first)) - _ONE
            scale = factor[bit] / backgrounds
            end = 0
            for group in range(paths.distinct_start[bit], paths.distinct_start[bit + 1]):
                begin, end = end, paths.distinct_end[group]
                other = paths.distinct[group]
                if pattern | other != full:
                    continue
                a, b = pattern & ~other, other & ~pattern
                p, n = count_bits(a), count_bits(b)
                for j in range(last - first):
                    from_row, from_other = a >> np.uint64(j) & _ONE, b >> np.uint64(j) & _ONE
                    side[feature[first + j]] = 1 if from_row else 2 if from_other else 0
                fixed, moved = means.value[number] * (end - begin), 0.0
                for at in range(start[number], start[number + 1]):
                    f = slot[at]
                    x = or_zero(rows[i, f])
                    for row in range(begin, end):
                        y = or_zero(background[paths.order[bit, row], f])
                        fixed += weight[at] * (x if side[f] == 1 else y)
                        if side[f] == 0:
                            more = weight[at] * (x - y)
                            moved += more
                            values[i, f] += scale * more * coalition[p + n + 1, p + 1]
                for j in range(last - first):
                    f = feature[first + j]
                    if side[f] == 1:
                        win = fixed * coalition[p + n, p] + moved * coalition[p + n + 1, p + 1]
                        values[i, f] += scale * win
                    elif side[f] == 2:
                        lose = fixed * coalition[p + n, p + 1] + moved * coalition[p + n + 1, p + 2]
                        values[i, f] -= scale * lose
                    side[f] = 0


@inlined
def or_zero(x: float) -> float:
    """Return `x`, or 0 for a feature that is absent."""
    return x if x == x else 0.0


@bare_kernel
def sum_of_leaves(sets: LeafSets, value: Floats, row_places: Array, sums: Floats) -> None:
    """Add to `sums` float64[n, c] the answers float64[B, c] of the leaves of rows."""
    for i in range(row_places.shape[0]):
        for t in range(sets.words.size):
            for word in range(sets.words[t]):
                live = np.uint64(2**64 - 1)
                if sets.leaves[t] - 64 * word < 64:
                    live = (_ONE << np.uint64(sets.leaves[t] - 64 * word)) - _ONE
                for a in range(sets.asked_start[t], sets.asked_start[t + 1]):
                    live &= sets.sets[np.int64(sets.set_start[t, row_places[i, sets.asked[a]]]) + word]
                while live:
                    bit = sets.bit_start[t] + 64 * word + np.int64(lowest_bit(live))
                    live &= live - _ONE
                    for c in range(value.shape[1]):
                        sums[i, c] += value[bit, c]
