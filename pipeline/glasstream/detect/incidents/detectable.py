"""The smallest lasting changes of a series of values that are noticed within a number of rows.

A bet gains the logarithm of its factor at every row. Let P be the shares of the values before a change in each bin, N
their number, and Q the shares since. A value has a rank that is uniform between the cumulative shares at both ends of
its bin, so a row of the change gains on average

    g(P, Q) = sum of Q_i / P_i * (F(C_i) - F(C_i - P_i)) over bins i,    C_i = P_0 + ... + P_i,    F' = log factor.

This is the growth rate of the bet (Kelly 1956; Grünwald, de Heide, Koolen 2024). While no alarm is under way, rows of
the change are counted, too: at the m-th of them, P has become (N P + m Q) / (N + m). A bet that begins with the change
has on average gained the sum of these rates, divided by the rows of a block. The alarm is raised at the row at which
the first bet has gained the logarithm of the wealth that raises one. The Shiryaev-Roberts statistic is at least this
wealth, because it counts bets that began at other rows, too.

After an alarm, `GATHERED` more rows at a time are compared with those before. The incident opens if their distance
exceeds `SAME` and, from the second comparison on, the evidence has grown by `GROWN`. Means take the place of all random
quantities. As the bounds are conservative, at least about half of such changes are noticed in time.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from glasstream.base.jit import bare_kernel, kernel
from glasstream.detect.incidents.alarm import GATHERED, GROWN, NORMAL
from glasstream.detect.incidents.betting import BINS, EDGES, VALUE_BETS, factor_of
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.verdict import KNOWN, SAME

HORIZONS: Final = (1_000, 10_000)
"""Numbers of rows within which a change is noticed."""

_CELLS = 1_000  # of the integral of a gain
_STEPS = 8  # of the rows since a change, ever longer: in each, the gain of a row counts as constant
_HALVINGS = 9  # of the range of a size, on a logarithmic scale
_SMALLEST = 1e-3  # part of the largest size
_LARGEST_SHIFT = 2.0  # times the range of the edges
_ATOMS = 0.5  # largest share of values that are equal to an edge, of numbers that can shift
_GROWN = float(np.log(10.0)) * GROWN

Floats = NDArray[np.float64]


class Smallest(NamedTuple):
    """Sizes of the smallest changes of a series; NaN where no change of the kind is noticed."""

    outside: float
    """Share of rows that lose their value, or get one beyond all former values."""
    inside: float
    """Share of rows that get one former value, whichever it is, but for the most frequent one."""
    shift: float
    """By how much all values rise or fall, in their unit; NaN also for what is no number, or has few values."""


def smallest(before: Histogram, need: float, rows: int, *, numbers: bool, integrals: Floats) -> Smallest:
    """Return the smallest changes of a series that are noticed within a number of rows.

    Parameters
    ----------
    before
        Its values before.
    need
        Natural logarithm of the wealth that raises an alarm.
    rows
        Number of rows.
    numbers
        Whether the values are numbers and not codes.
    integrals
        See `integrals_of_gains`.
    """
    if before.total <= KNOWN:
        return Smallest(np.nan, np.nan, np.nan)
    edges = np.zeros(EDGES)
    edges[: len(before.edges)] = before.edges
    block = float(before.block)
    return Smallest(
        *_smallest(before.shares, edges, len(before.edges), before.total, block, need, float(rows), numbers, integrals)
    )


def would_notice(before: Histogram, since: Floats, need: float, rows: int, integrals: Floats) -> bool:
    """Return whether a change to other shares of the bins is typically noticed within a number of rows.

    Parameters
    ----------
    since
        (BINS,) shares of the values since the change.

    See `smallest` for the others.
    """
    if before.total <= KNOWN:
        return False
    return bool(noticed(integrals, before.shares, since, before.total, float(before.block), need, float(rows)))


@kernel
def integrals_of_gains():  # type: ignore[no-untyped-def]
    """Return (VALUE_BETS, cells + 1) the integral of each bet's gain over ranks from 0 to the end of each cell."""
    sums = np.zeros((VALUE_BETS, _CELLS + 1))
    for bet in range(VALUE_BETS):
        for cell in range(_CELLS):
            sums[bet, cell + 1] = sums[bet, cell] + np.log(factor_of(bet, (cell + 0.5) / _CELLS)) / _CELLS
    return sums


@bare_kernel
def _integral(sums, bet, rank):  # type: ignore[no-untyped-def]
    place = rank * _CELLS
    cell = max(0, min(int(place), _CELLS - 1))
    return sums[bet, cell] + (place - cell) * (sums[bet, cell + 1] - sums[bet, cell])


@bare_kernel
def gain(sums, bet, before, after, counted):  # type: ignore[no-untyped-def]
    """Return the mean gain of a bet at a row of a change.

    Parameters
    ----------
    before, after
        Shares of the values in each bin.
    counted
        Share of rows of the change among those that ranks are taken of.
    """
    total, low = 0.0, 0.0
    for i in range(before.size):
        share = before[i] + counted * (after[i] - before[i])
        if after[i] > 0.0:
            width = max(share, 1.0 / _CELLS)  # a rank among values of no share is known to a cell
            begin = max(0.0, min(low + 0.5 * (share - width), 1.0 - width))
            total += after[i] / width * (_integral(sums, bet, begin + width) - _integral(sums, bet, begin))
        low += share
    return total


