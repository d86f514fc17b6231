"""Numbers, sums and squares of the loss in bins of features, and in cells of pairs of them.

Rows are added to a block. When a block of `BLOCK` rows is full, its excess of loss, the loss less the mean loss of the
block, is added to sums that forget earlier blocks with a half-life of `HALF_LIFE` blocks. So a loss that rises or falls
for all rows leaves no trace, whenever the rows of a cell occur.

Candidates for weak segments are intervals of bins of numbers, and single categories, and boxes of two of these
(a lattice of slices: Chung, Kraska, Polyzotis et al. 2019; Sagadeeva, Boehm 2021). They are ranked by Welch's
statistic: of an interval compared with all other rows; of a box by the least of three: compared with all other rows,
and with the rest of each of its two intervals.
"""

from typing import Final

import numpy as np

from glasstream.base.jit import bare_kernel, kernel

BLOCK: Final = 1_000
"""Number of rows of a block."""

HALF_LIFE: Final = 5
"""Number of blocks after which a block has half its weight when candidates are chosen."""

CUTS: Final = 7
"""Most cuts between the bins of a feature, or categories that have a bin of their own."""

BINS: Final = CUTS + 2
"""Number of bins. Bin 0 is for missing values; that of other categories comes after those of the categories."""

BOX: Final = 6
"""Numbers by which a candidate is stored: slot, first and last bin, and those of the second feature, or -1, 0, 0."""

CANDIDATES: Final = 10
"""Candidates of a cohort: half of them intervals of different features, half boxes of different pairs."""

COMMON: Final = CANDIDATES * (CANDIDATES - 1) // 2
"""Pairs of candidates i < j, in the order of j (j - 1) / 2 + i."""

COMPARED: Final = 3
"""Comparisons of a candidate: with all other rows and, for a box, with the rest of its first and second interval."""

SUMS: Final = 6
"""Sums of a comparison over blocks: numbers of rows inside and of those compared, and the loss inside; its excess over
the mean loss of the compared rows of the same block, the squares of that excess, and the squared errors of the
expectation of the excess.
"""

_SMALLEST, _LARGEST_SHARE = 0.01, 0.5  # shares of the rows that a candidate may have
_FEWEST = 25.0  # rows of a part, with their weights
_ONE = np.uint64(1)


@bare_kernel
def place_of(value, cuts, used, category):  # type: ignore[no-untyped-def]
    """Return the bin of a value: 0 if it is missing or the feature has no bins."""
    if np.isnan(value) or used < 0:
        return 0
    if category:
        for cut in range(used):
            if cuts[cut] == value:
                return cut + 1
        return used + 1
    place = 1
    for cut in range(cuts.size):  # without branches: four times as fast
        place += (cut < used) & (value >= cuts[cut])
    return place


@bare_kernel
def _add(cell, loss):  # type: ignore[no-untyped-def]
    cell[0] += 1.0
    cell[1] += loss
    cell[2] += loss * loss


@bare_kernel
def _mark(candidates, holds):  # type: ignore[no-untyped-def]
    """Set in `holds[s, bin]` the bit of each candidate that a value of feature s in this bin fulfils.

    The bit of candidate j of cohort c is CANDIDATES c + j. Return all bits.
    """
    every = np.uint64(0)
    for c in range(len(candidates)):
        for j in range(CANDIDATES):
            if candidates[c, j, 0] >= 0:
                every |= _ONE << np.uint64(CANDIDATES * c + j)
    for s in range(len(holds)):
        for place in range(holds.shape[1]):
            holds[s, place] = every
    for c in range(len(candidates)):
        for j in range(CANDIDATES):
            for side in range(0, BOX if candidates[c, j, 0] >= 0 else 0, 3):
                slot, first, last = candidates[c, j, side], candidates[c, j, side + 1], candidates[c, j, side + 2]
                for place in range(holds.shape[1] if slot >= 0 else 0):
                    if place < first or place > last:
                        holds[slot, place] &= ~(_ONE << np.uint64(CANDIDATES * c + j))
    return every


