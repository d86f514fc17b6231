"""Bets against "nothing has changed", in one kernel call for many rows and series.

Values (features, labels) are tested for exchangeability. As long as nothing changes, the rank of a value among all
earlier ones, with ties broken at random, is uniform and independent of the past (Vovk, Gammerman, Shafer 2005,
theorem 8.2). Levels (loss, importance) are tested for a change of their mean.

A bet multiplies a wealth whose mean does not rise as long as nothing changes. The sum of the wealths of a bet that
restarts at every row, the Shiryaev-Roberts statistic, is an e-detector (Shin, Ramdas, Rinaldo 2024, definition 2.2):
the expected number of rows until it first exceeds A is at least A. The mean of several bets is one, too. For ranks this
holds exactly. For levels it holds as far as the mean of the rows before is known.

If rows resemble their neighbours, a bet plays once for each block of rows, with the geometric mean of its factors. If
the expectation of each factor is 1, that of the geometric mean is at most 1, whatever the dependence within the block
(Hölder's inequality). Blocks depend on each other, too. Their length is therefore the integrated autocorrelation time:
with it, the logarithm of the wealth has the variance that it has for as many independent rows as there are blocks.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from glasstream.base.draws import Purpose, uniform
from glasstream.base.jit import bare_kernel, kernel

EDGES: Final = 16
"""Most edges of a series. Values between two edges share a bin, and each edge has a bin of its own."""

BINS: Final = 2 * EDGES + 2
"""Number of bins. Bin 0 is for missing values."""

TILTS: Final = 10
"""Bets on a rank: up and down, gently, boldly and slightly; outwards and inwards; lowest and highest ranks."""

CELLS: Final = 16
"""Further bets on a rank: on each of so many equal parts of its range."""

VALUE_BETS: Final = TILTS + CELLS
"""All bets on a rank."""

CELL_BLOCKS: Final = 16
"""Number of blocks after which bets on cells are played."""

STARTS: Final = TILTS + CELLS / CELL_BLOCKS
"""Number of times that bets on a rank are begun at each block, on average."""

LEVEL_BETS: Final = 6
"""Bets on a level: three sizes upwards, and the same downwards."""

MEMORY: Final = 2_000.0
"""Number of rows over which the mean of a level is taken."""

FURTHEST: Final = 8.0
"""Standard deviations of a level: larger deviations count as this one."""

WARM_UP: Final = 300.0
"""Number of rows from which on the mean loss is known."""

SCALES: Final = 8
"""Number of lengths of sums that tell how much rows depend on each other: 1, 2, 4, ..., 128 rows."""

LEVEL_SCALES: Final = 5
"""Number of these lengths that count for levels: longer sums vary because the model learns."""

LEARNING: Final = 2_000.0
"""Number of rows in which the importance of features changes because the model learns."""

LONGEST: Final = 50
"""Largest number of rows of a block."""

STRONG: Final = 0.03
"""Share of its limit from which on the wealth of a series is strong evidence. Such a series keeps the length of its
blocks, because a change makes rows resemble each other, which would hide it.
"""

STILL: Final = 150
"""Number of equal values in a row from which on a feature may have frozen."""

VARIED: Final = 0.95
"""Share that the most frequent value of a feature has at most if it was not constant."""

MOST_WEALTH: Final = 1e200
"""Largest wealth of a bet."""

_RECENT = 500.0  # most rows over which the mean loss of a bin is taken
_OUTLIER = 100.0  # standard deviations: larger deviations of a level count as this one in its variance
_ROBUST_FROM = 100.0  # rows
_STILL_STEP = 50  # rows of a run after which its evidence is looked at
_SELDOM = 16  # rows after which a block of one row may become longer
_FEWEST_SUMS = 15  # that tell how much sums vary
_EXCESS, _ERRORS = 0.1, 2.5  # least excess of a variance that matters, and by how many standard errors it exceeds this
_LEAST = 0.04
_TAIL = 0.02
_TAIL_BET = 0.1
_SLIGHTLY = 0.15
_CELL_BET = 0.1
_HIT, _MISS = 1.0 + _CELL_BET * (CELLS - 1.0), 1.0 - _CELL_BET
_UPWARDS, _BOTH_WAYS = 0.3, 0.12  # stake per standard deviation
_PURPOSE = int(Purpose.INCIDENT)


@bare_kernel
def bin_of(value, edges, used):  # type: ignore[no-untyped-def]
    """Return the bin of a value: 0 if it is missing, odd between two edges, even on an edge."""
    if np.isnan(value):
        return 0
    low, high = 0, used
    while low < high:
        middle = (low + high) // 2
        if edges[middle] < value:
            low = middle + 1
        else:
            high = middle
    if low < used and edges[low] == value:
        return 2 * low + 2
    return 2 * low + 1


@bare_kernel
def _rank(place, counts, draw):  # type: ignore[no-untyped-def]
    """Return the rank of a value of a bin among all counted values, as a share; `draw` breaks ties."""
    below = 0.0
    for i in range(place):
        below += counts[i]
    return (below + draw * (counts[place] + 1.0)) / (counts[BINS] + 1.0)


@bare_kernel
def _cell_of(rank):  # type: ignore[no-untyped-def]
    """Return the part of the range of ranks in which a rank lies."""
    return min(CELLS - 1, int(rank * CELLS))


@bare_kernel
def factor_of(bet, rank):  # type: ignore[no-untyped-def]
    """Return the factor by which a bet on a rank multiplies its wealth. Its mean over uniform ranks is 1."""
    v = 2.0 * rank - 1.0
    if bet == 0:
        return 1.0 + 0.5 * v
    if bet == 1:
        return 1.0 - 0.5 * v
    if bet == 2:
        return 1.0 + 0.95 * v
    if bet == 3:
        return 1.0 - 0.95 * v
    if bet == 4:
        return 1.0 + 0.45 * (3.0 * v * v - 1.0)
    if bet == 5:
        return 1.0 - 0.45 * (3.0 * v * v - 1.0)
    if bet == 8:
        return 1.0 + _SLIGHTLY * v
    if bet == 9:
        return 1.0 - _SLIGHTLY * v
    if bet >= TILTS:
        return _HIT if _cell_of(rank) == bet - TILTS else _MISS
    hit = rank < _TAIL if bet == 6 else rank > 1.0 - _TAIL
    return 1.0 + _TAIL_BET * (1.0 / _TAIL - 1.0) if hit else 1.0 - _TAIL_BET


@bare_kernel
def _play(wealth, best, start, row, factor):  # type: ignore[no-untyped-def]
    """Return a bet's new Shiryaev-Roberts statistic, its CUSUM, and the row at which the CUSUM began."""
    if best <= 1.0:
        best, start = 1.0, row
    return min((wealth + 1.0) * factor, MOST_WEALTH), min(best * factor, MOST_WEALTH), start


