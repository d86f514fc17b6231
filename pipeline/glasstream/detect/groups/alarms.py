"""Alarms: a group got worse, or the groups differ more than they did. They are right at every row, within a budget.

Let a cell be some rows of a group, and x_i = 1 where something is the case for a row, such as an error. With S the sum
of the x_i of a cell, n its number of rows, and μ the mean of the expectations of x_i, each given the rows before it,

    m(μ) = B(S + 1/2, n - S + 1/2) / (π μ^S (1 - μ)^(n - S))

has an expectation of at most 1 at every time at which the reader may stop. It is the mean of the likelihood ratios of
all rates θ with Jeffreys' prior, which is the optimal one (Krichevsky and Trofimov 1981), and for each θ, the
expectation of a factor of the ratio is linear in μ_i, so its logarithm is concave. The same holds for the product of m
over several cells, because a row lies in one of them. To claim that rates satisfy a condition, take the smallest
product of all rates that do not satisfy it (universal inference; Wasserman, Ramdas, Balakrishnan 2020). This is the
evidence E: the probability that it ever reaches k is at most 1/k, if the claim is never true.

The claims are about the rows since a mark (see `glasstream.detect.groups.marks`) and those before it:

- `accuracy`, `large_errors`: the error rate of a group has risen. Two cells.
- `demographic_parity_difference`, `equalized_odds_difference`: the largest difference between two groups, over all
  classes, has risen. For the two groups and the class that differ most since the mark, the claim must hold against each
  pair of groups and each class before it. Four cells each.

A mark is made every `RUN` rows, and a claim is published if k reaches the number of marks in 100,000 rows, times the
number of claims that could be made of a mark, divided by the budget. So the expected number of marks with a false claim
is at most the budget in 100,000 rows, whatever the model does, and however rows depend on each other.
"""

from collections.abc import Iterator, Sequence
from math import log
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, xlog1py, xlogy  # type: ignore[import-untyped]

from glasstream.detect.groups.marks import RUN, Mark, compared, padded
from glasstream_topics.groups import Alarm, Measure, Rate

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_ROWS: Final = 100_000
"""Rows of which the budget is."""
_STEPS: Final = 60
"""Bisections: the multiplier is at most three times the number of rows, and has 53 bits."""
_FAMILIES: Final = 3
"""Accuracy, demographic parity and equalized odds have equal shares of the budget."""
_DIFFERENCES: Final[tuple[Measure, ...]] = ("demographic_parity_difference", "equalized_odds_difference")
_RATES: Final[tuple[tuple[Rate, ...], ...]] = (("selection_rate",), ("true_positive_rate", "false_positive_rate"))
"""Rates whose differences between groups count for each of the differences."""


class _Rates(NamedTuple):
    """Rates of the groups before and since each mark. Each array is (marks, rates, values), of successes and rows."""

    before: Floats
    before_of: Floats
    since: Floats
    since_of: Floats

    def part(self, begin: int, end: int) -> "_Rates":
        """Return some of the rates."""
        return _Rates(*(one[:, begin:end] for one in self))


