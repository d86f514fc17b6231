"""Sequential tests of the series that an incident may begin in: one kernel call for many rows.

Values (features, labels) are tested for exchangeability: the rank of a value among all earlier ones, ties broken at
random, is uniform and independent of the past as long as nothing changes (Vovk, Gammerman, Shafer 2005, theorem 8.2). Levels
(loss, importance) are tested for a rise or fall of their mean. Each test multiplies bets against "nothing has changed", and restarts
at every row: the sum over all starts, the Shiryaev–Roberts statistic, is an e-detector (Shin, Ramdas, Rinaldo 2024, definition 2.2).
The expected number of rows until it first exceeds A is at least A.
"""

from typing import Final

import numpy as np

from glasstream.draws import Purpose, uniform
from glasstream.jit import kernel

EDGES: Final = 16
"""Most edges of a series' bins. Values between two edges share a bin, and an edge has a bin of its own."""

BINS: Final = 2 * EDGES + 2
"""Bin 0 is for missing values."""

VALUE_BETS: Final = 8
LEVEL_BETS: Final = 6

MEMORY: Final = 2_000.0
"""Rows over which the mean of a level is taken."""

MOST: Final = 1e200

_FURTHEST = 8.0
_ROBUST_FROM = 100.0
_RECENT = 500.0  # rows over which the mean loss of a bin is taken
_TAIL = 0.02
_TAIL_BET = 0.1
_PURPOSE = int(Purpose.INCIDENT)


@kernel
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


@kernel
def _rank(place, counts, total, draw):  # type: ignore[no-untyped-def]
    """Return the rank of a value among the counted ones, as a share; `draw` breaks ties."""
    below = 0.0
    for i in range(place):
        below += counts[i]
    return (below + draw * (counts[place] + 1.0)) / (total + 1.0)


@kernel
def _bet(which, u):  # type: ignore[no-untyped-def]
    """Return the factor by which a bet on a rank changes its wealth. Its mean over uniform ranks is 1."""
    v = 2.0 * u - 1.0
    if which == 0:
        return 1.0 + 0.5 * v
    if which == 1:
        return 1.0 - 0.5 * v
    if which == 2:
        return 1.0 + 0.95 * v
    if which == 3:
        return 1.0 - 0.95 * v
    if which == 4:
        return 1.0 + 0.45 * (3.0 * v * v - 1.0)
    if which == 5:
        return 1.0 - 0.45 * (3.0 * v * v - 1.0)
    if which == 6:
        return 1.0 + _TAIL_BET * (1.0 / _TAIL - 1.0) if u < _TAIL else 1.0 - _TAIL_BET
    return 1.0 + _TAIL_BET * (1.0 / _TAIL - 1.0) if u > 1.0 - _TAIL else 1.0 - _TAIL_BET


@kernel
def _play(wealth, best, start, row, factor):  # type: ignore[no-untyped-def]
    """Return the new Shiryaev-Roberts statistic and CUSUM of a bet, and the row at which the CUSUM began."""
    if best <= 1.0:
        best, start = 1.0, row
    return min((wealth + 1.0) * factor, MOST), min(best * factor, MOST), start


@kernel
def feed(  # type: ignore[no-untyped-def]
    first_row, begin, values, levels, learn, limits, key,
    edges, used, counts, risk, answer, thin, wealth, best, start,
    mean, variance, number, sides, level_wealth, level_best, level_start, level_limits,
):  # fmt: skip
    """Feed rows to all series until one of them exceeds its limit.

    Parameters
    ----------
    first_row, begin
        Number of the first row of `values`, and the first row to feed.
    values, levels
        (n, s) values, and (n, t) levels.
    learn
        Whether the rows become part of what later rows are compared with.
    limits, level_limits
        (s,), (t,) limits of the mean wealth of a series.

    Returns
    -------
    The number of rows fed.
    """
    for i in range(begin, values.shape[0]):
        row = first_row + i
        over = False
        for s in range(values.shape[1]):
            if used[s] < 0 or row % thin[s] != 0:
                continue
            place = bin_of(values[i, s], edges[s], used[s])
            total = counts[s, BINS]
            u = _rank(place, counts[s], total, uniform(key, row, _PURPOSE, s))
            together = 0.0
            for bet in range(VALUE_BETS):
                wealth[s, bet], best[s, bet], start[s, bet] = _play(
                    wealth[s, bet], best[s, bet], start[s, bet], row, _bet(bet, u)
                )
                together += wealth[s, bet]
            if learn:
                counts[s, place] += 1.0
                counts[s, BINS] += 1.0
                risk[s, place] += (levels[i, 0] - risk[s, place]) / min(counts[s, place], _RECENT)
                answer[s, place] += (values[i, 0] - answer[s, place]) / counts[s, place]
            over = over or together * thin[s] > limits[s] * VALUE_BETS
        for t in range(levels.shape[1]):
            value = levels[i, t]
            if number[t] > 0.0:
                deviation = value - mean[t]
                spread = np.sqrt(variance[t])
                together = 0.0
                if spread > 0.0:
                    z = max(-_FURTHEST, min(_FURTHEST, deviation / spread))
                    for bet in range(LEVEL_BETS):
                        sign = 1.0 if bet < LEVEL_BETS // 2 else -1.0
                        if sign < 0.0 and sides[t] == 1:
                            continue
                        size = (0.3 if sides[t] == 1 else 0.12) / (1 << (bet % (LEVEL_BETS // 2)))
                        level_wealth[t, bet], level_best[t, bet], level_start[t, bet] = _play(
                            level_wealth[t, bet], level_best[t, bet], level_start[t, bet], row, max(0.04, 1.0 + sign * size * z)
                        )
                        together += level_wealth[t, bet]
                    over = over or together > level_limits[t] * (LEVEL_BETS // 2 if sides[t] == 1 else LEVEL_BETS)
            if learn:
                number[t] += 1.0
                share = 1.0 / min(number[t], MEMORY)
                step = value - mean[t]
                bound = _FURTHEST * np.sqrt(variance[t])
                mean[t] += share * (max(-bound, min(bound, step)) if number[t] > _ROBUST_FROM else step)
                variance[t] = (1.0 - share) * (variance[t] + share * step * step)
        if over:
            return i + 1
    return values.shape[0]
