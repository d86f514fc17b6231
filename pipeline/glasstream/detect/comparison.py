"""Which of two models is better: a statement about the losses of both on the same events that holds at every row.

Let δ_i in [-1, 1] be the loss of the first model minus that of the second on row i, and Δ_t the mean of the
expectations of δ_1, …, δ_t, each given the rows before it. Models and data may change: Δ_t is the mean difference so
far, of whatever the rows were. With c = 9/8,

    S_t = δ_1 + … + δ_t
    γ_t = S_(t-1) / (t-1), but at least 1 - c and at most c - 1; γ_1 = 0
    V_t = (δ_1 - γ_1)² + … + (δ_t - γ_t)²
    ψ(λ) = (-log(1 - cλ) - cλ) / c²,  0 < λ < 1/c

exp(λ (S_t - t Δ_t) - ψ(λ) V_t) has an expectation of at most 1 at every time at which the reader may stop, and so has
the same with -S_t + t Δ_t, because ±(δ_i - γ_i) >= -c (Howard, Ramdas, McAuliffe and Sekhon 2021, theorem 4; Choe and
Ramdas 2023, theorem 2, with γ within the bounds of their one-sided propositions, so that c need not be the range 2).
So has the mean over λ. With λ from a truncated gamma distribution, this mean has a closed form (Howard et al.,
proposition 9), here m(S_t - t Δ_t, V_t):

    m(s, v) = r^r exp(-r) / (Γ(r) P(r, r)) · M(1, a + 1, x) / a
    r = ρ / c²,  a = (v + ρ) / c²,  x = a + s / c

P is the regularized lower incomplete gamma function, and M Kummer's function. Two statements follow:

- E_t = m(-S_t, V_t) is evidence that the first model is better (Choe and Ramdas, theorem 3): the probability that E_t
  ever reaches k while the first model is not better (Δ_t >= 0) is at most 1/k. m(S_t, V_t) is that of the second.
- Δ_t lies in (S_t ± u(V_t)) / t at all rows together with probability 1 - α, where m(u(v), v) = 2/α.

Zero lies outside of this interval exactly if the evidence of one model has reached 2/α. Bets that adapt to the rows
(Waudby-Smith and Ramdas 2024) would gain faster, but test another claim: that a model is not better on any row.
"""

from dataclasses import dataclass
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq  # type: ignore[import-untyped]
from scipy.special import gammainc, gammaincc, gammaln, hyp1f1, log1p, xlogy  # type: ignore[import-untyped]

from glasstream.base.errors import InputError

Floats = NDArray[np.float64]

_C: Final = 1.125
"""c. The smaller it is, the larger are the bets λ; but V_t then contains the mean difference beyond c - 1."""
_SHARPEST: Final = 100.0
"""V at which the interval of 95 % is about as narrow as it can be: that of 200 rows, if only one of the models is wrong
on half of them. The paper's package uses 10."""
_RHO: Final = _SHARPEST / (2 * log(40) + log(1 + 2 * log(40)))
"""ρ: the best one for this V and 2/α = 40 (Howard et al. 2021, proposition 3)."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Statement about two models after some rows.

    Attributes
    ----------
    rows
        number of rows.
    first, second
        mean loss of each model.
    difference, low, high
        mean loss of the first model minus that of the second, and its interval.
    better
        1 or 2, the model that is better; 0 if this is not known yet.
    since
        row, from 1 on, since which `better` has been the same without interruption; None if it is 0.
    log_evidence
        natural logarithm of the evidence that the model with the smaller mean loss is better. At equal models, the
        evidence ever reaches k with a probability of at most 1/k for each of them.
    visible
        smallest difference of the means that would exclude zero now, given how much the differences vary; at most 1.
    """

    rows: int
    first: float
    second: float
    difference: float
    low: float
    high: float
    better: int
    since: int | None
    log_evidence: float
    visible: float