@bare_kernel
def _play_block(product, rows, bets, wealth, best, start, row):  # type: ignore[no-untyped-def]
    """Play the bets of a series at the last row of a block, empty their products, and return the summed wealth."""
    together = 0.0
    for bet in range(bets):
        factor = product[bet] if rows == 1 else product[bet] ** (1.0 / rows)
        wealth[bet], best[bet], start[bet] = _play(wealth[bet], best[bet], start[bet], row, factor)
        together += wealth[bet]
        product[bet] = 1.0
    return together


@bare_kernel
def _play_cells(product, cells, wealth, best, start, row):  # type: ignore[no-untyped-def]
    """Play the bets of a series on cells, empty their products, and return the summed wealth.

    Parameters
    ----------
    product
        (VALUE_BETS,) products. Those of cells lack the factor of a miss for every row; a hit has made up for it.
    cells
        (2,) rows and blocks since they were played.
    """
    together, missed, power = 0.0, _MISS ** cells[0], cells[1] / cells[0]
    for bet in range(TILTS, VALUE_BETS):
        factor = product[bet] * missed
        if power < 1.0:
            factor **= power
        wealth[bet], best[bet], start[bet] = _play(wealth[bet], best[bet], start[bet], row, factor)
        together += wealth[bet]
        product[bet] = 1.0
    cells[0] = cells[1] = 0
    return together


