"""Exact interactions of pairs of features in the games of `glasstream.models.predictors.kernels.leaf_games`.

The Shapley interaction index of a pair i, j in a game of m players is the mean of

    v(S ∪ {i, j}) - v(S ∪ {i}) - v(S ∪ {j}) + v(S)

over the coalitions S of the other players, with the weight s! (m - s - 2)! / (m - 1)! for each S of s players
(Grabisch, Roubens, "An axiomatic approach to the concept of interaction among players in cooperative games",
International Journal of Game Theory 28, 1999). A leaf with the features A and N on its path answers for the coalition
A, or for all coalitions A ∪ T with T ⊆ F if its answer depends on further features F. So such a coalition K adds its
answer times the weight at the size of K without i and j: with a plus if K has both or neither of them, otherwise with
a minus.
"""

import math
from typing import Any

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.bayes_games import (
    BayesRows,
    FreeRoom,
    answers_of_subsets,
    read_terms,
    term_logs,
)
from glasstream.models.predictors.kernels.bit_votes import BitVotes
from glasstream.models.predictors.kernels.leaf_games import (
    MOST_FREE,
    MOST_ON_PATH,
    Paths,
    Reached,
    count_bits,
    or_zero,
    reach,
)
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.walk import Means
from glasstream.models.predictors.predictor import Floats, Integers

_ONE = np.uint64(1)


def couples() -> Floats:
    """Return the weight of s among m players, s! (m - s - 2)! / (m - 1)!, at [m, s + 2]; 0 where there is none."""
    most = MOST_ON_PATH + MOST_FREE
    weight = np.zeros((most + 1, most + 3))
    for m in range(2, most + 1):
        for s in range(m - 1):
            weight[m, s + 2] = 1.0 / ((m - 1) * math.comb(m - 2, s))
    return weight


@inlined
def _add(pairs: Floats, i: Any, one: Any, other: Any, amount: float) -> None:
    """Add to the interaction of two features, which stands at the smaller one."""
    pairs[i, min(one, other), max(one, other)] += amount


@inlined
def _on_path(
    paths: Paths, bit: Any, a: Any, b: Any, both: float, split: float, neither: float, pairs: Floats, i: Any
) -> None:
    """Add what a leaf gives to each pair of A, of a feature of A and one of N, and of N."""
    first, last = paths.start[bit], paths.start[bit + 1]
    for j in range(last - first):
        in_a, in_b = a >> np.uint64(j) & _ONE, b >> np.uint64(j) & _ONE
        if not in_a and not in_b:
            continue
        for k in range(j):
            if a >> np.uint64(k) & _ONE:
                _add(pairs, i, paths.feature[first + j], paths.feature[first + k], both if in_a else split)
            elif b >> np.uint64(k) & _ONE:
                _add(pairs, i, paths.feature[first + j], paths.feature[first + k], split if in_a else neither)


@bare_kernel
def add_constant_pairs(
    sets: LeafSets,
    paths: Paths,
    of: Array,
    value: Floats,
    output: Integers,
    row_places: Array,
    couple: Floats,
    found: Reached,
    pairs: Floats,
) -> None:
    """Add the interactions in leaves that do not depend on the row beyond their path.

    Parameters are those of `glasstream.models.predictors.kernels.leaf_games.add_constant`, and:

    Parameters
    ----------
    couple
        See `couples`.
    pairs
        float64[n, d, d]: the interactions, each once: at [i, j, k] with j < k.
    """
    for i in range(row_places.shape[0]):
        column = output[i]
        if column < 0:
            continue
        for nth in range(reach(sets, paths, of, column, row_places, i, found)):
            bit, pattern = found.bit[nth], found.pattern[nth]
            full = (_ONE << np.uint64(paths.start[bit + 1] - paths.start[bit])) - _ONE
            end = 0
            for group in range(paths.distinct_start[bit], paths.distinct_start[bit + 1]):
                begin, end = end, paths.distinct_end[group]
                other = paths.distinct[group]
                if pattern | other != full:
                    continue
                a, b = pattern & ~other, other & ~pattern
                p, n = count_bits(a), count_bits(b)
                answer, weight = value[bit, column] * (end - begin) / paths.rows, couple[p + n]
                _on_path(
                    paths, bit, a, b, answer * weight[p], -answer * weight[p + 1], answer * weight[p + 2], pairs, i
                )


@bare_kernel
def add_bayes_pairs(
    sets: LeafSets,
    paths: Paths,
    of: Array,
    votes: BitVotes,
    known: BayesRows,
    factor: Floats,
    rows: Floats,
    output: Integers,
    row_places: Array,
    couple: Floats,
    room: FreeRoom,
    found: Reached,
    pairs: Floats,
    exact: Array,
) -> None:
    """Add the interactions in naive Bayes leaves; parameters are those of `bayes_games.add_bayes`."""
    for i in range(rows.shape[0]):
        column = output[i]
        if column < 0:
            continue
        for nth in range(reach(sets, paths, of, 0, row_places, i, found)):
            bit, pattern = found.bit[nth], found.pattern[nth]
            entry, count = np.int64(votes.head[bit, 0]), np.int64(votes.head[bit, 1])
            begin, terms = np.int64(votes.head[bit, 2]), np.int64(votes.head[bit, 3] - votes.head[bit, 2])
            which = -1
            for j in range(count):
                if votes.label[entry + j] == column:
                    which = j
            if which < 0:
                continue
            for k in range(terms):
                x = rows[i, np.int64(votes.term[begin + k, 0])]
                term_logs(votes, begin + k, x, count, room.own, k * (count - 1))
            full = (_ONE << np.uint64(paths.start[bit + 1] - paths.start[bit])) - _ONE
            end = 0
            for group in range(paths.distinct_start[bit], paths.distinct_start[bit + 1]):
                begin_row, end = end, paths.distinct_end[group]
                other = paths.distinct[group]
                if pattern | other != full:
                    continue
                a, b = pattern & ~other, other & ~pattern
                others, readers = read_terms(votes, known, room, bit, a, b)
                for row in range(begin_row, end):
                    many = answers_of_subsets(votes, known, room, bit, row, others, readers, which)
                    if many > MOST_FREE:
                        exact[i] = False
                        continue
                    _bayes_pairs(
                        paths, votes, couple, room, (bit, which, many), a, b, factor[bit] / paths.rows, pairs, i
                    )