@bare_kernel
def add_rows(  # type: ignore[no-untyped-def]
    inputs, losses, importance, cuts, used, categories, chosen, candidates, places, holds,
    singles, pairs, common, whole, importances
):  # fmt: skip
    """Add rows to the block.

    Parameters
    ----------
    inputs, losses, importance
        (n, w), (n,) and (n, v) of the rows; later features have no value, and no importance.
    cuts, used, categories
        (d, k), (d,) and (d,) of the features, each with at most k cuts. Weak segments have k = `CUTS`; below, `BINS`
        stands for k + 2.
    chosen
        (m,) slots of the features in pairs.
    candidates
        (c, CANDIDATES, BOX) of all cohorts, at most 64 in all; slot -1 for none.
    places, holds
        int64[d] and uint64[d, BINS] scratch.
    singles, pairs, common, whole
        (d, BINS, 3), (m (m - 1) / 2, BINS, BINS, 3), (c, COMMON, 3) and (3,) numbers, sums and squares, which grow.
        `common` is of the rows that are in both candidates of a pair.
    importances
        (d,) sums, which grow.
    """
    every = _mark(candidates, holds)
    for i in range(losses.size):
        loss, held = losses[i], every
        _add(whole, loss)
        for s in range(used.size):
            places[s] = place_of(inputs[i, s], cuts[s], used[s], categories[s]) if s < inputs.shape[1] else 0
            _add(singles[s, places[s]], loss)
            held &= holds[s, places[s]]
            if s < importance.shape[1]:
                importances[s] += importance[i, s]
        pair = 0
        for second in range(chosen.size):
            for first in range(second):
                _add(pairs[pair, places[chosen[first]], places[chosen[second]]], loss)
                pair += 1
        for c in range(len(candidates)):
            bits = held >> np.uint64(CANDIDATES * c)
            for j in range(1, CANDIDATES):
                if bits >> np.uint64(j) & _ONE:
                    for k in range(j):
                        if bits >> np.uint64(k) & _ONE:
                            _add(common[c, j * (j - 1) // 2 + k], loss)


@bare_kernel
def _welch(count, excess, squares, other_count, other_excess, other_squares):  # type: ignore[no-untyped-def]
    """Return the difference of two mean excesses in standard errors; 0 if either part is too small."""
    if count < _FEWEST or other_count < _FEWEST:
        return 0.0
    error = squares / (count * count) + other_squares / (other_count * other_count)
    return (excess / count - other_excess / other_count) / np.sqrt(error) if error > 0.0 else 0.0


@bare_kernel
def _compared(part, whole):  # type: ignore[no-untyped-def]
    """Return the statistic of a part compared with the rest of a whole."""
    return _welch(part[0], part[1], part[2], whole[0] - part[0], whole[1] - part[1], whole[2] - part[2])


@bare_kernel
def _last(first, used, category):  # type: ignore[no-untyped-def]
    """Return the last bin of the longest interval from a bin on."""
    return first if category or first == 0 else used + 1


@bare_kernel
def _is_candidate(first, last, used, category):  # type: ignore[no-untyped-def]
    """Return whether bins are an interval: not all bins of values, and no other categories."""
    return not (category and first == used + 1) and not (first == 1 and last == used + 1)


def is_interval(first: int, last: int, used: int, category: bool) -> bool:
    """Return whether these bins of a feature can be a candidate."""
    longest = first if category or first == 0 else used + 1
    return 0 <= first <= last <= longest <= used + 1 and bool(_is_candidate(first, last, used, category))


@bare_kernel
def _fits(part, whole):  # type: ignore[no-untyped-def]
    return part[0] >= max(_FEWEST, _SMALLEST * whole[0]) and part[0] <= _LARGEST_SHARE * whole[0]


@kernel
def best_intervals(singles, used, categories):  # type: ignore[no-untyped-def]
    """Return (d,) the largest statistic of the intervals of each feature, (d, 2) these, and how many were compared.

    The statistic is 0 where none is larger.
    """
    width = used.size
    scores, bins, looked = np.zeros(width), np.zeros((width, 2), np.int64), 0
    for s in range(width):
        if used[s] < 0:
            continue
        whole = np.zeros(3)
        for place in range(singles.shape[1]):
            whole += singles[s, place]
        for first in range(used[s] + 2):
            part = np.zeros(3)
            for last in range(first, _last(first, used[s], categories[s]) + 1):
                part += singles[s, last]
                if not _is_candidate(first, last, used[s], categories[s]) or not _fits(part, whole):
                    continue
                looked += 1
                score = _compared(part, whole)
                if score > scores[s]:
                    scores[s], bins[s, 0], bins[s, 1] = score, first, last
    return scores, bins, looked


@kernel
def best_boxes(pairs, chosen, used, categories):  # type: ignore[no-untyped-def]
    """Return (p,) the largest statistic of the boxes of each pair, (p, BOX) these, and how many were compared."""
    scores, boxes, looked = np.zeros(len(pairs)), np.zeros((len(pairs), BOX), np.int64), 0
    bins = pairs.shape[1]
    row, column, part = np.zeros((bins, 3)), np.zeros((bins, 3)), np.zeros(3)
    whole, of_row, of_column = np.zeros(3), np.zeros(3), np.zeros(3)
    pair = -1
    for second in range(chosen.size):
        for first in range(second):
            pair += 1
            a, b = chosen[first], chosen[second]
            cells = pairs[pair]
            if used[a] < 0 or used[b] < 0:
                continue
            column[:] = 0.0
            for i in range(bins):
                for j in range(bins):
                    for k in range(3):
                        column[j, k] += cells[i, j, k]
            whole[:] = 0.0
            for j in range(bins):
                for k in range(3):
                    whole[k] += column[j, k]
            for low in range(used[a] + 2):
                row[:] = 0.0
                of_row[:] = 0.0
                for high in range(low, _last(low, used[a], categories[a]) + 1):
                    for j in range(bins):
                        for k in range(3):
                            row[j, k] += cells[high, j, k]
                            of_row[k] += cells[high, j, k]
                    if not _is_candidate(low, high, used[a], categories[a]) or of_row[0] < _FEWEST:
                        continue
                    for left in range(used[b] + 2):
                        part[:] = 0.0
                        of_column[:] = 0.0
                        for right in range(left, _last(left, used[b], categories[b]) + 1):
                            for k in range(3):
                                part[k] += row[right, k]
                                of_column[k] += column[right, k]
                            if not _is_candidate(left, right, used[b], categories[b]) or not _fits(part, whole):
                                continue
                            looked += 1
                            score = _compared(part, whole)
                            if score > scores[pair]:
                                score = min(score, _compared(part, of_row))
                            if score > scores[pair]:
                                score = min(score, _compared(part, of_column))
                            if score > scores[pair]:
                                scores[pair] = score
                                box = boxes[pair]
                                box[0], box[1], box[2], box[3], box[4], box[5] = a, low, high, b, left, right
    return scores, boxes, looked


@bare_kernel
def _tally(sums, part, others):  # type: ignore[no-untyped-def]
    """Add the rows of a block to the sums of a comparison of a part with others."""
    if part[0] < 1.0 or others[0] < 2.0:
        return
    mean = others[1] / others[0]
    spread = max(0.0, others[2] - others[1] * mean) / (others[0] - 1.0)
    sums[0] += part[0]
    sums[1] += others[0]
    sums[2] += part[1]
    sums[3] += part[1] - part[0] * mean
    sums[4] += max(0.0, part[2] - 2.0 * mean * part[1] + part[0] * mean * mean)
    sums[5] += part[0] * part[0] * spread / others[0]


@kernel
def tally(candidates, tested, common, apart, chosen, singles, pairs, whole):  # type: ignore[no-untyped-def]
    """Add the block to the sums of the candidates of a cohort.

    Parameters
    ----------
    candidates
        (CANDIDATES, BOX); slot -1 for none.
    tested
        (CANDIDATES, COMPARED, SUMS), which grow.
    common
        (COMMON, 3); see `add_rows`.
    apart
        (CANDIDATES, CANDIDATES, SUMS), which grow: of the rows of one candidate that are not in another one, compared
        with all rows that are in neither.
    chosen, singles, pairs, whole
        See `add_rows`.
    """
    parts, of_row, of_column = np.zeros((CANDIDATES, 3)), np.zeros(3), np.zeros(3)
    for c in range(CANDIDATES):
        a, low, high, b, left, right = candidates[c]
        if a < 0:
            continue
        part = parts[c]
        if b < 0:
            for i in range(low, high + 1):
                part += singles[a, i]
            _tally(tested[c, 0], part, whole - part)
            continue
        of_row[:] = 0.0
        of_column[:] = 0.0
        first, second = np.searchsorted(chosen, a), np.searchsorted(chosen, b)
        cells = pairs[second * (second - 1) // 2 + first]
        for i in range(BINS):
            for j in range(BINS):
                if low <= i <= high:
                    of_row += cells[i, j]
                    if left <= j <= right:
                        part += cells[i, j]
                if left <= j <= right:
                    of_column += cells[i, j]
        _tally(tested[c, 0], part, whole - part)
        _tally(tested[c, 1], part, of_row - part)
        _tally(tested[c, 2], part, of_column - part)
    for j in range(CANDIDATES):
        for i in range(j):
            both = common[j * (j - 1) // 2 + i]
            neither = whole - parts[i] - parts[j] + both
            _tally(apart[i, j], parts[i] - both, neither)
            _tally(apart[j, i], parts[j] - both, neither)