@bare_kernel
def add_to_sums(value, rows, memory, open_sums, squares, s, first):  # type: ignore[no-untyped-def]
    """Add a value of a series to its sums of 1, 2, 4, ... rows, and complete sums to the mean square of their length.

    Parameters
    ----------
    rows
        Number of rows so far, this one included.
    memory
        Number of newest rows that the mean squares are taken over.
    open_sums
        Sums that are not complete. Those of the series are in row `s`, from column `first` on.
    squares
        Mean squares of complete sums, divided by their length; in the same places.
    """
    whole, size = value, 1
    for scale in range(first, first + SCALES):
        squares[s, scale] += (whole * whole / size - squares[s, scale]) * min(1.0, size / min(rows, memory))
        size *= 2
        if scale + 1 == first + SCALES:
            return
        open_sums[s, scale + 1] += whole
        if rows % size != 0:
            return
        whole = open_sums[s, scale + 1]
        open_sums[s, scale + 1] = 0.0


@bare_kernel
def block_rows(rows, memory, squares, s, first, scales):  # type: ignore[no-untyped-def]
    """Return how many neighbouring rows tell as much as one independent row: the integrated autocorrelation time.

    The variance of a long sum of rows is this factor times that of a sum of independent rows. The factor of each length
    is estimated from the sums of that length, and the largest that exceeds 1 by more than chance counts (Flyvbjerg,
    Petersen 1989). Short sums underestimate it by a term that falls with their length. Twice the factor, less that of
    half the length, removes this term (lugsail estimators, Vats, Flegal 2022).

    Parameters
    ----------
    rows, memory, squares, s, first
        See `add_to_sums`.
    scales
        Number of lengths that count.
    """
    if squares[s, first] <= 0.0:
        return 1
    longest, half, sums = 1.0, 1.0, min(rows, memory)
    for scale in range(first + 1, first + scales):
        sums *= 0.5
        if sums < _FEWEST_SUMS:
            break
        factor = squares[s, scale] / squares[s, first]
        if factor > 1.0 + _EXCESS + _ERRORS * np.sqrt(2.0 / sums):
            longest = max(longest, factor, 2.0 * factor - half)
        half = factor
    return int(np.ceil(min(LONGEST, longest)))


@bare_kernel
def block_of_values(rows, squares, s):  # type: ignore[no-untyped-def]
    """Return the rows of a block by the ranks of a series and by their squares, whichever has more."""
    return max(block_rows(rows, np.inf, squares, s, 0, SCALES), block_rows(rows, np.inf, squares, s, SCALES, SCALES))


@kernel
def sum_first_ranks(v, open_sums, squares, s):  # type: ignore[no-untyped-def]
    """Add the first ranks of a series, from -1 to 1, to its sums."""
    for i in range(v.size):
        add_to_sums(v[i], i + 1, np.inf, open_sums, squares, s, 0)
    middle = (v * v).mean()
    for i in range(v.size):
        add_to_sums(v[i] * v[i] - middle, i + 1, np.inf, open_sums, squares, s, SCALES)


@bare_kernel
def label_limits(edges, used):  # type: ignore[no-untyped-def]
    """Return the range to which labels are clipped: that of the edges, and once as much on each side."""
    if used < 2:
        return -np.inf, np.inf
    span = edges[used - 1] - edges[0]
    return edges[0] - span, edges[used - 1] + span


@bare_kernel
def tally(values, edges, used, counts, answers):  # type: ignore[no-untyped-def]
    """Count the values of each series by bins, and sum the labels there, without the weight of outliers.

    Parameters
    ----------
    values
        (n, s) values. Series 0 is the label.
    counts, answers
        (s, BINS) numbers and sums, which grow.
    """
    lowest, highest = label_limits(edges[0], used[0])
    for i in range(values.shape[0]):
        label = max(lowest, min(highest, values[i, 0]))
        for s in range(values.shape[1]):
            place = bin_of(values[i, s], edges[s], used[s])
            counts[s, place] += 1.0
            answers[s, place] += label