class Alarms:
    """Which claims there are after some rows of a stream.

    Parameters
    ----------
    budget
        Expected number of false claims in 100,000 rows.
    least
        Number of rows below which a group is not compared.
    attributes
        Number of attributes.
    """

    def __init__(self, budget: float, least: int, attributes: int) -> None:
        self._least = least
        self._share = log(_ROWS / RUN) + log(attributes) - log(budget)
        """Logarithm of the evidence that a claim needs if it is the only one of each attribute."""

    def of(
        self, marks: Sequence[Mark], now: Counts, number: int, name: str, values: Sequence[str], classes: Sequence[str]
    ) -> list[Alarm]:
        """Return the claims about an attribute: first about single groups, in their order, then about differences.

        Parameters
        ----------
        marks
            Marks of the stream.
        now
            Counts of all rows, as in `Mark`.
        number, name, values
            Number and name of the attribute, and its values. Those without rows do not count.
        classes
            Classes with rates; none for a regression.
        """
        (first, places), present = compared(marks), np.flatnonzero(now[number, :, 0])
        if not places or not len(present):
            return []
        every = [padded(mark.counts, now.shape[1], len(classes)) for mark in marks]
        counts = np.array([one[number] for one in (*every, now)], np.float64)[:, present]
        rates = _rates(*_of_classes(counts, len(classes)), first, places)
        if not self._moved(rates):
            return []
        starts, values = [marks[place] for place in places], [values[place] for place in present.tolist()]
        found = list(self._errors(starts, rates.part(0, 1), name, values, bool(classes)))
        if classes and len(values) > 1:
            shown = (rates.before.shape[1] - 1) // 3
            for kind, (begin, end) in enumerate(((1, 1 + shown), (1 + shown, 1 + 3 * shown))):
                alarm = self._difference(starts, rates.part(begin, end), kind, name, values, classes)
                found += [] if alarm is None else [alarm]
        return found

    def _moved(self, rates: _Rates) -> bool:
        """Return whether rates have moved so far that the move of one, or the difference of two, can be clear.

        The square of a difference, in standard errors, is at most the sum of those of its two rates.
        """
        (before, variance), (since, other) = (
            _mean(*part) for part in ((rates.before, rates.before_of), (rates.since, rates.since_of))
        )
        squares = np.square(since - before) / (variance + other)
        squares[np.minimum(rates.before_of, rates.since_of) < self._least] = 0.0
        squares.sort(axis=-1)
        return bool((squares[..., -2:].sum(axis=-1) >= self._share).any())

    def _errors(
        self, starts: Sequence[Mark], rates: _Rates, name: str, values: Sequence[str], classified: bool
    ) -> Iterator[Alarm]:
        """Return the groups whose error rate has risen."""
        families = _FAMILIES if classified else 1
        needed = self._share + log(families * len(values))
        enough = (np.minimum(rates.before_of, rates.since_of) >= self._least)[:, 0]
        successes, sizes = _cells(
            (rates.since[:, 0], rates.since_of[:, 0], True), (rates.before[:, 0], rates.before_of[:, 0], False)
        )
        evidence = np.where(enough, log_evidence(successes, sizes, needed), -np.inf)
        for group, place in enumerate(evidence.argmax(axis=0).tolist()):
            if evidence[place, group] < needed:
                continue
            then, after = (
                float(one[place, 0, group] / of[place, 0, group])
                for one, of in ((rates.before, rates.before_of), (rates.since, rates.since_of))
            )
            measure: Measure = "accuracy" if classified else "large_errors"
            if classified:
                then, after = 1.0 - then, 1.0 - after
            strength, mark = float(evidence[place, group]) / log(10.0), starts[place]
            of = f"{name} = {values[group]!r}"
            what = f"accuracy of {of} fell" if classified else f"share of large errors of {of} rose"
            text = _text(what, then, after, mark, strength)
            yield Alarm(measure, [values[group]], mark.row, mark.seq, then, after, strength, text)

    def _difference(
        self,
        starts: Sequence[Mark],
        rates: _Rates,
        kind: int,
        name: str,
        values: Sequence[str],
        classes: Sequence[str],
    ) -> Alarm | None:
        """Return whether the largest difference between groups has risen."""
        count, width = len(values), rates.before.shape[1]
        needed = self._share + log(_FAMILIES * width * count * (count - 1))
        enough = np.minimum(rates.before_of, rates.since_of) >= self._least
        (then, _, _), (after, high, low) = (
            _extremes(np.where(enough, one / np.maximum(of, 1.0), np.nan))
            for one, of in ((rates.before, rates.before_of), (rates.since, rates.since_of))
        )
        which, places = after.argmax(axis=1), np.arange(len(starts))
        then, after = then.max(axis=1), after[places, which]
        high, low = high[places, which], low[places, which]
        pick = places, which
        since = (
            (rates.since[(*pick, high)], rates.since_of[(*pick, high)], True),
            (rates.since[(*pick, low)], rates.since_of[(*pick, low)], False),
        )
        # The mark at which the difference has risen most, in standard errors, of the same groups and at all.
        same = _cells(
            *since,
            (rates.before[(*pick, high)], rates.before_of[(*pick, high)], False),
            (rates.before[(*pick, low)], rates.before_of[(*pick, low)], True),
        )
        clear = np.where((then >= 0.0) & (after > then), _clearness(*same), -np.inf)
        place = int(clear.argmax())
        if clear[place] < needed:
            return None
        # Each pair of groups and each class before that mark.
        before, before_of, fits = rates.before[place], rates.before_of[place], enough[place]
        one, other = np.nonzero(~np.eye(count, dtype=np.bool_))
        known = fits[:, one] & fits[:, other]
        row, pair = np.nonzero(known)
        against = [
            (before[row, one[pair]], before_of[row, one[pair]], False),
            (before[row, other[pair]], before_of[row, other[pair]], True),
        ]
        fixed = [(np.full(len(row), part[place]), np.full(len(row), of[place]), up) for part, of, up in since]
        evidence = float(log_evidence(*_cells(*fixed, *against), needed).min(initial=np.inf))
        if not needed <= evidence < np.inf:
            return None
        mark, strength = starts[place], evidence / log(10.0)
        names = _RATES[kind]
        shown = width // len(names)
        rate, chosen = names[int(which[place]) // shown], classes[int(which[place]) % shown]
        groups = [values[int(high[place])], values[int(low[place])]]
        rising = [float(part[place] / of[place]) for part, of, _ in since]
        measure = _DIFFERENCES[kind]
        of = " and ".join(f"{value:.3f} for {group!r}" for value, group in zip(rising, groups, strict=True))
        what = f"{measure.replace('_', ' ')} of {name} rose"
        more = f": the {rate.replace('_', ' ')} of {chosen!r} is {of}"
        text = _text(what, float(then[place]), float(after[place]), mark, strength, more)
        return Alarm(
            measure, groups, mark.row, mark.seq, float(then[place]), float(after[place]), strength, text, chosen, rate
        )


def log_evidence(successes: Floats, sizes: Floats, needed: float = 0.0) -> Floats:
    """Return the logarithm of the evidence that the rates of the cells add up to more than half the number of cells.

    Parameters
    ----------
    successes, sizes
        (..., cells) numbers of rows with x = 1, and of all rows, of each cell.
    needed
        Evidence that would matter. Where it is clearly out of reach, the result is -inf.
    """
    found = np.full(successes.shape[:-1], -np.inf)
    chosen = _clearness(successes, sizes) >= needed
    if not chosen.any():
        return found
    s, n = successes[chosen], sizes[chosen]
    # The most likely rates that add up to half the number of cells: (s - n μ) / (μ (1 - μ)) is the same for all cells.
    low, high = np.zeros(len(s)), 3.0 * n.max(axis=1, initial=0.0)
    half = successes.shape[-1] / 2.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        above = _most_likely(s, n, middle).sum(axis=1) > half
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    rates = _most_likely(s, n, high)
    mixed = betaln(s + 0.5, n - s + 0.5) - log(np.pi)
    found[chosen] = (mixed - xlogy(s, rates) - xlog1py(n - s, -rates)).sum(axis=1)
    return found


def _most_likely(s: Floats, n: Floats, multiplier: Floats) -> Floats:
    """Return the rates at which (s - n μ) / (μ (1 - μ)) is the multiplier."""
    total = n + multiplier[:, None]
    return np.asarray(2.0 * s / (total + np.sqrt(np.maximum(0.0, total * total - 4.0 * multiplier[:, None] * s))))


def _clearness(s: Floats, n: Floats) -> Floats:
    """Return the square of how far the rates add up to more than half their number, in standard errors.

    Half of it is about the logarithm of the largest likelihood ratio, which is above that of the evidence. The other
    half is a reserve: this is no bound.
    """
    rates, variances = _mean(s, n)
    excess = rates.sum(axis=-1) - n.shape[-1] / 2.0
    return np.asarray(np.where(excess > 0.0, excess * excess / variances.sum(axis=-1), -np.inf))


def _mean(s: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return rates and their variances, which are not 0."""
    full = np.maximum(n, 1.0)
    smooth = (s + 0.5) / (full + 1.0)
    return s / full, smooth * (1.0 - smooth) / full


def _cells(*parts: tuple[Floats, Floats, bool]) -> tuple[Floats, Floats]:
    """Return successes and sizes of cells; failures count as successes where the rate is claimed to be low."""
    successes = [part if up else of - part for part, of, up in parts]
    return np.stack(successes, axis=-1), np.stack([of for _, of, _ in parts], axis=-1)


def _extremes(rates: Floats) -> tuple[Floats, Counts, Counts]:
    """Return the largest difference between two groups, and these groups; -inf if there are fewer than two."""
    known = ~np.isnan(rates)
    high, low = np.where(known, rates, -np.inf), np.where(known, rates, np.inf)
    enough = known.sum(axis=-1) > 1
    difference = np.subtract(high.max(axis=-1), low.min(axis=-1), where=enough, out=np.full(enough.shape, -np.inf))
    return difference, high.argmax(axis=-1), low.argmin(axis=-1)


def _of_classes(counts: Floats, classes: int) -> tuple[Floats, Floats]:
    """Return successes and rows of all rates as (marks, rates, values): errors, then selections, true positives and
    false positives of each class; of two classes, those of the first one only.
    """
    rows, errors, parts = counts[:, None, :, 0], counts[:, None, :, 1], np.swapaxes(counts[..., 2:], 1, 2)
    shown = 1 if classes == 2 else classes
    predicted, actual, hits = (parts[:, place * classes : place * classes + shown] for place in range(3))
    of_class = np.repeat(rows, shown, axis=1)
    return (
        np.concatenate([errors, predicted, hits, predicted - hits], axis=1),
        np.concatenate([rows, of_class, actual, of_class - actual], axis=1),
    )


def _rates(successes: Floats, sizes: Floats, first: Sequence[int], places: Sequence[int]) -> _Rates:
    """Return rates between two marks, and from the later one to the last row."""
    before, since = ((one[places] - one[first], one[-1] - one[places]) for one in (successes, sizes))
    return _Rates(before[0], since[0], before[1], since[1])


def _text(what: str, before: float, after: float, mark: Mark, strength: float, more: str = "") -> str:
    odds = f"{10**strength:,.0f}" if strength < 9.0 else f"10^{strength:.0f}"
    return f"{what} from {before:.3f} to {after:.3f} since row {mark.row:,} (evidence {odds} to 1){more}"