@dataclass(slots=True)
class Comparison:
    """Running comparison of the losses of two models on the same rows, in memory that does not grow.

    How the rows are divided into calls of `add` changes no bit.

    Parameters
    ----------
    alpha
        Probability, in (0, 1), with which any statement at any row may be wrong.

    Raises
    ------
    InputError
        `alpha` is not a probability between 0 and 1.

    Examples
    --------
    >>> comparison = Comparison()
    >>> comparison.add(np.full(200, 0.5), np.full(200, 0.25))
    >>> standing = comparison.standing()
    >>> standing.better, standing.since, standing.difference
    (2, 44, 0.25)
    """

    alpha: float = 0.05
    _rows: int = 0
    _first: float = 0.0
    _second: float = 0.0
    _sum: float = 0.0
    _variation: float = 0.0
    _better: int = 0
    _since: int = 0

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 1.0:
            raise InputError(f"alpha: expected a probability between 0 and 1, got {self.alpha}")

    def add(self, first: Floats, second: Floats) -> None:
        """Add the losses of both models on the next rows, in the order of their labels.

        Parameters
        ----------
        first, second
            (n,) losses in [0, 1].

        Raises
        ------
        InputError
            The numbers of losses differ, or a loss is not in [0, 1].
        """
        if first.shape != second.shape or first.ndim != 1:
            raise InputError(f"losses: expected as many of both models, got {first.shape} and {second.shape}")
        for losses in (first, second):
            if not np.all((losses >= 0.0) & (losses <= 1.0)):
                wrong = losses[~((losses >= 0.0) & (losses <= 1.0))][0]
                raise InputError(f"losses: expected numbers in [0, 1], got {wrong}")
        if not len(first):
            return
        differences = first - second
        rows = np.arange(self._rows, self._rows + len(first) + 1)
        sums = _running(self._sum, differences)
        means = np.clip(sums[:-1] / np.maximum(rows[:-1], 1), 1.0 - _C, _C - 1.0)
        variations = _running(self._variation, np.square(differences - means))
        self._note(sums[1:], variations[1:])
        self._rows, self._sum, self._variation = int(rows[-1]), float(sums[-1]), float(variations[-1])
        self._first = float(_running(self._first, first)[-1])
        self._second = float(_running(self._second, second)[-1])

    def standing(self) -> Standing:
        """Return what is known after the rows so far.

        Raises
        ------
        InputError
            There is no row yet.
        """
        if not self._rows:
            raise InputError("losses: expected at least one row, got none")
        rows, reach = self._rows, boundary(self._variation, self.alpha)
        return Standing(
            rows=rows,
            first=self._first / rows,
            second=self._second / rows,
            difference=self._sum / rows,
            low=max(-1.0, (self._sum - reach) / rows),
            high=min(1.0, (self._sum + reach) / rows),
            better=self._better,
            since=self._since or None,
            log_evidence=float(log_evidence(np.array([abs(self._sum)]), np.array([self._variation]))[0]),
            visible=min(1.0, reach / rows),
        )

    def _note(self, sums: Floats, variations: Floats) -> None:
        """Keep which model is better after the last of these rows, and since when."""
        needed = log(2.0 / self.alpha)
        better = np.zeros(len(sums), np.int64)
        near = np.flatnonzero(np.square(sums) >= 2.0 * needed * variations)  # m(s, v) <= exp(s² / 2v)
        known = near[log_evidence(np.abs(sums[near]), variations[near]) >= needed]
        better[known] = np.where(sums[known] > 0.0, 2, 1)
        changes = np.flatnonzero(better != np.concatenate(([self._better], better[:-1])))
        if changes.size:
            self._since = self._rows + int(changes[-1]) + 1
        self._better = int(better[-1])
        if not self._better:
            self._since = 0


def log_evidence(sums: Floats, variations: Floats) -> Floats:
    """Return the logarithm of m(s, v), the evidence that differences with the sum s are positive on average.

    Parameters
    ----------
    sums
        (n,) sums s of differences in [-1, 1].
    variations
        (n,) their variations v >= 0.
    """
    r, a = _RHO / _C**2, (variations + _RHO) / _C**2
    x = a + sums / _C
    constant = r * log(r) - r - gammaln(r) - log(gammainc(r, r))
    found = np.empty(len(x))
    up = sums > 0.0
    # M(1, a + 1, x) / a = exp(x) Γ(a) P(a, x) / x^a, where P is not small; functions of scipy, because the results of
    # numpy's logarithm can depend on the position in the array
    found[up] = x[up] + gammaln(a[up]) - xlogy(a[up], x[up]) + log1p(-gammaincc(a[up], x[up]))
    found[~up] = xlogy(1.0, hyp1f1(1.0, a[~up] + 1.0, x[~up]) / a[~up])
    return np.asarray(constant + found)


def boundary(variation: float, alpha: float) -> float:
    """Return u(v), the sum of differences at which the evidence reaches 2/α.

    Parameters
    ----------
    variation
        The variation v >= 0 of the differences.
    alpha
        Probability in (0, 1).
    """

    def excess(reach: float) -> float:
        return float(log_evidence(np.array([reach]), np.array([variation]))[0]) - log(2.0 / alpha)

    high = 1.0
    while excess(high) < 0.0:
        high *= 2.0
    return float(brentq(excess, 0.0, high))


def _running(start: float, values: Floats) -> Floats:
    """Return the start and all sums from it on, added one after the other, however the values are divided."""
    return np.cumsum(np.concatenate(([start], values)))