@bare_kernel
def noticed(sums, before, after, known, block, need, rows):  # type: ignore[no-untyped-def]
    """Return whether a change from some shares of bins to others is typically noticed within a number of rows.

    Parameters
    ----------
    known
        Number of values before.
    """
    alarm, best = rows, -1
    for bet in range(VALUE_BETS):
        grown = 0.0
        for i in range(_STEPS):
            begin, end = rows * (i / _STEPS) ** 2, rows * ((i + 1) / _STEPS) ** 2
            middle = 0.5 * (begin + end)
            rate = gain(sums, bet, before, after, middle / (known + middle)) / block
            if grown + rate * (rows - begin) < need:
                break  # the rate falls with the rows of the change that are counted
            if grown + rate * (end - begin) >= need:
                row = begin + (need - grown) / rate
                if row < alarm:
                    alarm, best = row, bet
                break
            grown += rate * (end - begin)
    if best < 0:
        return False
    gap, difference, known = 0.0, 0.0, known + alarm
    counted = alarm / known
    for i in range(before.size):
        difference += before[i] - after[i]
        gap = max(gap, (1.0 - counted) * abs(difference))
    rate = gain(sums, best, before, after, counted) / block
    for since in range(GATHERED, NORMAL + 1, GATHERED):
        if alarm + since > rows:
            return False
        differs = gap * np.sqrt(since * known / (since + known) / block) > SAME
        if differs and (since == GATHERED or rate * since > _GROWN):
            return True
    return False


@bare_kernel
def _noticed_at(sums, shares, place, share, three, known, block, need, rows):  # type: ignore[no-untyped-def]
    """Return whether it is noticed that a share of rows get a value of one bin. The others behave like two bins."""
    below = 0.0
    for i in range(place):
        below += shares[i]
    three[0, 0], three[0, 1], three[0, 2] = below, shares[place], max(0.0, 1.0 - below - shares[place])
    for i in range(3):
        three[1, i] = (1.0 - share) * three[0, i]
    three[1, 1] += share
    return noticed(sums, three[0], three[1], known, block, need, rows)


@bare_kernel
def _smallest_share(sums, shares, used, outside, three, known, block, need, rows):  # type: ignore[no-untyped-def]
    """Return the smallest share of rows with one value that is noticed, whichever value of some bins it is."""
    usual, last, size, tested = 0, 2 * used + 1, _SMALLEST, False
    for i in range(last + 1):
        if shares[i] > shares[usual]:
            usual = i
    for i in range(last + 1):
        place = (i + used) % (last + 1)  # bins in the middle first: most are noticed last
        if place == usual or not (place in (0, 1, last) if outside else shares[place] > 0.0):
            continue
        tested = True
        if _noticed_at(sums, shares, place, size, three, known, block, need, rows):
            continue
        if not _noticed_at(sums, shares, place, 1.0, three, known, block, need, rows):
            return np.nan
        high = 1.0
        for _ in range(_HALVINGS):
            middle = np.sqrt(size * high)
            if _noticed_at(sums, shares, place, middle, three, known, block, need, rows):
                high = middle
            else:
                size = middle
        size = high
    return size if tested else np.nan


@bare_kernel
def shift(shares, edges, used, step, after):  # type: ignore[no-untyped-def]
    """Fill in the shares of bins once all values have moved by a step, as if values were uniform between two edges."""
    after[:] = 0.0
    after[0] = shares[0]
    for i in range(1, 2 * used + 2):
        first, last = max(0, (i - 2) // 2), min(used - 1, (i - 1) // 2)
        low, high = edges[first] + step, edges[last] + step
        if shares[i] == 0.0:
            continue
        if (i == 1 and step <= 0.0) or (i == 2 * used + 1 and step >= 0.0):
            after[i] += shares[i]  # beyond an end, and further away now
        elif low == high:
            place = 0
            while place < used and edges[place] < low:
                place += 1
            after[2 * place + 1 + (place < used and edges[place] == low)] += shares[i]
        else:
            begin = low
            for place in range(used + 1):
                end = min(high, edges[place]) if place < used else high
                if end > begin:
                    after[2 * place + 1] += shares[i] * (end - begin) / (high - low)
                    begin = end


@bare_kernel
def _smallest_shift(sums, shares, edges, used, after, known, block, need, rows):  # type: ignore[no-untyped-def]
    """Return the smallest step up and down that is noticed."""
    span = edges[used - 1] - edges[0]
    low, high = _SMALLEST, _LARGEST_SHIFT
    for i in range(_HALVINGS + 1):
        middle = high if i == 0 else np.sqrt(low * high)
        found = True
        for step in (-middle * span, middle * span):
            shift(shares, edges, used, step, after)
            found = found and noticed(sums, shares, after, known, block, need, rows)
        if found:
            high = middle
        elif i == 0:
            return np.nan
        else:
            low = middle
    return high * span


@kernel
def _smallest(shares, edges, used, known, block, need, rows, numbers, sums):  # type: ignore[no-untyped-def]
    three, after, on_edges = np.zeros((2, 3)), np.zeros(BINS), 0.0
    for i in range(2, BINS, 2):
        on_edges += shares[i]
    outside = _smallest_share(sums, shares, used, True, three, known, block, need, rows)
    inside = _smallest_share(sums, shares, used, False, three, known, block, need, rows)
    step = np.nan
    if numbers and used > 1 and on_edges <= _ATOMS:
        step = _smallest_shift(sums, shares, edges, used, after, known, block, need, rows)
    return outside, inside, step


def warm_up() -> None:
    """Compile what runs when the first record is due."""
    counts = np.zeros(BINS)
    counts[:4] = KNOWN
    nothing = np.zeros(BINS)
    before = Histogram(np.arange(2.0), counts, nothing, nothing, 1)
    smallest(before, 1.0, HORIZONS[0], numbers=True, integrals=integrals_of_gains())