@bare_kernel
def raise_to_members(block, members, s):  # type: ignore[no-untyped-def]
    """Give a pair at least the block of its features: their level may decide how far their difference varies.

    Parameters
    ----------
    block
        (s,) rows of a block.
    members
        (s, 2) places of the features of each pair; negative for what is no pair.
    """
    if members[s, 0] >= 0:
        block[s] = max(block[s], block[members[s, 0]], block[members[s, 1]])


def has_frozen(present: int, longest: int, values: int, counts: NDArray[np.float64], limit: float) -> bool:
    """Return whether a run of equal values is so long that its feature has frozen.

    If lengths of runs have a geometric tail, the longest of n runs has the length that one run in n exceeds. One run in
    n^k is k times as long, so that one of n^(k - 1) streams has such a run. The feature has frozen if that is less
    probable than an alarm of its bets. There have been at least as many runs as runs of the longest length have room.

    Parameters
    ----------
    present, longest
        Length of the present run, and of the longest one before.
    values, counts
        Number of values before, and (BINS,) their numbers in the bins.
    limit
        Wealth of bets that raises an alarm.
    """
    if present < STILL:
        return False
    longest = max(longest, 1)
    if (present / longest - 1.0) * np.log(max(1.0, values / longest)) <= np.log(limit):
        return False
    most, total = 0.0, 0.0
    for i in range(BINS):
        most, total = max(most, counts[i]), total + counts[i]
    return most < VARIED * total


_has_frozen = bare_kernel(has_frozen)


