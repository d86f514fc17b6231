"""Exact interventional Shapley values of naive Bayes leaves, whose answers depend on all features of the row.

Such a leaf is a game over A, N and the further features F, in the words of
`glasstream.models.predictors.kernels.leaf_games`: all subsets of F are evaluated.
"""

import math
from typing import Any, Final, NamedTuple

import numpy as np

from glasstream.base.jit import bare_kernel, inlined
from glasstream.models.predictors.arrays import Array
from glasstream.models.predictors.kernels.bit_votes import BitVotes
from glasstream.models.predictors.kernels.leaf_games import MOST_CELLS, MOST_FREE, Paths, Reached, count_bits, reach
from glasstream.models.predictors.kernels.leaf_sets import LeafSets
from glasstream.models.predictors.kernels.leaf_streams import lowest_bit
from glasstream.models.predictors.kernels.walk import find, log_density
from glasstream.models.predictors.predictor import Floats, Integers

_SAFE: Final = 600.0
"""Largest log odds that are multiplied as odds: far from where they leave the range of numbers."""
_ONE = np.uint64(1)


class BayesRows(NamedTuple):
    """Log odds that the background rows have in naive Bayes leaves, and where their features are.

    Attributes
    ----------
    place
        int64[M]: for each term the place of its feature on the path of its leaf, or -1.
    start, log
        int64[B], float64[.]: for each bit where its log odds start: at [row, term, entry], for the rows in the order of
        `Paths.order`, what the term adds to the log of each entry but the first, less what it adds to that of the
        first.
    """

    place: Array
    start: Array
    log: Floats


def bayes_rows(sets: LeafSets, paths: Paths, votes: BitVotes, background: Floats) -> BayesRows | None:
    """Return those of background rows float64[R, d]; None if they would take too much memory."""
    head, term = votes.head.astype(np.int64), votes.term
    sizes = np.where(votes.bayes, (head[:, 3] - head[:, 2]) * (head[:, 1] - 1) * len(background), 0)
    ends = np.cumsum(sizes)
    if ends[-1] > MOST_CELLS:
        return None
    place, logs = np.full(len(term), -1), np.zeros(int(ends[-1]))
    _read_background(paths, votes, background, ends - sizes, place, logs)
    return BayesRows(place, ends - sizes, logs)


@bare_kernel
def _read_background(
    paths: Paths, votes: BitVotes, background: Floats, start: Array, place: Array, logs: Floats
) -> None:
    head, term = votes.head, votes.term
    for bit in range(start.size):
        if not votes.bayes[bit]:
            continue
        count, first, last = np.int64(head[bit, 1]), np.int64(head[bit, 2]), np.int64(head[bit, 3])
        for at in range(first, last):
            for j in range(paths.start[bit], paths.start[bit + 1]):
                if paths.feature[j] == term[at, 0]:
                    place[at] = j - paths.start[bit]
        to = start[bit]
        for nth in range(background.shape[0]):
            for at in range(first, last):
                term_logs(votes, at, background[paths.order[bit, nth], term[at, 0]], count, logs, to)
                to += count - 1


@inlined
def term_logs(votes: BitVotes, at: Any, x: float, count: Any, out: Floats, to: Any) -> None:
    """Write to `out` from `to` on what a term adds to the log odds of each entry but the first for the value `x`."""
    for j in range(count - 1):
        out[to + j] = 0.0
    if x != x:
        return
    low, high = np.int64(votes.term[at, 1]), np.int64(votes.term[at, 2])
    if high < 0:
        density = votes.density
        one = log_density(x, density[low, 0], density[low, 1], density[low, 2])
        for j in range(1, count):
            row = low + j
            out[to + j - 1] = log_density(x, density[row, 0], density[row, 1], density[row, 2]) - one
    else:
        case = find(votes.category, low, high, x)
        if case >= 0:
            base = np.int64(votes.term[at, 3]) + (case - low) * count
            for j in range(1, count):
                out[to + j - 1] = votes.log[base + j] - votes.log[base]