@inlined
def _bayes_pairs(
    paths: Paths,
    votes: BitVotes,
    couple: Floats,
    room: FreeRoom,
    leaf: Any,
    a: Any,
    b: Any,
    scale: float,
    pairs: Floats,
    i: Any,
) -> None:
    """Add the interactions of one background row, for which `room.answer` has the answer for each subset of F."""
    bit, _, many = leaf
    first, last = paths.start[bit], paths.start[bit + 1]
    begin = np.int64(votes.head[bit, 2])
    answers, sizes, free = room.answer, room.size, room.free
    p, n = count_bits(a), count_bits(b)
    weight = couple[p + n + many]
    both, split, neither = 0.0, 0.0, 0.0
    for subset in range(1 << many):
        size = p + sizes[subset]
        answer = scale * answers[subset]
        both += answer * weight[size]
        split -= answer * weight[size + 1]
        neither += answer * weight[size + 2]
    _on_path(paths, bit, a, b, both, split, neither, pairs, i)
    for at in range(many):
        mine, feature = 1 << at, np.int64(votes.term[begin + free[at], 0])
        with_a, with_b = 0.0, 0.0
        for subset in range(1 << many):
            size = p + sizes[subset]
            answer = scale * answers[subset]
            with_a += answer * (weight[size] if subset & mine else -weight[size + 1])
            with_b += answer * (-weight[size + 1] if subset & mine else weight[size + 2])
        for j in range(last - first):
            if a >> np.uint64(j) & _ONE:
                _add(pairs, i, paths.feature[first + j], feature, with_a)
            elif b >> np.uint64(j) & _ONE:
                _add(pairs, i, paths.feature[first + j], feature, with_b)
        for before in range(at):
            others, amount = 1 << before, 0.0
            for subset in range(1 << many):
                size = p + sizes[subset]
                has = (subset & mine != 0) + (subset & others != 0)
                amount += scale * answers[subset] * (-weight[size + 1] if has == 1 else weight[size + 2 - has])
            _add(pairs, i, np.int64(votes.term[begin + free[before], 0]), feature, amount)


@bare_kernel
def add_linear_pairs(
    sets: LeafSets,
    paths: Paths,
    of: Array,
    means: Means,
    factor: Floats,
    given: tuple[Floats, Floats],
    row_places: Array,
    couple: Floats,
    side: Array,
    found: Reached,
    pairs: Floats,
) -> None:
    """Add the interactions in leaves that answer a linear form; parameters are those of `leaf_games.add_linear`."""
    rows, background = given
    start, slot, slope = means.start, means.slot, means.weight
    for i in range(rows.shape[0]):
        for nth in range(reach(sets, paths, of, 0, row_places, i, found)):
            bit, pattern = found.bit[nth], found.pattern[nth]
            number = sets.leaf[bit]
            first, last = paths.start[bit], paths.start[bit + 1]
            full = (_ONE << np.uint64(last - first)) - _ONE
            scale = factor[bit] / paths.rows
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
                    side[paths.feature[first + j]] = 1 if from_row else 2 if from_other else 0
                # A term of F that differs is the same game with one more feature in A.
                weight, more_weight = couple[p + n], couple[p + n + 1]
                fixed, moved = scale * means.value[number] * (end - begin), 0.0
                for at in range(start[number], start[number + 1]):
                    f = slot[at]
                    x, more = or_zero(rows[i, f]), 0.0
                    for row in range(begin, end):
                        y = or_zero(background[paths.order[bit, row], f])
                        fixed += scale * slope[at] * (x if side[f] == 1 else y)
                        more += scale * slope[at] * (x - y)
                    if side[f] != 0:
                        continue
                    moved += more
                    for j in range(last - first):
                        if a >> np.uint64(j) & _ONE:
                            _add(pairs, i, paths.feature[first + j], f, more * more_weight[p + 1])
                        elif b >> np.uint64(j) & _ONE:
                            _add(pairs, i, paths.feature[first + j], f, -more * more_weight[p + 2])
                _on_path(
                    paths,
                    bit,
                    a,
                    b,
                    fixed * weight[p] + moved * more_weight[p + 1],
                    -fixed * weight[p + 1] - moved * more_weight[p + 2],
                    fixed * weight[p + 2] + moved * more_weight[p + 3],
                    pairs,
                    i,
                )
                for j in range(last - first):
                    side[paths.feature[first + j]] = 0