@bare_kernel
def feed(  # type: ignore[no-untyped-def]
    first_row, values, levels, learn, key, limits, level_limits,
    edges, used, counts, risk, answer, seen, open_sums, squares, block, members, gathered, cells, last, runs, product,
    wealth, best, start, mean, robust, variance, number, level_open_sums, level_squares, level_block, level_gathered,
    level_product, level_wealth, level_best, level_start,
):  # fmt: skip
    """Feed rows to all series until one of them exceeds its limit.

    Parameters
    ----------
    first_row
        Number of the first row.
    values
        (n, s) values. Series 0 is the label.
    levels
        (n, l) levels, l <= s. Series 0 is the loss, of which only a rise counts.
    learn
        Whether later rows are compared with these rows, too.
    limits, level_limits
        (s,) and (l,) limits of the summed wealth of each series.

    The other arguments are the arrays of `glasstream.detect.incidents.series.Series`.

    Returns
    -------
    The number of rows fed, and the place of the series that is furthest beyond its limit at this row: below s
    for values, from s on for levels, -1 for none. At a row, only the series that are tested there can exceed their
    limits, so it does not matter where the fed rows are cut.
    """
    half = LEVEL_BETS // 2
    width, level_width = values.shape[1], levels.shape[1]
    lowest, highest = label_limits(edges[0], used[0])
    for i in range(values.shape[0]):
        row = first_row + i
        over, furthest = -1, 1.0
        answer_here = max(lowest, min(highest, values[i, 0]))
        risk_here = levels[i, 0]
        if number[0] > _ROBUST_FROM and variance[0] > 0.0:
            risk_here = min(risk_here, mean[0] + FURTHEST * np.sqrt(variance[0]))
        for s in range(width):
            value = values[i, s]
            if value == last[s] or (np.isnan(value) and np.isnan(last[s])):
                runs[s, 0] += 1
            else:
                if learn:
                    runs[s, 1] = max(runs[s, 1], runs[s, 0])
                last[s], runs[s, 0] = value, 1
            if used[s] >= 0:
                place = bin_of(value, edges[s], used[s])
                rank = _rank(place, counts[s], uniform(key, row, _PURPOSE, s))
                gathered[s] += 1
                cells[s, 0] += 1
                for bet in range(TILTS):
                    product[s, bet] *= factor_of(bet, rank)
                hit = TILTS + _cell_of(rank)
                product[s, hit] = min(product[s, hit] * (_HIT / _MISS), MOST_WEALTH)
                if learn:
                    counts[s, place] += 1.0
                    counts[s, BINS] += 1.0
                    risk[s, place] += (risk_here - risk[s, place]) / min(counts[s, place], _RECENT)
                    answer[s, place] += (answer_here - answer[s, place]) / counts[s, place]
                    seen[s] += 1
                    v = 2.0 * rank - 1.0
                    add_to_sums(v, seen[s], np.inf, open_sums, squares, s, 0)
                    add_to_sums(v * v - 1.0 / 3.0, seen[s], np.inf, open_sums, squares, s, SCALES)
                if gathered[s] >= block[s]:
                    together = _play_block(product[s], block[s], TILTS, wealth[s], best[s], start[s], row)
                    cells[s, 1] += 1
                    if cells[s, 1] == CELL_BLOCKS:
                        together += _play_cells(product[s], cells[s], wealth[s], best[s], start[s], row)
                    beyond = together * block[s] / limits[s]
                    if beyond > furthest:
                        over, furthest = s, beyond
                    gathered[s] = 0
                    if learn and (block[s] > 1 or seen[s] % _SELDOM == 0) and together * block[s] < STRONG * limits[s]:
                        block[s] = block_of_values(seen[s], squares, s)
                        raise_to_members(block, members, s)
                still = 0 < s < level_width and runs[s, 0] % _STILL_STEP == 0
                if still and _has_frozen(runs[s, 0], runs[s, 1], seen[s], counts[s], limits[s]):
                    over, furthest = s, MOST_WEALTH
            if s >= level_width:
                continue
            level = levels[i, s]
            spread = np.sqrt(variance[s])
            if spread > 0.0 and number[s] >= (WARM_UP if s == 0 else LEARNING):
                z = max(-FURTHEST, min(FURTHEST, (level - robust[s]) / spread))
                stake = _UPWARDS if s == 0 else _BOTH_WAYS
                if s == 0 and robust[s] > 0.0:
                    stake = min(stake, (1.0 - _LEAST) * spread / robust[s])  # a loss of 0 must leave some wealth
                bets = half if s == 0 else LEVEL_BETS
                level_gathered[s] += 1
                for bet in range(bets):
                    size = (stake if bet < half else -stake) / (1 << (bet % half))
                    level_product[s, bet] *= max(_LEAST, 1.0 + size * z)
                if level_gathered[s] >= level_block[s]:
                    together = _play_block(
                        level_product[s], level_block[s], bets, level_wealth[s], level_best[s], level_start[s], row
                    )
                    beyond = together * level_block[s] / level_limits[s]
                    if beyond > furthest:
                        over, furthest = width + s, beyond
                    level_gathered[s] = 0
            if learn:
                number[s] += 1.0
                share = 1.0 / min(number[s], MEMORY)
                near, far = np.inf, np.inf
                if number[s] > _ROBUST_FROM and spread > 0.0:
                    near, far = FURTHEST * spread, _OUTLIER * spread
                step = max(-far, min(far, level - robust[s]))
                mean[s] += share * (level - mean[s])
                robust[s] += share * max(-near, min(near, step))
                variance[s] = (1.0 - share) * (variance[s] + share * step * step)
                z = max(-FURTHEST, min(FURTHEST, step / spread)) if spread > 0.0 else 0.0
                add_to_sums(z, int(number[s]), MEMORY, level_open_sums, level_squares, s, 0)
                if level_gathered[s] == 0 and (level_block[s] > 1 or number[s] % _SELDOM == 0):
                    level_block[s] = block_rows(int(number[s]), MEMORY, level_squares, s, 0, LEVEL_SCALES)
        if over >= 0:
            return i + 1, over
    return values.shape[0], -1
