"""The drift indicator: how far the prediction for a row is from what its neighbours support (003, 4.5).

Within the distribution that a map was fitted to, f and the mean over the nearest reference rows agree. Outside of it
f goes on along its slope, the neighbours do not. Neither needs the row's label.
"""

from dataclasses import dataclass
from math import ceil
from typing import Final

import numpy as np
import numpy.typing as npt

from glasstream.errors import InputError
from glasstream.gbmap.map import BoostedMap, start_values, sum_learners
from glasstream.gbmap.neighbours import Neighbours
from glasstream.gbmap.rows import Floats, as_column, as_matrix, is_whole

NEIGHBOURS: Final = 5
"""k of the paper's experiments (003, 4.5)."""


@dataclass(frozen=True, slots=True, eq=False)
class DriftIndicator:
    """A map and the labelled rows that its predictions are held against.

    Attributes
    ----------
    map
        The map.
    values
        float64[n], what a reference row says as a neighbour: its target with the quadratic loss, f of it with the
        logistic loss, as the paper does.
    k
        Neighbours that are asked.
    """

    map: BoostedMap
    values: Floats
    k: int
    _embedded: Neighbours
    _plain: Neighbours

    @classmethod
    def of(
        cls,
        map: BoostedMap,
        rows: npt.ArrayLike,
        targets: npt.ArrayLike | None = None,
        *,
        k: int = NEIGHBOURS,
        index: bool | None = None,
        plain: Neighbours | None = None,
    ) -> "DriftIndicator":
        """Take `rows` as the reference.

        Parameters
        ----------
        map
            A fitted map.
        rows
            float64[n, p], the rows that it was fitted to.
        targets
            float64[n], theirs; not looked at with the logistic loss.
        k
            Neighbours that are asked, at most n.
        index
            Whether neighbours are looked for over a tree; see `Neighbours.of`. The result is the same.
        plain
            `Neighbours` of the same rows by the metric ``"euclidean"``, where another indicator has them too.

        Raises
        ------
        InputError
            The rows or targets are not of that form, targets are missing, or there are fewer than k rows.
        ModelError
            As of `BoostedMap.predict`.
        """
        reference = as_matrix(rows, "reference rows", map.features)
        if not is_whole(k) or not 1 <= k <= len(reference):
            raise InputError(
                f"gbmap: expected k from 1 to the {len(reference)} reference rows, got {k!r}; take more rows or a "
                "smaller k"
            )
        if map.loss == "logistic":
            values = map.predict(reference)
        elif targets is None:
            raise InputError("gbmap: expected the targets of the reference rows for a map of the quadratic loss")
        else:
            values = as_column(targets, "reference targets", len(reference))
        embedded = Neighbours.of(map.embed(reference), "manhattan", index=index)
        return cls(map, values, k, embedded, plain or Neighbours.of(reference, "euclidean", index=index))

    def indicator(self, rows: npt.ArrayLike) -> Floats:
        """|f(x) - f_kNN(x)| of each row, float64[n], in units of f; neighbours by the embedding distance.

        Raises
        ------
        InputError
            `rows` is not float64[n, p] of finite numbers.
        ModelError
            As of `BoostedMap.predict`.
        """
        matrix = as_matrix(rows, "rows", self.map.features)
        embedded = self.map.embed(matrix)
        predicted = start_values(self.map.initial, matrix) + sum_learners(embedded)
        return np.abs(predicted - self._supported(embedded))

    def supported(self, rows: npt.ArrayLike) -> Floats:
        """f_kNN of each row, float64[n]: the mean of its neighbours' `values`. Errors as of `indicator`."""
        return self._supported(self.map.embed(rows))

    def baseline(self, rows: npt.ArrayLike) -> Floats:
        """The Euclidean distance of each row to the k-th nearest reference row, float64[n]: the indicator that knows
        nothing of the target. Errors as of `indicator`."""
        _, distances = self._plain.nearest(as_matrix(rows, "rows", self.map.features), self.k)
        return distances[:, -1].copy()

    def _supported(self, embedded: Floats) -> Floats:
        found, _ = self._embedded.nearest(embedded, self.k)
        total = np.zeros(len(embedded))
        for place in range(self.k):
            total += self.values[found[:, place]]
        return total / self.k


@dataclass(frozen=True, slots=True)
class Threshold:
    """Above `value` a row is flagged.

    Attributes
    ----------
    value
        In units of the indicator.
    rate
        The expected share of flagged rows among rows of the distribution that it was calibrated on, at most the one
        asked for; exact where the indicator has no ties.
    spread
        Standard deviation of that share over calibrations: one calibration's own rate differs from `rate` by this.
    """

    value: float
    rate: float
    spread: float

    def flags(self, indicators: Floats) -> npt.NDArray[np.bool_]:
        """Whether each is above, bool[n]."""
        return indicators > self.value


def least_held(rate: float) -> int:
    """Held-out rows that `calibrate` needs for a rate.

    >>> least_held(0.01), least_held(0.1)
    (99, 9)
    """
    return ceil(1 / rate - 1 - 1e-9)


def calibrate(indicators: npt.ArrayLike, rate: float) -> Threshold:
    """A threshold above which a share `rate` of in-distribution rows is expected.

    It is the r-th smallest of n indicators, r = ⌈(n + 1)(1 - rate)⌉. A further row of the same distribution exceeds
    it with probability 1 - r/(n + 1), whatever the distribution (the quantile of conformal prediction); given the
    calibration that probability is a Beta(n + 1 - r, r) variable. The quantile is not in the paper, which judges
    indicators by AUC.

    Parameters
    ----------
    indicators
        float64[n] of rows that neither the map was fitted to nor the reference holds: rows of the reference are their
        own neighbours, and look nearer than rows that come later.
    rate
        Above 0 and below 1.

    Raises
    ------
    InputError
        The indicators are not finite numbers, or fewer than 1/rate - 1.

    Examples
    --------
    >>> calibrate(list(range(99)), 0.1)
    Threshold(value=89.0, rate=0.1, spread=0.029851115706299673)
    """
    values = as_column(indicators, "indicators", np.size(indicators))
    n = len(values)
    if not 0.0 < rate < 1.0:
        raise InputError(f"gbmap: expected an alarm rate above 0 and below 1, got {rate}")
    place = ceil((n + 1) * (1.0 - rate) - 1e-9)  # 100 · (1 - 0.1) is 90 and no more
    if place > n:
        raise InputError(
            f"gbmap: expected at least {least_held(rate)} held-out rows for an alarm rate of {rate}, got {n}; "
            "hold more rows out or allow a higher rate"
        )
    stated = 1.0 - place / (n + 1)
    return Threshold(float(np.sort(values)[place - 1]), round(stated, 12), (stated * (1.0 - stated) / (n + 2)) ** 0.5)