class FreeRoom(NamedTuple):
    """Scratch space for a leaf whose answer depends on further features F. Log odds are those of `BayesRows`.

    Attributes
    ----------
    own
        float64[terms (entries - 1)]: log odds of the row.
    other, free
        int64[terms]: the terms of features of F and N, and those of F whose value differs.
    base
        float64[entries - 1]: log odds if none of F comes from the row.
    odds
        float64[(entries - 1) 2 ** MOST_FREE]: for each entry and subset of F, if it comes from the row.
    answer, total
        float64[2 ** MOST_FREE]: the share of an entry for each subset; and a sum of these.
    held
        int64[MOST_FREE]: the terms of F of the background rows that `total` is of.
    size
        int64[2 ** MOST_FREE]: the number of features in each subset.
    shares
        float64[terms]: the Shapley values of the features of the terms.
    prior, less
        float64[entries - 1], float64[terms (entries - 1)]: log odds if all of F and N came from the row, and how much
        the value of each term differs.
    both
        float64[2 ** MOST_FREE]: what each subset adds for a feature in it, plus what it takes away for one not in it.
    """

    own: Floats
    other: Array
    free: Array
    base: Floats
    odds: Floats
    answer: Floats
    total: Floats
    held: Array
    size: Array
    shares: Floats
    prior: Floats
    less: Floats
    both: Floats


def free_room(votes: BitVotes) -> FreeRoom:
    """Return scratch space for these leaves."""
    subsets, terms = 1 << MOST_FREE, int(np.max(votes.head[:, 3] - votes.head[:, 2], initial=1))
    return FreeRoom(
        np.empty(terms * votes.most),
        np.empty(terms, np.int64),
        np.empty(terms + 1, np.int64),
        np.empty(votes.most),
        np.empty(subsets * votes.most),
        np.empty(subsets),
        np.empty(subsets),
        np.empty(MOST_FREE, np.int64),
        np.array([subset.bit_count() for subset in range(subsets)]),
        np.empty(terms),
        np.empty(votes.most),
        np.empty((terms + 1) * votes.most),
        np.empty(subsets),
    )


@bare_kernel
def add_bayes(
    sets: LeafSets,
    paths: Paths,
    of: Array,
    votes: BitVotes,
    known: BayesRows,
    factor: Floats,
    rows: Floats,
    output: Integers,
    row_places: Array,
    coalition: Floats,
    room: FreeRoom,
    found: Reached,
    values: Floats,
    exact: Array,
) -> None:
    """Add the Shapley values of naive Bayes leaves; parameters are those of `leaf_games.add_constant`, and:

    Parameters
    ----------
    of
        uint64[1, B / 64]: the leaves, as bits.
    factor
        float64[B]: what the shares of each leaf are multiplied with.
    rows
        float64[n, d]
    coalition
        See `leaf_games.coalitions`.
    exact
        bool[n]: set to False where a leaf depends on more than `MOST_FREE` further features. The values of such a row
        are not complete.
    """
    own, shares = room.own, room.shares
    head, label, term = votes.head, votes.label, votes.term
    feature = paths.feature
    backgrounds = paths.rows
    for i in range(rows.shape[0]):
        column = output[i]
        if column < 0:
            continue
        for nth in range(reach(sets, paths, of, 0, row_places, i, found)):
            bit, pattern = found.bit[nth], found.pattern[nth]
            first, last = paths.start[bit], paths.start[bit + 1]
            entry, count = np.int64(head[bit, 0]), np.int64(head[bit, 1])
            begin, terms = np.int64(head[bit, 2]), np.int64(head[bit, 3] - head[bit, 2])
            which = -1
            for j in range(count):
                if label[entry + j] == column:
                    which = j
            if which < 0:
                continue
            full = (_ONE << np.uint64(last - first)) - _ONE
            scale = factor[bit] / backgrounds
            unread = True
            for k in range(terms):
                shares[k] = 0.0
            end = 0
            for group in range(paths.distinct_start[bit], paths.distinct_start[bit + 1]):
                begin_row, end = end, paths.distinct_end[group]
                other = paths.distinct[group]
                if pattern | other != full:
                    continue
                if unread:
                    unread = False
                    for k in range(terms):
                        x = rows[i, np.int64(term[begin + k, 0])]
                        term_logs(votes, begin + k, x, count, own, k * (count - 1))
                a, b = pattern & ~other, other & ~pattern
                part = (bit, begin_row, end, which)
                win, lose, fits = _bayes_group(votes, known, coalition, room, part, a, b)
                exact[i] &= fits
                while a:
                    values[i, feature[first + np.int64(lowest_bit(a))]] += scale * win
                    a &= a - _ONE
                while b:
                    values[i, feature[first + np.int64(lowest_bit(b))]] -= scale * lose
                    b &= b - _ONE
            for k in range(terms):
                values[i, np.int64(term[begin + k, 0])] += scale * shares[k]


@inlined
def _bayes_group(
    votes: BitVotes, known: BayesRows, coalition: Floats, room: FreeRoom, part: Any, a: Any, b: Any
) -> tuple[float, float, bool]:
    """Play the games of a naive Bayes leaf with a group of background rows that have the same pattern.

    Return what each feature of A gets, and what each of N loses, and whether all games were small enough. The values of
    the features of F are added to `room.shares`.
    """
    bit, begin_row, end_row, which = part
    free, held, total = room.free, room.held, room.total
    p, n = count_bits(a), count_bits(b)
    win, lose, fits, size = 0.0, 0.0, True, -1
    others, readers = read_terms(votes, known, room, bit, a, b)
    for row in range(begin_row, end_row):
        many = answers_of_subsets(votes, known, room, bit, row, others, readers, which)
        if many > MOST_FREE:
            fits = False
            continue
        # Rows with the same F have the same weights: their answers are added first.
        same = many == size
        for at in range(many if same else 0):
            same &= free[at] == held[at]
        if not same:
            gained, lost = _deal(coalition, room, p, n, size)
            win += gained
            lose += lost
            size = many
            for at in range(many):
                held[at] = free[at]
            for subset in range(1 << many):
                total[subset] = 0.0
        for subset in range(1 << many):
            total[subset] += room.answer[subset]
    gained, lost = _deal(coalition, room, p, n, size)
    return win + gained, lose + lost, fits


@inlined
def _deal(coalition: Floats, room: FreeRoom, p: Any, n: Any, many: Any) -> tuple[float, float]:
    """Add to `room.shares` what the features of F get of `room.total`; nothing if `many` is -1.

    Return what each feature of A gets, and what each of N loses.
    """
    if many < 0:
        return 0.0, 0.0
    weight, both, lose = coalition[p + n + many], room.both, 0.0
    for subset in range(1 << many):
        answer, size = room.total[subset], p + room.size[subset]
        lost = answer * weight[size + 1]
        lose += lost
        both[subset] = answer * weight[size] + lost
    # A feature gets what the subsets with it add, less what those without it take away.
    for at in range(many - 1, -1, -1):
        top, added = 1 << at, 0.0
        for subset in range(top):
            more = both[top + subset]
            added += more
            both[subset] += more
        room.shares[room.held[at]] += added - lose
    return both[0] - lose, lose


@inlined
def read_terms(votes: BitVotes, known: BayesRows, room: FreeRoom, bit: Any, a: Any, b: Any) -> tuple[int, int]:
    """Write to `room.other` the terms that read F, then those that read N; the others read A.

    Return the number of the former, and of both. `room.prior` gets the log odds if all features came from the row.
    """
    own, other = room.own, room.other
    entry, each = np.int64(votes.head[bit, 0]), np.int64(votes.head[bit, 1]) - 1
    begin, terms = np.int64(votes.head[bit, 2]), np.int64(votes.head[bit, 3] - votes.head[bit, 2])
    others = 0
    for k in range(terms):
        place = np.uint64(known.place[begin + k])
        if known.place[begin + k] < 0 or not (a | b) >> place & _ONE:
            other[others] = k
            others += 1
    readers = others
    for k in range(terms):
        if known.place[begin + k] >= 0 and b >> np.uint64(known.place[begin + k]) & _ONE:
            other[readers] = k
            readers += 1
    for j in range(each):
        prior = votes.vote[entry + 1 + j] - votes.vote[entry]
        for k in range(terms):
            prior += own[k * each + j]
        room.prior[j] = prior
    return others, readers


@inlined
def answers_of_subsets(
    votes: BitVotes, known: BayesRows, room: FreeRoom, bit: Any, row: Any, others: Any, readers: Any, which: Any
) -> int:
    """Write to `room.answer` the share of an entry for each subset of F and one background row; return the size of F.

    `room.free` gets the terms of F. If F has more than `MOST_FREE` features, there are no answers.
    """
    own, other, free, base = room.own, room.other, room.free, room.base
    each = np.int64(votes.head[bit, 1]) - 1
    terms = np.int64(votes.head[bit, 3] - votes.head[bit, 2])
    begin = np.uint64(known.start[bit] + row * terms * each)
    many, most = 0, 0.0
    for j in range(each):
        base[j] = room.prior[j]
    for at in range(readers):
        first = np.uint64(other[at] * each)
        differs = False
        for j in range(each):
            less = own[first + np.uint64(j)] - known.log[begin + first + np.uint64(j)]
            base[j] -= less
            room.less[many * each + j] = less
            differs |= less != 0.0
        free[many] = other[at]
        many += differs and at < others
    if many > MOST_FREE:
        return many
    for j in range(each):
        size = abs(base[j])
        for at in range(many):
            size += abs(room.less[at * each + j])
        most = max(most, size)
    if most < _SAFE:
        _multiply(room, each, which, many)
    else:
        _add_up(room, each, which, many)
    return many


@inlined
def _multiply(room: FreeRoom, each: Any, which: Any, many: Any) -> None:
    """Write the answers by products of odds: an exponential for each feature, in place of one for each subset."""
    odds, answer, size = room.odds, room.answer, 1 << many
    for j in range(each):
        start = j * size
        odds[start] = math.exp(room.base[j])
        for at in range(many):
            top, ratio = 1 << at, math.exp(room.less[at * each + j])
            for subset in range(top):
                odds[start + top + subset] = odds[start + subset] * ratio
    for subset in range(size):
        answer[subset] = 1.0
    for j in range(each):
        for subset in range(size):
            answer[subset] += odds[j * size + subset]
    if which:
        for subset in range(size):
            answer[subset] = odds[(which - 1) * size + subset] / answer[subset]
    else:
        for subset in range(size):
            answer[subset] = 1.0 / answer[subset]


@inlined
def _add_up(room: FreeRoom, each: Any, which: Any, many: Any) -> None:
    """Write the answers by sums of log odds, of any size."""
    odds = room.odds
    for j in range(each):
        odds[j] = room.base[j]
    for at in range(many):
        top = 1 << at
        for j in range(each):
            less = room.less[at * each + j]
            for subset in range(top):
                odds[(top + subset) * each + j] = odds[subset * each + j] + less
    for subset in range(1 << many):
        room.answer[subset] = _share_of(odds, subset * each, each, which)


@inlined
def _share_of(odds: Floats, first: Any, each: Any, which: Any) -> float:
    """Return the share of an entry, from the log odds of all entries but the first."""
    if each == 1:
        return 1.0 / (1.0 + math.exp(-odds[first] if which else odds[first]))
    own = odds[first + which - 1] if which else 0.0
    total = math.exp(-own)
    for j in range(each):
        total += math.exp(odds[first + j] - own)
    return 1.0 / total
